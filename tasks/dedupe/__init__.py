"""Find claims that are one claim."""
