"""How sure a claim is: what it scored when it was made, how many sessions say it, and whether a change is likely."""

from collections.abc import Set

import numpy as np
import numpy.typing as npt

from slowwave.recall.release.chains import is_linked
from slowwave.recall.release.tables import Tables
from slowwave.schemas.tables import CHAIN, OBSERVATIONS

Floats = npt.NDArray[np.float64]

UNCONFIRMED = 0.8
"""What is left of a claim's confidence where only an agent noted it, as of one that another memory gave."""
DECIMALS = 3
"""Of a confidence: what is shown is what a bound such as `--min-confidence .7` is held against."""


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
