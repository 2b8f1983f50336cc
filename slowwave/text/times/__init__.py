"""Dates, days and spans of time: found in texts, resolved, and printed."""
