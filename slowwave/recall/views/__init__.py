"""Listings of a release that need no query: rows by id, claims, themes, habits, relations, another release."""
