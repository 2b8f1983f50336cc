"""Transcript formats beyond Claude Code, Codex, OpenClaw, the generic one and our own exports."""
