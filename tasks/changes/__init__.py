"""Find claims that change earlier ones, and doubts."""
