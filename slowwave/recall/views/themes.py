"""Themes over time: each topic with its strength, week by week. Reads one release."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from slowwave.recall.release.view import View
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import OBSERVATIONS, TOPICS
from slowwave.schemas.vocabulary import Status

COLUMNS = ["topic_id", "observed_at", "evidence_sessions"]
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Theme:
    """A topic, and how it came and went."""

    id: str
    name: str
    purpose: str
    claims: int
    """That hold now."""
    strength: int
    """Their evidence: the sessions that say each, in sum."""
    sessions: int
    """Distinct ones that say any."""
    first_at: datetime | None
    last_at: datetime | None
    weeks: tuple[int, ...]
    """Claims a week, the last one that which ends with the newest claim of the memory."""

    def as_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        times = {
            name: at.isoformat() if at else None
            for name, at in (("first_at", self.first_at), ("last_at", self.last_at))
        }
        return asdict(self) | times


def list_themes(view: View, weeks: int = 12) -> list[Theme]:
    """Return the topics that have claims, the strongest first.

    Args:
        view: the release that is asked.
        weeks: how many are counted one by one.

    Raises:
        UsageError: `weeks` under 1.
        StoreUnreadable: a table is broken or gone.
    """
    if weeks < 1:
        raise UsageError(f"weeks is {weeks}; it is how many are told, at least 1")
    held: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in view.read(OBSERVATIONS, COLUMNS, pc.field("status") == Status.ACTIVE).to_pylist():
        held[row["topic_id"]].append(row)
    newest = max(_list_times(row for rows in held.values() for row in rows), default=None)
    topics = view.read(TOPICS, ["topic_id", "name", "purpose"]).to_pylist()
    found = [
        _make_theme(topic, held[topic["topic_id"]], newest, weeks) for topic in topics if topic["topic_id"] in held
    ]
    return sorted(found, key=lambda one: (-one.strength, one.name, one.id))


def _list_times(rows: Iterable[dict[str, Any]]) -> list[datetime]:
    return sorted(row["observed_at"] for row in rows if row["observed_at"])


def _make_theme(topic: dict[str, str], rows: list[dict[str, Any]], newest: datetime | None, weeks: int) -> Theme:
    times = _list_times(rows)
    counts = [0] * weeks
    for at in times:
        ago = (newest - at) // WEEK if newest else weeks
        if ago < weeks:
            counts[weeks - 1 - ago] += 1
    said = [session for row in rows for session in row["evidence_sessions"]]
    first, last = (times[0], times[-1]) if times else (None, None)
    what = topic["topic_id"], topic["name"], topic["purpose"]
    return Theme(*what, len(rows), len(said), len(set(said)), first, last, tuple(counts))
