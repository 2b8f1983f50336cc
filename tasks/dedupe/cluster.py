"""From pairs that are one to groups around a canonical row.

Greedy in a fixed order: a row joins the best canonical row that it was itself found one with, or becomes canonical.
No chaining: union-find over fuzzy pairs once put 2,575 of 2,787 items into one group at a threshold of .70.
"""

from collections.abc import Mapping, Sequence

from slowwave.tasks.dedupe.decide import Decision

MAX_MEMBERS = 500
"""Rows that may join one canonical row by likeness; those of the very same words are not counted."""


def assign_canonical_rows(
    order: Sequence[int],
    decisions: Mapping[int, dict[int, Decision]],
    fixed: frozenset[int],
) -> dict[int, int]:
    """Return row -> the canonical row it repeats, for the rows that repeat one.

    order: all rows, the first to be canonical first; decisions: row -> row -> decision, both ways; fixed: rows that
    stay canonical whatever they are like.
    """
    joined: dict[int, int] = {}
    members: dict[int, int] = {}
    rank = {row: at for at, row in enumerate(order)}

    def is_open(row: int, other: int) -> bool:
        if rank[other] > rank[row] or other in joined:
            return False
        return decisions[row][other].rule == "exact" or members.get(other, 0) < MAX_MEMBERS

    # the nearest that is open takes it
    for row in order:
        near = [other for other in decisions.get(row, {}) if is_open(row, other)] if row not in fixed else []
        if near:
            best = min(near, key=lambda other: (-decisions[row][other].score, rank[other]))
            joined[row] = best
            members[best] = members.get(best, 0) + (decisions[row][best].rule != "exact")
    return joined
