"""Forgetting: what is to be gone, through all that was made of it, and the proof that it is."""
