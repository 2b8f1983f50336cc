"""Pairs worth scoring: vector neighbours and shared rare words, never all against all.

A pair is (row, row) with the smaller first. Cost: words near-linear (blocks are capped); vectors exact up to
`EXACT_ROWS` rows, above by cells of about √n rows around sampled centres (an inverted file), n·√n in all.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slowwave.tasks.dedupe.normalise import Claim

Pairs = npt.NDArray[np.int64]
"""Shape (pairs, 2), each row ascending, no row twice, in ascending order."""
Floats = npt.NDArray[np.float32]

EXACT_ROWS = 20_000
BLOCK_ROWS = 1_024
PROBES = 3
RARE_WORDS = 4
"""Rarest words of a claim that it is looked up by."""
WINDOW = 12
"""In a word's block, sorted by what else they say, claims are paired with so many that follow."""
MIN_COSINE = 0.6
"""Neighbours further than this are never one claim."""


def find_word_pairs(claims: Sequence[Claim]) -> Pairs:
    """Return pairs that share one of their rarest words, from blocks sorted by content: a sorted neighbourhood.

    Follows Hernández & Stolfo (1995) within blocks of Papadakis et al. (2020); a block of n gives at most n·WINDOW.
    """
    blocks: dict[str, list[int]] = {}
    rarity = Counter(word for claim in claims for word in set(_get_keys(claim)))
    for row, claim in enumerate(claims):
        known = sorted({w for w in _get_keys(claim) if rarity[w] > 1}, key=lambda w: (rarity[w], w))
        for word in known[:RARE_WORDS]:
            blocks.setdefault(word, []).append(row)
    order = [tuple(sorted(c.content)) for c in claims]
    found: list[tuple[int, int]] = []
    for rows in blocks.values():
        rows.sort(key=lambda r: (order[r], claims[r].folded))
        found += [(r, s) for at, r in enumerate(rows) for s in rows[at + 1 : at + 1 + WINDOW]]
    return deduplicate_pairs(np.array(found, dtype=np.int64).reshape(-1, 2))


def find_vector_pairs(vectors: Floats, has: npt.NDArray[np.bool_], nearest: int, least: float = MIN_COSINE) -> Pairs:
    """Return each row with its `nearest` others by cosine, from `least`; rows without a vector have none.

    vectors: shape (rows, dim), unit length; has: shape (rows,).
    """
    rows = np.flatnonzero(has)
    if len(rows) < 2:
        return np.empty((0, 2), dtype=np.int64)
    groups = [rows] if len(rows) <= EXACT_ROWS else _build_cells(vectors, rows)
    found = [_find_nearest(vectors, group, nearest, least) for group in groups if len(group) > 1]
    return deduplicate_pairs(np.concatenate(found)) if found else np.empty((0, 2), dtype=np.int64)


def deduplicate_pairs(pairs: Pairs) -> Pairs:
    """Return each pair once, ascending, none of a row with itself."""
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    return np.unique(pairs, axis=0) if len(pairs) else pairs.reshape(-1, 2)


def _get_keys(claim: Claim) -> tuple[str, ...]:
    return (*claim.content, *claim.identifiers) or (claim.folded,)


def _find_nearest(vectors: Floats, rows: npt.NDArray[np.int64], nearest: int, least: float) -> Pairs:
    """Return the nearest rows, by dot products in blocks: BLOCK_ROWS × len(rows) floats at a time."""
    held = vectors[rows]
    count = min(nearest, len(rows) - 1)
    found = []
    for start in range(0, len(rows), BLOCK_ROWS):
        cosines = held[start : start + BLOCK_ROWS] @ held.T
        np.fill_diagonal(cosines[:, start:], -2.0)
        top = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        left, slot = np.nonzero(np.take_along_axis(cosines, top, axis=1) >= least)
        found.append(np.column_stack([rows[start + left], rows[top[left, slot]]]))
    return np.concatenate(found)


def _build_cells(vectors: Floats, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return rows by their PROBES nearest of √n evenly sampled centres; a row stands in several cells."""
    centres = vectors[rows[:: max(1, int(np.sqrt(len(rows))))]]
    home = np.empty((len(rows), PROBES), dtype=np.int32)
    for start in range(0, len(rows), BLOCK_ROWS * 8):
        cosines = vectors[rows[start : start + BLOCK_ROWS * 8]] @ centres.T
        home[start : start + len(cosines)] = np.argpartition(-cosines, PROBES - 1, axis=1)[:, :PROBES]
    member = np.repeat(np.arange(len(rows)), PROBES)
    by_cell = np.argsort(home.ravel(), kind="stable")
    edges = np.searchsorted(home.ravel()[by_cell], np.arange(1, len(centres)))
    return [rows[group] for group in np.split(member[by_cell], edges)]
