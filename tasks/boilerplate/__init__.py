"""Mask text that recurs over many sessions, and what recall handed out."""
