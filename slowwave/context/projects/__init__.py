"""Texts without a query: the briefing, a project's files, and a skill."""
