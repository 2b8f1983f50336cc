"""Readers, one file a transcript format. Each turns a file into records; none executes or follows what it reads."""
