"""Forget messages: find all rows made from them, erase these, and prove that nothing is left."""
