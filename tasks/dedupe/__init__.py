"""Find claims that say the same."""
