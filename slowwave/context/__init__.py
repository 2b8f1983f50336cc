"""Blocks of context and briefings: sentences chosen, packed and rendered within a budget."""
