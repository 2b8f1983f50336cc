"""Values out of foreign JSON: times, texts, typed content blocks.

Nothing here raises on odd input: what has the wrong type counts as absent, and the reader says what it could not use.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import orjson

from slowwave.tasks.ingest.parsing.clean import plain
from slowwave.tasks.ingest.parsing.lines import excerpt
from slowwave.tasks.ingest.parsing.records import Block, BlockType, Origin, Role

_SPEAKERS: dict[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("user", "human"), ("user", "human")),
    **dict.fromkeys(("assistant", "model", "ai", "bot"), ("assistant", "model")),
    **dict.fromkeys(("system", "developer"), ("system", "synthetic")),
    **dict.fromkeys(("tool", "function"), ("tool", "tool")),
    "agent": ("agent", "model"),
    "observer": ("observer", "model"),
}

_BLOCKS: dict[str, BlockType] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal"), "text"),
    **dict.fromkeys(("thinking", "reasoning"), "thinking"),
    **dict.fromkeys(("tool_use", "tool_call", "toolCall", "function_call", "function"), "tool_call"),
    **dict.fromkeys(("tool_result", "toolResult", "function_call_output"), "tool_result"),
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
}


def speaker_of(role: object) -> tuple[Role, Origin] | None:
    """Role and origin for a role's common names in any case; None for an unknown one."""
    return _SPEAKERS.get(role.strip().lower()) if isinstance(role, str) else None


def as_dict(value: object) -> dict[str, object]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """The value if it is a string with something in it, else None."""
    return value if isinstance(value, str) and value else None


def as_id(value: object) -> str | None:
    """An identifier: a string or a whole number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else as_text(value)


def as_time(value: object) -> datetime | None:
    """An aware time in UTC from ISO 8601, or from seconds, ms, µs or ns since 1970; None for anything else.

    A time without a zone is taken for UTC, so that it means the same on every machine.
    """
    try:
        match value:
            case str():
                return _time_from_text(value.strip())
            case bool() | None:
                return None
            case int() | float():
                return datetime.fromtimestamp(_seconds(value), UTC)
            case datetime():
                return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _seconds(number: float) -> float:
    """The unit is told by the magnitude: 1e11 seconds would be the year 5138."""
    for limit, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        if abs(number) >= limit:
            return number / unit
    return number


def _time_from_text(text: str) -> datetime | None:
    if text[4:5] != "-" and len(text) > 8 and text.replace(".", "", 1).isdecimal():
        return as_time(float(text))
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def json_text(value: object) -> str:
    """The value as compact JSON; a string that is given as JSON already stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):  # an integer over 64 bits, a lone surrogate, a date
        return json.dumps(value, default=str)


def blocks_of(content: object) -> list[Block] | None:
    """Typed blocks from a message's content: a string, a list of typed parts, or null; None for any other type."""
    match content:
        case None:
            return []
        case str():
            return [Block("text", content)] if content.strip() else []
        case list():
            return [block for part in content if (block := block_of(part))]
        case _:
            return None


def block_of(part: object) -> Block | None:
    """One typed part of the Anthropic, OpenAI or slowwave kind as a block; an unknown one is kept whole as `other`."""
    if isinstance(part, str):
        return Block("text", part) if part.strip() else None
    fields = as_dict(part)
    kind = str(fields.get("type") or ("text" if "text" in fields else "unknown"))
    match _BLOCKS.get(kind):
        case "text":
            said = as_text(fields.get("text")) or as_text(fields.get("refusal"))
            return Block("text", said) if said else None
        case "thinking":
            return Block("thinking", as_text(fields.get("thinking")) or as_text(fields.get("text")) or "")
        case "tool_call":
            return call_block(fields)
        case "tool_result":
            return result_block(fields)
        case "image":
            return Block("image", media=media_of(fields))
        case _:
            name = as_text(fields.get("name")) or kind
            text = as_text(fields.get("text")) or (None if kind == "other" else json_text(part))
            return Block("other", text, name=name, media=as_text(fields.get("media")))


def call_block(fields: Mapping[str, object]) -> Block:
    """A tool call; OpenAI keeps name and arguments in `function`."""
    inner = as_dict(fields.get("function")) or fields
    given = next((inner[key] for key in ("text", "input", "arguments", "args") if inner.get(key) is not None), None)
    call_id = as_id(fields.get("call_id")) or as_id(fields.get("id"))
    text = None if given is None else json_text(given)
    return Block("tool_call", text, name=as_text(inner.get("name")), call_id=call_id)


def result_block(fields: Mapping[str, object]) -> Block:
    """A tool's result; its text from `content`, `output`, `text` or `message`, whichever comes first."""
    given = next((fields[k] for k in ("content", "output", "text", "message") if fields.get(k) is not None), None)
    failed = fields.get("is_error", fields.get("isError"))
    return Block(
        "tool_result",
        flat_text(given),
        name=as_text(fields.get("name")),
        call_id=as_id(fields.get("tool_use_id")) or as_id(fields.get("tool_call_id")) or as_id(fields.get("call_id")),
        is_error=failed if isinstance(failed, bool) else None,
    )


def flat_text(value: object) -> str | None:
    """Text out of a string, a list of parts, or any JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(f"[{b.media or b.type}]" if b.text is None else b.text for b in blocks_of(value) or [])
    return as_text(as_dict(value).get("text")) or json_text(value)


def media_of(fields: Mapping[str, object]) -> str | None:
    """An image's media type, where the part or its data URI says it."""
    source = as_dict(fields.get("source")) or fields
    for key in ("media_type", "mimeType", "mime_type", "media"):
        if found := as_text(source.get(key)):
            return found
    url = fields.get("image_url")
    address = as_text(as_dict(url).get("url")) or as_text(url) or ""
    return address[5:].split(";")[0].split(",")[0] or None if address.startswith("data:") else None


def spoken(blocks: Iterable[Block]) -> str:
    """What was said: the text blocks, without terminal codes and embedded images."""
    return plain("\n".join(block.text for block in blocks if block.type == "text" and block.text))


def active_path(parents: Mapping[str, str | None], leaf: str | None) -> list[str]:
    """The nodes from the root to the leaf; ends at a parent that is missing or was passed already (a cycle)."""
    path: dict[str, None] = {}
    while leaf is not None and leaf in parents and leaf not in path:
        path[leaf] = None
        leaf = parents[leaf]
    return list(path)[::-1]


def sample(value: object) -> str:
    """The start of a value as JSON, for the quarantine row."""
    return excerpt(json_text(value).encode("utf-8", "replace"))
