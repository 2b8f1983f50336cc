"""ShareGPT: `{id, conversations: [{from, value}]}` as a JSON array or lines; values may be HTML.

Long chats were split over several entries with ids `x_0`, `x_1`, …: they are one session again, `x`, whose message
ids are `part:position`. Entries without an id are known by their content. There are no times.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    encode_json,
    format_excerpt,
    parse_role,
)

_ROLES: dict[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("gpt", "chatgpt", "bing", "bard", "claude"), ("assistant", "model")),
    "function_call": ("assistant", "model"),
    **dict.fromkeys(("observation", "function_response"), ("tool", "tool")),
}
_PART = re.compile(r"(.+)_(\d+)\Z", re.DOTALL)
# Only a value that is HTML from its first tag to its last: a mention of a tag stays as it was written.
_HTML = re.compile(
    r"\s*<(?:div|p|ol|ul|pre|h[1-6]|table|blockquote|span|section)\b[^>]*>.*</[a-z][a-z0-9]*>\s*\Z", re.S | re.I
)
_BREAKS = frozenset(
    {
        *("p", "div", "br", "li", "pre", "tr", "table", "ol", "ul", "blockquote", "section"),
        *(f"h{n}" for n in range(1, 7)),
    }
)
_SILENT = frozenset(("script", "style", "button", "svg"))


def sniff(head: Head) -> bool:
    """Return whether the file starts as an array or lines of objects whose `conversations` have `from` and `value`."""
    return has_leading_keys(head, "conversations", "from", "value")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is the conversation's number in the file, from 1."""
    return read_each(iter_documents(path, limits), _read_conversation)


def _read_conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    turns = coerce_list(conversation.get("conversations"))
    if not turns:
        yield Rejected(number, "entry without conversations", format_excerpt(conversation))
        return
    named = coerce_id(conversation.get("id")) or compute_content_id(encode_json(turns))
    part = _PART.match(named)
    session, prefix = (part[1], f"{part[2]}:") if part else (named, "")
    yield Session(session, title=coerce_text(conversation.get("title")))
    for position, turn in enumerate(turns):
        yield _parse_message(session, f"{prefix}{position}", coerce_dict(turn), number)


def _parse_message(session: str, native_id: str, turn: dict[str, object], number: int) -> Message | Rejected | Skipped:
    who, value = turn.get("from"), turn.get("value")
    known = parse_role(who) or (_ROLES.get(who.strip().lower()) if isinstance(who, str) else None)
    if known is None or not isinstance(value, str):
        why = f"unknown speaker {who!r}" if known is None else f"value is {type(value).__name__}, no text"
        return Rejected(number, f"turn {native_id}: {why}", format_excerpt(turn))
    if not value.strip():
        return Skipped("empty message", number)
    if known[0] == "tool":
        return Message(session, native_id, *known, [Block("tool_result", value)], "", line=number)
    if who == "function_call":
        return Message(session, native_id, *known, [Block("tool_call", value)], "", line=number)
    return Message(session, native_id, *known, [Block("text", value)], clean_text(strip_html(value)), line=number)


def strip_html(value: str) -> str:
    """Return the text of a value that is HTML as a whole; any other value as it is."""
    if "<" not in value or not _HTML.match(value):
        return value
    reader = _HtmlTextExtractor()
    reader.feed(value)
    reader.close()
    lines = [line.rstrip() for line in "".join(reader.pieces).split("\n")]
    return "\n".join(line for line, above in zip(lines, ["", *lines], strict=False) if line or above).strip()


class _HtmlTextExtractor(HTMLParser):
    """Text of an HTML fragment, a line break at each block, without buttons ("Copy code"), scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _BREAKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _BREAKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces.append(data)


READER = Reader("sharegpt", 1, sniff, read)
