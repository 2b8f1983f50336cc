"""The content of a Claude message as typed blocks, and what a person said in it.

Shared by Claude Code's transcripts and whatever else stores messages in the shape of Anthropic's API.
"""

from collections.abc import Iterator

import orjson

from slowwave.tasks.ingest.parsing.clean import drop_base64, plain, strip_tags
from slowwave.tasks.ingest.parsing.records import Block

AGENT_TAGS = ("task-notification", "teammate-message")
"""Envelopes around another agent's words, delivered in the user's turn."""

NOISE_TAGS = (
    *("command-name", "command-message", "command-args", "command-contents"),
    *("local-command-stdout", "local-command-stderr", "local-command-caveat"),
    *("bash-input", "bash-stdout", "bash-stderr", "user-memory-input", "user-prompt-submit-hook"),
    *("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics"),
    *AGENT_TAGS,
)
CAVEAT = "Caveat: The messages below"
INTERRUPTED = "[Request interrupted by user"
CONTINUED = "This session is being continued from a previous conversation"


def content_blocks(content: object) -> list[Block]:
    """Blocks of a message's content: a string, or a list of strings and typed parts."""
    if isinstance(content, str):
        return [Block("text", drop_base64(content))]
    parts = content if isinstance(content, list) else [content]
    return [block for part in parts for block in _part(part)]


def spoken(blocks: list[Block]) -> str:
    """The text blocks' text, nothing else."""
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return plain(texts[0] if len(texts) == 1 else "\n\n".join(texts)) if texts else ""


def human_words(text: str) -> str:
    """What the person typed: the tool's tags, caveats and interruption marks taken out of `spoken` text."""
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(CAVEAT):
        text = text.partition("\n")[2].strip()
    if text.startswith(INTERRUPTED):
        text = text.partition("]")[2].strip()
    return text


def _part(part: object) -> Iterator[Block]:
    if isinstance(part, str):
        yield Block("text", drop_base64(part))
        return
    if not isinstance(part, dict):
        yield Block("other", _json(part))
        return
    kind = part.get("type")
    match kind:
        case "text":
            yield Block("text", drop_base64(_string(part.get("text"))))
        case "thinking":
            yield Block("thinking", _string(part.get("thinking")))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            name, call = part.get("name"), part.get("id")
            yield Block("tool_call", _arguments(part.get("input")), name=_name(name), call_id=_name(call))
        case "image":
            yield Block("image", media=_media(part))
        case str() if kind.endswith("tool_result"):
            yield from _result(part)
        case _:
            # Bytes of an attached document are never kept.
            yield Block("other", _json({k: v for k, v in part.items() if k != "source"}), name=_name(kind))


def _result(part: dict[str, object]) -> Iterator[Block]:
    """A tool's output as one block, then the images in it."""
    call, content = _name(part.get("tool_use_id")), part.get("content")
    error = part.get("is_error")
    images: list[Block] = []
    if isinstance(content, str):
        text = drop_base64(content)
    else:
        inner = [] if content is None else content_blocks(content)
        text = "\n".join(block.text for block in inner if block.text)
        images = [Block("image", media=block.media, call_id=call) for block in inner if block.type == "image"]
    yield Block("tool_result", text, call_id=call, is_error=error if isinstance(error, bool) else None)
    yield from images


def _media(part: dict[str, object]) -> str | None:
    source = part.get("source")
    return _name(source.get("media_type")) if isinstance(source, dict) else None


def _arguments(value: object) -> str:
    return drop_base64(value if isinstance(value, str) else _json(value))


def _json(value: object) -> str:
    return drop_base64(orjson.dumps(value, default=str).decode())


def _string(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None
