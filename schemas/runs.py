"""`runs`: what ran and what it cost; `releases`: what is live. Both are ledgers: rows are added, never changed."""

import pyarrow as pa

from schemas.table import UTC_US, Table, text

RUNS = Table(
    name="runs",
    key="run_id",
    volatile=frozenset({"run_id", "started_at", "ended_at", "report"}),
    fields=(
        text("run_id"),
        text("kind", null=False),  # nightly, reprocess, …
        pa.field("started_at", UTC_US, nullable=False),
        pa.field("ended_at", UTC_US),
        text("status", null=False),  # done, failed, died
        text("release_id"),
        text("report", null=False),  # JSON: per step rows in, rows out, seconds, counts by reason
    ),
)

RELEASES = Table(
    name="releases",
    key="release_id",
    volatile=frozenset({"release_id", "created_at", "run_id", "versions"}),
    fields=(
        text("release_id"),
        pa.field("number", pa.int64(), nullable=False),  # 1, 2, 3…: the highest is live
        pa.field("created_at", UTC_US, nullable=False),
        text("run_id"),
        pa.field("versions", pa.map_(pa.string(), pa.int64()), nullable=False),  # table -> version
        pa.field("counts", pa.map_(pa.string(), pa.int64()), nullable=False),  # table -> rows
        text("encoder"),  # the model every vector was made with
        text("restores"),  # the release a roll-back went back to
        text("calibration"),  # JSON: what known negatives reach in each table, the scale of relevance
    ),
)
