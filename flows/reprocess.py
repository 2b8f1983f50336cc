"""Do a step again: for some sessions or for all, and then only what depends on what came out differently.

    slowwave reprocess observe --workspace /home/ada/tidepool --since 2026-10-01

A step forgets its output (or its marks) for the selection; the night's own steps then find it lacking. What comes out
the same has the same ids, so nothing after it is done again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.nightly import STEPS, run_steps_after_read
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import Caller, open_run, run_as_function, run_step
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import FILES, GISTS, MARKS, OBSERVATIONS, PASSAGES, SESSIONS, SUMMARIES, TOPIC_HISTORY
from slowwave.schemas.vocabulary import Status, SummaryScope
from slowwave.store.store import Store
from slowwave.store.workspaces import require_workspaces
from slowwave.tasks.boilerplate.task import find_boilerplate
from slowwave.tasks.dedupe.task import dedupe_observations
from slowwave.tasks.gists.task import write_gists
from slowwave.tasks.habits.task import find_habits
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import get_model, keeps_model_rows
from slowwave.tasks.observe.task import observe_sessions
from slowwave.tasks.passages.task import write_passages
from slowwave.tasks.pending import is_made_by_model
from slowwave.tasks.publish.task import find_run_release, publish_release
from slowwave.tasks.relate.task import name_unit, relate_claims
from slowwave.tasks.summarize.task import roll_up
from slowwave.tasks.supersede.task import supersede_observations
from slowwave.tasks.topics.task import assign_topics
from slowwave.text.dates import convert_to_utc
from slowwave.text.pyramid import compute_master_id


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
            rows = rows.filter(pl.col("ended_at") >= convert_to_utc(self.since))
        return rows.filter(pl.col("started_at") < convert_to_utc(self.until)) if self.until else rows


def forget_rows(store: Store, chosen: pl.DataFrame, table: Any) -> None:
    """Remove derived rows of the chosen sessions."""
    rows = store.read_ids(table, chosen["session_id"].to_list(), [table.key], by="session_id")
    store.delete_ids(table, rows.column(table.key).to_pylist())


def forget_keys(store: Store, rows: pa.Table, table: Any, *, keep: bool) -> None:
    """Forget under which settings these rows were made, but for a model's: they stand until others take their place."""
    said = [row for row in rows.to_pylist() if not (keep and is_made_by_model(row["step_key"]))]
    store.merge(table, pa.Table.from_pylist([{**row, "step_key": ""} for row in said], schema=table.schema))


def forget_marks(store: Store, chosen: pl.DataFrame, step: str) -> None:
    """Forget that the step was done with the chosen sessions; that a model did it is known on."""
    rows = store.read_ids(MARKS, chosen["session_id"].to_list(), by="unit_id", where=pc.field("step") == step)
    again = [{**row, "input_key": ""} for row in rows.to_pylist()]
    store.merge(MARKS, pa.Table.from_pylist(again, schema=MARKS.schema))


def forget_related(store: Store, chosen: pl.DataFrame) -> None:
    """Forget that the claims of the chosen sessions' workspaces were related."""
    units = {name_unit(workspace) for workspace in chosen["workspace"]}
    store.delete_ids(MARKS, [compute_content_id("relate", unit) for unit in sorted(units)])


def forget_column(store: Store, chosen: pl.DataFrame, column: str, *, keep: bool) -> None:
    """Forget that the step that writes `column` looked at the chosen sessions' claims, but for what a model did.

    With them whatever they were held to repeat and whatever repeats them: a canonical claim's evidence is its whole
    group's.
    """
    mine = store.read_ids(OBSERVATIONS, chosen["session_id"].to_list(), by="session_id").to_pylist()
    heads = {row["canonical_id"] or row["observation_id"] for row in mine}
    group = [
        *store.read_ids(OBSERVATIONS, heads).to_pylist(),
        *store.read_ids(OBSERVATIONS, heads, by="canonical_id").to_pylist(),
    ]
    rows = list({row["observation_id"]: row for row in [*mine, *group]}.values())
    rows = [row for row in rows if row[column] is not None and not (keep and is_made_by_model(row[column]))]
    pending = [{**row, column: None} for row in rows if row["status"] in (Status.ACTIVE, Status.DUPLICATE)]
    store.merge(OBSERVATIONS, pa.Table.from_pylist(pending, schema=OBSERVATIONS.schema))


def forget_summaries(store: Store, chosen: pl.DataFrame, *, keep: bool) -> None:
    """Forget the chosen sessions' summaries; with every session chosen, the topics' too."""
    forget_marks(store, chosen, "rollup")
    everything = chosen.height == store.count(SESSIONS)
    rows = store.read(SUMMARIES)
    mine = pc.is_in(rows["scope_id"], pa.array(chosen["session_id"].to_list(), pa.string()))
    mine = pc.or_(mine, pc.and_(pc.equal(rows["scope"], SummaryScope.TOPIC), everything))
    forget_keys(store, rows.filter(mine), SUMMARIES, keep=keep)


def forget_topics(store: Store, chosen: pl.DataFrame, *, keep: bool) -> None:
    """Count the topics, their history and their summaries as never made, but for a model's; observations stay, and
    summaries until others take their place.

    Raises:
        UsageError: not every session is chosen.
    """
    if chosen.height != store.count(SESSIONS):
        raise UsageError("topics are made anew from all sessions: `assign` places the claims of some of them again")
    forget_column(store, chosen, "assign_key", keep=keep)
    events = store.read(TOPIC_HISTORY, [TOPIC_HISTORY.key, "step_key"]).to_pylist()
    again = [row[TOPIC_HISTORY.key] for row in events if not (keep and is_made_by_model(row["step_key"]))]
    store.delete_ids(TOPIC_HISTORY, again)
    forget_keys(store, store.read(SUMMARIES, where=pc.field("scope") == SummaryScope.TOPIC), SUMMARIES, keep=keep)


Forget = Callable[..., None]
Step = Callable[[Job], StepReport]
FORGET: dict[str, Forget] = {
    "read": lambda store, chosen, *, keep: store.delete_ids(FILES, chosen["path"].unique().to_list()),
    "passages": lambda store, chosen, *, keep: forget_rows(store, chosen, PASSAGES),
    "gists": lambda store, chosen, *, keep: forget_keys(
        store, store.read_ids(GISTS, chosen["session_id"].to_list(), by="session_id"), GISTS, keep=keep
    ),
    "boilerplate": lambda store, chosen, *, keep: forget_marks(store, chosen, "boilerplate"),
    "habits": lambda store, chosen, *, keep: forget_marks(store, chosen, "habits"),
    "observe": lambda store, chosen, *, keep: forget_marks(store, chosen, "observe"),
    "dedupe": lambda store, chosen, *, keep: forget_column(store, chosen, "dedupe_key", keep=keep),
    "supersede": lambda store, chosen, *, keep: forget_column(store, chosen, "supersede_key", keep=keep),
    "relate": lambda store, chosen, *, keep: forget_related(store, chosen),
    "assign": lambda store, chosen, *, keep: forget_column(store, chosen, "assign_key", keep=keep),
    "topics": forget_topics,
    "summaries": forget_summaries,
}
"""Steps that can be done again, and how each forgets; with `keep` what a language model made stands."""
TASKS: dict[str, ModelTask] = {
    "gists": "extract", "observe": "extract", "dedupe": "judge", "supersede": "judge", "assign": "topics",
    "topics": "topics", "summaries": "summaries",
}  # fmt: skip
"""What of a model a step is done with."""


OF_THE_STEP = ("llm", "models", "engine", "gists")
"""Settings of a command that say how the named step is done again; the steps that it leaves alone have the usual."""
FIRST: dict[str, Step] = {
    "boilerplate": find_boilerplate, "observe": observe_sessions, "dedupe": dedupe_observations,
    "supersede": supersede_observations, "relate": relate_claims, "assign": assign_topics, "topics": assign_topics,
    "summaries": roll_up,
}  # fmt: skip
"""The step of the night that does it; those after it depend on it."""
ALONE: dict[str, Step] = {"passages": write_passages, "gists": write_gists, "habits": find_habits}
"""Steps of the night on which no other depends."""


def find_untouched(step: str) -> list[Step]:
    """Return the steps of the night that do not depend on the one that is done again."""
    if step in ALONE:
        return [one for one in STEPS if one is not ALONE[step]]
    return list(STEPS[: STEPS.index(FIRST[step])]) if step in FIRST else []


def run_reprocess(
    step: str,
    selection: Selection,
    settings: Settings,
    call: Caller = run_as_function,
    usual: Settings | None = None,
) -> RunReport:
    """Do a step again for the selection, and what depends on it.

    Args:
        step: one of `FORGET`.
        selection: its sessions.
        settings: how the step, and what depends on it, is done.
        call: how a step is run.
        usual: settings of the steps that do not depend on it: they finish what a run that was killed left, and make
            nothing anew by another model. None: `settings`.

    Raises:
        UsageError: an unknown step, session or workspace, or a selection without a session.
        StoreLocked: another run is at it.
    """
    if step not in FORGET:
        raise UsageError(f"no step {step!r}: one of {', '.join(FORGET)} can be done again")
    if step == "gists":
        _refuse_without_gists(settings)
    with open_run("reprocess", settings) as (job, report):
        chosen = selection.select_sessions(job.store)
        if selection != Selection() and chosen.is_empty():
            raise UsageError("no session is chosen: none in the vault is of that workspace and time")
        report.notes.append(f"{chosen.height} sessions chosen for {step}")
        task = TASKS.get(step)
        keep = task is not None and keeps_model_rows(job, get_model(job, task))
        FORGET[step](job.store, chosen, keep=keep)
        if step == "read":
            paths = [path for path in map(Path, chosen["path"].unique().sort().to_list()) if path.exists()]
            run_step(call, report, read_transcripts, job, paths)
        if step == "gists":
            _fill_and_release(job, report, call, write_gists, chosen)
            return report
        other = Job(usual or settings, job.run_id)
        run_steps_after_read(job, report, call, jobs=dict.fromkeys(find_untouched(step), other))
    return report


def fill_in(
    step: str, selection: Selection, settings: Settings, call: Caller = run_as_function
) -> tuple[RunReport, list[dict[str, Any]]]:
    """Do a step where it lacks, and release: what the night would write, now. Return the chosen sessions' masters too,
    rows of SUMMARIES by time, each with a title, where summaries are filled in.

    Raises:
        UsageError: a step that can't be, a session that the vault does not hold, or gists that are off.
        StoreMissing: there is no store.
        StoreLocked: a run is at it.
    """
    if step not in ("gists", "summaries"):
        raise UsageError(f"nothing called {step!r} can be filled in: gists and summaries can")
    if step == "gists":
        _refuse_without_gists(settings)
    with open_run("reprocess", settings) as (job, report):
        chosen = selection.select_sessions(job.store)
        if step == "summaries" and chosen.is_empty():
            raise UsageError("no session that is chosen is in the vault")
        _fill_and_release(job, report, call, write_gists if step == "gists" else roll_up, chosen)
        masters = {compute_master_id(row["session_id"]): row["native_id"] for row in chosen.iter_rows(named=True)}
        rows = job.store.read_ids(SUMMARIES, masters).to_pylist() if step == "summaries" else []
    named = [{**row, "title": row["title"] or masters[row["summary_id"]]} for row in rows]
    return report, sorted(named, key=lambda row: (row["last_at"] is None, row["last_at"], row["scope_id"]))


def _fill_and_release(job: Job, report: RunReport, call: Caller, write: Step, chosen: pl.DataFrame) -> None:
    """Write what the chosen sessions lack of a step on which nothing else depends, and release it."""
    report.steps += [call(write, job, frozenset(chosen["session_id"])), call(publish_release, job)]
    report.release = find_run_release(job)


def _refuse_without_gists(settings: Settings) -> None:
    if settings.gists == "off":
        raise UsageError("gists are off: set SLOWWAVE_GISTS, or name a strategy with --gists")
