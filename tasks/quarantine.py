"""Input that a step could not use: kept with the reason, and marked resolved once the step can use it."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import QuarantinedRow
from slowwave.schemas.tables import QUARANTINE
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from slowwave.tasks.forget.plan import read_forgotten

EXCERPT = 2_000


def build_quarantine_row(
    step: str,
    key: Iterable[str],
    reason: str,
    excerpt: str,
    *,
    path: str | None = None,
    line: int | None = None,
    row_id: str | None = None,
) -> QuarantinedRow:
    """Return a row of QUARANTINE; `key` is what makes it the same in the next run."""
    return {
        "quarantine_id": compute_content_id(step, *key),
        "step": step,
        "path": path,
        "line": line,
        "row_id": row_id,
        "reason": reason,
        "excerpt": excerpt[:EXCERPT],
        "resolved": False,
    }


def update_quarantine(
    store: Store,
    step: str,
    rows: Iterable[QuarantinedRow],
    is_settled: Callable[[QuarantinedRow], bool],
) -> int:
    """Write rows, resolve settled earlier ones of the step that are not among them; return how many are new."""
    fresh = {row["quarantine_id"]: row for row in rows}
    for forgotten in read_forgotten(store, "quarantine") & fresh.keys():
        del fresh[forgotten]
    stored = store.read(QUARANTINE, where=pc.field("step") == step).to_pylist()
    unresolved = {row["quarantine_id"]: row for row in stored if not row["resolved"]}
    resolved = [
        {**row, "resolved": True}
        for key, row in unresolved.items()
        if key not in fresh and is_settled(row)
    ]
    if fresh or resolved:
        table = pa.Table.from_pylist(
            [*fresh.values(), *resolved], schema=QUARANTINE.schema
        )
        store.merge_changed(QUARANTINE, table)
    return len(fresh.keys() - unresolved.keys())


def collect_quarantined(
    store: Store, before: Snapshot | None
) -> tuple[list[str], list[str]]:
    """Return the reasons that are new in quarantine since `before`: of lines read, and of claims made."""
    earlier = (
        set(before.read(QUARANTINE, ["quarantine_id"])["quarantine_id"].to_pylist())
        if before
        else set()
    )
    columns = ["quarantine_id", "step", "row_id", "reason"]
    rows: list[dict[str, Any]] = store.read(
        QUARANTINE, columns, ~pc.field("resolved")
    ).to_pylist()
    fresh = [row for row in rows if row["quarantine_id"] not in earlier]
    unread = [row["reason"] for row in fresh if row["step"] == "read"]
    return unread, [
        row["reason"]
        for row in fresh
        if row["step"] == "observe" and "#" in (row["row_id"] or "")
    ]
