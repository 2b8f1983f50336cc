"""The data of the pages, as plain values."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Unpack

import pyarrow.compute as pc

from slowwave.flows.ledgers import LEDGERS, MergeState
from slowwave.flows.status import collect_status
from slowwave.recall.hits import STOPPED, Hit, Hits
from slowwave.recall.live import find_pending_corrections
from slowwave.recall.views.browse import list_claims, name_sessions, name_topics
from slowwave.recall.views.compare import read_decisions
from slowwave.recall.views.usage import find_uses
from slowwave.recall.views.voices import AGENT, PERSON, find_voices
from slowwave.schemas.errors import NoSuchId, UsageError
from slowwave.schemas.filters import Filters, spell_out_filters
from slowwave.schemas.tables import (
    CLAIMS,
    GISTS,
    MERGES,
    MESSAGES,
    SESSIONS,
    SUMMARIES,
    TRUST,
)
from slowwave.schemas.vocabulary import LedgerKind, Origin, Role, Status
from slowwave.store.logs import Rating, read
from slowwave.store.store import Store
from slowwave.text.cells import format_cell, shorten_text
from slowwave.text.times.days import format_date, localise
from slowwave.text.words import TERM, extract_content_words, stem
from slowwave.ui.page import (
    ROWS,
    After,
    Data,
    Explorer,
    Id,
    Page,
    date_text,
    explain_hit,
    find_row,
    read_rows,
)

PROJECTS = 12
"""Projects that Tonight leads to, those with the latest sessions."""
UNSURE = 5
"""Hits shown if none is surely about the query."""
HIT_CHARS = 500
"""Characters shown of a hit in a list."""
SHOWN_CHARS = 1_500
"""Characters shown of a message in a list; the message's page has the rest."""
MESSAGE_CHARS = 50_000
"""Characters of a message shown at a time on its own page."""
BESIDE = 2
"""Messages shown before and after one that a claim cites."""
CLAIM = [
    "claim_id",
    "session_id",
    "summary",
    "category",
    "quote",
    "message_ids",
    "speaker",
    "observed_at",
]
CLAIM += ["status", "workspace", "topic_id", "utc_offset", TRUST]
SUMMARY = ["summary_id", "tier", "seq", "title", "text"]
MESSAGE = [
    "message_id",
    "session_id",
    "seq",
    "role",
    "origin",
    "speaker",
    "text",
    "ts",
    "utc_offset",
    "blocks",
]
LEDGER_LINKS = {
    "excluded": "/{kind}/{row_id}",
    "merges": "/claim/{from_id}",
    "changes": "/claim/{from_id}",
    "runs": "/night/{run_id}",
    "releases": "/compare?new={name}",
}
"""The page linked from a row of each ledger."""
WITH_OLD = ("merges", "notes", "quarantine")
"""Ledgers that also have rows which were undone, resolved or have lapsed."""
LISTED = [name for name in LEDGERS if name != "usage"]
"""Ledgers that have a page. `usage` has none: it reads the sentences of every claim each time."""
FACETS: Sequence[tuple[str, Callable[[Hit], Iterable[str]]]] = (
    ("workspace", lambda hit: filter(None, (hit.workspace,))),
    ("speaker", lambda hit: filter(None, (hit.speaker,))),
    ("category", lambda hit: filter(None, (hit.category,))),
    ("topic", lambda hit: filter(None, (hit.topic,))),
    ("status", lambda hit: (hit.status,)),
    (
        "date",
        lambda hit: (format_date(hit.observed_at),) if hit.observed_at else (),
    ),
    ("files", lambda hit: hit.files),
)
"""The facets that hits are counted by, and a hit's values of each."""


@spell_out_filters(lambda name, about: Annotated[str, about])
def search(
    at: Explorer,
    q: Annotated[
        str,
        "What to look for, in plain words; without it the newest claims are listed.",
    ] = "",
    topic: Annotated[str, "Only claims of the topic of this name."] = "",
    status: Annotated[
        str, "Only what is active, superseded or not yet distilled."
    ] = "",
    everything: Annotated[str, "Anything: also hits of other matters."] = "",
    after: After = 0,
    **filters: Unpack[Filters],
) -> Data:
    """Return the hits of a query with their facets; without a query, the newest claims.

    The hits end where those of `recall` do, unless everything is asked for.
    """
    given: Data = {name: value for name, value in filters.items() if value}
    facets = dict[str, list[tuple[str, int]]]()
    end = after + ROWS // 2
    if q:
        hits = _recall_page(at, q, after, given, everything)
        passed = _select_hits(hits, topic, status, everything)
        facets = _count_facets(passed, at.view.projects)
        rows = [_describe_hit(hits, hit) for hit in passed[after : end + 1]]
    else:
        hits = Hits()
        rows = _list_newest(
            at=at,
            topic=topic,
            status=status,
            given=given,
            limit=end - after + 1,
            after=after,
        )
    _mark_hits(at, rows, q)
    return {
        "asked": {
            "q": q,
            "topic": topic,
            "status": status,
            "everything": everything,
            **given,
        },
        "facets": facets,
        "hits": rows[: ROWS // 2],
        "caveat": hits.caveat,
        "stopped": hits.stopped,
        "reason": None if rows else hits.reason or "no claim passes these conditions",
        "warnings": list(hits.warnings),
        "next": end if len(rows) > ROWS // 2 else None,
        "release": at.view.release.name,
    }


def _recall_page(
    at: Explorer, query: str, after: int, given: Data, everything: str
) -> Hits:
    """Return the hits of a query: one page more than the one shown, up to 250."""
    most = max(ROWS, min(after + ROWS, 250))
    return at.memory.recall(query, most, everything=bool(everything), **given)


def _mark_hits(at: Explorer, rows: Sequence[Data], query: str) -> None:
    """Add to hits who said each, and its text with the words of the query marked."""
    voices = find_voices(at.view, [row["id"] for row in rows])
    for row in rows:
        row["by"] = voices.get(row["id"])
        row["segments"] = mark_words(
            shorten_text(date_text(row["text"], row), HIT_CHARS), query
        )


def mark_words(text: str, query: str) -> list[tuple[str, bool]]:
    """Split a text into pieces; return each with True if it is a word of the query, in any form."""
    stems = set(map(stem, extract_content_words(query)))
    pieces: list[tuple[str, bool]] = []
    at = 0
    for word in TERM.finditer(text) if stems else ():
        if stem(word[0].casefold()) in stems:
            pieces += [(text[at : word.start()], False), (word[0], True)]
            at = word.end()
    return [piece for piece in [*pieces, (text[at:], False)] if piece[0]]


def _count_facets(
    hits: Sequence[Hit],
    projects: Mapping[str, str],
) -> dict[str, list[tuple[str, int]]]:
    """Return the most frequent values of each facet, with their counts; a project's folders are one value."""
    facets = dict[str, list[tuple[str, int]]]()
    for name, values in FACETS:
        found: Iterable[str] = chain.from_iterable(map(values, hits))
        if name == "workspace":
            found = (projects.get(value, value) for value in found)
        facets[name] = Counter(found).most_common(8)
    return facets


def _describe_hit(hits: Hits, hit: Hit) -> Data:
    """Return a hit as data, with its claim and its trace."""
    row: Data = hit.shorten(SHOWN_CHARS).as_dict()
    return row | {
        "claim": hit.get_claim_in_other_words(),
        "why": explain_hit(hits, hit),
    }


def _select_hits(hits: Hits, topic: str, status: str, everything: str) -> list[Hit]:
    """Return the hits of a topic and status, if these are given.

    Unless everything is asked for, few are returned if none is surely about the query, and `stopped` says so.
    """
    passed = [
        hit for hit in hits if topic in ("", hit.topic) and status in ("", hit.status)
    ]
    few = passed[:UNSURE] if hits.caveat and not everything else passed
    hits.stopped = STOPPED if len(few) < len(passed) else hits.stopped
    return few


def _list_newest(
    at: Explorer,
    topic: str,
    status: str,
    given: Data,
    limit: int,
    after: int = 0,
) -> list[Data]:
    """Return the newest claims, as hits.

    Raises:
        UsageError: a condition of `given` needs a query.
    """
    if alone := sorted(
        given.keys() - {"workspace", "category", "since", "min_confidence"}
    ):
        raise UsageError(f"{', '.join(alone)}: only together with words to look for")
    old = status == Status.SUPERSEDED
    claims = list_claims(
        at.view, limit, after=after, topic=topic or None, superseded=old, **given
    )
    return [
        claim.as_dict() | {"kind": "claim", "text": claim.summary, "claim": None}
        for claim in claims
    ]


def _find_topic(at: Explorer, topic_id: str | None) -> Data | None:
    """Return a topic's id and name; None if there is no such topic."""
    name = name_topics(at.view, [topic_id]).get(topic_id) if topic_id else None
    return {"topic_id": topic_id, "name": name} if name is not None else None


def _list_sides(changes: Sequence[Data]) -> list[Data]:
    """Return the claims that changes name."""
    return [one[name] for one in changes for name in ("earlier", "later") if one[name]]


def show_claim(at: Explorer, id: Id) -> Data:
    """Return a claim with its transcript, repeats, changes, relations, summaries, uses and ratings."""
    lineage = find_row(at, id, "claim")
    key = lineage.node.id
    (claim,) = read_rows(
        at=at, table=CLAIMS, columns=_OF_CLAIM, where=pc.field("claim_id") == key
    )
    texts = [claim["summary"], claim["quote"]]
    repeats = _list_repeats(at, claim)[:ROWS]
    changes = _list_changes(at, key)[:ROWS]
    _add_voices(at, [claim, *repeats, *_list_sides(changes)])
    store = Store.open(at.settings.store, at.settings.space)
    return {
        "claim": claim | _find_evidence(at, claim),
        "checks": [check.as_dict() for check in at.view.code_checks.get(key, ())],
        "left_out": read_decisions(store).get(key),
        "corrected": _find_pending_correction(at, key),
        "topic": _find_topic(at, claim["topic_id"]),
        "transcript": _build_transcript(at, claim),
        "repeats": repeats,
        "changes": changes,
        "related": [node.as_dict() for node in lineage.related][:ROWS],
        "above": [node.as_dict() for node in lineage.above if node.kind == "summary"],
        "served": find_uses(at.view.dir, key, texts)[-ROWS:][::-1],
        "ratings": _list_ratings(at, key),
    }


def _list_ratings(at: Explorer, key: str) -> list[Data]:
    """Return the ratings of a row, the last one first."""
    ratings = [rating for rating in read(at.view.dir, Rating) if rating.id == key]
    return [rating._asdict() for rating in reversed(ratings)]


def _find_pending_correction(at: Explorer, key: str) -> Data | None:
    """Return the text and the note of a claim's correction that no night has read yet; None if there is none."""
    found = find_pending_corrections(at.view, at.view.dir).get(key)
    return {"text": found.text, "note": found.sources[0].session} if found else None


_OF_CLAIM = [name for name in CLAIMS.schema.names if name not in ("vector", "step_key")]


def _add_voices(at: Explorer, claims: Sequence[Data]) -> None:
    """Add to claims who said each: `by` is a person or an agent."""
    voices = find_voices(at.view, [row["claim_id"] for row in claims])
    for row in claims:
        row["by"] = voices.get(row["claim_id"], "")


def _list_repeats(at: Explorer, claim: Data) -> list[Data]:
    """Return the other claims with the same canonical claim, in order of time."""
    key = claim["claim_id"]
    head = claim["canonical_id"] or key
    same = (pc.field("canonical_id") == head) | (pc.field("claim_id") == head)
    repeats = [
        row
        for row in read_rows(at=at, table=CLAIMS, columns=CLAIM, where=same)
        if row["claim_id"] != key
    ]
    return sorted(repeats, key=lambda row: (str(row["observed_at"]), row["claim_id"]))


def _build_transcript(at: Explorer, claim: Data) -> list[Data]:
    """Return the messages that a claim cites, with `BESIDE` messages with text before and after each."""
    inside = pc.field("session_id") == claim["session_id"]
    cited = read_rows(
        at=at,
        table=MESSAGES,
        columns=["seq"],
        where=inside & pc.field("message_id").isin(claim["message_ids"]),
    )
    near = {
        seq
        for row in cited[:3]
        for seq in range(row["seq"] - 2 * BESIDE, row["seq"] + 2 * BESIDE + 1)
    }
    rows = read_rows(
        at=at,
        table=MESSAGES,
        columns=MESSAGE,
        where=inside & pc.field("seq").isin(sorted(near)),
    )
    rows = [
        row for row in sorted(rows, key=lambda row: row["seq"]) if row["text"].strip()
    ]
    places = [
        n for n, row in enumerate(rows) if row["message_id"] in claim["message_ids"]
    ]
    beside = [
        row
        for n, row in enumerate(rows)
        if any(abs(n - hit) <= BESIDE for hit in places)
    ]
    return [
        _build_turn(row, [claim] if row["message_id"] in claim["message_ids"] else [])
        for row in beside
    ]


def _find_evidence(
    at: Explorer,
    claim: Data,
) -> Data:
    """Return the confidence of a claim, and the sessions that bear it out."""
    key = claim["claim_id"]
    affirming = at.view.get_affirming(key)
    return {
        "confidence": at.view.look_up_confidences([key]).get(key),
        "evidence_sessions": sorted(affirming.union(claim["evidence_sessions"])),
    }


def _list_changes(at: Explorer, key: str) -> list[Data]:
    """Return the merges, changes and possible changes of a claim, each with its earlier and later claim."""
    ends = (pc.field("from_id") == key) | (pc.field("into_id") == key)
    columns = [
        "merge_id",
        "kind",
        "from_id",
        "into_id",
        "rule",
        "scores",
        "reason",
        "undone",
    ]
    decisions = [
        row
        for row in read_rows(at=at, table=MERGES, columns=columns, where=ends)
        if row["kind"] != LedgerKind.JUDGEMENT
    ]
    ids = [row[name] for row in decisions for name in ("from_id", "into_id")]
    sides = at.view.read_by_id(CLAIMS, ids, CLAIM)
    for row in decisions:
        row["scores"] = dict(row["scores"] or [])
        row["earlier"] = sides.get(row.pop("from_id"))
        row["later"] = sides.get(row.pop("into_id"))
    return sorted(
        decisions, key=lambda row: (row["undone"], row["kind"], row["merge_id"])
    )


def show_session(at: Explorer, id: Id, after: After = 0) -> Data:
    """Return a session: its messages with tool calls, gists and claims, and its summaries."""
    node = find_row(at, id, "session").node
    inside = pc.field("session_id") == node.id
    (session,) = read_rows(
        at=at,
        table=SESSIONS,
        columns=[name for name in SESSIONS.schema.names if name != "head_hash"],
        where=inside,
    )
    taken_back = set(session.pop("inactive"))
    claims = read_rows(
        at=at,
        table=CLAIMS,
        columns=CLAIM,
        where=inside & pc.field("status").isin([Status.ACTIVE, Status.SUPERSEDED]),
    )
    gists = {
        row["message_id"]: row["summary"]
        for row in read_rows(
            at=at, table=GISTS, columns=["message_id", "summary"], where=inside
        )
    }
    turns = _build_turns(at=at, inside=inside, claims=claims, after=after)
    return {
        "session": session,
        "name": name_sessions(at.view, [node.id])[node.id],
        "left_out": read_decisions(
            Store.open(at.settings.store, at.settings.space)
        ).get(node.id),
        "turns": [
            {
                **turn,
                "gist": gists.get(turn["id"]),
                "taken_back": turn["id"] in taken_back,
            }
            for turn in turns
        ],
        "claims": len(claims),
        "summaries": _list_summaries(at, node.id),
        "previous": max(0, after - ROWS) if after else None,
        "next": after + ROWS if after + ROWS < session["messages"] else None,
    }


def _list_summaries(at: Explorer, session: str) -> list[Data]:
    """Return the summaries of a session, that of the whole first, then the highest."""
    rows = read_rows(
        at=at, table=SUMMARIES, columns=SUMMARY, where=pc.field("scope_id") == session
    )
    rows.sort(key=lambda row: (row["tier"] >= 0, -row["tier"], row["seq"]))
    return rows[:ROWS]


def _build_turns(
    at: Explorer,
    inside: pc.Expression,
    claims: Iterable[Data],
    after: int,
) -> list[Data]:
    """Return a page of a session's messages, each with its claims."""
    on_page = (pc.field("seq") >= after) & (pc.field("seq") < after + ROWS)
    rows = sorted(
        read_rows(at=at, table=MESSAGES, columns=MESSAGE, where=inside & on_page),
        key=lambda row: row["seq"],
    )
    by_message: dict[str, list[Data]] = {}
    for claim in claims:
        for message in claim["message_ids"]:
            by_message.setdefault(message, []).append(claim)
    return [_build_turn(row, by_message.get(row["message_id"], [])) for row in rows]


def show_message(at: Explorer, id: Id, after: After = 0) -> Data:
    """Return one message, whole, with its claims."""
    node = find_row(at, id, "message").node
    (row,) = read_rows(
        at=at, table=MESSAGES, columns=MESSAGE, where=pc.field("message_id") == node.id
    )
    inside = pc.field("session_id") == row["session_id"]
    claims = [
        claim
        for claim in read_rows(at=at, table=CLAIMS, columns=CLAIM, where=inside)
        if node.id in claim["message_ids"]
    ]
    _add_voices(at, claims)
    turn = _build_turn(row=row, claims=claims, start=after, chars=MESSAGE_CHARS)
    return {
        "turn": turn,
        "claims": claims[:ROWS],
        "page": row["seq"] // ROWS * ROWS,
        "previous": max(0, after - MESSAGE_CHARS) if after else None,
        "next": after + MESSAGE_CHARS
        if after + MESSAGE_CHARS < turn["chars"]
        else None,
    }


def show_run_page(
    at: Explorer, run: Annotated[str, "A run's id, or its first characters."] = ""
) -> Data:
    """Return the results of a run (default: the last one): claims learnt, changed and left out, its cost, and the runs.

    Without a release yet, the data say so.
    """
    from slowwave.flows.run_page import describe_run

    sessions = at.view.read(SESSIONS, ["workspace", "ended_at"]).to_pylist()
    sessions.sort(key=lambda row: str(row["ended_at"] or ""), reverse=True)
    names = [row["workspace"] for row in sessions if row["workspace"]]
    projects = dict.fromkeys(at.view.projects.get(name, name) for name in names)
    return {
        **describe_run(at.settings, run, at.view),
        "projects": [*projects][:PROJECTS],
    }


def show_coverage(at: Explorer) -> Data:
    """Return the status: coverage, quarantine, the last night and the next one."""
    facts = {
        row.heading: {"line": row.text, "value": row.value}
        for row in collect_status(at.settings)
    }
    newest = _list_newest(at=at, topic="", status="", given={}, limit=8)
    voices = find_voices(at.view, [row["id"] for row in newest])
    newest = [row | {"by": voices.get(row["id"], "")} for row in newest]
    return {
        "status": facts,
        "ledgers": LISTED,
        "newest": newest,
    }


def show_ledger(
    at: Explorer,
    name: Annotated[str, f"One of {', '.join(LISTED)}."],
    old: Annotated[
        str, "Anything: also what was taken back, mended or has lapsed."
    ] = "",
    after: After = 0,
) -> Data:
    """Return a ledger, as `slowwave inspect` lists it: releases, runs, quarantine, changes, notes and more."""
    if name not in LISTED:
        raise NoSuchId(f"no ledger has the id {name!r}, only {', '.join(LISTED)}")
    listing = LEDGERS[name](at.settings, bool(old))
    end = after + ROWS
    rows = [
        {key: value for key, value in row.items() if key != "report"}
        for row in listing.rows[after:end]
    ]
    link = LEDGER_LINKS.get(name)
    return {
        "name": name,
        "old": bool(old) if name in WITH_OLD else None,
        "headings": list(listing.columns),
        "cells": [
            [format_cell(value) for value in row.values()]
            for row in listing.table[after:end]
        ],
        "rows": rows,
        "links": [link.format(**row) if link else None for row in rows],
        "actions": [_list_actions(name, row) for row in rows],
        "notes": list(listing.notes),
        "count": len(listing.rows),
        "next": end if len(listing.rows) > end else None,
    }


def _list_actions(ledger: str, row: Data) -> list[tuple[str, str, str]]:
    """Return the possible actions on a row of a ledger: each with its button's text and the row's id."""
    match ledger:
        case "excluded":
            return [("include", "Include it again", row["row_id"])]
        case "notes":
            may = {
                "confirmed": ("include", "Confirm"),
                "rejected": ("exclude", "Reject"),
            }
            return [
                (*act, row["id"])
                for verdict, act in may.items()
                if verdict != row["verdict"]
            ]
        case "merges" | "changes" if row["undone"]:
            return [("include", "Include it again", row["merge_id"])]
        case "merges" | "changes":
            return (
                [("exclude", "Undo", row["merge_id"])]
                if row["state"] == MergeState.IN_FORCE
                else []
            )
    return []


def _build_turn(
    row: Data,
    claims: Sequence[Data],
    start: int = 0,
    chars: int = SHOWN_CHARS,
) -> Data:
    """Return a message as data: `chars` of its text from `start`, its claims' quotes marked, and its tool blocks."""
    text = row["text"]
    tools = [
        {
            "type": block["type"],
            "name": block["name"],
            "text": (block["text"] or "")[:chars],
            "chars": len(block["text"] or ""),
        }
        for block in row["blocks"]
        if block["type"] != "text"
    ]
    return {
        "id": row["message_id"],
        "session_id": row["session_id"],
        "seq": row["seq"],
        "speaker": row["speaker"],
        "by": _name_voice(row),
        "role": row["role"],
        "at": localise(row["ts"], row["utc_offset"]),
        "segments": mark_quotes(text[start : start + chars], claims),
        "chars": len(text),
        "cut": len(text) > start + chars,
        "tools": tools[:ROWS],
    }


def _name_voice(row: Data) -> str:
    """Return the voice of a message: a person's, an agent's, or a tool's output."""
    if row["origin"] == Origin.HUMAN:
        return PERSON
    return str(row["role"]) if row["role"] == Role.TOOL else AGENT


def mark_quotes(text: str, claims: Iterable[Data]) -> list[tuple[str, str | None]]:
    """Split a text at the quotes of claims; return each piece with the id of the claim that quotes it, or None."""
    places: list[tuple[int, int, str]] = []
    for claim in claims:
        words = r"\s+".join(map(re.escape, claim["quote"].split()))
        if words and (match := re.search(words, text)):
            places.append((match.start(), match.end(), claim["claim_id"]))
    pieces: list[tuple[str, str | None]] = []
    at = 0
    for start, end, key in sorted(places):
        if start >= at:
            pieces += [(text[at:start], None), (text[start:end], key)]
            at = end
    return [(piece, key) for piece, key in [*pieces, (text[at:], None)] if piece]


PAGES = (
    Page("/", show_run_page, "run_page.html"),
    Page("/night/{run}", show_run_page, "run_page.html"),
    Page("/search", search, "search.html"),
    Page("/claim/{id}", show_claim, "claim.html"),
    Page("/message/{id:path}", show_message, "message.html"),
    Page("/session/{id}", show_session, "session.html"),
    Page("/coverage", show_coverage, "coverage.html"),
    Page("/ledger/{name}", show_ledger, "ledger.html"),
)
