"""How a block of context reads: as Markdown or as JSON, every line with its source.

Markdown names a session and its day in a heading over the lines that follow each other, and who said each line: a
speaker by name, else "person" or "model":

    # Memories
    2 Feb 2026 · ferry-1
    person: Bookings go into MySQL.

A block of an old answer says so under the title of what is old: with `STALE` in Markdown, with `"stale": true` in JSON.

A session id of more than a dozen characters is cut to its first eight, or to as many more as tell it from the store's
other sessions, so that `slowwave show` finds it; the parts of the block have all ids in full.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Literal

from slowwave.recall.release.view import shorten_session_ids
from slowwave.schemas.vocabulary import Role
from slowwave.text.fence import escape_line, escape_text, escape_values

Format = Literal["markdown", "json"]
Speaker = Literal["person", "model"]
"""What said something."""
Name = Literal["web", "summaries", "memories", "conversation", "briefing"]
TITLES: dict[Name, str] = {
    "web": "# Web",
    "summaries": "# Sessions",
    "memories": "# Memories",
    "conversation": "# Conversation",
    "briefing": "# Known",
}
OF_MEMORY: frozenset[Name] = frozenset({"summaries", "memories", "briefing"})
"""Parts that are old in the block of an old answer; web and conversation never are."""
STALE = "(from before: the store can't be read now)"


def get_speaker(role: str) -> Speaker:
    """Return what said a message of this role."""
    return "person" if role == Role.USER else "model"


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where a line comes from: a message of a session, a turn of this conversation, or a page."""

    session: str | None = None
    message: str | None = None
    """The transcript's own id; in this conversation the turn's number, from 1."""
    seq: int | None = None
    """The message's number in its session."""
    at: datetime | None = None
    speaker: str | None = None
    by: Speaker | None = None
    url: str | None = None
    topic: str | None = None
    """A topic's name, for a summary of it."""
    short: str | None = None
    """The session's id as a heading has it, where the store's sessions are known; else the block's tell it apart."""

    @property
    def group(self) -> tuple[str | None, str | None, date | None]:
        """Lines of which it is the same stand under one heading: those of one session, or topic, and day."""
        return self.session, self.topic, self.at.date() if self.at else None

    def as_dict(self) -> dict[str, str | int]:
        """Return what is known of it, as plain values."""
        fields = ("session", "message", "seq", "speaker", "by", "url", "topic")
        known = {name: value for name in fields if (value := getattr(self, name)) is not None}
        return {**known, **({"at": self.at.isoformat()} if self.at else {})}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block."""

    text: str
    source: LineSource
    relevance: float = 1.0
    said: tuple[str, ...] = ()
    """What of the text somebody said, where there is more in it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the block; lines in the order they stand in."""

    name: Name
    lines: tuple[Line, ...]


Renderer = Callable[[Sequence[Part]], str]


def render_markdown(parts: Sequence[Part]) -> str:
    """Return the parts with a title each; empty ones are left out."""
    return _join_markdown(parts, TITLES)


def render_stale_markdown(parts: Sequence[Part]) -> str:
    """Return `render_markdown` of an old answer: under the title of what is old it says so."""
    return _join_markdown(
        parts, {name: f"{title}\n{STALE}" if name in OF_MEMORY else title for name, title in TITLES.items()}
    )


def _join_markdown(parts: Sequence[Part], titles: Mapping[Name, str]) -> str:
    names = shorten_session_ids({line.source.session for part in parts for line in part.lines if line.source.session})
    return "\n".join("\n".join([titles[part.name], *_format_part_lines(part, names)]) for part in parts if part.lines)


def _format_part_lines(part: Part, names: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for _, lines in groupby(part.lines, key=lambda line: line.source.group):
        group = list(lines)
        head = format_heading(group[0].source, names)
        found += [head] if head else []
        found += [format_tag(line.source) + escape_text(line.text) for line in group]
    return found


def format_heading(source: LineSource, names: Mapping[str, str]) -> str:
    """Return what stands over the lines of one session or topic; empty for a line that says itself where it is from."""
    session = source.session and (source.short or names[source.session])
    place = f"topic {source.topic}" if source.topic is not None else session
    place = escape_line(place) if place else place
    return " · ".join(filter(None, (format_day(source.at) if source.at else None, place))) if place else ""


def format_day(at: datetime) -> str:
    """Return a day as blocks have it: 2 Feb 2026."""
    return f"{at.day} {at:%b %Y}"


def format_tag(source: LineSource) -> str:
    """Return what opens a line: who said it, or where it stands."""
    if source.url is not None:
        return f"- ({escape_line(source.url)}) "
    who = escape_line(source.speaker or source.by or "")
    turn = f"{escape_line(source.message)}. " if source.session is None and source.message is not None else ""
    return f"{turn}{who}: " if who else turn or "- "


def render_json(parts: Sequence[Part]) -> str:
    """Return one object, a list of lines a part, each with its source in full; empty parts are left out."""
    return _dump_json(parts, {})


def render_stale_json(parts: Sequence[Part]) -> str:
    """Return `render_json` of an old answer: it says so."""
    return _dump_json(parts, {"stale": True})


def _dump_json(parts: Sequence[Part], head: Mapping[str, object]) -> str:
    block = {
        part.name: [escape_values({"text": line.text, **line.source.as_dict()}) for line in part.lines]
        for part in parts
        if part.lines
    }
    return json.dumps({**head, **block}, ensure_ascii=False, separators=(",", ":")) if block else ""


RENDERERS: dict[Format, Renderer] = {"markdown": render_markdown, "json": render_json}
STALE_RENDERERS: dict[Format, Renderer] = {"markdown": render_stale_markdown, "json": render_stale_json}


def get_renderer(format: Format, *, stale: bool) -> Renderer:
    """Return what renders a block in a format; `stale` for one of an old answer."""
    return (STALE_RENDERERS if stale else RENDERERS)[format]


def count_overhead_tokens(source: LineSource, format: Format, count: Callable[[str], int]) -> tuple[int, int]:
    """Return tokens of a line's tag and of its group's heading, about."""
    if format == "json":
        return count(f",{json.dumps({'text': '', **source.as_dict()}, ensure_ascii=False, separators=(',', ':'))}"), 0
    head = format_heading(source, shorten_session_ids([source.session] if source.session else []))
    return count(f"\n{format_tag(source)}"), count(f"\n{head}") if head else 0
