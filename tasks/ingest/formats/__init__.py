"""Transcript formats, each a module or folder, and the registry that recognises them."""
