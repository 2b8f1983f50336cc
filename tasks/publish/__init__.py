"""Release what the night made, and export it."""
