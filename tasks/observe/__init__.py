"""Claims, by rules or by a language model."""
