"""Which claims say the same: pairs of equal words, and pairs that are alike and that the guards let through."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import OBSERVATIONS
from slowwave.tasks.dedupe.candidates import Floats, Pairs, deduplicate_pairs, find_vector_pairs, find_word_pairs
from slowwave.tasks.dedupe.decide import Decision, Rules, compute_token_sort_ratios, decide, is_promising
from slowwave.tasks.dedupe.normalise import Claim, Claims
from slowwave.tasks.progress import track_items
from slowwave.tasks.vector_columns import build_vector_matrix


def sort_by_id(table: pa.Table) -> pa.Table:
    """Return the rows in order of their id, cast to OBSERVATIONS."""
    return table.select(OBSERVATIONS.schema.names).cast(OBSERVATIONS.schema).sort_by("observation_id")


def select_row(table: pa.Table, observation_id: str) -> pa.Table:
    """Return the row of that id, cast to OBSERVATIONS; raises KeyError where there is none."""
    rows = table.filter(pc.equal(table["observation_id"], observation_id))
    if not rows.num_rows:
        raise KeyError(f"observation {observation_id!r} is not among the rows given")
    return rows.select(OBSERVATIONS.schema.names).cast(OBSERVATIONS.schema)


def set_columns(table: pa.Table, **values: Any) -> pa.Table:
    """Return the table with columns set to one value each."""
    for name, value in values.items():
        field = table.schema.field(name)
        column = pa.array([value] * table.num_rows, field.type)
        table = table.set_column(table.schema.get_field_index(name), field, column)
    return table


Found = Mapping[int, Mapping[int, Decision]]
"""Row -> row -> the decision that they are one, both ways."""
Undone = frozenset[tuple[str, str]] | set[tuple[str, str]]
CHUNK_PAIRS = 50_000


def find_duplicate_pairs(table: pa.Table, known: int, rules: Rules, undone: Undone) -> Found:
    """Return the pairs of rows that are one claim; rows before `known` are not compared with each other."""
    # candidates: the same words, the same rare words, near by vector
    claims = Claims(table)
    vectors, has = stack_unit_vectors(table)
    new = np.arange(known, len(claims)) if known else None
    near = find_vector_pairs(vectors, has, nearest=10, among=new)
    pairs = deduplicate_pairs(np.concatenate([find_exact_pairs(claims, known), find_word_pairs(claims, new), near]))
    pairs = _filter_allowed(pairs[pairs[:, 1] >= known], table, undone)
    # what the rules decide
    found: dict[int, dict[int, Decision]] = defaultdict(dict)
    for start in track_items("pairs", range(0, len(pairs), CHUNK_PAIRS)):
        chunk = pairs[start : start + CHUNK_PAIRS]
        for left, right, decision in _decide_pairs(chunk, claims, vectors, has, rules):
            found[left][right] = found[right][left] = decision
    return found


def stack_unit_vectors(table: pa.Table) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the vectors, shape (rows, dim), zero where null; and which rows have one."""
    column = table["vector"]
    return build_vector_matrix(column), np.asarray(column.is_valid(), dtype=bool)


def find_exact_pairs(claims: Claims, known: int = 0) -> Pairs:
    """Return each claim with the first of the same words and speaker, and with the one before it; of those before
    `known` only what a later one says too.
    """
    seen: dict[tuple[str, str | None], list[int]] = {}
    new = set(claims.stems[known:])
    for row in [row for row, stems in enumerate(claims.stems) if stems in new]:
        claim = claims[row]
        seen.setdefault((claim.folded, claim.speaker if claim.first_person else None), []).append(row)
    return np.array([p for rows in seen.values() for p in _link_rows(rows)], dtype=np.int64).reshape(-1, 2)


def _link_rows(rows: list[int]) -> list[tuple[int, int]]:
    return [(rows[0], row) for row in rows[1:]] + list(pairwise(rows))


def _filter_allowed(pairs: Pairs, table: pa.Table, undone: Undone) -> Pairs:
    """Leave out merges taken back, and coding claims of two workspaces: each has its own port 8080."""
    space = (
        pc.dictionary_encode(table["workspace"].combine_chunks()).indices.fill_null(-1).to_numpy(zero_copy_only=False)
    )
    coding = np.asarray(pc.equal(table["pack"], "coding"), dtype=bool)
    left, right = pairs[:, 0], pairs[:, 1]
    apart = (coding[left] | coding[right]) & (space[left] != space[right]) & (space[left] >= 0) & (space[right] >= 0)
    if undone:
        ids = table["observation_id"].to_pylist()
        back = {frozenset(pair) for pair in undone}
        apart |= np.array([frozenset((ids[a], ids[b])) in back for a, b in pairs], dtype=bool)
    allowed: Pairs = pairs[~apart]
    return allowed


def _decide_pairs(
    pairs: Pairs, claims: Sequence[Claim], vectors: Floats, has: npt.NDArray[np.bool_], rules: Rules
) -> list[tuple[int, int, Decision]]:
    """Return the pairs that are one, each with the decision."""
    left, right = pairs[:, 0], pairs[:, 1]
    ratios = compute_token_sort_ratios([claims[r] for r in left], [claims[r] for r in right])
    both = has[left] & has[right]
    cosines = np.zeros(len(pairs), dtype=np.float32)
    cosines[both] = np.einsum("ij,ij->i", vectors[left[both]], vectors[right[both]])
    worth = (ratios >= rules.threshold) | (both & (cosines >= rules.rephrased))
    found = []
    for at in np.flatnonzero(worth):
        a, b = int(left[at]), int(right[at])
        near = float(cosines[at]) if both[at] else None
        if is_promising(claims[a], claims[b], float(ratios[at]), near, rules):
            decision = decide(claims[a], claims[b], float(ratios[at]), near, rules)
            if decision.same:
                found.append((a, b, decision))
    return found
