"""Rendering of a context block as Markdown or JSON, every line with its source.

Markdown names a session and its day, and its project if the block may hold several, in a heading over the lines that
follow each other, and who said each line: a speaker by name, else "person" or "model". Behind that stands where the
words come from, unless they are the person's or the own agent's ("person, web or pasted text: …"):

    # Memories
    2 Feb 2026 · ferry-1
    person: Bookings go into MySQL.

A block whose memories may be about something else says so: with `NOT_SURE` under their title in Markdown, with
`"confident": false` in JSON.

A session id of more than a dozen characters is cut to its first eight, or to as many more as tell it from the store's
other sessions, so that `slowwave show` finds it; the parts of the block have all ids in full.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Literal

from slowwave.recall.hits import NOT_SURE, spell_time
from slowwave.recall.release.view import shorten_session_ids
from slowwave.schemas.ids import INLINE_ID
from slowwave.text.fence import escape_line, escape_text, escape_values
from slowwave.text.times.days import convert_to_local, format_clock, format_day
from slowwave.text.times.relative_days import add_days

Format = Literal["markdown", "json"]
ToldPart = tuple[str, str]
"""Words of a line, and the id of the claim that says them."""
Speaker = Literal["person", "model"]
"""The kind of speaker."""
Name = Literal[
    "web", "memories", "conversation", "briefing", "open", "sessions", "topics"
]
TITLES: dict[Name, str] = {
    "web": "# Web",
    "memories": "# Memories",
    "conversation": "# Conversation",
    "briefing": "# Holds now",
    "open": "# Open",
    "sessions": "# Last sessions",
    "topics": "# Topics",
}


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where a line comes from: a message of a session, a turn of this conversation, or a page."""

    session: str | None = None
    message: str | None = None
    """The transcript's own id; in this conversation the turn's number, from 1, or those that are summed up."""
    seq: int | None = None
    """The message's number in its session."""
    at: datetime | None = None
    speaker: str | None = None
    by: Speaker | None = None
    url: str | None = None
    topic: str | None = None
    """A topic's name, for a summary of it."""
    began: datetime | None = None
    """The time of the first message, for a summary of several."""
    trust: str | None = None
    """A Trust: where its words come from; None of the person's and the own agent's."""
    project: str | None = None
    """The shown name of its project, in a block that may hold several."""
    short: str | None = None
    """The session's id as a heading has it, where the store's sessions are known; else the block's tell it apart."""

    @property
    def group(self) -> tuple[str | None, str | None, date | None]:
        """Lines of which it is the same stand under one heading: those of one session, or topic, and day."""
        day = convert_to_local(self.at).date() if self.at else None
        return self.session, self.topic, day

    @property
    def said_at(self) -> datetime | None:
        """The time that "yesterday" in the line counts from; None for a summary of several days."""
        if self.at is None or self.message is not None:
            return self.at
        if self.began is None:
            return None
        first = format_day(self.began)
        last = format_day(self.at)
        return self.at if first == last else None

    def as_dict(self) -> dict[str, str | int]:
        """Return the known fields, as plain values."""
        fields = (
            "session",
            "message",
            "seq",
            "speaker",
            "by",
            "url",
            "topic",
            "trust",
            "project",
        )
        values = {
            name: value for name in fields if (value := getattr(self, name)) is not None
        }
        return {**values, **({"at": spell_time(self.at)} if self.at else {})}


@dataclass(frozen=True, slots=True)
class LineNote:
    """What is later known of some pieces of a line."""

    text: str
    """In brackets."""
    about: frozenset[str] = frozenset()
    """The pieces; empty if it is about all of them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a block, or one that may stand in it (`slowwave/context/packing.py`)."""

    text: str
    source: LineSource
    relevance: float = 1.0
    own_words: tuple[str, ...] = ()
    """The parts of the text that somebody said, if it has more than those."""
    pieces: tuple[str, ...] = ()
    """The sentences that it may be cut to, an ellipsis where something is left out."""
    notes: tuple[LineNote, ...] = ()
    """Notes on later changes of it; empty if it holds."""
    score: float | None = None
    """Recall's, of a hit."""
    gist: str = ""
    """The whole message in a sentence, if gists are made."""
    rule: str = ""
    """The category of a standing rule or preference that touches the question; empty for other lines."""
    clock: bool = False
    """Whether the time of day is shown, since the lines stand in order of time."""
    parts: tuple[ToldPart, ...] = ()
    """What each claim says of it, in its order, if it joins several."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the block; lines in the order they stand in."""

    name: Name
    lines: tuple[Line, ...]
    left_out: str = ""
    """The number of further lines, in words; empty if there are none, or the part does not show it."""


def render_markdown(parts: Sequence[Part], unsure: bool = False) -> str:
    """Return the parts with a title each, without empty ones. If `unsure`, the memories say so under theirs."""
    names = shorten_session_ids(
        {
            line.source.session
            for part in parts
            for line in part.lines
            if line.source.session
        }
    )
    rendered_parts = []
    for part in parts:
        if part.lines or part.left_out:
            caveat_lines = [NOT_SURE] if unsure and part.name == "memories" else []
            rendered: list[str] = []
            for _, lines in groupby(part.lines, key=lambda line: line.source.group):
                group = list(lines)
                head = format_heading(group[0].source, names)
                rendered += [head] if head else []
                rendered += [format_line(line) for line in group]
            rendered += [f"- {part.left_out}"] if part.left_out else []
            rendered_parts += [TITLES[part.name], *caveat_lines, *rendered]
    return "\n".join(rendered_parts)


def format_heading(source: LineSource, names: Mapping[str, str]) -> str:
    """Return the heading of one session's or topic's lines; empty for a line that says itself where it is from."""
    session = source.session and (source.short or names[source.session])
    origin = f"topic {source.topic}" if source.topic is not None else session
    origin = escape_line(origin) if origin else origin
    if not origin:
        return ""
    day = format_day(source.at) if source.at else None
    parts = (day, escape_line(source.project or ""), origin)
    return " · ".join(filter(None, parts))


def format_line(line: Line) -> str:
    """Return a line as it is shown: the time of day and the rule's mark if it has them, who said it, the text."""
    at = line.source.at
    clock = f"{format_clock(at)} " if line.clock and at else ""
    rule = f"[{line.rule}] " if line.rule else ""
    return f"{clock}{rule}{format_tag(line.source)}{escape_text(date_line(line))}"


def date_line(line: Line) -> str:
    """Return a line's text as it is shown: with its date beside "yesterday" and the like, and with its claims."""
    return add_ids(line.text, line.parts, line.source.said_at)


def add_ids(
    text: str,
    parts: Sequence[ToldPart],
    said_at: datetime | None,
) -> str:
    """Return a text with the dates of its days, and in brackets behind each part that it has the id of its claim."""
    shown = ""
    end = 0
    for words, claim in parts:
        start = text.find(words, end)
        if start >= 0:
            stop = start + len(words)
            shown += f"{add_days(text[end:stop], said_at)} [{claim[:INLINE_ID]}]"
            end = stop
    return shown + add_days(text[end:], said_at)


def format_tag(source: LineSource) -> str:
    """Return the opening of a line: who said it, or where it stands."""
    if source.url is not None:
        return f"- ({escape_line(source.url)}) "
    names = (source.speaker or source.by, source.trust)
    who = escape_line(", ".join(filter(None, names)))
    turn = (
        f"{escape_line(source.message)}. "
        if source.session is None and source.message is not None
        else ""
    )
    return f"{turn}{who}: " if who else turn or "- "


def render_json(parts: Sequence[Part], unsure: bool = False) -> str:
    """Return one object: `"confident": false` if `unsure`, then each part's lines with their sources, if it has any.

    How much more there is stands at the end.
    """
    block = {
        part.name: [
            escape_values(
                {
                    "text": date_line(line),
                    **line.source.as_dict(),
                    **({"rule": line.rule} if line.rule else {}),
                }
            )
            for line in part.lines
        ]
        for part in parts
        if part.lines
    }
    left_out = {part.name: part.left_out for part in parts if part.left_out}
    head = {"confident": False} if unsure else {}
    tail = {"left_out": left_out} if left_out else {}
    return (
        json.dumps({**head, **block, **tail}, ensure_ascii=False, separators=(",", ":"))
        if block
        else ""
    )


FORMATS: dict[Format, Callable[[Sequence[Part], bool], str]] = {
    "markdown": render_markdown,
    "json": render_json,
}


@dataclass(frozen=True, slots=True)
class Measure:
    """The cost of a block in tokens, in one format: exact for whole parts, approximate line by line."""

    count: Callable[[str], int]
    format: Format = "markdown"
    unsure: bool = False
    """Whether the memories may be about something else, which the block then says."""

    def render(self, parts: Sequence[Part]) -> str:
        """Return the parts as text."""
        return FORMATS[self.format](parts, self.unsure)

    def count_parts(self, parts: Sequence[Part]) -> int:
        """Return tokens of the parts as one block."""
        text = self.render(parts)
        return self.count(text) if text else 0

    def count_part(
        self,
        name: Name,
        lines: Sequence[Line],
    ) -> int:
        """Return tokens of lines as the only part of a block."""
        return self.count_parts([Part(name, tuple(lines))])

    def count_line(self, line: Line) -> int:
        """Return tokens of a line, with who says it."""
        source = line.source
        if self.format == "json":
            empty = json.dumps(
                {"text": "", **source.as_dict()},
                ensure_ascii=False,
                separators=(",", ":"),
            )
            return self.count(date_line(line)) + self.count(f",{empty}")
        mark = f"\n[{line.rule}] " if line.rule else "\n"
        return self.count(date_line(line)) + self.count(f"{mark}{format_tag(source)}")

    def count_heading(self, source: LineSource) -> int:
        """Return tokens of the heading over a group of lines."""
        names = shorten_session_ids([source.session] if source.session else [])
        head = "" if self.format == "json" else format_heading(source, names)
        return self.count(f"\n{head}") if head else 0
