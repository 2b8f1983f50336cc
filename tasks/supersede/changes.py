"""The changes among the claims that are held: who retires whom, from when on, and which of several stands."""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime

from slowwave.schemas.settings import DedupeSettings
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.model import PERHAPS_RULE, estimate_likelihoods, judge_doubt
from slowwave.tasks.supersede.rules import Verdict

MAX_RETIRED = 8
"""Claims that one may retire, the likest first: a rival that retires more is about something general."""


@dataclass(frozen=True)
class Change:
    """The row `loser` is retired by the row `winner`, from a moment on."""

    loser: int
    winner: int
    at: datetime
    verdict: Verdict

    @property
    def is_doubt(self) -> bool:
        """Whether the loser stands all the same."""
        return self.verdict.rule == PERHAPS_RULE


def find_reaffirmations(held: CandidateClaims, back: set[frozenset[str]]) -> list[Change]:
    """Return where a retired claim was said again since: it retires what had taken its place."""
    ids = held.table["observation_id"].to_pylist()
    found = []
    for row in held.retired:
        now = held.find_successor(row)
        if held.last[row] > held.last[now] and frozenset((ids[row], ids[now])) not in back:
            verdict = Verdict("reaffirmed", {"shared": 1.0}, "the earlier was said again")
            found.append(Change(now, row, held.last[row], verdict))
    return found


def find_changes(
    held: CandidateClaims, freed: Set[int], settings: DedupeSettings, back: set[frozenset[str]]
) -> list[Change]:
    """Return every pair of which the one last said changes the other or may do so, among the claims not retired
    already.
    """
    known = Evidence.from_candidates(held, settings)
    likely = estimate_likelihoods(known)
    found: list[Change] = []
    for a, b, _, _ in known.pairs:
        pair = old, new = held.order_by_time(a, b)
        loser, winner = (new, old) if held.last[old] > held.last[new] else (old, new)
        settled = held.times[old] == held.times[new] or (loser in held.retired and loser not in freed)
        taken_back = frozenset((known.rows[a]["observation_id"], known.rows[b]["observation_id"])) in back
        if settled or taken_back:
            continue
        verdict = known.stated.get(pair)
        if verdict is None and winner == new:  # a guess speaks against nothing said again since
            verdict = judge_doubt(known.by_rule.get(pair), likely.get(pair))
        if verdict is not None:
            found.append(_build_change(held, loser, winner, verdict))
    return found


def _build_change(held: CandidateClaims, loser: int, winner: int, verdict: Verdict) -> Change:
    """Return the change, from when the winner was said; the earlier of the two wins where it was said again since."""
    if held.times[winner] > held.times[loser]:
        return Change(loser, winner, held.times[winner], verdict)
    why = f"the earlier was said again: {verdict.reason}"
    return Change(loser, winner, held.last[winner], Verdict("reaffirmed", verdict.scores, why))


def select_doubts(changes: list[Change], gone: Set[int]) -> list[Change]:
    """Return one doubt a loser, the likeliest, where neither it nor what it would give way to is gone."""
    best: dict[int, Change] = {}
    for change in sorted((c for c in changes if c.is_doubt), key=_rank_doubt):
        if gone.isdisjoint((change.loser, change.winner)):
            best.setdefault(change.loser, change)
    return [best[loser] for loser in sorted(best)]


def _rank_doubt(change: Change) -> tuple[float, float, int]:
    """Return what is weighed before what a rule alone says, the likelier first."""
    return -change.verdict.scores.get("likely", 0.0), -change.verdict.score, change.winner


def select_changes(changes: list[Change]) -> list[Change]:
    """Return one change a loser: the first, and the likest of those.

    No winner retires more than MAX_RETIRED, the likest.
    """
    first: dict[int, Change] = {}
    for change in sorted((c for c in changes if not c.is_doubt), key=lambda c: (c.at, -c.verdict.score, c.winner)):
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
