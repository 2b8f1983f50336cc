"""Shared by the formats: records, values, times, lines, documents, trees of messages."""
