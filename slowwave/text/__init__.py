"""Text processing for both nights and recall."""
