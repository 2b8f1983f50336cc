"""A space as one file and back, and what keeps it from strangers' eyes."""
