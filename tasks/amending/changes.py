"""The changes among the claims that are held: who retires whom, from when on, and which of several stands."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from schemas.settings import DedupeSettings
from tasks.amending.cues import Strength
from tasks.amending.held import Held
from tasks.amending.judge import (
    PERHAPS_RULE,
    Said,
    Verdict,
    Weights,
    amends,
    echoes,
    read_said,
    values_of,
    word_weights,
)
from tasks.amending.likely import FEWEST, likely_change
from tasks.amending.limits import APART, LATER, WITHIN, Amending
from tasks.amending.pairing import ScoredPair, nearest_sessions, scored_pairs
from tasks.amending.traits import companies

CLOSE = 0.25
"""Likeness that a claim may be behind the likest, and still be what is meant: it is said in two ways, mostly."""
MAX_RETIRED = 8
"""Claims that one may retire, the likest first: a rival that retires more is about something general."""
JUDGED = ["observation_id", "session_id", "summary", "detail", "speaker", "category", "message_ids", "quote", "pack"]


@dataclass(frozen=True)
class Change:
    """The row `loser` is retired by the row `winner`, from a moment on."""

    loser: int
    winner: int
    at: datetime
    verdict: Verdict
    since: datetime
    """When the session of the winner began."""
    gives: bool = False
    """Whether the winner has a name, a number or a date that the loser lacks."""

    @property
    def doubted(self) -> bool:
        """Whether the loser stands all the same."""
        return self.verdict.rule == PERHAPS_RULE


def said_again(held: Held, back: set[frozenset[str]]) -> list[Change]:
    """Where a retired claim was said again since: it retires what had taken its place."""
    ids = held.table["observation_id"].to_pylist()
    found = []
    for row in held.retired:
        now = held.successor(row)
        if held.last[row] > held.last[now] and frozenset((ids[row], ids[now])) not in back:
            verdict = Verdict("reaffirmed", {"shared": 1.0}, "the earlier was said again")
            found.append(Change(now, row, held.last[row], verdict, held.last[row]))
    return found


def changes_among(held: Held, freed: Set[int], settings: DedupeSettings, back: set[frozenset[str]]) -> list[Change]:
    """Every pair of which the one last said changes the other, among the claims not retired already.

    What echoes a claim in its session goes with it: the assistant's "Noted, port 7070".
    """
    rows = held.table.select(JUDGED).to_pylist()
    said = said_rows(rows)
    weights = word_weights(s.claim for s in said)
    pairs = scored_pairs(held, said, weights, settings)
    nearest = nearest_sessions(held, rows, pairs)
    company = companies(between_sessions(held, rows, said, pairs)) if len(rows) >= FEWEST else {}
    found: list[Change] = []
    for a, b, cosine, alike in pairs:
        old, new = (a, b) if held.times[a] < held.times[b] else (b, a)
        loser, winner = (new, old) if held.last[old] > held.last[new] else (old, new)
        settled = held.times[old] == held.times[new] or (loser in held.retired and loser not in freed)
        taken_back = frozenset((rows[a]["observation_id"], rows[b]["observation_id"])) in back
        if settled or taken_back or of_two_people(said[a], said[b]):
            continue
        limits = WITHIN
        if rows[a]["session_id"] != rows[b]["session_id"]:
            near = nearest[new]
            once = near.once and near.session == rows[old]["session_id"] and alike >= near.alike - CLOSE
            limits = APART if once else LATER
        verdict = amends(said[old], said[new], cosine, weights, limits)
        if verdict is None and (old, new) in company and winner == new:  # a guess overturns nothing said again since
            verdict = likely_change(said[old], said[new], cosine, weights, company[old, new])
        if verdict is not None:
            found.append(_change(held, loser, winner, verdict))
    echo = _echoes(held, rows, said, weights, pairs)
    found += list(_echoed(held, said, found, echo, back))  # of what changed, not of echoes
    return _weighed(held, said, rows, found)


def between_sessions(
    held: Held, rows: list[dict[str, Any]], said: list[Said], pairs: list[ScoredPair]
) -> dict[tuple[int, int], float]:
    """(earlier row, later row) -> likeness, of the pairs of two sessions that may change each other."""
    found = {}
    for a, b, _, alike in pairs:
        apart = rows[a]["session_id"] != rows[b]["session_id"] and held.times[a] != held.times[b]
        if apart and not of_two_people(said[a], said[b]):
            found[(a, b) if held.times[a] < held.times[b] else (b, a)] = alike
    return found


def said_rows(rows: list[dict[str, Any]]) -> list[Said]:
    """The claims read, each with its detail and what else was claimed in its message."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for message in row["message_ids"]:
            told[message].append(row["summary"])
    beside = [[row["detail"] or "", *sorted({t for m in row["message_ids"] for t in told[m]})] for row in rows]
    return [
        read_said(
            row["summary"],
            row["speaker"],
            row["category"],
            [t for t in more if t and t != row["summary"]],
            row["quote"],
            everyday=row["pack"] == "personal",
        )
        for row, more in zip(rows, beside, strict=True)
    ]


def of_two_people(a: Said, b: Said) -> bool:
    """Whether each speaks of themselves, and they are two."""
    return a.claim.first_person and b.claim.first_person and a.claim.speaker != b.claim.speaker


def _echoes(
    held: Held, rows: list[dict[str, Any]], said: list[Said], weights: Weights, pairs: list[ScoredPair]
) -> dict[int, set[int]]:
    """Row -> the rows of its session that say the same, or say its value in the next breath."""
    turn = _turns(held, rows)
    echo: dict[int, set[int]] = defaultdict(set)
    for a, b, cosine, _ in pairs:
        if rows[a]["session_id"] != rows[b]["session_id"]:
            continue
        next_to = abs(turn[a] - turn[b]) == 1
        same = next_to and bool(values_of(said[a].claim) & values_of(said[b].claim))
        if same or echoes(said[a], said[b], cosine, weights, Amending()):
            echo[a].add(b)
            echo[b].add(a)
    return echo


def _weighed(held: Held, said: list[Said], rows: list[dict[str, Any]], changes: list[Change]) -> list[Change]:
    """The changes with what decides between several of one loser."""
    began: dict[str, datetime] = {}
    for row, at in zip(rows, held.times, strict=True):
        began[row["session_id"]] = min(at, began.get(row["session_id"], at))
    return [
        replace(
            c,
            since=min(c.at, began[rows[c.winner]["session_id"]]),
            gives=bool(values_of(said[c.winner].claim) - values_of(said[c.loser].claim)),
        )
        for c in changes
    ]


def _turns(held: Held, rows: list[dict[str, Any]]) -> list[int]:
    """Row -> its message's place among those of its session that a claim was made in."""
    times: dict[str, set[datetime]] = defaultdict(set)
    for row, at in zip(rows, held.times, strict=True):
        times[row["session_id"]].add(at)
    place = {session: {at: n for n, at in enumerate(sorted(some))} for session, some in times.items()}
    return [place[row["session_id"]][at] for row, at in zip(rows, held.times, strict=True)]


def _echoed(
    held: Held, said: list[Said], changes: list[Change], echo: Mapping[int, Set[int]], back: set[frozenset[str]]
) -> Iterator[Change]:
    """Changes of what echoes a loser and was last said before the winner, where no other change retires it.

    What has none of the loser's words that the winner lacks echoes something else; what only likely changed has no
    echoes, since one mistake would become several.
    """
    ids = held.table["observation_id"].to_pylist()
    losers = {c.loser for c in changes if not c.doubted} | held.retired.keys()
    for change in changes:
        if change.verdict.guessed:
            continue
        gone = set(said[change.loser].claim.words) - set(said[change.winner].claim.words)
        for row in sorted(echo.get(change.loser, set()) - losers - {change.winner}):
            if gone.isdisjoint(said[row].claim.words) or said[row].cue.strength is Strength.STATED:
                continue
            if held.last[row] < change.at and frozenset((ids[row], ids[change.winner])) not in back:
                verdict = Verdict("echo", change.verdict.scores, f"with what it echoes: {change.verdict.reason}")
                yield replace(change, loser=row, verdict=verdict)


def _change(held: Held, loser: int, winner: int, verdict: Verdict) -> Change:
    """The change, from when the winner was said; the earlier of the two wins where it was said again since."""
    if held.times[winner] > held.times[loser]:
        return Change(loser, winner, held.times[winner], verdict, held.times[winner])
    why = f"the earlier was said again: {verdict.reason}"
    return Change(loser, winner, held.last[winner], Verdict("reaffirmed", verdict.scores, why), held.last[winner])


def doubts(changes: list[Change], gone: Set[int]) -> list[Change]:
    """One doubt a loser, the likeliest, where neither it nor what it would give way to is gone."""
    best: dict[int, Change] = {}
    for change in changes:
        if change.doubted and gone.isdisjoint((change.loser, change.winner)):
            known = best.get(change.loser)
            if known is None or _doubt(change) > _doubt(known):
                best[change.loser] = change
    return [best[loser] for loser in sorted(best)]


def _doubt(change: Change) -> tuple[float, int]:
    return change.verdict.scores["likely"], -change.winner


def _precedence(change: Change) -> tuple[bool, datetime, bool, datetime, float, int]:
    verdict = change.verdict
    given = verdict.instead or change.gives
    return not verdict.plain, change.since, not given, change.at, -verdict.score, change.winner


def chosen(changes: list[Change]) -> list[Change]:
    """One change a loser: a plain one, of the first session, one that gives another value, the first, the likest.

    No winner retires more than MAX_RETIRED, the likest first.
    """
    first: dict[int, Change] = {}
    for change in sorted((c for c in changes if not c.doubted), key=_precedence):
        first.setdefault(change.loser, change)
    by_winner: dict[int, list[Change]] = defaultdict(list)
    for change in first.values():
        by_winner[change.winner].append(change)
    kept = [
        c
        for group in by_winner.values()
        for c in sorted(group, key=lambda c: (-c.verdict.score, c.loser))[:MAX_RETIRED]
    ]
    return sorted(kept, key=lambda c: c.loser)
