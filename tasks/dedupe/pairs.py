"""Find pairs of claims that say the same: pairs of equal words, and similar pairs to which no guard objects."""

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

from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    Rows,
    compute_cosines,
    deduplicate_pairs,
    find_vector_pairs,
    find_word_pairs,
    group_rows,
)
from slowwave.tasks.dedupe.decide import (
    Decision,
    Rules,
    compute_token_sort_ratios,
    decide,
    is_promising,
)
from slowwave.tasks.dedupe.normalise import ClaimTexts, normalise_claim
from slowwave.tasks.progress import track_items
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.vector_columns import build_vector_matrix


def select_row(table: pa.Table, claim_id: str) -> pa.Table:
    """Return the row with this id, cast to CLAIMS; raise KeyError if there is none."""
    rows = table.filter(pc.equal(table["claim_id"], claim_id))
    if not rows.num_rows:
        raise KeyError(f"claim {claim_id!r} is not among the rows given")
    return rows.select(CLAIMS.schema.names).cast(CLAIMS.schema)


def set_columns(table: pa.Table, **values: Any) -> pa.Table:
    """Return the table with columns set, each to one value or to an array with one value a row."""
    for name, value in values.items():
        field = table.schema.field(name)
        is_column = isinstance(value, pa.Array | pa.ChunkedArray)
        column = (
            value.cast(field.type)
            if is_column
            else pa.array([value] * table.num_rows, field.type)
        )
        table = table.set_column(table.schema.get_field_index(name), field, column)
    return table


Found = Mapping[int, Mapping[int, Decision]]
"""Row -> row -> the decision that they are duplicates, both ways."""
Undone = frozenset[tuple[str, str]] | set[tuple[str, str]]
CHUNK_PAIRS = 20_000
SHARD_PAIRS = 2_000
READ = ("summary", "speaker")
SCORED = pa.schema(
    [("place", pa.int64()), ("claim", pa.string()), ("score", pa.float32())]
)
"""Columns of a shard's result for each pair."""


def find_duplicate_pairs(
    table: pa.Table,
    old: int,
    rules: Rules,
    undone: Undone,
    executor: Executor = HERE,
) -> Found:
    """Return the pairs of rows that are duplicates; the first `old` rows are not compared with each other."""
    claims = ClaimTexts(table)
    vectors, has = stack_unit_vectors(table)
    pairs = _find_candidates(
        table=table, claims=claims, vectors=vectors, has=has, old=old
    )
    pairs = _filter_allowed(pairs[pairs[:, 1] >= old], table, undone)
    pairs = pairs[order_by_words(pairs, claims)]
    decisions: dict[int, dict[int, Decision]] = defaultdict(dict)
    step = ShardStep(
        name="pairs",
        settings=repr(rules),
        schema=SCORED,
        do=partial(find_promising_pairs, rules=rules),
        shard_rows=SHARD_PAIRS,
    )
    for start in track_items("pairs", range(0, len(pairs), CHUNK_PAIRS)):
        chunk = pairs[start : start + CHUNK_PAIRS]
        cosines = compute_cosines(chunk, vectors, has)
        shard = tell_pairs(table, chunk, READ, cosine=pa.array(cosines))
        for row in (
            spread(executor=executor, step=step, rows=shard, by="claim")
            .sort_by("place")
            .to_pylist()
        ):
            left, right = chunk[row["place"]].tolist()
            decision = decide(
                a=claims[left],
                b=claims[right],
                token_sort=row["score"],
                cosine=_get_known(cosines[row["place"]]),
                rules=rules,
            )
            if decision.same:
                decisions[left][right] = decisions[right][left] = decision
    return decisions


def _find_candidates(
    table: pa.Table,
    claims: ClaimTexts,
    vectors: Floats,
    has: npt.NDArray[np.bool_],
    old: int,
) -> Pairs:
    """Return the pairs with the same words, shared rare words or near vectors, with a row from `old` on."""
    groups = group_rows(table, nameless=True)
    new = np.arange(old, len(claims)) if old else None
    near = find_vector_pairs(
        vectors,
        has,
        nearest=10,
        among=new,
        groups=groups,
    )
    return deduplicate_pairs(
        [
            find_exact_pairs(claims, groups, old),
            find_word_pairs(claims, groups, new),
            near,
        ]
    )


def order_by_words(pairs: Pairs, claims: ClaimTexts) -> Rows:
    """Return an order of pairs in which those of claims with the same words, but for numbers, follow each other.

    `normalise_claim` keeps its latest claims. In the order of their ids, most pairs of a store with more claims than
    that would normalise both anew.
    """
    rows = np.unique(pairs)
    words = [
        sorted(claims.keys[row], key=lambda word: (not word.isalpha(), word))
        for row in rows.tolist()
    ]
    place = np.empty(len(rows), dtype=np.int64)
    place[sorted(range(len(rows)), key=words.__getitem__)] = np.arange(len(rows))
    places = place[np.searchsorted(rows, pairs)]
    order: Rows = np.lexsort((places.max(axis=1), places.min(axis=1)))
    return order


def stack_unit_vectors(table: pa.Table) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the vectors, shape (rows, dim), zero for null; and a mask of the rows with one that is not zero.

    The column may be a dictionary of half-precision vectors.
    """
    column = table["vector"].combine_chunks()
    if pa.types.is_dictionary(column.type):
        at = column.indices.to_numpy()
        column = column.dictionary
        vectors, has = _read_vectors(column)
        return vectors[at].astype(np.float32, copy=False), has[at]
    return _read_vectors(column)


def _read_vectors(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    vectors = build_vector_matrix(column)
    return vectors, np.asarray(vectors.any(axis=1), dtype=bool)


def find_exact_pairs(claims: ClaimTexts, groups: pl.DataFrame, old: int = 0) -> Pairs:
    """Return pairs of claims with the same words and speaker in one group.

    Each claim is paired with the first such claim and with the previous one. A claim before `old` counts only if a
    later one has the same words.
    """
    seen: dict[tuple[int, str, str | None], list[int]] = {}
    new = set(claims.stems[old:])
    count = Counter(claims.stems)
    again = [
        row
        for row, stems in enumerate(claims.stems)
        if stems in new and count[stems] > 1
    ]
    for group, row in groups.filter(pl.col("row").is_in(again)).iter_rows():
        claim = claims[row]
        seen.setdefault(
            (group, claim.folded, claim.speaker if claim.first_person else None), []
        ).append(row)
    return np.array(
        [p for rows in seen.values() for p in _link_rows(rows)], dtype=np.int64
    ).reshape(-1, 2)


def _link_rows(rows: list[int]) -> list[tuple[int, int]]:
    return [(rows[0], row) for row in rows[1:]] + list(pairwise(rows))


def _filter_allowed(pairs: Pairs, table: pa.Table, undone: Undone) -> Pairs:
    """Return the pairs without merges taken back and without coding claims of two workspaces.

    Two projects may say the same about different things, for example a port.
    """
    space = (
        pc.dictionary_encode(table["workspace"].combine_chunks())
        .indices.fill_null(-1)
        .to_numpy(zero_copy_only=False)
    )
    coding = np.asarray(pc.equal(table["pack"], "coding"), dtype=bool)
    left = pairs[:, 0]
    right = pairs[:, 1]
    apart = (
        (coding[left] | coding[right])
        & (space[left] != space[right])
        & (space[left] >= 0)
        & (space[right] >= 0)
    )
    if undone:
        ids = table["claim_id"].to_pylist()
        back = {frozenset(pair) for pair in undone}
        apart |= np.array(
            [frozenset((ids[a], ids[b])) in back for a, b in pairs], dtype=bool
        )
    allowed: Pairs = pairs[~apart]
    return allowed


def tell_pairs(
    table: pa.Table, pairs: Pairs, columns: Sequence[str], **more: pa.Array
) -> pa.Table:
    """Return one row per pair with the columns that scoring needs."""
    rows = table.select(columns).combine_chunks().to_struct_array().combine_chunks()
    left, right = (pa.array(side, pa.int64()) for side in pairs.T)
    ids = table["claim_id"].combine_chunks().take(right)
    return pa.table(
        {
            "place": pa.array(range(len(pairs))),
            "claim": ids,
            "left": rows.take(left),
            "right": rows.take(right),
            **more,
        }
    )


def find_promising_pairs(pairs: pa.Table, *, rules: Rules) -> pa.Table:
    """Return the pairs (of `tell_pairs`) that are duplicates unless a guard objects, with their likeness."""
    left, right = (
        [
            normalise_claim(row["summary"], row["speaker"])
            for row in pairs[side].to_pylist()
        ]
        for side in ("left", "right")
    )
    ratios = compute_token_sort_ratios(left, right)
    cosines = pairs["cosine"].to_numpy()
    worth = np.flatnonzero(
        (ratios >= rules.threshold) | (cosines >= rules.rephrased)
    ).tolist()
    promising = [
        n
        for n in worth
        if is_promising(
            a=left[n],
            b=right[n],
            token_sort=float(ratios[n]),
            cosine=_get_known(cosines[n]),
            rules=rules,
        )
    ]
    return pa.table([pairs["place"], pairs["claim"], ratios], schema=SCORED).take(
        pa.array(promising, pa.int64())
    )


def _get_known(cosine: float) -> float | None:
    return None if np.isnan(cosine) else float(cosine)
