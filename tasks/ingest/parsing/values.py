"""Values out of foreign JSON: times, texts, typed content blocks.

Nothing here raises on odd input: what has the wrong type counts as absent, and the reader says what it could not use.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import orjson

from slowwave.schemas.tables import TAGS
from slowwave.tasks.ingest.parsing.clean import clean_text
from slowwave.tasks.ingest.parsing.lines import decode_excerpt
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


def parse_role(role: object) -> tuple[Role, Origin] | None:
    """Return role and origin for a role's common names in any case; None for an unknown one."""
    return _SPEAKERS.get(role.strip().lower()) if isinstance(role, str) else None


def coerce_dict(value: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def coerce_list(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def coerce_text(value: object) -> str | None:
    """Return the value if it is a string with something in it, else None."""
    return value if isinstance(value, str) and value else None


def coerce_id(value: object) -> str | None:
    """Return an identifier: a string or a whole number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else coerce_text(value)


def coerce_time(value: object) -> datetime | None:
    """Return an aware time in UTC from ISO 8601, or from seconds, ms, µs or ns since 1970; None for anything else.

    A time without a zone is taken for UTC, so that it means the same on every machine.
    """
    try:
        match value:
            case str():
                return _parse_time_text(value.strip())
            case bool() | None:
                return None
            case int() | float():
                return datetime.fromtimestamp(_normalise_epoch(value), UTC)
            case datetime():
                return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _normalise_epoch(number: float) -> float:
    """Return seconds, the unit told by the magnitude: 1e11 seconds would be the year 5138."""
    for limit, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        if abs(number) >= limit:
            return number / unit
    return number


def _parse_time_text(text: str) -> datetime | None:
    if text[4:5] != "-" and len(text) > 8 and text.replace(".", "", 1).isdecimal():
        return coerce_time(float(text))
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def encode_json(value: object) -> str:
    """Return the value as compact JSON; a string that is given as JSON already stays as it is."""
    return value if isinstance(value, str) else dump_json(value)


def dump_json(value: object) -> str:
    """Return the value as compact JSON, whatever it is."""
    try:
        return orjson.dumps(value, default=str).decode()
    except (TypeError, orjson.JSONEncodeError):  # an integer over 64 bits, a lone surrogate, nested over 254 deep
        with suppress(RecursionError):
            return json.dumps(value, default=str)
        return '"nested too deep"'


def parse_blocks(content: object) -> list[Block] | None:
    """Return typed blocks from a message's content: a string, a list of typed parts, or null.

    None for any other type.
    """
    match content:
        case None:
            return []
        case str():
            return [Block("text", content)] if content.strip() else []
        case list():
            return [block for part in content if (block := parse_block(part))]
        case _:
            return None


def parse_block(part: object) -> Block | None:
    """Return one typed part of the Anthropic, OpenAI or slowwave kind as a block.

    An unknown one is kept whole as `other`.
    """
    if isinstance(part, str):
        return Block("text", part) if part.strip() else None
    fields = coerce_dict(part)
    kind = str(fields.get("type") or ("text" if "text" in fields else "unknown"))
    match _BLOCKS.get(kind):
        case "text":
            said = coerce_text(fields.get("text")) or coerce_text(fields.get("refusal"))
            return Block("text", said) if said else None
        case "thinking":
            return Block("thinking", coerce_text(fields.get("thinking")) or coerce_text(fields.get("text")) or "")
        case "tool_call":
            return parse_tool_call(fields)
        case "tool_result":
            return parse_tool_result(fields)
        case "image":
            return Block("image", media=find_media_type(fields))
        case _:
            name = coerce_text(fields.get("name")) or kind
            text = coerce_text(fields.get("text")) or (None if kind == "other" else encode_json(part))
            return Block("other", text, name=name, media=coerce_text(fields.get("media")))


def parse_tool_call(fields: Mapping[str, object]) -> Block:
    """Return a tool call; OpenAI keeps name and arguments in `function`."""
    inner = coerce_dict(fields.get("function")) or fields
    given = next((inner[key] for key in ("text", "input", "arguments", "args") if inner.get(key) is not None), None)
    call_id = coerce_id(fields.get("call_id")) or coerce_id(fields.get("id"))
    text = None if given is None else encode_json(given)
    return Block("tool_call", text, name=coerce_text(inner.get("name")), call_id=call_id)


def parse_tool_result(fields: Mapping[str, object]) -> Block:
    """Return a tool's result; its text from `content`, `output`, `text` or `message`, whichever comes first."""
    given = next((fields[k] for k in ("content", "output", "text", "message") if fields.get(k) is not None), None)
    failed = fields.get("is_error", fields.get("isError"))
    return Block(
        "tool_result",
        flatten_text(given),
        name=coerce_text(fields.get("name")),
        call_id=coerce_id(fields.get("tool_use_id"))
        or coerce_id(fields.get("tool_call_id"))
        or coerce_id(fields.get("call_id")),
        is_error=failed if isinstance(failed, bool) else None,
    )


def flatten_text(value: object) -> str | None:
    """Return text out of a string, a list of parts, or any JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(f"[{b.media or b.type}]" if b.text is None else b.text for b in parse_blocks(value) or [])
    return coerce_text(coerce_dict(value).get("text")) or encode_json(value)


def find_media_type(fields: Mapping[str, object]) -> str | None:
    """Return an image's media type, where the part or its data URI says it."""
    source = coerce_dict(fields.get("source")) or fields
    for key in ("media_type", "mimeType", "mime_type", "media"):
        if found := coerce_text(source.get(key)):
            return found
    url = fields.get("image_url")
    address = coerce_text(coerce_dict(url).get("url")) or coerce_text(url) or ""
    return address[5:].split(";")[0].split(",")[0] or None if address.startswith("data:") else None


def make_tag_blocks(tags: object) -> list[Block]:
    """Return the block that keeps a message's tags, a line each; none without any."""
    some = tags if isinstance(tags, list) else [tags]
    told = [" ".join(tag.split()) if isinstance(tag, str) else encode_json(tag) for tag in some if tag is not None]
    return [Block("other", "\n".join(told), name=TAGS)] if any(told) else []


def join_text_blocks(blocks: Iterable[Block]) -> str:
    """Return what was said: the text blocks, without terminal codes and embedded images."""
    return clean_text("\n".join(block.text for block in blocks if block.type == "text" and block.text))


def trace_active_path(parents: Mapping[str, str | None], leaf: str | None) -> list[str]:
    """Return the nodes from the root to the leaf; ends at a parent that is missing or was passed already (a cycle)."""
    path: dict[str, None] = {}
    while leaf is not None and leaf in parents and leaf not in path:
        path[leaf] = None
        leaf = parents[leaf]
    return list(path)[::-1]


def format_excerpt(value: object) -> str:
    """Return the start of a value as JSON, for the quarantine row."""
    return decode_excerpt(encode_json(value).encode("utf-8", "replace"))
