"""What later claims changed among the hits of a question: which of two is newer, and what holds in its place."""
