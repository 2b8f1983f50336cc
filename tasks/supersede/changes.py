"""The changes among the claims that are held: who retires whom, from when on, and who is only linked to whom."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime

from slowwave.schemas.vocabulary import LEADS
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.judge import LEADING, Outcome, Rows, Verdict, find_outcome

CHANGED, REAFFIRMED, PERHAPS = "changed", "reaffirmed", "perhaps"
"""Rules of the ledger: the later changes the earlier; the earlier was said again; the later may change it."""


@dataclass(frozen=True)
class Change:
    """The row `loser` is retired by the row `winner` from a moment on, or only linked to it."""

    loser: int
    winner: int
    at: datetime
    rule: str
    likely: float
    """Probability, 0 to 1."""
    reason: str
    key: str | None = None
    """Under which a model decided; None where the classifier did."""

    @property
    def is_doubt(self) -> bool:
        """Whether the loser stands all the same."""
        return self.rule in (PERHAPS, LEADS)


def find_reaffirmations(held: CandidateClaims, back: Set[frozenset[int]]) -> list[Change]:
    """Return where a retired claim was said again since: it retires what had taken its place."""
    found = []
    for row in held.retired:
        now = held.find_successor(row)
        if held.last[row] > held.last[now] and frozenset((row, now)) not in back:
            found.append(Change(now, row, held.last[row], REAFFIRMED, 1.0, "the earlier was said again"))
    return found


def find_changes(
    held: CandidateClaims, guesses: Mapping[Rows, float], told: Mapping[Rows, Verdict], freed: Set[int]
) -> list[Change]:
    """Return every pair of which the later changes the earlier or may do so, among the claims not retired already.

    Args:
        held: the claims.
        guesses: pair -> how likely the classifier finds a change.
        told: pair -> what a model said of it, which counts before the guess.
        freed: rows that are retired, and no longer by anything that stands.
    """
    found = []
    for (old, new), likely in {**guesses, **{pair: verdict.likely for pair, verdict in told.items()}}.items():
        verdict = told.get((old, new))
        outcome = verdict.outcome if verdict else find_outcome(likely)
        if outcome is Outcome.NOTHING and (verdict or likely < LEADING):
            continue
        if outcome is not Outcome.RETIRE and held.last[old] > held.last[new]:
            continue  # a guess speaks against nothing that was said again since
        change = _decide(held, old, new, outcome, likely, verdict)
        if change.loser not in held.retired or change.loser in freed:
            found.append(change)
    return found


def _decide(
    held: CandidateClaims, old: int, new: int, outcome: Outcome, likely: float, verdict: Verdict | None
) -> Change:
    """Return what follows for a pair: of the two the one last said stands."""
    sure, key = f"({likely:.0%})", None
    if verdict is not None:
        words = f": “{verdict.quote}”" if verdict.quote else ""
        sure, key = f"({likely:.0%}; a model says {verdict.answer}{words})", verdict.key
    if outcome is not Outcome.RETIRE:
        rule = PERHAPS if outcome is Outcome.LINK else LEADS
        return Change(old, new, held.times[new], rule, likely, f"perhaps told anew {sure}", key)
    if held.last[old] > held.last[new]:
        return Change(new, old, held.last[old], REAFFIRMED, likely, f"the earlier was said again {sure}", key)
    return Change(old, new, held.times[new], CHANGED, likely, f"told anew {sure}", key)


def select_changes(changes: list[Change]) -> list[Change]:
    """Return one change a loser: the first, and the likest of those."""
    first: dict[int, Change] = {}
    for change in sorted((c for c in changes if not c.is_doubt), key=lambda c: (c.at, -c.likely, c.winner)):
        first.setdefault(change.loser, change)
    return [first[loser] for loser in sorted(first)]


def select_doubts(changes: list[Change], gone: Set[int]) -> list[Change]:
    """Return one doubt a loser, the likeliest, where neither it nor what it would give way to is gone."""
    best: dict[int, Change] = {}
    for change in sorted((c for c in changes if c.is_doubt), key=lambda c: (-c.likely, c.winner)):
        if gone.isdisjoint((change.loser, change.winner)):
            best.setdefault(change.loser, change)
    return [best[loser] for loser in sorted(best)]
