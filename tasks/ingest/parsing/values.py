"""Parse values of foreign JSON: times, clean text, typed content blocks.

No function here raises an error for unexpected input. A value of the wrong type counts as missing, and the reader
reports what it could not use.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import orjson

from slowwave.schemas.tables import TAGS
from slowwave.tasks.ingest.parsing.records import (
    AGENT,
    HUMAN,
    MODEL,
    SYSTEM,
    TOOL,
    Block,
    BlockType,
    Who,
)

_SPEAKERS: dict[str, Who] = {
    **dict.fromkeys(("user", "human"), HUMAN),
    **dict.fromkeys(("assistant", "model", "ai", "bot"), MODEL),
    **dict.fromkeys(("system", "developer"), SYSTEM),
    **dict.fromkeys(("tool", "function"), TOOL),
    "agent": AGENT,
    "observer": ("observer", "model"),
}

_BLOCKS: dict[str, BlockType] = {
    **dict.fromkeys(
        ("text", "input_text", "output_text", "summary_text", "inputText", "refusal"),
        "text",
    ),
    **dict.fromkeys(("thinking", "reasoning"), "thinking"),
    **dict.fromkeys(
        ("tool_use", "server_tool_use", "mcp_tool_use", "tool_call"), "tool_call"
    ),
    **dict.fromkeys(
        ("toolCall", "functionCall", "function_call", "function"), "tool_call"
    ),
    **dict.fromkeys(
        ("tool_result", "toolResult", "function_call_output"), "tool_result"
    ),
    **dict.fromkeys(("image", "image_url", "input_image", "output_image"), "image"),
}
_ARGUMENTS = ("text", "input", "arguments", "args", "action", "revised_prompt")
_OUTPUTS = ("content", "output", "text", "message")
_BINARY = ("source", "data", "encrypted_content")
"""Fields with a call's arguments, with a result's output, and with the bytes of any part."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""The magnitudes from which a number counts ns, µs or ms, each with the units in a second. 1e11 seconds would be the
year 5138.
"""

# CSI, OSC (ended by BEL or ST) and the two-byte escapes of ECMA-48.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
)
_DATA_URI = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_-]*"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


# Values of one type.


def parse_role(role: object) -> Who | None:
    """Return role and origin for a role's common names in any case; None for an unknown one."""
    return _SPEAKERS.get(role.strip().lower()) if isinstance(role, str) else None


def coerce_dict(value: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def coerce_list(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def coerce_text(value: object) -> str | None:
    """Return the value if it is a string that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def coerce_bool(value: object) -> bool | None:
    """Return the value if it is true or false, else None."""
    return value if isinstance(value, bool) else None


def coerce_id(value: object) -> str | None:
    """Return the value as an id if it is a string that is not empty or a whole number, else None."""
    return (
        str(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else coerce_text(value)
    )


def coerce_time(value: object) -> datetime | None:
    """Return a time with a zone from ISO 8601, or from seconds, ms, µs or ns since 1970; None for anything else.

    Its UTC offset is kept. A time without one counts as UTC, so that it is the same on every machine. Return None for a
    time before or at the start of 1970, since programs write 0 or the year 1 for "unknown".
    """
    at = _parse_time(value)
    return at if at and at > _EPOCH else None


def _parse_time(value: object) -> datetime | None:
    try:
        if isinstance(value, str):
            text = value.strip()
            number = (
                len(text) > 8
                and text[4:5] != "-"
                and text.replace(".", "", 1).isdecimal()
            )
            value = float(text) if number else datetime.fromisoformat(text)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            unit = next((unit for limit, unit in _EPOCH_UNITS if value >= limit), 1)
            return datetime.fromtimestamp(value / unit, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


@cache
def _find_zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None


def shift_to_zone(at: datetime | None, zone: object) -> datetime | None:
    """Return a time in a zone ("Europe/Berlin"); unchanged if the zone is unknown."""
    found = _find_zone(zone) if at and isinstance(zone, str) else None
    return at.astimezone(found) if at and found else at


def shift_to_clock(at: datetime | None, shown: object) -> datetime | None:
    """Return a time at the UTC offset of another time, `shown`; unchanged if `shown` isn't a time."""
    clock = coerce_time(shown)
    return at.astimezone(clock.tzinfo) if at and clock else at


def dump_json(value: object) -> str:
    """Return any value as compact JSON. A value that JSON can't have becomes its text."""
    try:
        return orjson.dumps(value, default=str).decode()
    except (
        TypeError,
        orjson.JSONEncodeError,
    ):
        # an integer over 64 bits, a lone surrogate, or more than 254 levels
        with suppress(RecursionError):
            return json.dumps(value, default=str)
        return '"nested too deep"'


def encode_json(value: object) -> str:
    """Return the value as compact JSON; a string unchanged, since it may be JSON already."""
    return value if isinstance(value, str) else dump_json(value)


def stringify(value: object) -> str:
    """Return a string unchanged, None as "", and anything else as JSON."""
    return "" if value is None else encode_json(value)


# Clean text. Every function looks for its marker first, so that plain text (nearly all of it) costs one scan.


def drop_base64(text: str) -> str:
    """Return the text with each `data:…;base64,…` URI replaced by its media type in brackets, such as `[image/png]`."""
    return (
        _DATA_URI.sub(lambda uri: f"[{uri[1] or 'data'}]", text)
        if ";base64," in text
        else text
    )


def drop_control(text: str) -> str:
    """Return the text without control characters other than tab, newline and carriage return."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def clean_text(text: str) -> str:
    """Return the text without terminal codes, embedded images and control characters, white space trimmed."""
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    return drop_control(drop_base64(text)).strip()


@cache
def _compile_tags(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(map(re.escape, names))
    return re.compile(f"<({either})(?:\\s[^<>]*)?>|</({either})>")


def _find_tagged(
    text: str, names: Iterable[str]
) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return the opening and closing tag of each `<name …>…</name>` that is in no other such block, in order.

    A closing tag closes the last open tag of its name. An opening tag that is never closed is ignored, since a person
    may only mention it. Takes linear time.
    """
    opened: dict[str, list[re.Match[str]]] = {}
    pairs = list[tuple[re.Match[str], re.Match[str]]]()
    for tag in _compile_tags(tuple(names)).finditer(text) if "<" in text else ():
        if tag[1]:
            opened.setdefault(tag[1], []).append(tag)
        elif opened.get(tag[2]):
            pairs.append((opened[tag[2]].pop(), tag))
    pairs.sort(key=lambda pair: pair[0].start())
    outer = list[tuple[re.Match[str], re.Match[str]]]()
    at = 0
    for opening, closing in pairs:
        if opening.start() >= at:
            outer.append((opening, closing))
            at = closing.end()
    return outer


def strip_tags(text: str, names: Iterable[str]) -> str:
    """Return the text without `<name …>…</name>` for each of the names. A tag that is never closed is kept."""
    pieces = list[str]()
    at = 0
    for opening, closing in _find_tagged(text, names):
        pieces.append(text[at : opening.start()])
        at = closing.end()
    return "".join([*pieces, text[at:]])


def extract_tag_body(text: str, name: str) -> str | None:
    """Return the text between the first closed `<name …>` and its `</name>`; None if there is none."""
    tagged = next(iter(_find_tagged(text, (name,))), None)
    return text[tagged[0].end() : tagged[1].start()].strip() if tagged else None


def extract_outer_body(text: str, name: str) -> str | None:
    """Return the text from the first `<name …>` to the last `</name>`, which may name the tag; None without both."""
    tags = list(_compile_tags((name,)).finditer(text)) if "<" in text else []
    start = next((tag.end() for tag in tags if tag[1]), None)
    end = next((tag.start() for tag in reversed(tags) if tag[2]), None)
    if start is None or end is None or end < start:
        return None
    return text[start:end].strip()


def extract_tag_attribute(text: str, name: str, attribute: str) -> str | None:
    """Return the value of an attribute in the first `<name …>`; None if there is none."""
    opening = (
        next((tag for tag in _compile_tags((name,)).finditer(text) if tag[1]), None)
        if "<" in text
        else None
    )
    value = (
        re.search(rf'\s{re.escape(attribute)}="([^"]*)"', opening[0])
        if opening
        else None
    )
    return value[1] if value else None


_OPENING = re.compile(r"[\s\ufeff]*<([^\W\d][^\s<>/]*)(\s[^<>]*)?(?<!/)>")
_NAMED = re.compile(r"<([A-Za-z]\w*_\w+)(?:\s[^<>]*)?(?<!/)>")
_NAMED_END = re.compile(r"</(\w+)>")
_TO_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def extract_typed(text: str) -> str:
    """Return a prompt without the tagged blocks at its start, which a program put before a person's words.

    A block is any `<name …>` that is closed at the end of a line, or whose tags begin and end lines of their own, or
    whose name has an underscore: inline markup is kept. If a prompt has nothing but blocks, a person may have typed
    those with the name of a plain word: return the text from the first of them on. Return "" if all names look like a
    program's (`session_context`, or a tag with attributes).
    """
    at, plain = _skip_blocks(text)
    rest = text[at:].strip() if at else text
    if rest or plain is None:
        return rest
    return text[plain:].strip() if plain else text


def is_only_blocks(text: str) -> bool:
    """Return True if a text is nothing but tag-delimited blocks."""
    at, _ = _skip_blocks(text)
    return at > 0 and not text[at:].strip()


def has_named_block(text: str) -> bool:
    """Return True if a text has a closed tag whose name a program made (`what_happened`): HTML has no such names."""
    opened, closed = (
        {tag[1] for tag in tags.finditer(text)} for tags in (_NAMED, _NAMED_END)
    )
    return bool(opened & closed)


def _skip_blocks(text: str) -> tuple[int, int | None]:
    """Return where the blocks at a text's head end, and where the first begins that a person may have named.

    Blocks on one line are skipped together: if a person's words follow the last of them, none is.
    """
    end = at = 0
    plain = None
    while opening := _OPENING.match(text, at):
        closing = _find_closing(text, opening)
        if closing is None:
            break
        is_program = "-" in opening[1] or "_" in opening[1] or bool(opening[2])
        if plain is None and not is_program:
            plain = at
        at = closing.end()
        if line_end := _TO_LINE_END.match(text, at):
            end = at = line_end.end()
        elif "_" in opening[1] or _stands_alone(text, opening, closing):
            end = at
    return end, plain


def _find_closing(
    text: str,
    opening: re.Match[str],
) -> re.Match[str] | None:
    """Return the tag that closes a block: its own, else the last of that name that ends a line.

    Return None if it is not closed.
    """
    depth = 0
    last = None
    name = re.escape(opening[1])
    tags = re.compile(rf"<(/?){name}(?:\s[^<>]*)?(?<!/)>", re.IGNORECASE)
    for tag in tags.finditer(text, opening.start()):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag
        if tag[1] and _TO_LINE_END.match(text, tag.end()):
            last = tag
    return last


def _stands_alone(
    text: str,
    opening: re.Match[str],
    closing: re.Match[str],
) -> bool:
    """Return True if a block's opening tag ends a line, and its closing tag begins one."""
    if not _TO_LINE_END.match(text, opening.end()):
        return False
    inner = text[opening.end() : closing.start()]
    return not inner.rpartition("\n")[2].strip()


def cut_between(text: str, start: str, end: str) -> str:
    """Return the text without the part from the first `start` to the last `end`; unchanged if one of them is
    missing.
    """
    before, found, _ = text.partition(start)
    _, closed, after = text.rpartition(end)
    return (
        f"{before.rstrip()}\n{after.lstrip()}".strip()
        if found and closed and len(before) < len(text) - len(after)
        else text
    )


REFERENCED = "--- Content from referenced files ---", "--- End of content ---"
"""Marks of Gemini CLI and Qwen Code around the contents of files that a prompt names after "@"."""


# Blocks of a message's content.


def parse_blocks(content: object) -> list[Block] | None:
    """Return typed blocks from a message's content: a string, a list of typed parts, or null; None for any other type.

    A part is of the Anthropic, OpenAI, pi or slowwave kind; an unknown one is kept as `other`. Bytes are never kept.
    """
    if content is not None and not isinstance(content, (str, list)):
        return None
    parts = content if isinstance(content, list) else [content]
    return [block for part in parts if part is not None for block in _parse_part(part)]


def _parse_part(part: object) -> Iterator[Block]:
    fields = {"text": part} if isinstance(part, str) else coerce_dict(part)
    kind = str(fields.get("type") or ("text" if "text" in fields else "unknown"))
    text = drop_base64(stringify(fields.get("text")))
    name = coerce_text(fields.get("name"))
    match _BLOCKS.get("tool_result" if kind.endswith("tool_result") else kind):
        case "text":
            if (text := text or stringify(fields.get("refusal"))).strip():
                yield Block("text", text)
        case "thinking":
            yield Block(
                "thinking", drop_base64(stringify(fields.get("thinking"))) or text
            )
        case "tool_call":
            yield parse_tool_call(fields)
        case "tool_result":
            yield from parse_tool_result(fields)
        case "image":
            call_id = coerce_id(fields.get("call_id"))
            media = _find_media(fields)
            yield Block(
                type="image", text=None, name=name, call_id=call_id, media=media
            )
        case _:
            rest = {key: value for key, value in fields.items() if key not in _BINARY}
            text = text or (
                "" if kind == "other" else drop_base64(encode_json(rest or part))
            )
            yield Block(
                "other",
                text or None,
                name or kind,
                media=coerce_text(fields.get("media")),
            )


def _find_media(fields: Mapping[str, object]) -> str | None:
    """Return the media type of an image, by its source or its `data:` address; None if it is unknown."""
    source = coerce_dict(fields.get("source")) or fields
    for key in ("media_type", "mimeType", "mime_type", "media"):
        if named := coerce_text(source.get(key)):
            return named
    url = fields.get("image_url")
    address = coerce_text(coerce_dict(url).get("url")) or coerce_text(url) or ""
    if not address.startswith("data:"):
        return None
    return address[5:].split(";")[0].split(",")[0] or None


def parse_tool_call(fields: Mapping[str, object]) -> Block:
    """Return a tool call as a block. OpenAI has its name and arguments in `function`."""
    inner = {**fields, **coerce_dict(fields.get("function"))}
    given = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), None)
    call_id = coerce_id(fields.get("call_id")) or coerce_id(fields.get("id"))
    text = None if given is None else drop_base64(encode_json(given))
    return Block(
        "tool_call", text, name=coerce_text(inner.get("name")), call_id=call_id
    )


def parse_tool_result(fields: Mapping[str, object]) -> list[Block]:
    """Return a tool's output as one block, then the images in it."""
    given = next((fields[key] for key in _OUTPUTS if fields.get(key) is not None), None)
    parts = parse_blocks(given)
    text = (
        stringify(given)
        if parts is None
        else "\n".join(block.text for block in parts if block.text)
    )
    ids = (
        coerce_id(fields.get(key)) for key in ("tool_use_id", "tool_call_id", "call_id")
    )
    call_id = next(filter(None, ids), None)
    failed = coerce_bool(fields.get("is_error", fields.get("isError")))
    images = [block for block in parts or () if block.type == "image"]
    result = Block(
        type="tool_result",
        text=text,
        name=coerce_text(fields.get("name")),
        call_id=call_id,
        is_error=failed,
    )
    return [
        result,
        *(Block("image", media=image.media, call_id=call_id) for image in images),
    ]


def make_tag_blocks(tags: object) -> list[Block]:
    """Return the block with a message's tags, a line each; no block without tags."""
    values = tags if isinstance(tags, list) else [tags]
    lines = [
        " ".join(tag.split()) if isinstance(tag, str) else encode_json(tag)
        for tag in values
        if tag is not None
    ]
    return [Block("other", "\n".join(lines), name=TAGS)] if any(lines) else []


def join_text(blocks: Iterable[Block], separator: str) -> str:
    """Return the texts of the text blocks, joined and unchanged."""
    return separator.join(
        block.text for block in blocks if block.type == "text" and block.text
    )


def join_text_blocks(blocks: Iterable[Block]) -> str:
    """Return the texts of the text blocks, a line each, without terminal codes and embedded images."""
    return clean_text(join_text(blocks, "\n"))


def trace_active_path(parents: Mapping[str, str | None], leaf: str | None) -> list[str]:
    """Return the nodes from the root to the leaf. The path begins at a node whose parent is missing or on the path (a
    cycle). Return none if the leaf is unknown.
    """
    path: dict[str, None] = {}
    while leaf is not None and leaf in parents and leaf not in path:
        path[leaf] = None
        leaf = parents[leaf]
    return list(path)[::-1]
