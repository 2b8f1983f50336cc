"""Which claims are worth judging against each other: near by vector or by rare words, of one workspace, in scope."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    deduplicate_pairs,
    find_vector_pairs,
    find_word_pairs,
    group_rows,
)
from slowwave.tasks.dedupe.candidates import Rows as Places
from slowwave.tasks.dedupe.normalise import Claims
from slowwave.tasks.supersede.features import IdfTable
from slowwave.text.words import FIRST_PERSON, LATIN

NEAREST = 20
"""Nearest claims by vector that are looked at: a change is put in other words more often than a repetition is."""
LEAST_COSINE = 0.1
"""Under it two claims have nothing in common that a vector knows of."""
LEAST_LIKENESS = 0.25
"""Under it no pair is judged: of 9,452 such in 4,508 claims of labelled talk none would be linked."""
LIKEST = 4
"""A pair is judged where fewer others of one of its claims are liker. Of 624 labelled changes 618 are, and half of all
pairs are not."""

Scores = npt.NDArray[np.floating]


def find_candidate_pairs(
    table: pa.Table, claims: Claims, vectors: Floats, has: npt.NDArray[np.bool_], among: Places | None = None
) -> Pairs:
    """Return pairs of rows (of one in `among`, if any) that are near and in scope.

    Args:
        table: rows of OBSERVATIONS.
        claims: the rows as they are read.
        vectors: of the rows, of unit length; shape (rows, dim).
        has: which rows have one.
        among: places of some rows.
    """
    groups = group_rows(table)
    near = find_vector_pairs(vectors, has, NEAREST, LEAST_COSINE, among, groups)
    pairs = deduplicate_pairs([near, find_word_pairs(claims, groups, among)])
    # Not two people's words of themselves; what one says of oneself may cross workspaces. One
    # without a name is the assistant or the only person there: its echo of a claim goes with the claim. In everyday
    # life two named people settle the same things where they talk with each other; what each prefers is their own.
    columns = (table[name].combine_chunks().dictionary_encode() for name in ("workspace", "speaker", "session_id"))
    space, voice, session = (column.indices.fill_null(-1).to_numpy(zero_copy_only=False) for column in columns)
    personal = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
    prefers = np.asarray(pc.equal(table["category"], "preference"), dtype=bool)
    own = np.zeros(len(personal), dtype=bool)
    for row in np.unique(pairs).tolist():
        is_first_person = not FIRST_PERSON.isdisjoint(LATIN.findall(claims.texts[row].casefold()))
        own[row] = is_first_person and claims[row].first_person  # few are worth reading whole
    # of each two voices whether a session has claims of both; the last is nobody's
    talks = np.zeros((int(session.max(initial=-1)) + 1, int(voice.max(initial=-1)) + 2), dtype=np.float32)
    talks[session, voice] = 1.0
    together = talks.T @ talks > 0.0
    # the pairs in scope
    a, b = pairs[:, 0], pairs[:, 1]
    one_space, one_voice = space[a] == space[b], voice[a] == voice[b]
    of_self = personal[a] & personal[b] & own[a] & own[b] & one_voice
    echo = ((voice[a] < 0) | (voice[b] < 0)) & ~(own[a] & own[b])
    work = ~(personal[a] & personal[b]) & ~(own[a] & own[b])
    settled = together[voice[a], voice[b]] & ~(own[a] | own[b] | prefers[a] | prefers[b])
    candidates: Pairs = pairs[of_self | (one_space & (one_voice | echo | work | settled))]
    return candidates


def compute_likeness(pairs: Pairs, cosines: Scores, claims: Claims, idf: IdfTable) -> Scores:
    """Return the likeness of the two claims of each pair, 0 to 2: the words they share and the cosine of their vectors;
    without vectors the words count twice.
    """
    words = {row: frozenset(claims.stems[row]) for row in np.unique(pairs).tolist()}
    weights = {row: idf.sum_idf(stems) for row, stems in words.items()}
    common = np.array([idf.sum_idf(words[a] & words[b]) for a, b in pairs.tolist()], dtype=np.float64)
    lighter = np.array([min(weights[a], weights[b]) for a, b in pairs.tolist()], dtype=np.float64)
    shared = np.divide(common, lighter, out=np.zeros(len(pairs)), where=lighter > 0)
    return shared + np.where(np.isnan(cosines), shared, cosines)
