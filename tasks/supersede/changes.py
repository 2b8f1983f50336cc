"""The changes among the claims that are held: who retires whom, from when on, and who is only linked to whom."""

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime

from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.model import LINKED, SUPERSEDED, load_change_model

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

    @property
    def is_doubt(self) -> bool:
        """Whether the loser stands all the same."""
        return self.rule == PERHAPS


def find_reaffirmations(held: CandidateClaims, back: Set[frozenset[str]]) -> list[Change]:
    """Return where a retired claim was said again since: it retires what had taken its place."""
    ids = held.table["observation_id"].to_pylist()
    found = []
    for row in held.retired:
        now = held.find_successor(row)
        if held.last[row] > held.last[now] and frozenset((ids[row], ids[now])) not in back:
            found.append(Change(now, row, held.last[row], REAFFIRMED, 1.0, "the earlier was said again"))
    return found


def find_changes(held: CandidateClaims, freed: Set[int], back: Set[frozenset[str]]) -> list[Change]:
    """Return every pair of which the later changes the earlier or may do so, among the claims not retired already."""
    ids = held.table["observation_id"].to_pylist()
    known = Evidence.from_candidates(held)
    found = []
    probabilities = load_change_model().predict_probabilities(known) if len(known.pairs) else ()
    for (old, new), likely in zip(known.pairs.tolist(), probabilities, strict=True):
        if likely < LINKED or frozenset((ids[old], ids[new])) in back:
            continue
        if likely < SUPERSEDED and held.last[old] > held.last[new]:
            continue  # a guess speaks against nothing that was said again since
        change = _decide(held, old, new, float(likely))
        if change.loser not in held.retired or change.loser in freed:
            found.append(change)
    return found


def _decide(held: CandidateClaims, old: int, new: int, likely: float) -> Change:
    """Return what follows from a probability: of the two the one last said stands."""
    if likely < SUPERSEDED:
        return Change(old, new, held.times[new], PERHAPS, likely, f"perhaps told anew ({likely:.0%})")
    if held.last[old] > held.last[new]:
        return Change(new, old, held.last[old], REAFFIRMED, likely, f"the earlier was said again ({likely:.0%})")
    return Change(old, new, held.times[new], CHANGED, likely, f"told anew ({likely:.0%})")


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
