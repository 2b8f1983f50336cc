"""Readers of slowwave's own formats: the interchange format in lines and columns, exports, and learnings."""
