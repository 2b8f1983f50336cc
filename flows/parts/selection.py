"""Which sessions a run by hand is about."""

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import SESSIONS
from slowwave.store.store import Store
from slowwave.store.workspaces import require_workspaces


@dataclass(frozen=True)
class Selection:
    """Which sessions: by the transcript's own ids, by workspace, by time. Empty: all."""

    sessions: tuple[str, ...] = ()
    workspace: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def select_sessions(self, store: Store) -> pl.DataFrame:
        """Return rows of SESSIONS that are meant.

        Raises:
            UsageError: a session or a workspace that the vault does not hold.
        """
        rows = pl.DataFrame(store.read(SESSIONS))
        missing = set(self.sessions) - set(rows["native_id"]) - set(rows["session_id"])
        if missing:
            raise UsageError(f"no such session: {', '.join(sorted(missing))}; the id is the transcript's own")
        if self.sessions:
            rows = rows.filter(pl.col("native_id").is_in(self.sessions) | pl.col("session_id").is_in(self.sessions))
        if self.workspace:
            rows = rows.filter(pl.col("workspace").is_in(require_workspaces(self.workspace, rows["workspace"])))
        if self.since:
            rows = rows.filter(pl.col("ended_at") >= _convert_to_utc(self.since))
        return rows.filter(pl.col("started_at") < _convert_to_utc(self.until)) if self.until else rows


def _convert_to_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
