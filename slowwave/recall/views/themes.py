"""Themes over time: each topic with its strength, week by week. Reads one release."""

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
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
    rows = view.read(OBSERVATIONS, COLUMNS, pc.field("status") == Status.ACTIVE).combine_chunks()
    topic, at = rows["topic_id"], rows["observed_at"].cast(pa.int64())
    parents = pc.list_parent_indices(rows["evidence_sessions"])
    said = pa.table({"topic": topic.take(parents), "session": pc.list_flatten(rows["evidence_sessions"])})
    strengths = _group_by_topic(said, [("session", "count"), ("session", "count_distinct")])
    dates = pa.table({"topic": topic, "at": rows["observed_at"]})
    spans = _group_by_topic(dates, [("topic", "count"), ("at", "min"), ("at", "max")])
    ago = pc.divide(pc.subtract(pc.max(at), at), WEEK // timedelta(microseconds=1))
    weekly = {key: [0] * weeks for key in spans}
    for (key, week), count in Counter(zip(topic.to_pylist(), ago.to_pylist(), strict=True)).items():
        if week is not None and week < weeks:
            weekly[key][weeks - 1 - week] = count
    found = []
    for key, name, purpose in zip(
        *view.read(TOPICS, ["topic_id", "name", "purpose"]).to_pydict().values(), strict=True
    ):
        if key in spans:
            (claims, first, last), (strength, sessions) = spans[key], strengths.get(key, (0, 0))
            found.append(Theme(key, name, purpose, claims, strength, sessions, first, last, tuple(weekly[key])))
    return sorted(found, key=lambda one: (-one.strength, one.name, one.id))


def _group_by_topic(table: pa.Table, counts: list[tuple[str, str]]) -> dict[str, tuple[Any, ...]]:
    """Return aggregates of a table with the column `topic`, by topic."""
    columns = table.group_by("topic").aggregate(counts).to_pydict().values()
    return {key: tuple(rest) for key, *rest in zip(*columns, strict=True)}
