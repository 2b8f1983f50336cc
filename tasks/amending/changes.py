"""The changes among the claims that are held: who retires whom, from when on, and which of several stands."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from schemas.settings import DedupeSettings
from tasks.amending.cues import Strength
from tasks.amending.evidence import Evidence
from tasks.amending.held import Held
from tasks.amending.judge import PERHAPS_RULE, Said, Verdict, echoes, values_of
from tasks.amending.likely import likelihoods, weighed
from tasks.amending.limits import Amending

MAX_RETIRED = 8
"""Claims that one may retire, the likest first: a rival that retires more is about something general."""


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
    known = Evidence.of(held, settings)
    likely = likelihoods(known)
    found: list[Change] = []
    for a, b, _, _ in known.pairs:
        old, new = held.in_order(a, b)
        loser, winner = (new, old) if held.last[old] > held.last[new] else (old, new)
        settled = held.times[old] == held.times[new] or (loser in held.retired and loser not in freed)
        taken_back = frozenset((known.rows[a]["observation_id"], known.rows[b]["observation_id"])) in back
        if settled or taken_back:
            continue
        verdict = known.by_rule.get((old, new))
        if winner == new:  # a guess overturns nothing said again since
            verdict = weighed(verdict, likely.get((old, new)))
        if verdict is not None:
            found.append(_change(held, loser, winner, verdict))
    echo = _echoes(known)
    found += list(_echoed(held, known.said, found, echo, back))  # of what changed, not of echoes
    return _dated(held, known.said, known.rows, found)


def _echoes(known: Evidence) -> dict[int, set[int]]:
    """Row -> the rows of its session that say the same, or say its value in the next breath."""
    said, turn = known.said, known.around.turns
    echo: dict[int, set[int]] = defaultdict(set)
    for a, b, cosine, _ in known.pairs:
        if known.rows[a]["session_id"] != known.rows[b]["session_id"]:
            continue
        next_to = abs(turn[a] - turn[b]) == 1
        same = next_to and bool(values_of(said[a].claim) & values_of(said[b].claim))
        if same or echoes(said[a], said[b], cosine, known.weights, Amending()):
            echo[a].add(b)
            echo[b].add(a)
    return echo


def _dated(held: Held, said: list[Said], rows: list[dict[str, Any]], changes: list[Change]) -> list[Change]:
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
