"""The pages' data: what each address shows, as plain values."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, Unpack

import pyarrow.compute as pc

from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.status import collect_status
from slowwave.recall.hits import Hit, Hits
from slowwave.recall.views.browse import list_claims
from slowwave.recall.views.compare import read_decisions
from slowwave.recall.views.usage import find_uses
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import Filters, spell_out_filters
from slowwave.schemas.tables import GISTS, MERGES, MESSAGES, OBSERVATIONS, SESSIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import LedgerKind, Status, name_speaker
from slowwave.store.journal import Rating, read
from slowwave.store.store import Store
from slowwave.text.fence import format_cell
from slowwave.ui.page import ROWS, After, Data, Explorer, Id, Page, explain_hit, find_row, read_rows

SHOWN_CHARS = 1_500
"""Characters of a message among others; its own page has the rest."""
MESSAGE_CHARS = 50_000
"""Characters of a message on its own page, at once."""
BESIDE = 2
"""Messages before and after one that a claim stands on."""
CLAIM = ["observation_id", "session_id", "summary", "category", "quote", "message_ids", "speaker", "observed_at"]
CLAIM += ["status", "workspace", "topic_id"]
SUMMARY = ["summary_id", "tier", "seq", "title", "text"]
MESSAGE = ["message_id", "session_id", "seq", "role", "origin", "speaker", "text", "ts", "blocks"]
LEDGER_LINKS = {
    "excluded": "/{kind}/{row_id}",
    "merges": "/claim/{loser_id}",
    "changes": "/claim/{loser_id}",
    "runs": "/night/{run_id}",
    "releases": "/compare?new={name}",
}
"""By ledger, the page that a row leads to."""
WITH_OLD = ("merges", "notes", "quarantine")
"""Ledgers that also have rows which were taken back, mended or have lapsed."""
LISTED = [name for name in LEDGERS if name != "usage"]
"""Ledgers that have a page: that of use reads every claim's sentences anew."""
FACETS: Sequence[tuple[str, Callable[[Hit], Iterable[str]]]] = (
    ("workspace", lambda hit: filter(None, (hit.workspace,))),
    ("speaker", lambda hit: filter(None, (hit.speaker,))),
    ("category", lambda hit: filter(None, (hit.category,))),
    ("topic", lambda hit: filter(None, (hit.topic,))),
    ("status", lambda hit: (hit.status,)),
    ("date", lambda hit: (hit.observed_at.date().isoformat(),) if hit.observed_at else ()),
    ("files", lambda hit: hit.files),
)
"""What hits are counted by, and what each has of it."""
Row = dict[str, Any]


@spell_out_filters(lambda name, about: Annotated[str, about])
def search(
    at: Explorer,
    q: Annotated[str, "What to look for, in plain words; without it the newest claims are listed."] = "",
    topic: Annotated[str, "Only claims of the topic of this name."] = "",
    status: Annotated[str, "Only what is active, superseded or not yet distilled."] = "",
    after: After = 0,
    **filters: Unpack[Filters],
) -> Data:
    """Return what recall does, with counts to narrow it by; or, without a query, the newest claims."""
    given: Data = {name: value for name, value in filters.items() if value}
    conditions = {"q": q, "topic": topic, "status": status, **given}
    # What recall finds, counted by what it may be narrowed by; or the newest claims.
    hits, facets, end = Hits(), dict[str, list[tuple[str, int]]](), after + ROWS // 2
    if q:
        # one page more than is asked for, up to 250 hits
        hits = at.memory.recall(q, max(ROWS, min(after + ROWS, 250)), **given)
        passed = [hit for hit in hits if topic in ("", hit.topic) and status in ("", hit.status)]
        facets = {name: Counter(chain.from_iterable(map(values, passed))).most_common(8) for name, values in FACETS}
        rows = [
            hit.shorten(SHOWN_CHARS).as_dict()
            | {"claim": hit.get_claim_in_other_words(), "why": explain_hit(hits, hit)}
            for hit in passed[after:end]
        ]
        more = len(passed) > end
    else:
        rows = _list_newest(at, topic, status, given, end - after + 1, after)
        more = len(rows) > end - after
    return {
        "asked": conditions,
        "facets": facets,
        "hits": rows[: end - after],
        "caveat": hits.caveat,
        "reason": None if rows else hits.reason or "no claim passes these conditions",
        "notes": list(hits.notes),
        "next": end if more else None,
        "release": at.view.release.name,
    }


def _list_newest(at: Explorer, topic: str, status: str, given: Data, limit: int, after: int = 0) -> list[Data]:
    """Return claims without a question, as hits; conditions that only recall knows are refused."""
    if alone := sorted(given.keys() - {"workspace", "category", "since", "min_confidence"}):
        raise UsageError(f"{', '.join(alone)}: only together with words to look for")
    old = status == Status.SUPERSEDED
    claims = list_claims(at.view, limit, after=after, topic=topic or None, superseded=old, **given)
    return [claim.as_dict() | {"kind": "observation", "text": claim.summary, "claim": None} for claim in claims]


def show_claim(at: Explorer, id: Id) -> Data:
    """Return a claim in its transcript, what it repeats, what changed it, what holds it, and its use."""
    lineage = find_row(at, id, "observation")
    key = lineage.node.id
    (claim,) = read_rows(at, OBSERVATIONS, _OF_CLAIM, pc.field("observation_id") == key)
    head = claim["canonical_id"] or key
    same = (pc.field("canonical_id") == head) | (pc.field("observation_id") == head)
    repeats = [row for row in read_rows(at, OBSERVATIONS, CLAIM, same) if row["observation_id"] != key]
    topic = next(iter(read_rows(at, TOPICS, ["topic_id", "name"], pc.field("topic_id") == claim["topic_id"])), None)
    sure = at.view.look_up_confidences([key])
    texts = [claim["summary"], claim["quote"]]
    # The messages that it stands on and those beside them, as they were said.
    inside = pc.field("session_id") == claim["session_id"]
    cited = read_rows(at, MESSAGES, ["seq"], inside & pc.field("message_id").isin(claim["message_ids"]))
    near = {seq for row in cited[:3] for seq in range(row["seq"] - 2 * BESIDE, row["seq"] + 2 * BESIDE + 1)}
    rows = read_rows(at, MESSAGES, MESSAGE, inside & pc.field("seq").isin(sorted(near)))
    rows = [row for row in sorted(rows, key=lambda row: row["seq"]) if row["text"].strip()]
    places = [n for n, row in enumerate(rows) if row["message_id"] in claim["message_ids"]]
    beside = [row for n, row in enumerate(rows) if any(abs(n - hit) <= BESIDE for hit in places)]
    transcript = [_build_turn(row, [claim] if row["message_id"] in claim["message_ids"] else []) for row in beside]
    # Decisions that it is part of, each with both claims: merges, changes, doubts.
    ends = (pc.field("loser_id") == key) | (pc.field("winner_id") == key)
    columns = ["merge_id", "kind", "loser_id", "winner_id", "rule", "scores", "reason", "undone"]
    decisions = [row for row in read_rows(at, MERGES, columns, ends) if row["kind"] != LedgerKind.JUDGEMENT]
    sides = at.view.read_by_id(
        OBSERVATIONS, [row[name] for row in decisions for name in ("loser_id", "winner_id")], CLAIM
    )
    for row in decisions:
        row |= {"scores": dict(row["scores"] or [])}
        row |= {"earlier": sides.get(row.pop("loser_id")), "later": sides.get(row.pop("winner_id"))}
    changes = sorted(decisions, key=lambda row: (row["undone"], row["kind"], row["merge_id"]))[:ROWS]
    return {
        "claim": {**claim, "confidence": sure.get(key)},
        "left_out": read_decisions(Store.open(at.settings.store, at.settings.space)).get(key),
        "topic": topic,
        "transcript": transcript,
        "repeats": sorted(repeats, key=lambda row: (str(row["observed_at"]), row["observation_id"]))[:ROWS],
        "changes": changes,
        "related": [node.as_dict() for node in lineage.related][:ROWS],
        "above": [node.as_dict() for node in lineage.above if node.kind == "summary"],
        "served": find_uses(at.view.dir, key, texts)[-ROWS:][::-1],
        "ratings": [rating._asdict() for rating in read(at.view.dir, Rating) if rating.id == key][::-1],
    }


_OF_CLAIM = [name for name in OBSERVATIONS.schema.names if name not in ("vector", "step_key")]


def show_session(at: Explorer, id: Id, after: After = 0) -> Data:
    """Return a session as it was said: turns, tool calls, and which sentences became claims."""
    node = find_row(at, id, "session").node
    inside = pc.field("session_id") == node.id
    (session,) = read_rows(at, SESSIONS, [name for name in SESSIONS.schema.names if name != "head_hash"], inside)
    back = set(session.pop("inactive"))
    shown_rows = (pc.field("seq") >= after) & (pc.field("seq") < after + ROWS)
    rows = sorted(read_rows(at, MESSAGES, MESSAGE, inside & shown_rows), key=lambda row: row["seq"])
    claims = read_rows(at, OBSERVATIONS, CLAIM, inside & pc.field("status").isin([Status.ACTIVE, Status.SUPERSEDED]))
    gists = {row["message_id"]: row["summary"] for row in read_rows(at, GISTS, ["message_id", "summary"], inside)}
    # Its turns, each with the claims that were made of it.
    by_message: dict[str, list[Row]] = {}
    for claim in claims:
        for message in claim["message_ids"]:
            by_message.setdefault(message, []).append(claim)
    turns = [_build_turn(row, by_message.get(row["message_id"], [])) for row in rows]
    summaries = read_rows(at, SUMMARIES, SUMMARY, pc.field("scope_id") == node.id)
    return {
        "session": session,
        "left_out": read_decisions(Store.open(at.settings.store, at.settings.space)).get(node.id),
        "turns": [{**turn, "gist": gists.get(turn["id"]), "taken_back": turn["id"] in back} for turn in turns],
        "claims": len(claims),
        "summaries": sorted(summaries, key=lambda row: (row["tier"] >= 0, -row["tier"], row["seq"]))[:ROWS],
        "previous": max(0, after - ROWS) if after else None,
        "next": after + ROWS if after + ROWS < session["messages"] else None,
    }


def show_message(at: Explorer, id: Id, after: After = 0) -> Data:
    """Return one message, whole, with the claims that were made of it."""
    node = find_row(at, id, "message").node
    (row,) = read_rows(at, MESSAGES, MESSAGE, pc.field("message_id") == node.id)
    inside = pc.field("session_id") == row["session_id"]
    claims = [claim for claim in read_rows(at, OBSERVATIONS, CLAIM, inside) if node.id in claim["message_ids"]]
    turn = _build_turn(row, claims, after, MESSAGE_CHARS)
    return {
        "turn": turn,
        "claims": claims[:ROWS],
        "page": row["seq"] // ROWS * ROWS,
        "previous": max(0, after - MESSAGE_CHARS) if after else None,
        "next": after + MESSAGE_CHARS if after + MESSAGE_CHARS < turn["chars"] else None,
    }


def show_tonight(at: Explorer, run: Annotated[str, "A run's id, or its first characters."] = "") -> Data:
    """Return what a run brought, the last one's if none is named: learnt, changed, left out, its cost, and the runs."""
    from slowwave.flows.tonight import describe_run

    return describe_run(at.settings, run, at.view)  # where there is no release yet, it says so


def show_coverage(at: Explorer) -> Data:
    """Return what is covered, what is in quarantine, how the last night went, and when the next one is."""
    facts = {row.heading: {"line": row.text, "value": row.value} for row in collect_status(at.settings)}
    return {"status": facts, "ledgers": LISTED, "newest": _list_newest(at, "", "", {}, 8)}


def show_ledger(
    at: Explorer,
    name: Annotated[str, f"One of {', '.join(LISTED)}."],
    old: Annotated[str, "Anything: also what was taken back, mended or has lapsed."] = "",
    after: After = 0,
) -> Data:
    """Return a ledger, as `slowwave inspect` lists it: releases, runs, quarantine, changes, notes and more."""
    if name not in LISTED:
        raise UsageError(f"no ledger has the id {name!r}, only {', '.join(LISTED)}")
    listing = LEDGERS[name](at.settings, bool(old))
    end = after + ROWS
    rows = [{key: value for key, value in row.items() if key != "report"} for row in listing.rows[after:end]]
    link = LEDGER_LINKS.get(name)
    return {
        "name": name,
        "old": bool(old) if name in WITH_OLD else None,
        "headings": list(listing.columns),
        "cells": [[format_cell(value) for value in row.values()] for row in listing.table[after:end]],
        "rows": rows,
        "links": [link.format(**row) if link else None for row in rows],
        "actions": [_list_actions(name, row) for row in rows],
        "notes": list(listing.notes),
        "count": len(listing.rows),
        "next": end if len(listing.rows) > end else None,
    }


def _list_actions(ledger: str, row: Row) -> list[tuple[str, str, str]]:
    """Return what may be done with a row of a ledger: the action, what its button says, and the id."""
    match ledger:
        case "excluded":
            return [("include", "Take it in again", row["row_id"])]
        case "notes":
            may = {"confirmed": ("include", "Confirm"), "rejected": ("exclude", "Reject")}
            return [(*act, row["id"]) for verdict, act in may.items() if verdict != row["verdict"]]
        case "merges" | "changes" if row["undone"]:
            return [("include", "Take it in again", row["merge_id"])]
        case "merges" | "changes":
            return [("exclude", "Undo", row["merge_id"])] if row["state"] == "in force" else []
    return []


def _build_turn(row: Row, claims: Sequence[Row], start: int = 0, chars: int = SHOWN_CHARS) -> Data:
    """Return a message as it is shown: its words with the sentences that became claims, and its tools' traffic."""
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
        "who": name_speaker(row) if text.strip() else row["role"],
        "role": row["role"],
        "at": row["ts"],
        "segments": mark_quotes(text[start : start + chars], claims),
        "chars": len(text),
        "cut": len(text) > start + chars,
        "tools": tools[:ROWS],
    }


def mark_quotes(text: str, claims: Iterable[Row]) -> list[tuple[str, str | None]]:
    """Return a text in pieces, each with the id of the claim that quotes it, where one does."""
    places: list[tuple[int, int, str]] = []
    for claim in claims:
        words = r"\s+".join(map(re.escape, claim["quote"].split()))
        if words and (match := re.search(words, text)):
            places.append((match.start(), match.end(), claim["observation_id"]))
    pieces: list[tuple[str, str | None]] = []
    at = 0
    for start, end, key in sorted(places):
        if start >= at:
            pieces += [(text[at:start], None), (text[start:end], key)]
            at = end
    return [(piece, key) for piece, key in [*pieces, (text[at:], None)] if piece]


PAGES = (
    Page("/", show_tonight, "tonight.html"),
    Page("/night/{run}", show_tonight, "tonight.html"),
    Page("/search", search, "search.html"),
    Page("/claim/{id}", show_claim, "claim.html"),
    Page("/message/{id:path}", show_message, "message.html"),
    Page("/session/{id}", show_session, "session.html"),
    Page("/coverage", show_coverage, "coverage.html"),
    Page("/ledger/{name}", show_ledger, "ledger.html"),
)
