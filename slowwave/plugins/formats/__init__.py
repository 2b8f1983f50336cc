"""Readers of more transcript formats than Claude Code, Codex, OpenClaw, pi, the generic format and our own exports.

The most specific readers come first: a history in Markdown may quote lines of every other format.
"""

from slowwave.plugins.formats import (
    chatgpt,
    chats,
    cline,
    copilot,
    markdown,
    opencode,
    pmm,
    qwen_code,
)

READERS = (
    markdown.SPECSTORY,
    markdown.AIDER,
    opencode.READER,
    pmm.READER,
    qwen_code.READER,
    copilot.READER,
    cline.READER,
    chatgpt.READER,
    *chats.READERS,
)
"""The entry `formats` of the group `slowwave.readers`."""
