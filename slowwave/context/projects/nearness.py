"""How near a text is in meaning to what a project says: all German texts are alike to an English encoder, so that no
likeness by itself tells anything, but by how much it is more than the usual one.
"""

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import Vectors
from slowwave.recall.release.view import View
from slowwave.schemas.tables import CLAIMS, PASSAGES

MOST_CLAIMS = 500
"""Most claims of a project that a text is compared with."""
FEWEST_CLAIMS = 10
"""Fewest claims from which it is known how like the project's texts are to each other."""

_KEPT: WeakKeyDictionary[View, dict[str, Vectors]] = WeakKeyDictionary()


def measure_nearness(
    own: Vectors,
    text: Vectors,
    said: Vectors,
) -> float | None:
    """Return by how many standard deviations a text is nearer than the project's claims are; None with too few claims.

    Args:
        own: vectors of the parts of what it is compared with, shape (parts, dim).
        text: vectors of its parts, shape (parts, dim).
        said: vectors of the project's claims, shape (claims, dim).
    """
    if len(said) < FEWEST_CLAIMS or not len(own) or not len(text):
        return None
    usual = (said @ own.T).max(axis=1)
    spread = float(usual.std())
    return (
        (float((own @ text.T).max()) - float(usual.mean())) / spread if spread else None
    )


def read_claim_vectors(view: View, workspace: str) -> Vectors:
    """Return the vectors of a project's latest claims, shape (claims, dim); they are kept while the release is open."""
    kept = _KEPT.setdefault(view, {})
    if workspace not in kept:
        here = pc.field("workspace") == workspace
        rows = view.read(CLAIMS, ["observed_at", "vector"], here)
        latest = rows.sort_by([("observed_at", "descending")])
        kept[workspace] = _stack(latest["vector"].to_pylist()[:MOST_CLAIMS])
    return kept[workspace]


def read_passage_vectors(
    view: View, message_ids: Sequence[str]
) -> Mapping[str, Vectors]:
    """Return the vectors of the passages of some messages, shape (passages, dim), by the message's id."""
    among = pc.field("message_id").isin(list(message_ids))
    rows = view.read_rows(PASSAGES, ["message_id", "vector"], among)
    found: dict[str, list[list[float] | None]] = {}
    for row in rows:
        found.setdefault(row["message_id"], []).append(row["vector"])
    return {message: _stack(vectors) for message, vectors in found.items()}


def _stack(vectors: Sequence[Sequence[float] | None]) -> Vectors:
    """Return the vectors that there are, as rows."""
    known = [vector for vector in vectors if vector is not None]
    return np.asarray(known, dtype=np.float32).reshape(len(known), -1)
