"""Themes over time: each topic with its strength, week by week. Reads one release."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Shown
from slowwave.recall.release.view import View
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import OBSERVATIONS, TOPICS
from slowwave.schemas.vocabulary import Status

COLUMNS = ["topic_id", "observed_at"]
FIGURES = [
    *("topic_id", "name", "purpose", "text"),
    *("size", "strength", "sessions", "uses", "cohesion", "share", "overlap"),
    *("first_at", "last_at"),
]
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Theme(Shown):
    """A topic, and how it came and went."""

    id: str
    name: str
    """Empty where its claims share no words."""
    purpose: str
    text: str | None
    """What it comes to; None of fewer than three claims."""
    claims: int
    """That hold now."""
    strength: int
    """Their evidence: the sessions that say each, in sum."""
    sessions: int
    """Distinct ones that say any."""
    uses: int
    """How often any was handed out, when they were last looked over."""
    spread: float | None
    """How far its claims lie from its centre: 0 is all in one place."""
    share: float | None
    """Of all claims, those that it holds."""
    overlap: float | None
    """Cosine to the nearest other topic."""
    first_at: datetime | None
    last_at: datetime | None
    weeks: tuple[int, ...]
    """Claims a week, the last one that which ends with the newest claim of the memory."""


def list_themes(view: View, weeks: int = 12) -> list[Theme]:
    """Return the topics, the strongest first: of a model, or of three claims or more.

    Args:
        view: the release that is asked.
        weeks: how many are counted one by one.

    Raises:
        UsageError: `weeks` under 1.
        StoreUnreadable: a table is broken or gone.
    """
    if weeks < 1:
        raise UsageError(f"weeks is {weeks}; it is how many are told, at least 1")
    rows = view.read(OBSERVATIONS, COLUMNS, pc.field("status") == Status.ACTIVE).combine_chunks()
    at = rows["observed_at"].cast(pa.int64())
    ago = pc.divide(pc.subtract(pc.max(at), at), WEEK // timedelta(microseconds=1))
    weekly: defaultdict[str, list[int]] = defaultdict(lambda: [0] * weeks)
    for (key, week), count in Counter(zip(rows["topic_id"].to_pylist(), ago.to_pylist(), strict=True)).items():
        if week is not None and week < weeks:
            weekly[key][weeks - 1 - week] = count
    themes: list[Theme] = []
    for row in view.read(TOPICS, FIGURES).to_pylist():
        if row["size"] and (row["name"] or row["text"]):  # what is under three is none yet
            figures: dict[str, Any] = {name: row[name] for name in FIGURES[1:] if name not in ("size", "cohesion")}
            figures |= {name: row[name] or 0 for name in ("strength", "sessions", "uses")}
            spread = None if row["cohesion"] is None else round(1 - row["cohesion"], 3)
            key, claims = row["topic_id"], row["size"]
            themes.append(Theme(id=key, claims=claims, spread=spread, weeks=tuple(weekly[key]), **figures))
    return sorted(themes, key=lambda theme: (-theme.strength, theme.name, theme.id))
