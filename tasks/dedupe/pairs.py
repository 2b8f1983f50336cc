"""Which claims say the same: pairs of equal words, and pairs that are alike and that the guards let through."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import OBSERVATIONS
from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    compute_cosines,
    deduplicate_pairs,
    find_vector_pairs,
    find_word_pairs,
    group_rows,
)
from slowwave.tasks.dedupe.decide import Decision, Rules, compute_token_sort_ratios, decide, is_promising
from slowwave.tasks.dedupe.normalise import Claims, normalise_claim
from slowwave.tasks.progress import track_items
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.vector_columns import build_vector_matrix


def select_row(table: pa.Table, observation_id: str) -> pa.Table:
    """Return the row of that id, cast to OBSERVATIONS; raises KeyError where there is none."""
    rows = table.filter(pc.equal(table["observation_id"], observation_id))
    if not rows.num_rows:
        raise KeyError(f"observation {observation_id!r} is not among the rows given")
    return rows.select(OBSERVATIONS.schema.names).cast(OBSERVATIONS.schema)


def set_columns(table: pa.Table, **values: Any) -> pa.Table:
    """Return the table with columns set, each to one value or to an array with a value a row."""
    for name, value in values.items():
        field = table.schema.field(name)
        is_column = isinstance(value, pa.Array | pa.ChunkedArray)
        column = value.cast(field.type) if is_column else pa.array([value] * table.num_rows, field.type)
        table = table.set_column(table.schema.get_field_index(name), field, column)
    return table


Found = Mapping[int, Mapping[int, Decision]]
"""Row -> row -> the decision that they are one, both ways."""
Undone = frozenset[tuple[str, str]] | set[tuple[str, str]]
CHUNK_PAIRS, SHARD_PAIRS = 20_000, 2_000
READ = ("summary", "speaker")
SCORED = pa.schema([("place", pa.int64()), ("claim", pa.string()), ("score", pa.float32())])
"""Columns of a shard's result for each pair."""


def find_duplicate_pairs(table: pa.Table, old: int, rules: Rules, undone: Undone, executor: Executor = HERE) -> Found:
    """Return the pairs of rows that are one claim; rows before `old` are not compared with each other."""
    # candidates: the same words, the same rare words, near by vector
    claims, groups = Claims(table), group_rows(table, nameless=True)
    vectors, has = stack_unit_vectors(table)
    new = np.arange(old, len(claims)) if old else None
    near = find_vector_pairs(vectors, has, nearest=10, among=new, groups=groups)
    pairs = deduplicate_pairs([find_exact_pairs(claims, groups, old), find_word_pairs(claims, groups, new), near])
    pairs = _filter_allowed(pairs[pairs[:, 1] >= old], table, undone)
    # what the rules decide
    decisions: dict[int, dict[int, Decision]] = defaultdict(dict)
    step = ShardStep("pairs", repr(rules), SCORED, partial(find_promising_pairs, rules=rules), shard_rows=SHARD_PAIRS)
    for start in track_items("pairs", range(0, len(pairs), CHUNK_PAIRS)):
        chunk = pairs[start : start + CHUNK_PAIRS]
        cosines = compute_cosines(chunk, vectors, has)
        shard = tell_pairs(table, chunk, READ, cosine=pa.array(cosines))
        for row in spread(executor, step, shard, "claim").sort_by("place").to_pylist():
            left, right = chunk[row["place"]].tolist()
            decision = decide(claims[left], claims[right], row["score"], _get_known(cosines[row["place"]]), rules)
            if decision.same:
                decisions[left][right] = decisions[right][left] = decision
    return decisions


def stack_unit_vectors(table: pa.Table) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the vectors, shape (rows, dim), zero where null; and which rows have one that is not zero.

    They may be a dictionary of vectors in half precision.
    """
    column = table["vector"].combine_chunks()
    if pa.types.is_dictionary(column.type):
        at, column = column.indices.to_numpy(), column.dictionary
        vectors, has = _read_vectors(column)
        return vectors[at].astype(np.float32, copy=False), has[at]
    return _read_vectors(column)


def _read_vectors(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    vectors = build_vector_matrix(column)
    return vectors, np.asarray(vectors.any(axis=1), dtype=bool)


def find_exact_pairs(claims: Claims, groups: pl.DataFrame, old: int = 0) -> Pairs:
    """Return each claim with the first of its group with the same words and speaker, and with the one before it; of
    those before `old` only what a later one says too.
    """
    seen: dict[tuple[int, str, str | None], list[int]] = {}
    new, count = set(claims.stems[old:]), Counter(claims.stems)
    again = [row for row, stems in enumerate(claims.stems) if stems in new and count[stems] > 1]
    for group, row in groups.filter(pl.col("row").is_in(again)).iter_rows():
        claim = claims[row]
        seen.setdefault((group, claim.folded, claim.speaker if claim.first_person else None), []).append(row)
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


def tell_pairs(table: pa.Table, pairs: Pairs, columns: Sequence[str], **more: pa.Array) -> pa.Table:
    """Return a row for each pair, with what of its two rows is needed where shards of pairs are computed."""
    rows = table.select(columns).combine_chunks().to_struct_array().combine_chunks()
    left, right = (pa.array(side, pa.int64()) for side in pairs.T)
    ids = table["observation_id"].combine_chunks().take(right)
    return pa.table(
        {"place": pa.array(range(len(pairs))), "claim": ids, "left": rows.take(left), "right": rows.take(right), **more}
    )


def find_promising_pairs(pairs: pa.Table, *, rules: Rules) -> pa.Table:
    """Return the pairs (of `tell_pairs`) that would be one if no guard objected, with their likeness."""
    left, right = ([normalise_claim(*row.values()) for row in pairs[side].to_pylist()] for side in ("left", "right"))
    ratios, cosines = compute_token_sort_ratios(left, right), pairs["cosine"].to_numpy()
    worth = np.flatnonzero((ratios >= rules.threshold) | (cosines >= rules.rephrased)).tolist()
    promising = [n for n in worth if is_promising(left[n], right[n], float(ratios[n]), _get_known(cosines[n]), rules)]
    return pa.table([pairs["place"], pairs["claim"], ratios], schema=SCORED).take(pa.array(promising, pa.int64()))


def _get_known(cosine: float) -> float | None:
    return None if np.isnan(cosine) else float(cosine)
