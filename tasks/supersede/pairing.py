"""Which claims are worth judging against each other, and which session a claim's matter was settled in before."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.settings import DedupeSettings
from slowwave.tasks.dedupe.candidates import Floats, Pairs, deduplicate_pairs, find_vector_pairs, find_word_pairs
from slowwave.tasks.dedupe.normalise import Claim
from slowwave.tasks.dedupe.pairs import stack_unit_vectors
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.rules import (
    IdfTable,
    ParsedClaim,
    collect_value_stems,
    combine_similarity,
    compute_similarity,
)

NEAREST = 20
"""Nearest claims by vector that are judged: a change is put in other words more often than a repetition is."""
LEAST_COSINE = 0.1
"""Under it two claims have nothing in common that a vector knows of."""
APART_BY = 0.15
"""Likeness by which the likest session has to lead."""

ScoredPair = tuple[int, int, float | None, float]
"""Two rows, the cosine of their vectors (None without vectors), their likeness."""


@dataclass(frozen=True)
class NearestSession:
    """Where a claim's matter was spoken of before: the session that has the likest claim."""

    session: str
    alike: float
    once: bool
    """Whether no other session has one about as like: what comes up all the time is no decision to be changed."""

    @classmethod
    def from_sessions(cls, sessions: Mapping[str, float]) -> "NearestSession":
        """From session -> likeness of its likest claim."""
        alike, session = max((alike, session) for session, alike in sessions.items())
        return cls(session, alike, sum(other > alike - APART_BY for other in sessions.values()) == 1)


def score_pairs(
    held: CandidateClaims, said: list[ParsedClaim], weights: IdfTable, settings: DedupeSettings
) -> list[ScoredPair]:
    """Return the pairs worth judging: rows, cosine (None without vectors), likeness."""
    vectors, has = stack_unit_vectors(held.table)
    pairs = _filter_in_scope(_collect_pairs(said, vectors, has, settings), held.table, said)
    both = has[pairs[:, 0]] & has[pairs[:, 1]]
    cosines = np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
    scored = []
    for (a, b), known, near in zip(pairs.tolist(), both.tolist(), cosines.tolist(), strict=True):
        cosine = near if known else None
        scored.append(
            (a, b, cosine, combine_similarity(compute_similarity(said[a].claim, said[b].claim, cosine, weights)))
        )
    return scored


def find_nearest_sessions(
    held: CandidateClaims, rows: list[dict[str, Any]], pairs: list[ScoredPair]
) -> dict[int, NearestSession]:
    """Return row -> the likest of the claims made before it in another session."""
    by_session: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for a, b, _, alike in pairs:
        if rows[a]["session_id"] != rows[b]["session_id"] and held.times[a] != held.times[b]:
            old, new = held.order_by_time(a, b)
            sessions = by_session[new]
            sessions[rows[old]["session_id"]] = max(sessions[rows[old]["session_id"]], alike)
    return {row: NearestSession.from_sessions(sessions) for row, sessions in by_session.items()}


def _collect_pairs(
    said: list[ParsedClaim], vectors: Floats, has: npt.NDArray[np.bool_], settings: DedupeSettings
) -> Pairs:
    near = find_vector_pairs(vectors, has, max(NEAREST, settings.candidates), LEAST_COSINE)
    heard = [replace(s.claim, content=(*s.claim.content, *sorted(s.beside))) for s in said]
    return deduplicate_pairs(
        np.concatenate(
            [
                find_word_pairs(heard),
                find_word_pairs(_reduce_to_values(said)),
                find_word_pairs(_reduce_to_slots(said)),
                near,
            ]
        )
    )


def _reduce_to_values(said: list[ParsedClaim]) -> list[Claim]:
    """Return the claims by their values alone, and what was said beside them: a name may be all that two have in
    common.
    """
    values = [tuple(sorted(collect_value_stems(s.claim) | s.beside)) for s in said]
    return [replace(s.claim, content=v, identifiers=frozenset()) for s, v in zip(said, values, strict=True)]


def _reduce_to_slots(said: list[ParsedClaim]) -> list[Claim]:
    """Return the claims by the slots they fill: "I live in Bristol" and "We bought a house in Bath" share no word."""
    filled = [tuple(sorted(s.slots)) for s in said]
    return [replace(s.claim, content=f, identifiers=frozenset()) for s, f in zip(said, filled, strict=True)]


def _filter_in_scope(pairs: Pairs, table: pa.Table, said: list[ParsedClaim]) -> Pairs:
    """Return pairs of one workspace, not two people's words of themselves; what one says of oneself may cross
    workspaces.

    One without a name is the assistant or the only person there: its echo of a claim goes with the claim. In everyday
    life two named people settle the same things where they talk with each other, and what each prefers is their own.
    """
    space, voice, session = (
        _encode_column(table["workspace"]),
        _encode_column(table["speaker"]),
        _encode_column(table["session_id"]),
    )
    personal = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
    prefers = np.asarray(pc.equal(table["category"], "preference"), dtype=bool)
    own = np.array([s.claim.first_person for s in said], dtype=bool)
    a, b = pairs[:, 0], pairs[:, 1]
    one_space, one_voice = space[a] == space[b], voice[a] == voice[b]
    of_self = personal[a] & personal[b] & own[a] & own[b] & one_voice
    echo = ((voice[a] < 0) | (voice[b] < 0)) & (~(own[a] & own[b]) | (session[a] == session[b]))
    work = ~(personal[a] & personal[b]) & ~(own[a] & own[b])
    together = _mask_shared_sessions(voice, session)[voice[a], voice[b]] & ~(own[a] | own[b] | prefers[a] | prefers[b])
    kept: Pairs = pairs[of_self | (one_space & (one_voice | echo | work | together))]
    return kept


def _mask_shared_sessions(voice: Any, session: Any) -> npt.NDArray[np.bool_]:
    """Return of each two voices whether a session has claims of both; shape (voices + 1,) * 2, the last is nobody's."""
    talks = np.zeros((int(session.max(initial=-1)) + 1, int(voice.max(initial=-1)) + 2), dtype=np.float32)
    talks[session, voice] = 1.0
    together: npt.NDArray[np.bool_] = talks.T @ talks > 0.0
    return together


def _encode_column(column: pa.ChunkedArray) -> Any:
    """Return a whole number for each distinct value, -1 for none."""
    return column.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
