"""Benchmarks and quality measurements: each module is a command that prints a table."""
