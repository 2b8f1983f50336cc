"""Agents' transcripts: one module or folder a program."""
