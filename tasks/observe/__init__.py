"""Extract claims with a small classifier or a language model."""
