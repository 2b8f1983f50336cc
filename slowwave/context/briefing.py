"""What a session is called in a heading: as much of its id as tells it from all others of the store."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, cast

import pyarrow.compute as pc

from slowwave.context.build import Context
from slowwave.context.rendering import Format, Line, LineSource, Part, renderer, short_ids
from slowwave.context.tokens import Tokenizer, cached
from slowwave.recall.release.view import View
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, PERSONAL, SESSIONS, SUMMARIES, TOPICS, Table


def session_tags(view: View) -> Mapping[str, str]:
    """Each session's own id -> its tag, which `slowwave show` takes; made once a release (50 ms for 20,000)."""
    return view.once("session tags", lambda: short_ids(view.read(SESSIONS, ["native_id"])["native_id"].to_pylist()))


MASTER = -1
EARLIEST = datetime.min.replace(tzinfo=UTC)
MOST_LINES = 200
"""Lines that are looked at of each kind: the foremost ones."""

Row = dict[str, object]
Kinds = Sequence[Sequence[Line]]
"""What a briefing is made of: facts, topics, sessions."""


def known(view: View) -> Kinds:
    """All lines that a briefing may have, the foremost of each kind first."""
    return [facts(view), topic_tops(view), session_masters(view)]


def as_plain(kinds: Kinds) -> list[list[dict[str, object]]]:
    """The lines as plain values, for the cache."""
    return [[{"text": one.text, **one.source.as_dict(), "short": one.source.short} for one in kind] for kind in kinds]


def from_plain(plain: Sequence[Sequence[Mapping[str, Any]]]) -> Kinds:
    """The lines that `as_plain` wrote down."""
    return [[_from_plain(dict(one)) for one in kind] for kind in plain]


def _from_plain(line: dict[str, Any]) -> Line:
    text, at = str(line.pop("text")), line.pop("at", None)
    return Line(text, LineSource(**line, at=datetime.fromisoformat(at) if at else None))


def briefed(
    kinds: Kinds, budget: int, count: Tokenizer, format: Format = "markdown", *, stale: bool = False
) -> Context:
    """The block, at most `budget` tokens: facts, topics and sessions in turn, as many as fit whole.

    Args:
        kinds: what may stand in it.
        budget: by `count`.
        count: tokens of a text.
        format: how it reads.
        stale: what may stand in it is of the last briefing.
    """
    in_turn = [line for round_ in zip_longest(*kinds) for line in round_ if line is not None]
    render = renderer(format, stale=stale)
    counted = cached(count)

    def size(lines: Sequence[Line]) -> int:
        return counted(render([Part("briefing", tuple(lines))])) if lines else 0

    chosen: list[Line] = []
    for line in in_turn:
        if size(in_order(kinds, [*chosen, line])) <= budget:
            chosen.append(line)
    part = Part("briefing", tuple(in_order(kinds, chosen)))
    parts = (part,) if part.lines else ()
    return Context(render(parts), size(part.lines), parts, stale)


def in_order(kinds: Kinds, chosen: Sequence[Line]) -> list[Line]:
    """The lines chosen: topics, then sessions from the oldest on, then facts nearest to the end."""
    taken = set(map(id, chosen))
    facts_, topics, sessions = ([line for line in kind if id(line) in taken] for kind in kinds)
    return [*topics, *reversed(sessions), *facts_]


def facts(view: View) -> list[Line]:
    """What people said of themselves, as active claims: the surest first, of equals the latest."""
    columns = [
        "observation_id",
        "session_id",
        "summary",
        "category",
        "confidence",
        "observed_at",
        "speaker",
        "message_ids",
    ]
    wanted = (pc.field("status") == "active") & (pc.field("pack") == "personal")
    rows = _rows(view, OBSERVATIONS, columns, wanted)
    rows = [row for row in rows if row["category"] in PERSONAL]
    rows.sort(key=lambda row: str(row["observation_id"]))
    rows.sort(key=lambda row: _moment(row["observed_at"]), reverse=True)
    rows.sort(key=lambda row: -round(cast(float, row["confidence"]), 6))
    rows = rows[:MOST_LINES]
    native = _native(view, [str(row["session_id"]) for row in rows])
    tags = session_tags(view)
    said = view.by_id(MESSAGES, [_first(row) for row in rows], ["message_id", "native_id", "seq"])
    return [
        _line(
            str(row["summary"]),
            LineSource(
                native[str(row["session_id"])],
                str(said[_first(row)]["native_id"]),
                cast(int, said[_first(row)]["seq"]),
                _time(row["observed_at"]),
                str(row["speaker"]) if row["speaker"] else None,
                short=tags.get(native[str(row["session_id"])]),
            ),
        )
        for row in rows
        if str(row["session_id"]) in native and _first(row) in said
    ]


def topic_tops(view: View) -> list[Line]:
    """For each topic its highest summaries that nothing stands above, the largest topics first."""
    columns = ["summary_id", "scope_id", "tier", "seq", "title", "text", "last_at", "member_ids"]
    rows = _rows(view, SUMMARIES, columns, pc.field("scope") == "topic")
    covered = {key for row in rows for key in cast(list[str], row["member_ids"])}
    sizes = {str(row["topic_id"]): cast(int, row["size"]) for row in _rows(view, TOPICS, ["topic_id", "size"])}
    tops = [row for row in rows if row["summary_id"] not in covered]
    tops.sort(key=lambda row: (-sizes.get(str(row["scope_id"]), 0), str(row["scope_id"]), -cast(int, row["tier"])))
    return [
        _line(str(row["text"]), LineSource(at=_time(row["last_at"]), topic=str(row["title"] or row["scope_id"])))
        for row in tops[:MOST_LINES]
    ]


def session_masters(view: View) -> list[Line]:
    """Sessions' master summaries, the latest first."""
    wanted = (pc.field("scope") == "session") & (pc.field("tier") == MASTER)
    rows = _rows(view, SUMMARIES, ["summary_id", "scope_id", "text", "last_at"], wanted)
    rows.sort(key=lambda row: str(row["summary_id"]))
    rows.sort(key=lambda row: _moment(row["last_at"]), reverse=True)
    native = _native(view, [str(row["scope_id"]) for row in rows[:MOST_LINES]])
    tags = session_tags(view)
    return [
        _line(str(row["text"]), LineSource(session, at=_time(row["last_at"]), short=tags.get(session)))
        for row in rows[:MOST_LINES]
        if row["text"] and (session := native.get(str(row["scope_id"])))
    ]


def _line(text: str, source: LineSource) -> Line:
    return Line(" ".join(text.split()), source)


def _first(row: Row) -> str:
    """The first message a claim stands on."""
    return (cast(list[str], row["message_ids"]) or [""])[0]


def _time(at: object) -> datetime | None:
    return at if isinstance(at, datetime) else None


def _moment(at: object) -> datetime:
    return at if isinstance(at, datetime) else EARLIEST


def _native(view: View, sessions: Sequence[str]) -> dict[str, str]:
    """The transcripts' own ids of the sessions."""
    rows = view.by_id(SESSIONS, sorted(set(sessions)), ["session_id", "native_id"])
    return {key: str(row["native_id"]) for key, row in rows.items()}


def _rows(view: View, table: Table, columns: list[str], where: pc.Expression | None = None) -> list[Row]:
    """Rows of a table; none of one that the release lacks."""
    rows: list[Row] = view.read(table, columns, where).to_pylist() if view.count(table) else []
    return rows
