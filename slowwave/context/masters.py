"""What the rest of a block's budget tells of the sessions that its memories are of: their master summaries.

A summary tells at what a message aims that stands there alone. It takes no place from any: what memories leave is
shared out, up to `context.summary_share` of the budget. A session of which a claim was superseded is left out: its
summary may tell what no longer holds.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import cast

import pyarrow.compute as pc

from slowwave.context.rendering import LineSource, Part
from slowwave.context.stretches import Summarised, split_whole_sentences
from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.schemas.tables import OBSERVATIONS, SESSIONS, SUMMARIES
from slowwave.schemas.vocabulary import Status, SummaryScope
from slowwave.text.pyramid import MASTER

READ = ["scope_id", "title", "text", "first_at", "last_at", "stale"]
MOST = 3
"""Sessions that are told of, those of the most relevant lines first."""


def find_masters(view: View, query: Query, shown: Part, tags: Mapping[str, str]) -> list[Summarised]:
    """Return what the master summaries of the sessions of some lines say that the lines don't, the likeliest first.

    Nothing where the lines are summaries already, or where it is asked for what somebody said or what is about some
    files; nor of a session that goes on after the end of the time that is asked for.
    """
    lines = [line for line in shown.lines if line.source.session and line.source.message]
    if query.is_narrowed or not lines or not view.count(SUMMARIES):
        return []
    best: dict[str, float] = {}
    for line in lines:
        best[str(line.source.session)] = max(best.get(str(line.source.session), 0.0), line.relevance)
    wanted = sorted(best, key=lambda native: -best[native])[:MOST]
    rows = view.read(SESSIONS, ["session_id", "native_id", "title"], pc.field("native_id").isin(wanted)).to_pylist()
    ids = [row["session_id"] for row in rows]
    within = (pc.field("scope") == SummaryScope.SESSION) & (pc.field("tier") == MASTER) & pc.field("scope_id").isin(ids)
    if query.since is not None:
        within &= pc.field("first_at") >= query.since
    if query.until is not None:
        within &= pc.field("last_at") <= query.until
    masters = {row["scope_id"]: row for row in view.read(SUMMARIES, READ, within).to_pylist() if not row["stale"]}
    retired = (pc.field("status") == Status.SUPERSEDED) & pc.field("session_id").isin(ids)
    masters = {key: masters[key] for key in masters.keys() - _read_retired(view, retired)}
    told = {line.text for line in lines}
    found = {
        row["native_id"]: _tell(row, masters[row["session_id"]], told, tags)
        for row in rows
        if row["session_id"] in masters
    }
    return [one for native in wanted if (one := found.get(native)) and one.sentences]


def _read_retired(view: View, where: pc.Expression) -> set[str]:
    """Return the sessions of claims that were superseded."""
    if not view.count(OBSERVATIONS):
        return set()
    return set(view.read(OBSERVATIONS, ["session_id"], where)["session_id"].to_pylist())


def _tell(
    session: Mapping[str, object], master: Mapping[str, object], told: set[str], tags: Mapping[str, str]
) -> Summarised:
    """Return a session's title and the sentences of its summary that stand in no line."""
    native, title = str(session["native_id"]), session["title"] or master["title"]
    sentences = tuple(
        one for one in split_whole_sentences(str(master["text"])) if not any(one.rstrip(".…") in line for line in told)
    )
    at = cast(datetime | None, master["first_at"])
    return Summarised(str(title) if title else None, sentences, LineSource(native, at=at, short=tags.get(native)))
