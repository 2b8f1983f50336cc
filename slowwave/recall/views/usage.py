"""Usage of a memory: which claims were ever returned, and their ratings, from `recalls.jsonl` and `ratings.jsonl`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc

from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import Status
from slowwave.store.logs import Rating, Recall, hash_spans, read
from slowwave.store.releases import Snapshot


@dataclass(frozen=True)
class ClaimUse:
    """How often a claim was returned, itself or in a message or summary that contains it word for word."""

    id: str
    text: str
    times: int


@dataclass(frozen=True)
class Usage:
    """The usage of a release."""

    recalls: int
    """Times that anything was handed out."""
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
    """Return the uses of each active claim of a release, and the ratings of memories."""
    # active claims, also by their words
    columns = ["claim_id", "summary", "quote"]
    rows = snapshot.read(
        CLAIMS, columns, pc.field("status") == Status.ACTIVE
    ).to_pylist()
    by_span: dict[str, set[str]] = {}
    for row in rows:
        for span in hash_spans([row["summary"], row["quote"]]):
            by_span.setdefault(span, set()).add(row["claim_id"])
    active = {row["claim_id"] for row in rows}
    # what the log of recalls says of them
    recalls = read(space_dir, Recall)
    times: Counter[str] = Counter()
    for recall in recalls:
        times.update(
            active & recall.ids
            | {claim for span in recall.spans for claim in by_span.get(span, ())}
        )
    # the most used first, and the latest rating of each memory
    claims = [
        ClaimUse(row["claim_id"], row["summary"], times[row["claim_id"]])
        for row in rows
    ]
    moments = [datetime.fromisoformat(recall.at) for recall in recalls]
    ratings = {rating.id: rating for rating in read(space_dir, Rating)}
    return Usage(
        recalls=len(recalls),
        first=min(moments, default=None),
        last=max(moments, default=None),
        claims=tuple(
            sorted(claims, key=lambda claim_use: (-claim_use.times, claim_use.id))
        ),
        ratings=tuple(
            sorted(ratings.values(), key=lambda rating: rating.at, reverse=True)
        ),
    )


def find_uses(space_dir: Path, claim_id: str, texts: Sequence[str]) -> list[str]:
    """Return when a claim was handed out, the oldest first: it itself, or what says its texts word for word."""
    spans = hash_spans(texts)
    return [
        recall.at
        for recall in read(space_dir, Recall)
        if claim_id in recall.ids or not recall.spans.isdisjoint(spans)
    ]
