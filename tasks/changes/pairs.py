"""Select the claims to judge against each other: near by vector or by rare words, and in scope."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.tasks.changes.features import IdfTable
from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    deduplicate_pairs,
    find_vector_pairs,
    find_word_pairs,
    group_rows,
)
from slowwave.tasks.dedupe.candidates import Rows as Places
from slowwave.tasks.dedupe.normalise import ClaimTexts
from slowwave.text.words import FIRST_PERSON, LATIN

NEAREST = 20
"""Nearest claims by vector to compare with. More than for duplicates, since changes are reworded more often."""
LEAST_COSINE = 0.1
"""Least cosine of a pair; below it the vectors show nothing in common."""
LEAST_LIKENESS = 0.25
"""Least likeness of a pair to judge. Of the 9,452 pairs below it in 4,508 claims of labelled talk none would be
linked."""
LIKEST = 4
"""A pair is judged if, for one of its claims, fewer than this many pairs are more alike. This keeps 618 of 624 labelled
changes and half of all pairs."""

REPLIED = 2
"""Claims of a model's turn, and of the person's turn after it, that are paired as a statement and its reply."""

Scores = npt.NDArray[np.floating]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer]


def find_candidate_pairs(
    table: pa.Table,
    claims: ClaimTexts,
    vectors: Floats,
    has: npt.NDArray[np.bool_],
    among: Places | None = None,
) -> Pairs:
    """Return the pairs of rows that are near and in scope; with `among`, those with a row in it.

    Args:
        table: rows of CLAIMS.
        claims: the normalised claims of the rows.
        vectors: unit vectors of the rows; shape (rows, dim).
        has: mask of the rows with a vector.
        among: places of some rows.
    """
    groups = group_rows(table)
    near = find_vector_pairs(vectors, has, NEAREST, LEAST_COSINE, among, groups)
    pairs = deduplicate_pairs([near, find_word_pairs(claims, groups, among)])
    candidates: Pairs = pairs[
        _mask_pairs_in_scope(
            pairs, ClaimScope.from_table(table, claims, np.unique(pairs))
        )
    ]
    return candidates


def find_reply_pairs(table: pa.Table, among: Places | None = None) -> Pairs:
    """Return the pairs of a model's last claims before a person's next words in a session, and the first of these.

    The words may refuse the claim in words that have nothing in common with it ("not now, wait with that"). With
    `among`, only pairs with a row in it. Claims of unknown origin have no such pairs.
    """
    none = np.zeros((0, 2), dtype=np.int64)
    if "by_model" not in table.schema.names:
        return none
    columns = ["session_id", "observed_at", "by_model"]
    turn = ["session_id", "observed_at"]
    said_by = pl.col("by_model")
    rows = pl.DataFrame(table.select(columns)).with_row_index("row")
    turns = (
        rows.group_by(turn)
        .agg(pl.col("row").sort(), said_by.max().alias("by_model"))
        .sort(turn)
        .with_columns(
            next_rows=pl.col("row").shift(-1).over("session_id"),
            next_by=said_by.shift(-1).over("session_id"),
        )
        .filter(said_by & ~pl.col("next_by"))
    )
    pairs = [
        (old, new)
        for model, person in turns.select("row", "next_rows").iter_rows()
        for old in model[-REPLIED:]
        for new in person[:REPLIED]
    ]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found if among is None else found[np.isin(found, among).any(axis=1)]


@dataclass(frozen=True)
class ClaimScope:
    """What decides whether two claims can change each other; an entry a row, -1 if the value is missing."""

    workspace: Codes
    speaker: Codes
    session: Codes
    personal: Flags
    """Claims of everyday life (the personal pack)."""
    preference: Flags
    of_self: Flags
    """Claims in which the speaker talks of themselves; computed for the rows of some pairs only."""

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        claims: ClaimTexts,
        rows: Codes,
    ) -> "ClaimScope":
        """Read the scope of the claims; `of_self` for some rows, since reading every claim whole is slow."""
        personal = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
        of_self = np.zeros(len(personal), dtype=bool)
        for row in rows.tolist():
            is_first_person = not FIRST_PERSON.isdisjoint(
                LATIN.findall(claims.texts[row].casefold())
            )
            of_self[row] = is_first_person and claims[row].first_person
        return cls(
            workspace=_encode_column(table, "workspace"),
            speaker=_encode_column(table, "speaker"),
            session=_encode_column(table, "session_id"),
            personal=personal,
            preference=np.asarray(
                pc.equal(table["category"], "preference"), dtype=bool
            ),
            of_self=of_self,
        )

    def find_speakers_together(self) -> Flags:
        """Return for each two speakers whether one session has claims of both; the last index means no speaker."""
        shape = (
            int(self.session.max(initial=-1)) + 1,
            int(self.speaker.max(initial=-1)) + 2,
        )
        talks = np.zeros(shape, dtype=np.float32)
        talks[self.session, self.speaker] = 1.0
        together: Flags = talks.T @ talks > 0.0
        return together


def _encode_column(table: pa.Table, name: str) -> Codes:
    """Return an integer a value, -1 for null."""
    column = table[name].combine_chunks().dictionary_encode()
    codes: Codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes


def _mask_pairs_in_scope(pairs: Pairs, scope: ClaimScope) -> Flags:
    """Return a mask of the pairs whose claims can change each other.

    Claims of two people about themselves cannot. One person's claims about themselves can, also across workspaces.
    A claim without a speaker comes from the assistant or the only person there, so its echo of a claim belongs to that
    claim. In everyday life two named people can change each other's claims if they talk with each other, except their
    preferences.
    """
    a = pairs[:, 0]
    b = pairs[:, 1]
    speaker = scope.speaker
    of_self = scope.of_self
    personal = scope.personal
    preference = scope.preference
    one_space = scope.workspace[a] == scope.workspace[b]
    one_speaker = speaker[a] == speaker[b]
    both_personal = personal[a] & personal[b]
    both_of_self = of_self[a] & of_self[b]
    echo = ((speaker[a] < 0) | (speaker[b] < 0)) & ~both_of_self
    work = ~both_personal & ~both_of_self
    agreed = scope.find_speakers_together()[speaker[a], speaker[b]]
    agreed = agreed & ~(of_self[a] | of_self[b] | preference[a] | preference[b])
    in_scope: Flags = (both_personal & both_of_self & one_speaker) | (
        one_space & (one_speaker | echo | work | agreed)
    )
    return in_scope


def compute_likeness(
    pairs: Pairs,
    cosines: Scores,
    claims: ClaimTexts,
    idf: IdfTable,
) -> Scores:
    """Return the likeness of the two claims of each pair, 0 to 2: the share of common words plus the cosine.

    The share of words counts twice for a pair without vectors.
    """
    words = {row: frozenset(claims.stems[row]) for row in np.unique(pairs).tolist()}
    weights = {row: idf.sum_idf(stems) for row, stems in words.items()}
    common = np.array(
        [idf.sum_idf(words[a] & words[b]) for a, b in pairs.tolist()], dtype=np.float64
    )
    lighter = np.array(
        [min(weights[a], weights[b]) for a, b in pairs.tolist()], dtype=np.float64
    )
    shared = np.divide(common, lighter, out=np.zeros(len(pairs)), where=lighter > 0)
    return shared + np.where(np.isnan(cosines), shared, cosines)
