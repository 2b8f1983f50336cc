"""The flows that deployments name (deployments/prefect.yaml), each step of theirs a task.

Prefect is imported here and nowhere else: it takes 3 to 15 s. `slowwave run --plain` calls the same functions without
it. What a step raises is raised as it is; where Prefect itself fails, `PrefectFailed` says so.
"""

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from prefect import Task, flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.runtime import flow_run

from slowwave.flows.export import export_tables
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import NightIncomplete, RunReport
from slowwave.flows.parts.run import STEP_NAMES
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.schemas.errors import SlowwaveError, StoreError
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import UI_PORT, RunStatus
from slowwave.tasks.isolate import is_lasting

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")
RETRY_SECONDS = 2
"""Before a step that failed is tried once more: what it had finished is not done again."""


class Unquoted(SlowwaveError):
    """An error as Prefect may see it: its kind and where it was raised, since its words may quote what was read."""


class PrefectFailed(SlowwaveError):
    """Prefect could not run something, or not note it."""

    def __init__(self, trouble: Exception) -> None:
        reason = " ".join(f"{type(trouble).__name__}: {trouble}".split())
        super().__init__(
            f"Prefect failed ({reason}): what was done is kept, and the next run goes on from it; "
            "`slowwave run --plain` does a night without Prefect"
        )


def hide_words(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function with errors' words removed, which may quote: no forgetting reaches Prefect's server."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Result:
        try:
            return function(*args, **named)
        except (Unquoted, StoreError, NightIncomplete, PrefectFailed):  # words of slowwave's own
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            location = f"{Path(last.filename).name}:{last.lineno}"
            raise Unquoted(f"{type(error).__name__} at {location}: `slowwave inspect runs` has its words") from None

    return call


@contextmanager
def restore_words() -> Iterator[None]:
    """Raise the error that a step or a flow raised as it was, and what Prefect itself raises as `PrefectFailed`."""
    try:
        yield
    except Unquoted as hidden:
        if hidden.__context__ is None:
            raise
        raise hidden.__context__ from hidden.__context__.__cause__
    except SlowwaveError:
        raise
    except Exception as trouble:
        raise PrefectFailed(trouble) from trouble


def run_as_task(step: Callable[..., Result], *args: Any) -> Result:
    """Run a step as a task of Prefect's, tried once more where it failed and might not again.

    Raises:
        PrefectFailed: Prefect can't run it, or not note what came of it.
    """
    task = Task(
        hide_words(step),
        name=STEP_NAMES.get(step.__name__, step.__name__),
        tags={"slowwave"},
        retries=1,
        retry_delay_seconds=RETRY_SECONDS,
        retry_condition_fn=_may_pass,
        cache_policy=NO_CACHE,
    )
    with restore_words():
        return task(*args)


def _may_pass(task: Any, task_run: Any, state: Any) -> bool:
    """Return whether a step's error must not be retried."""
    error = state.result(raise_on_failure=False)
    raised = error.__context__ if isinstance(error, Unquoted) else error
    return not (isinstance(raised, Exception) and is_lasting(raised))


@flow(name="nightly", validate_parameters=False)
@hide_words
def nightly(
    paths: list[str] | None = None,
    overrides: dict[str, Any] | None = None,
    ray: str | None = None,
    rewrite: bool = False,
) -> RunReport:
    """Run a night under Prefect, its report kept as an artifact.

    Args:
        paths: files and folders to read; none: the transcripts of the tools installed for this user.
        overrides: settings by name, over those of the file and the environment.
        ray: "local" or the address of a Ray cluster, which then computes what costs most.
        rewrite: let the writer that the settings name write the memory anew, if another one wrote it.

    Raises:
        NightIncomplete: a step failed, or a session in it; what was left is released. So the flow's run ends as Failed.
    """
    try:
        given = [Path(path) for path in paths or []]
        report = run_night(given, Settings(**overrides or {}), run_as_task, ray=ray, rewrite=rewrite)
    except Exception:
        name_flow_run("failed", RunStatus.FAILED)
        raise
    unchanged = report.status == RunStatus.DONE and report.release is None
    name_flow_run(f"{report.news} new", "unchanged" if unchanged else report.status)
    save_artifact(report, "night-report", "What the night did")
    return report.check_complete()


@flow(name="reprocess", validate_parameters=False)
@hide_words
def reprocess(step: str, selection: dict[str, Any] | None = None, overrides: dict[str, Any] | None = None) -> RunReport:
    """Reprocess under Prefect; `selection` has the fields of `Selection`.

    Raises:
        NightIncomplete: as `nightly`.
    """
    report = run_reprocess(step, Selection(**selection or {}), Settings(**overrides or {}), call=run_as_task)
    save_artifact(report, "reprocess-report", "What was done again")
    return report.check_complete()


@flow(name="export", validate_parameters=False)
@hide_words
def export(to: str, form: str = "parquet", overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Export under Prefect; return the manifest."""
    return export_tables(Settings(**overrides or {}), Path(to), form)


def run_night_under_prefect(
    paths: list[str], overrides: dict[str, Any], ray: str | None = None, *, rewrite: bool = False
) -> RunReport:
    """Run `nightly`.

    Raises:
        PrefectFailed: its server is away, or can't be started.
        StoreLocked: another run is at it.
    """
    try:
        with restore_words():
            return nightly(paths, overrides, ray, rewrite)
    except NightIncomplete as incomplete:
        return incomplete.report


def save_artifact(report: RunReport, key: str, description: str) -> None:
    """Keep the report with the flow's run, its steps as a table, and a link to its page: what quotes stays there."""
    page = f"http://127.0.0.1:{UI_PORT}/night/{report.run_id}"
    with restore_words():
        create_table_artifact(
            report.list_steps(), key=f"{key}-steps", description="Rows that each step read and wrote, and its time"
        )
        create_link_artifact(
            page, "What was learnt", f"{key}-page", "In a browser that opened the address of `slowwave ui`"
        )
        create_markdown_artifact(report.render_markdown(), key=key, description=description)


def name_flow_run(news: str, outcome: str) -> None:
    """Call the flow's run by its night and what is new, tag it by its outcome and emit an event of that, which the
    automations wait for (an event of Prefect's has the tags that a run began with); where Prefect can't, log it.
    """
    try:
        with get_client(sync_client=True) as client:
            name, tags = f"night of {datetime.now():%Y-%m-%d}: {news}", {*flow_run.get_tags(), outcome}
            client.update_flow_run(UUID(flow_run.get_id()), name=name, tags=tags)
        emit_event(
            f"slowwave.night.{outcome}", {"prefect.resource.id": "slowwave.night", "prefect.resource.name": name}
        )
    except Exception as trouble:
        LOG.warning("Prefect could not name the run (%s: %s)", type(trouble).__name__, trouble)
