"""Texts that need no query: the briefing, a project's files, a skill."""
