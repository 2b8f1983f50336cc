"""slowwave's own formats: the interchange format as lines and columns, exports and learnings read back."""
