"""Mask text that recurs in many sessions, and text that recall returned."""
