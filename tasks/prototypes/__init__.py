"""Coarse centroids over claims that move with the evidence."""
