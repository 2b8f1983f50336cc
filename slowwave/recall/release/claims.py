"""Where claims were made: each observation's passages, and each passage's observations, with what a condition asks.

A claim is terse ("approved, go with MessagePack"); what it is about stands in the turns around it. This ties the rows
of `observations` to positions of the `Layout`, read once a release: 64 bytes a claim.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.query import Query
from slowwave.recall.release.columns import (
    NO_TIME,
    Ints,
    Mask,
    build_filter_mask,
    convert_timestamps,
    encode_column,
    find_code,
    locate_rows,
)
from slowwave.recall.release.tables import Tables
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import Status

if TYPE_CHECKING:
    from slowwave.recall.release.passages import Layout

COLUMNS = ["message_ids", "workspace", "category", "status", "superseded_by", "observed_at"]


@dataclass(frozen=True)
class ClaimLayout:
    """Arrays over all observations, by their offset in the table."""

    row_ids: npt.NDArray[np.uint64]
    answers: Mask
    """Active, or superseded by a claim that is known: what recall may tell."""
    workspace: Ints
    workspaces: tuple[str, ...]
    category: Ints
    categories: tuple[str, ...]
    moment: Ints
    """Microseconds since 1970, UTC; NO_TIME where unknown."""
    made: tuple[Ints, Ints]
    """Pairs: a claim and the position of a passage that it was made in, ascending; none for a message without one."""

    def find_offsets(self, row_ids: npt.NDArray[np.uint64]) -> Ints:
        """Return offsets of rows of this table."""
        return locate_rows(self.row_ids, self.by_row, row_ids)

    def mask_allowed(self, query: Query) -> Mask:
        """Return which claims may answer, and pass the query's conditions."""
        mask = self.answers & build_filter_mask(query, self.workspace, self.workspaces, self.moment)
        if query.category is not None:
            mask &= self.category == find_code(self.categories, query.category)
        return mask

    def find_claims_at(self, positions: Ints) -> Ints:
        """Return the claims made in passages at these positions, ascending, each once."""
        position, claim = self.by_position
        first, last = np.searchsorted(position, positions, "left"), np.searchsorted(position, positions, "right")
        return np.unique(claim[_expand_ranges(first, last)])

    def find_claim_positions(self, claims: Ints) -> tuple[Ints, Ints]:
        """Return pairs: the index of a claim among those given, and a position that it was made in."""
        claim, position = self.made
        first, last = np.searchsorted(claim, claims, "left"), np.searchsorted(claim, claims, "right")
        return np.repeat(np.arange(len(claims)), last - first), position[_expand_ranges(first, last)]

    def compute_recency(self, claims: Ints) -> npt.NDArray[np.float64]:
        """Return for each the share of those from its workspace that were made before it; 0 where it has no time."""
        share = np.zeros(len(claims))
        for workspace in np.unique(self.workspace[claims]):
            some = np.flatnonzero((self.workspace[claims] == workspace) & (self.moment[claims] != NO_TIME))
            moments = self.moment[claims[some]]
            share[some] = np.searchsorted(np.sort(moments), moments, "left") / max(len(some) - 1, 1)
        return share

    @cached_property
    def by_row(self) -> Ints:
        """Offsets in order of row id."""
        return np.argsort(self.row_ids)

    @cached_property
    def by_position(self) -> tuple[Ints, Ints]:
        """The pairs of `made`, position first, in order of position."""
        claim, position = self.made
        order = np.argsort(position, kind="stable")
        return position[order], claim[order]


def read_claim_layout(view: Tables, passages: "Layout") -> ClaimLayout:
    """Return the claims' places."""
    rows = view.open_dataset(OBSERVATIONS).to_table(columns=COLUMNS, with_row_id=True)
    changed = pc.and_(pc.equal(rows["status"], Status.SUPERSEDED), pc.is_valid(rows["superseded_by"]))
    (workspace, workspaces), (category, categories) = (
        encode_column(rows["workspace"]),
        encode_column(rows["category"]),
    )
    return ClaimLayout(
        row_ids=rows["_rowid"].to_numpy(),
        answers=pc.or_(pc.equal(rows["status"], Status.ACTIVE), changed).to_numpy(),
        workspace=workspace,
        workspaces=workspaces,
        category=category,
        categories=categories,
        moment=convert_timestamps(rows["observed_at"]),
        made=_pair_claims_with_passages(view, passages, rows["message_ids"].combine_chunks()),
    )


@dataclass(frozen=True)
class ClaimFacts:
    """Who made each claim, and the files that it names; by its offset."""

    speaker: Ints
    """Place in `speakers`; -1 where nobody is named."""
    speakers: tuple[str, ...]
    naming: Ints
    """Claims, one for each file that it names; those in quarantine name none."""
    path: Ints
    """Beside `naming`: place in `paths`."""
    paths: tuple[str, ...]


def read_claim_facts(view: Tables) -> ClaimFacts:
    """Return the release's."""
    none = np.zeros(0, dtype=np.int64)
    if not view.count(OBSERVATIONS):
        return ClaimFacts(none, (), none, none, ())
    rows = view.open_dataset(OBSERVATIONS).to_table(columns=["speaker", "files", "status"])
    files = rows["files"].combine_chunks()
    parent = pc.list_parent_indices(files).to_numpy().astype(np.int64)
    path, paths = encode_column(pa.chunked_array([files.flatten()]))
    kept = pc.not_equal(rows["status"], Status.QUARANTINED).to_numpy()[parent]
    return ClaimFacts(*encode_column(rows["speaker"]), parent[kept], path[kept], paths)


def _pair_claims_with_passages(view: Tables, layout: "Layout", message_ids: pa.ListArray) -> tuple[Ints, Ints]:
    """Return claims and positions, joined over the message; in order of claim."""
    claim = pc.list_parent_indices(message_ids).to_numpy().astype(np.int64)
    message = pc.fill_null(pc.index_in(message_ids.flatten(), value_set=view.read_keys(MESSAGES)), -1).to_numpy()
    by_message = np.argsort(layout.message, kind="stable")
    there = layout.message[by_message]
    known = message >= 0
    first, last = np.searchsorted(there, message[known], "left"), np.searchsorted(there, message[known], "right")
    return np.repeat(claim[known], last - first), by_message[_expand_ranges(first, last)]


def _expand_ranges(first: Ints, last: Ints) -> Ints:
    """Return the numbers first … last - 1 of each pair, in a row."""
    lengths = last - first
    before = np.cumsum(lengths) - lengths
    runs: Ints = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
    return runs
