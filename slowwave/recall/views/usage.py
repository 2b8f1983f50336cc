"""What of a memory was ever handed out, and what was said of it: counted over `recalls.jsonl` and `ratings.jsonl`."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc

from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.store.journals.ratings import Rating, read_ratings
from slowwave.store.journals.recalls import hash_spans, read_recalls
from slowwave.store.snapshot import Snapshot


@dataclass(frozen=True)
class ClaimUse:
    """How often a claim was handed out: it itself, or a message or summary that says it word for word."""

    id: str
    text: str
    times: int


@dataclass(frozen=True)
class Usage:
    """What of a release was used."""

    recalls: int
    """Times that anything was handed out."""
    unread: int
    """Lines of the log that can't be read."""
    first: datetime | None
    last: datetime | None
    claims: tuple[ClaimUse, ...]
    """The active ones, the most used first."""
    ratings: tuple[Rating, ...]
    """The last of each id, newest first."""

    @property
    def never(self) -> tuple[ClaimUse, ...]:
        """Claims that were never handed out."""
        return tuple(claim for claim in self.claims if not claim.times)


def count_usage(snapshot: Snapshot, space_dir: Path) -> Usage:
    """Return how often each active claim of a release was handed out, and how memories were rated."""
    columns = ["observation_id", "summary", "quote"]
    rows = snapshot.read(OBSERVATIONS, columns, pc.field("status") == Status.ACTIVE).to_pylist()
    by_span: dict[str, set[str]] = {}
    for row in rows:
        for span in hash_spans([row["summary"], row["quote"]]):
            by_span.setdefault(span, set()).add(row["observation_id"])
    known = {row["observation_id"] for row in rows}
    lines = list(read_recalls(space_dir))
    read = [line for line in lines if line]
    times: Counter[str] = Counter()
    for line in read:
        times.update(known & line.ids | {claim for span in line.spans for claim in by_span.get(span, ())})
    claims = [ClaimUse(row["observation_id"], row["summary"], times[row["observation_id"]]) for row in rows]
    moments = [line.at for line in read]
    return Usage(
        len(read),
        len(lines) - len(read),
        min(moments, default=None),
        max(moments, default=None),
        tuple(sorted(claims, key=lambda one: (-one.times, one.id))),
        tuple(sorted(read_ratings(space_dir).values(), key=lambda one: one.at, reverse=True)),
    )
