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


def find_reaffirmations(claims: CandidateClaims, back: Set[frozenset[int]]) -> list[Change]:
    """Return a change for each retired claim that was said again since: it retires what had taken its place."""
    changes = []
    for row in claims.retired:
        now = claims.find_successor(row)
        if claims.last[row] > claims.last[now] and frozenset((row, now)) not in back:
            changes.append(Change(now, row, claims.last[row], REAFFIRMED, 1.0, "the earlier was said again"))
    return changes


def find_changes(
    claims: CandidateClaims, guesses: Mapping[Rows, float], verdicts: Mapping[Rows, Verdict], freed: Set[int]
) -> list[Change]:
    """Return every pair of which the later changes the earlier or may do so, among the claims not retired already.

    Args:
        claims: the claims.
        guesses: pair -> how likely the classifier finds a change.
        verdicts: pair -> what a model said of it, which counts before the guess.
        freed: rows that are retired, and no longer by anything that stands.
    """
    changes = []
    for (old, new), likely in {**guesses, **{pair: verdict.likely for pair, verdict in verdicts.items()}}.items():
        verdict = verdicts.get((old, new))
        outcome = verdict.outcome if verdict else find_outcome(likely)
        if outcome is Outcome.NOTHING and (verdict or likely < LEADING):
            continue
        if outcome is not Outcome.RETIRE and claims.last[old] > claims.last[new]:
            continue  # a guess speaks against nothing that was said again since
        # of the two the one last said stands
        sure, key = f"({likely:.0%})", None
        if verdict is not None:
            words = f": “{verdict.quote}”" if verdict.quote else ""
            sure, key = f"({likely:.0%}; a model says {verdict.answer}{words})", verdict.key
        if outcome is not Outcome.RETIRE:
            rule = PERHAPS if outcome is Outcome.LINK else LEADS
            change = Change(old, new, claims.times[new], rule, likely, f"perhaps told anew {sure}", key)
        elif claims.last[old] > claims.last[new]:
            why = f"the earlier was said again {sure}"
            change = Change(new, old, claims.last[old], REAFFIRMED, likely, why, key)
        else:
            change = Change(old, new, claims.times[new], CHANGED, likely, f"told anew {sure}", key)
        if change.loser not in claims.retired or change.loser in freed:
            changes.append(change)
    return changes


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
