"""Back up a space to one file, which may be encrypted, and restore it."""
