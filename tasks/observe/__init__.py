"""Claims, by a small classifier or a language model."""
