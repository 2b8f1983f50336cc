"""Do a step again for some or all sessions, and then remake only the rows whose input became different.

    slowwave reprocess observe --project /home/ada/tidepool --since 2026-10-01

The step's output (or its marks) is forgotten for the selection, so the night's own steps find it missing. Rows that
come out the same keep their ids, so the later steps do nothing about them.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from slowwave.flows.nightly import publish_run, run_steps_after_read
from slowwave.flows.parts.finish import finish_forgettings
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import open_run, run_step
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    FILES,
    GISTS,
    MARKS,
    PASSAGES,
    SESSIONS,
    SUMMARIES,
    TOPIC_HISTORY,
    Table,
)
from slowwave.schemas.vocabulary import Status, SummaryScope
from slowwave.store.names import find_sessions
from slowwave.store.store import Store
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.gists.task import write_gists
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.relate.task import name_unit
from slowwave.tasks.summarize.task import roll_up
from slowwave.text.pyramid import compute_master_id
from slowwave.text.times.dates import convert_to_utc
from slowwave.text.words import count_noun
from slowwave.text.workspaces import require_workspaces

Named = Literal[
    "read",
    "passages",
    "gists",
    "boilerplate",
    "habits",
    "attempts",
    "observe",
    "dedupe",
    "supersede",
    "relate",
    "checks",
    "assign",
]
"""Steps of a night that can be done again under their own names."""
Redoable = Literal[Named, "topics", "summaries"]
"""Steps that can be done again."""
Daily = Literal[Named, "summaries"]
"""Steps that can be done again for the sessions of a day."""
DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
HOUR = r"([01]\d|2[0-3]):[0-5]\d"
Moment = Annotated[
    datetime,
    Field(json_schema_extra={"pattern": f"^{DAY}([T ]{HOUR}\\S*)?$"}),
]
"""A day or time. The pattern is for forms: Prefect's server checks no format."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Selection:
    """Which sessions: by ids as commands print them, by project, by time. Empty: all."""

    sessions: Annotated[tuple[str, ...], Field(description="Ids of sessions.")] = ()
    workspace: Annotated[str | None, Field(description="Their project.")] = None
    since: Annotated[
        Moment | None, Field(description="Sessions that ended then or later.")
    ] = None
    until: Annotated[
        Moment | None, Field(description="Sessions that began before.")
    ] = None

    def select_sessions(self, store: Store) -> pl.DataFrame:
        """Return the chosen rows of SESSIONS.

        Raises:
            UsageError: the vault does not hold a session or project.
        """
        rows = pl.DataFrame(store.read(SESSIONS))
        if self.sessions:
            rows = rows.filter(
                pl.col("session_id").is_in(sorted(find_sessions(store, self.sessions)))
            )
        if self.workspace:
            rows = rows.filter(
                pl.col("workspace").is_in(
                    require_workspaces(self.workspace, rows["workspace"])
                )
            )
        if self.since:
            rows = rows.filter(pl.col("ended_at") >= convert_to_utc(self.since))
        return (
            rows.filter(pl.col("started_at") < convert_to_utc(self.until))
            if self.until
            else rows
        )


def make_selection(given: Mapping[str, Any]) -> Selection:
    """Return the selection that plain values (a deployment's parameters, which are JSON) describe.

    Raises:
        UsageError: an unknown name, or a time that is not ISO.
    """
    if unknown := sorted(given.keys() - {field.name for field in fields(Selection)}):
        known = ", ".join(field.name for field in fields(Selection))
        raise UsageError(f"a selection has no {', '.join(unknown)}: it has {known}")
    values = dict(given)
    for name in ("since", "until"):
        if values.get(name) is not None and not isinstance(values[name], datetime):
            try:
                values[name] = datetime.fromisoformat(values[name])
            except (ValueError, TypeError):
                raise UsageError(
                    f"{name} is {values[name]!r}; it is a day or time like 2026-10-01"
                ) from None
    sessions = values.get("sessions") or ()
    values["sessions"] = (sessions,) if isinstance(sessions, str) else tuple(sessions)
    return Selection(**values)


def _blank(
    store: Store,
    table: Table,
    rows: pa.Table,
    column: str = "step_key",
) -> None:
    """Clear the step key of rows, so the step makes them anew. They stay until then."""
    store.merge(
        table,
        set_columns(
            rows, **{column: None if table.schema.field(column).nullable else ""}
        ),
    )


def _blank_marks(
    step: str,
    store: Store,
    chosen: pl.DataFrame,
) -> None:
    """Forget that the step was done with the chosen sessions."""
    ids = chosen["session_id"].to_list()
    _blank(
        store=store,
        table=MARKS,
        rows=store.read_ids(MARKS, ids, by="unit_id", where=pc.field("step") == step),
        column="input_key",
    )


def _blank_rows(
    table: Table,
    store: Store,
    chosen: pl.DataFrame,
) -> None:
    """Clear the step key of the table's rows that were made of the chosen sessions."""
    _blank(
        store,
        table,
        store.read_ids(table, chosen["session_id"].to_list(), by="session_id"),
    )


def _blank_claims(
    column: str,
    store: Store,
    chosen: pl.DataFrame,
) -> None:
    """Clear `column`, a step's key, in the chosen sessions' claims and in the claims that repeat them or that they
    repeat.

    Only active claims and duplicates are changed.
    """
    names = ["claim_id", "canonical_id"]
    own = store.read_ids(CLAIMS, chosen["session_id"].to_list(), names, by="session_id")
    heads = set(pc.coalesce(own["canonical_id"], own["claim_id"]).to_pylist())
    repeats = store.read_ids(CLAIMS, heads, names, by="canonical_id")[
        "claim_id"
    ].to_pylist()
    standing = pc.field(column).is_valid() & pc.field("status").isin(
        [Status.ACTIVE, Status.DUPLICATE]
    )
    _blank(
        store=store,
        table=CLAIMS,
        rows=store.read_ids(CLAIMS, heads.union(repeats), where=standing),
        column=column,
    )


def _forget_files(store: Store, chosen: pl.DataFrame) -> None:
    store.delete_ids(FILES, chosen["path"].unique().to_list())


def _forget_related(store: Store, chosen: pl.DataFrame) -> None:
    """Forget that the claims of the chosen sessions' workspaces were related."""
    units = {name_unit(workspace) for workspace in chosen["workspace"]}
    store.delete_ids(
        MARKS, [compute_content_id("relate", unit) for unit in sorted(units)]
    )


def _forget_checks(store: Store, chosen: pl.DataFrame) -> None:
    """Forget which checkouts were checked, whatever sessions are chosen."""
    marks = store.read(MARKS, [MARKS.key], pc.field("step") == "checks")
    store.delete_ids(MARKS, marks[MARKS.key].to_pylist())


def _blank_summaries(store: Store, chosen: pl.DataFrame) -> None:
    """Clear the step key of the chosen sessions' summaries; if every session is chosen, of the topics' too."""
    _blank_marks("rollup", store, chosen)
    theirs = pc.field("scope_id").isin(chosen["session_id"].to_list())
    if chosen.height == store.count(SESSIONS):
        theirs |= pc.field("scope") == SummaryScope.TOPIC
    _blank(store, SUMMARIES, store.read(SUMMARIES, where=theirs))


def _forget_topics(store: Store, chosen: pl.DataFrame) -> None:
    """Let the topics and their summaries be made anew, and delete the topics' history. The claims stay.

    Raises:
        UsageError: not every session is chosen.
    """
    if chosen.height != store.count(SESSIONS):
        raise UsageError(
            "topics are rebuilt from all sessions: `assign` places the claims of some of them again"
        )
    _blank_claims("assign_key", store, chosen)
    store.delete_ids(
        TOPIC_HISTORY,
        store.read(TOPIC_HISTORY, [TOPIC_HISTORY.key])[TOPIC_HISTORY.key].to_pylist(),
    )
    _blank(
        store,
        SUMMARIES,
        store.read(SUMMARIES, where=pc.field("scope") == SummaryScope.TOPIC),
    )


FORGET: dict[str, Callable[..., None]] = {
    "read": _forget_files,
    "passages": partial(_blank_rows, PASSAGES),
    "gists": partial(_blank_rows, GISTS),
    **{
        step: partial(_blank_marks, step)
        for step in ("boilerplate", "habits", "attempts", "observe")
    },
    "dedupe": partial(_blank_claims, "dedupe_key"),
    "supersede": partial(_blank_claims, "supersede_key"),
    "relate": _forget_related,
    "checks": _forget_checks,
    "assign": partial(_blank_claims, "assign_key"),
    "topics": _forget_topics,
    "summaries": _blank_summaries,
}
"""How each step that can be done again (`Redoable`) forgets its output for the chosen sessions."""
STEP_OF = {"gists": write_gists, "summaries": roll_up}
"""Steps whose missing output alone can be made."""


def run_backfill(
    step: str,
    selection: Selection,
    settings: Settings,
    call: Callable[..., Any] = operator.call,
) -> Iterator[tuple[date | None, RunReport]]:
    """Do a step again a day at a time, oldest first; yield each day (UTC, of a session's beginning) and its run.

    Each day is a run, and a release if something changed. If a run is killed, the days before it are kept. Sessions
    without a time come last, as the day None.

    Raises:
        UsageError: as `run_reprocess`; or the step is topics, which are made of all sessions at once.
        StoreLocked: another run holds the store.
    """
    if step == "topics":
        raise UsageError("topics are made of all sessions at once, not a day at a time")
    store = Store.open(settings.store, settings.space)
    chosen = selection.select_sessions(store)
    if chosen.is_empty():
        raise UsageError("no session is chosen: none in the vault is of that time")
    days = chosen.group_by(pl.col("started_at").dt.date().alias("day")).agg(
        "session_id"
    )
    for day, ids in (
        days.sort("day", nulls_last=True).select("day", "session_id").rows()
    ):
        yield day, run_reprocess(step, Selection(tuple(ids)), settings, call=call)


def run_reprocess(
    step: str,
    selection: Selection,
    settings: Settings,
    *,
    missing: bool = False,
    call: Callable[..., Any] = operator.call,
) -> RunReport:
    """Do a step again for the selection, remake what depends on it, publish, and return the report.

    Args:
        step: one of `FORGET`.
        selection: its sessions.
        settings: of the run; they name the memory's writer.
        missing: for gists and summaries: make those that are missing, as the night would, and keep the others.
        call: how a step is run.

    Raises:
        UsageError: the step, a session or a workspace is unknown, the selection is empty, gists are off, or the
            settings name another writer than the memory's.
        StoreLocked: another run holds the store.
    """
    if step not in FORGET:
        raise UsageError(f"no step {step!r}: it is one of {', '.join(FORGET)}")
    if missing and step not in ("gists", "summaries"):
        raise UsageError(
            f"nothing called {step!r} can be filled in: gists and summaries can"
        )
    if step == "gists" and settings.gists == "off":
        raise UsageError(
            "gists are off: set SLOWWAVE_GISTS, or name a strategy with --gists"
        )
    with open_run("reprocess", settings, call=call, rewrite=False) as (job, report):
        finish_forgettings(job, report)
        # 1. Choose the sessions, and forget the step's output for them.
        chosen = selection.select_sessions(job.store)
        if selection != Selection() and chosen.is_empty():
            raise UsageError(
                "no session is chosen: none in the vault is of that project and time"
            )
        if not missing:
            report.notes.append(
                f"{count_noun(chosen.height, 'session')} chosen for {step}"
            )
            FORGET[step](job.store, chosen)
        # 2. Run the step and those that depend on it. Nothing depends on gists.
        if step == "read":
            paths = [
                path
                for path in map(Path, chosen["path"].unique().sort().to_list())
                if path.exists()
            ]
            run_step(job, report, read_transcripts, paths)
        if step == "gists" or missing:
            report.steps.append(
                job.call(STEP_OF[step], job, frozenset(chosen["session_id"]))
            )
            publish_run(job, report, complete=False)
        else:
            run_steps_after_read(job, report)
    return report


def list_masters(selection: Selection, settings: Settings) -> list[dict[str, Any]]:
    """Return the master summaries of the chosen sessions, rows of SUMMARIES by time, each with a title.

    Raises:
        UsageError: a session or workspace is unknown.
    """
    store = Store.open(settings.store, settings.space)
    chosen = selection.select_sessions(store).iter_rows(named=True)
    names = {compute_master_id(row["session_id"]): row["native_id"] for row in chosen}
    rows = store.read_ids(SUMMARIES, names).to_pylist()
    named = [{**row, "title": row["title"] or names[row["summary_id"]]} for row in rows]
    return sorted(
        named, key=lambda row: (row["last_at"] is None, row["last_at"], row["scope_id"])
    )
