"""Assign claims to topics."""
