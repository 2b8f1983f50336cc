"""Plain text work that both the night and recall need."""
