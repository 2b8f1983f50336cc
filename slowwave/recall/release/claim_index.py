"""Where claims were made, each observation's passages, and each passage's observations; and how sure each claim is.

A claim is terse ("approved, go with MessagePack"); what it is about stands in the turns around it. This ties the rows
of `observations` to positions of the `PassageIndex`, read once a release: 64 bytes a claim.
"""

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.release.chains import is_linked
from slowwave.recall.release.columns import NO_TIME, Ints, Mask, RowIndex, convert_timestamps, encode_column
from slowwave.recall.release.passage_index import PassageIndex
from slowwave.recall.release.tables import Tables
from slowwave.schemas.tables import CHAIN, MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import Status

Floats = npt.NDArray[np.float64]

UNCONFIRMED = 0.8
"""What is left of a claim's confidence where only an agent noted it, as of one that another memory gave."""
DECIMALS = 3
"""Of a confidence: what is shown is what a bound such as `--min-confidence .7` is held against."""

COLUMNS = ["message_ids", "workspace", "category", "status", "superseded_by", "observed_at", "speaker", "files"]


@dataclass(frozen=True, kw_only=True)
class ClaimIndex(RowIndex):
    """Arrays over all observations, by their offset in the table."""

    answers: Mask
    """Active, or superseded by a claim that is known: what recall may tell."""
    category: Ints
    categories: tuple[str, ...]
    made: tuple[Ints, Ints]
    """Pairs: a claim and the position of a passage that it was made in, ascending; none for a message without one."""
    naming: Ints
    """Claims, one for each file that it names; those in quarantine name none."""
    path: Ints
    """Beside `naming`: place in `paths`."""
    paths: tuple[str, ...]

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
    def by_position(self) -> tuple[Ints, Ints]:
        """The pairs of `made`, position first, in order of position."""
        claim, position = self.made
        order = np.argsort(position, kind="stable")
        return position[order], claim[order]


def read_claim_index(view: Tables, passages: PassageIndex) -> ClaimIndex:
    """Return the claims' places."""
    rows = view.open_dataset(OBSERVATIONS).to_table(columns=COLUMNS, with_row_id=True)
    changed = pc.and_(pc.equal(rows["status"], Status.SUPERSEDED), pc.is_valid(rows["superseded_by"]))
    # columns as numbers
    (workspace, workspaces), (category, categories), (speaker, speakers) = (
        encode_column(rows[name]) for name in ("workspace", "category", "speaker")
    )
    # each file beside the claim that names it
    files = rows["files"].combine_chunks()
    naming = pc.list_parent_indices(files).to_numpy().astype(np.int64)
    path, paths = encode_column(pa.chunked_array([files.flatten()]))
    kept = pc.not_equal(rows["status"], Status.QUARANTINED).to_numpy()[naming]
    return ClaimIndex(
        offsets=np.arange(len(rows)),
        row_ids=rows["_rowid"].to_numpy(),
        workspace=workspace,
        workspaces=workspaces,
        moment=convert_timestamps(rows["observed_at"]),
        speaker=speaker,
        speakers=speakers,
        answers=pc.or_(pc.equal(rows["status"], Status.ACTIVE), changed).to_numpy(),
        category=category,
        categories=categories,
        made=_pair_claims_with_passages(view, passages, rows["message_ids"].combine_chunks()),
        naming=naming[kept],
        path=path[kept],
        paths=paths,
    )


def _pair_claims_with_passages(view: Tables, passages: PassageIndex, message_ids: pa.ListArray) -> tuple[Ints, Ints]:
    """Return claims and positions, joined over the message; in order of claim."""
    claim = pc.list_parent_indices(message_ids).to_numpy().astype(np.int64)
    message = pc.fill_null(pc.index_in(message_ids.flatten(), value_set=view.read_keys(MESSAGES)), -1).to_numpy()
    by_message = np.argsort(passages.message, kind="stable")
    there = passages.message[by_message]
    known = message >= 0
    first, last = np.searchsorted(there, message[known], "left"), np.searchsorted(there, message[known], "right")
    return np.repeat(claim[known], last - first), by_message[_expand_ranges(first, last)]


def _expand_ranges(first: Ints, last: Ints) -> Ints:
    """Return the numbers first … last - 1 of each pair, in a row."""
    lengths = last - first
    before = np.cumsum(lengths) - lengths
    runs: Ints = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
    return runs


def compute_confidence(first: Floats, sessions: Floats, changed: Floats) -> Floats:
    """Return each claim's confidence, 0 to 1.

    Each session is a witness of its own, wrong as often as the first: all are wrong with probability (1 - p)^n (a
    noisy-or, Pearl 1988). What a later claim may have changed is as sure as that it did not.

    Args:
        first: the confidence that the claim was stored with, by the observer that made it.
        sessions: distinct sessions that say it, at least 1.
        changed: probability that a later claim changes it; 0 where none is known.
    """
    sure: Floats = (1 - (1 - first) ** np.maximum(sessions, 1)) * (1 - changed)
    return sure


def read_confidences(view: Tables, unconfirmed: Set[str] = frozenset()) -> Floats:
    """Return the confidence of every observation of a release, by offset: the one that every output shows.

    Args:
        view: the release.
        unconfirmed: sessions that are an agent's notes which nobody confirmed: they bear nothing out, and what they
            alone say is less sure.
    """
    columns = ["session_id", "confidence", "evidence_sessions", *CHAIN]
    rows = view.open_dataset(OBSERVATIONS).to_table(columns=columns)
    first = rows["confidence"].to_numpy().astype(np.float64)
    witnesses = [
        len((set(some) or {own}) - unconfirmed)
        for some, own in zip(rows["evidence_sessions"].to_pylist(), rows["session_id"].to_pylist(), strict=True)
    ]
    sessions = np.array(witnesses, dtype=np.float64)
    first = np.where(sessions > 0, first, UNCONFIRMED * first)
    changed = np.array([row["chain_likely"] if is_linked(row) else 0.0 for row in rows.select(CHAIN).to_pylist()])
    return compute_confidence(first, sessions, changed).round(DECIMALS)
