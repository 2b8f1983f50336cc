"""The content of a Claude message as typed blocks, and what a person said in it.

Shared by Claude Code's transcripts and whatever else stores messages in the shape of Anthropic's API.
"""

from collections.abc import Iterator

from slowwave.tasks.ingest.parsing.records import Block
from slowwave.tasks.ingest.parsing.values import clean_text, drop_base64, dump_json, strip_tags

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


def parse_claude_content(content: object) -> list[Block]:
    """Return blocks of a message's content: a string, or a list of strings and typed parts."""
    if isinstance(content, str):
        return [Block("text", drop_base64(content))]
    parts = content if isinstance(content, list) else [content]
    return [block for part in parts for block in _parse_part(part)]


def join_claude_text(blocks: list[Block]) -> str:
    """Return the text blocks' text, nothing else."""
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return clean_text(texts[0] if len(texts) == 1 else "\n\n".join(texts)) if texts else ""


def extract_claude_user_text(text: str) -> str:
    """Return what the person typed: the tool's tags, caveats and interruption marks taken out of `join_claude_text`
    text.
    """
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(CAVEAT):
        text = text.partition("\n")[2].strip()
    if text.startswith(INTERRUPTED):
        text = text.partition("]")[2].strip()
    return text


def _parse_part(part: object) -> Iterator[Block]:
    if isinstance(part, str):
        yield Block("text", drop_base64(part))
        return
    if not isinstance(part, dict):
        yield Block("other", _dump_json(part))
        return
    kind = part.get("type")
    match kind:
        case "text":
            yield Block("text", drop_base64(_stringify(part.get("text"))))
        case "thinking":
            yield Block("thinking", _stringify(part.get("thinking")))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            name, call = part.get("name"), part.get("id")
            yield Block(
                "tool_call", _format_arguments(part.get("input")), name=_coerce_name(name), call_id=_coerce_name(call)
            )
        case "image":
            yield Block("image", media=_get_media_type(part))
        case str() if kind.endswith("tool_result"):
            yield from _parse_result(part)
        case _:
            # Bytes of an attached document are never kept.
            yield Block("other", _dump_json({k: v for k, v in part.items() if k != "source"}), name=_coerce_name(kind))


def _parse_result(part: dict[str, object]) -> Iterator[Block]:
    """Yield a tool's output as one block, then the images in it."""
    call, content = _coerce_name(part.get("tool_use_id")), part.get("content")
    error = part.get("is_error")
    images: list[Block] = []
    if isinstance(content, str):
        text = drop_base64(content)
    else:
        inner = [] if content is None else parse_claude_content(content)
        text = "\n".join(block.text for block in inner if block.text)
        images = [Block("image", media=block.media, call_id=call) for block in inner if block.type == "image"]
    yield Block("tool_result", text, call_id=call, is_error=error if isinstance(error, bool) else None)
    yield from images


def _get_media_type(part: dict[str, object]) -> str | None:
    source = part.get("source")
    return _coerce_name(source.get("media_type")) if isinstance(source, dict) else None


def _format_arguments(value: object) -> str:
    return drop_base64(value if isinstance(value, str) else _dump_json(value))


def _dump_json(value: object) -> str:
    return drop_base64(dump_json(value))


def _stringify(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else _dump_json(value)


def _coerce_name(value: object) -> str | None:
    return value if isinstance(value, str) else None
