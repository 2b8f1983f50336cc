"""Web search, optional."""
