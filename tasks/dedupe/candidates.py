"""Find pairs worth scoring: vector neighbours and shared rare words of one group, never all against all.

A pair is (row, row) with the smaller first. Words cost near-linear time, since blocks are capped. Vectors are compared
exactly up to `EXACT_ROWS` rows of a group; above, by cells of about √n rows around sampled centres (an inverted file),
n·√n in all. A cell of many look-alikes, such as one template's lines, is cut into parts, so that this holds for it too.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slowwave.tasks.dedupe.normalise import RARE_WORDS, ClaimTexts

Pairs = npt.NDArray[np.int64]
"""Shape (pairs, 2), each row ascending, no row twice, in ascending order."""
Rows = npt.NDArray[np.int64]
"""Shape (rows,), ascending."""
Floats = npt.NDArray[np.float32]

EXACT_ROWS = 20_000
COSINES = 4_000_000
"""Most floats in memory at a time, of cosines and of vectors."""
PROBES = 3
FULL_CELL = 4
"""A cell of more than this many times the mean number of rows is cut: what fills it is about equally near."""
WINDOW = 12
"""In a word's block, sorted by the other words, each claim is paired with this many of the next."""
MIN_COSINE = 0.6
"""Least cosine of neighbours that can be duplicates."""


def group_rows(table: pa.Table, *, nameless: bool = False) -> pl.DataFrame:
    """Return the groups of claims that may be duplicates or change each other.

    Groups are each workspace with a claim about work, and all claims of everyday life. With `nameless`, all rows are
    also a group if one has no workspace, since it may repeat any claim.

    table: CLAIMS with workspace and pack. Columns: `group`, `row`, ascending; a row may be in several groups.
    """
    rows = (
        pl.DataFrame(table.select(["workspace", "pack"]))
        .with_row_index("row")
        .cast({"row": pl.Int64})
    )
    everyday = pl.col("pack") == "personal"
    workspace = pl.col("workspace").rank("dense").cast(pl.Int64).fill_null(0)
    here = rows.with_columns(group=workspace).filter((~everyday).any().over("group"))
    groups = [here, rows.filter(everyday).with_columns(group=pl.lit(-1, pl.Int64))]
    if nameless and rows["workspace"].null_count():
        groups.append(rows.with_columns(group=pl.lit(-2, pl.Int64)))
    return pl.concat(groups).select("group", "row")


def find_word_pairs(
    claims: ClaimTexts, groups: pl.DataFrame, among: Rows | None = None
) -> Pairs:
    """Return pairs of a group that share one of their rarest words, from blocks sorted by content (sorted
    neighbourhood).

    Follows Hernández & Stolfo (1995) within blocks of Papadakis et al. (2020); a block of n gives at most n·WINDOW.
    With `among`, return only pairs with one of these rows.
    """
    # the rarest words of each row that another row of its group has too
    words = groups.join(claims.words, on="row").with_columns(
        said=pl.len().over("group", "word")
    )
    words = words.filter(pl.col("said") > 1).sort("group", "row", "said", "word")
    rarest = words.filter(pl.int_range(pl.len()).over("group", "row") < RARE_WORDS)
    if among is not None:
        ours = (
            rarest.filter(pl.col("row").is_in(among)).select("group", "word").unique()
        )
        rarest = rarest.join(ours, on=["group", "word"], how="semi")
    # their blocks
    order = sorted(
        rarest["row"].unique().sort(),
        key=lambda row: (sorted(claims.keys[row]), claims.texts[row].casefold()),
    )
    blocks = pl.DataFrame({"row": order}, schema={"row": pl.Int64}).join(
        rarest, on="row", maintain_order="left"
    )
    next_ones = (
        pl.col("row").shift(-by).over("group", "word").alias("next")
        for by in range(1, WINDOW + 1)
    )
    matches = pl.concat(
        [blocks.select("row", other).drop_nulls() for other in next_ones]
    ).to_numpy()
    return deduplicate_pairs([select_pairs(matches, among)])


def select_pairs(pairs: Pairs, among: Rows | None) -> Pairs:
    """Return the pairs with at least one of some rows."""
    return pairs if among is None else pairs[np.isin(pairs, among).any(axis=1)]


def find_vector_pairs(
    vectors: Floats,
    has: npt.NDArray[np.bool_],
    nearest: int,
    min_cosine: float = MIN_COSINE,
    among: Rows | None = None,
    groups: pl.DataFrame | None = None,
) -> Pairs:
    """Return each row (of `among`, if any) with its `nearest` rows of its group whose cosine is at least `min_cosine`.

    Rows without a vector have no pairs. Without `groups` all rows are one group.

    vectors: unit vectors, shape (rows, dim). has: mask of the rows with one.
    """
    chunks = []
    parts = (
        [np.arange(len(has))]
        if groups is None
        else [p["row"].to_numpy() for p in groups.partition_by("group")]
    )
    for part in parts:
        rows = part[has[part]]
        own = rows if among is None else np.intersect1d(rows, among)
        if len(rows) < 2 or not len(own):
            continue
        # exact for few rows, else within near cells
        if len(rows) <= EXACT_ROWS or len(own) < 10 * np.sqrt(len(rows)):
            chunks.append(
                _find_nearest(
                    vectors=vectors,
                    rows=rows,
                    nearest=nearest,
                    min_cosine=min_cosine,
                    own=own,
                )
            )
        else:
            cells = [cell for cell in _build_cells(vectors, rows) if len(cell) > 1]
            chunks += [
                select_pairs(
                    _find_nearest(
                        vectors=vectors,
                        rows=cell,
                        nearest=nearest,
                        min_cosine=min_cosine,
                        own=cell,
                    ),
                    among,
                )
                for cell in cells
            ]
    return deduplicate_pairs(chunks)


def deduplicate_pairs(parts: Iterable[Pairs]) -> Pairs:
    """Return each pair once, in ascending order, without pairs of a row with itself."""
    # one integer a pair takes half the memory of unique rows and is ten times as fast
    coded = [
        pairs.min(axis=1) << 32 | pairs.max(axis=1) for pairs in parts if len(pairs)
    ]
    pairs = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *coded]))
    pairs = pairs[pairs >> 32 != pairs & 0xFFFF_FFFF]
    return np.column_stack([pairs >> 32, pairs & 0xFFFF_FFFF])


def compute_cosines(
    pairs: Pairs, vectors: Floats, has: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the cosine of each pair; NaN if a row has no vector."""
    cosines = np.full(len(pairs), np.nan)
    step = max(1, COSINES // max(1, vectors.shape[1]))
    for start in range(0, len(pairs), step):
        left, right = pairs[start : start + step].T
        cosines[start : start + step] = np.einsum(
            "ij,ij->i", vectors[left], vectors[right]
        )
    cosines[~has[pairs].all(axis=1)] = np.nan
    return cosines


def _find_nearest(
    vectors: Floats,
    rows: Rows,
    nearest: int,
    min_cosine: float,
    own: Rows,
) -> Pairs:
    """Return the nearest rows to each of `own`, by dot products in blocks of COSINES floats."""
    stored = vectors[rows]
    step = max(1, COSINES // len(rows))
    count = min(nearest, len(rows) - 1)
    parts = [np.empty((0, 2), dtype=np.int64)]
    for start in range(0, len(own), step):
        batch = own[start : start + step]
        cosines = vectors[batch] @ stored.T
        cosines[np.arange(len(batch)), np.searchsorted(rows, batch)] = -2.0
        near = cosines >= min_cosine
        many = np.flatnonzero(np.count_nonzero(near, axis=1) > count)
        if len(many):
            near[many] = _mask_highest(cosines[many], count) & near[many]
        left, right = np.nonzero(near)
        parts.append(np.column_stack([batch[left], rows[right]]))
    return np.concatenate(parts)


def _mask_highest(values: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the `count` highest values of each row."""
    top = np.argpartition(np.negative(values), count - 1, axis=1)[:, :count]
    mask = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(mask, top, True, axis=1)
    return mask


def _build_cells(
    vectors: Floats, rows: npt.NDArray[np.int64]
) -> list[npt.NDArray[np.int64]]:
    """Return rows by their PROBES nearest of √n evenly sampled centres; each row is in several cells.

    No cell has more than FULL_CELL times the mean number of rows: the nearest of its rows are then sought in one part.
    """
    centres = vectors[rows[:: max(1, int(np.sqrt(len(rows))))]]
    home = np.empty((len(rows), PROBES), dtype=np.int32)
    step = max(1, COSINES // len(centres))
    for start in range(0, len(rows), step):
        cosines = vectors[rows[start : start + step]] @ centres.T
        home[start : start + len(cosines)] = np.argpartition(
            -cosines, PROBES - 1, axis=1
        )[:, :PROBES]
    member = np.repeat(np.arange(len(rows)), PROBES)
    by_cell = np.argsort(home.ravel(), kind="stable")
    edges = np.searchsorted(home.ravel()[by_cell], np.arange(1, len(centres)))
    most = FULL_CELL * len(member) // len(centres)
    return [
        rows[cell[start : start + most]]
        for cell in np.split(member[by_cell], edges)
        for start in range(0, len(cell), most)
    ]
