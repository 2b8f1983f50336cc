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
    found: Mapping[int, dict[int, Decision]],
    fixed: frozenset[int],
) -> dict[int, int]:
    """Return row -> the canonical row it repeats, for the rows that repeat one.

    order: all rows, the first to be canonical first; found: row -> row -> decision, both ways; fixed: rows that stay
    canonical whatever they are like.
    """
    joined: dict[int, int] = {}
    members: dict[int, int] = {}
    place = {row: at for at, row in enumerate(order)}

    def is_open(row: int, other: int) -> bool:
        if place[other] > place[row] or other in joined:
            return False
        return found[row][other].rule == "exact" or members.get(other, 0) < MAX_MEMBERS

    for row in order:
        near = [other for other in found.get(row, {}) if is_open(row, other)] if row not in fixed else []
        if near:
            best = min(near, key=lambda other: (-found[row][other].score, place[other]))
            joined[row] = best
            members[best] = members.get(best, 0) + (found[row][best].rule != "exact")
    return joined
