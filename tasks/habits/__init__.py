"""Agents' recurring actions: files changed together, steps in a row, commands; without a model."""
