"""Find dead ends in tool calls: what was tried, how it failed, that it was left, and what was done instead."""
