"""Formats of agents' transcripts: a module or folder for each program."""
