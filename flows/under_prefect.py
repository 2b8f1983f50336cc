"""The flows that deployments name, and work under Prefect that does not hang on it.

Prefect is imported here and nowhere else: it takes 3 to 15 s. Where it fails, the work is done as a plain function.

What failed is told by whether the function itself was called and what came of it, not by the kind of error: its own
error is raised as it is, what it did is never done twice, and all else is Prefect's.
"""

import sys
import traceback
from collections.abc import Callable
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from prefect import Flow, Task, flow
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from slowwave.flows.export import export_tables
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import NightIncomplete, RunReport
from slowwave.flows.parts.run import STEP_NAMES
from slowwave.flows.parts.selection import Selection
from slowwave.schemas.errors import SlowwaveError, StoreError
from slowwave.schemas.settings import Settings

Result = TypeVar("Result")


class Unquoted(SlowwaveError):
    """What Prefect is told of an error, whose words may quote what was read: its kind, and where it was raised."""


def keep_words(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function, which raises no words that may quote: Prefect's server keeps them, where no forgetting
    reaches. The run's row, quarantine and who called have the error as it is.
    """

    @wraps(function)
    def told(*args: Any, **named: Any) -> Result:
        try:
            return function(*args, **named)
        except (Unquoted, StoreError, NightIncomplete):  # words of slowwave's own, on folders and tables
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            raise Unquoted(f"{type(error).__name__} at {place}: `slowwave inspect runs` has its words") from None

    return told


@flow(name="nightly", validate_parameters=False)
@keep_words
def nightly(paths: list[str] | None = None, overrides: dict[str, Any] | None = None) -> RunReport:
    """Run a night under Prefect, its report kept as an artifact.

    Args:
        paths: files and folders to read; none: the transcripts of the tools installed for this user.
        overrides: settings by name, over those of the file and the environment.

    Raises:
        NightIncomplete: a step failed, or a session in it; what was left is released. So the flow's run ends as Failed.
    """
    report = run_night([Path(p) for p in paths or []], Settings(**overrides or {}), run_as_task)
    save_artifact(report, "night-report", "What the night did")
    return report.check_complete()


@flow(name="reprocess", validate_parameters=False)
@keep_words
def reprocess(step: str, selection: dict[str, Any] | None = None, overrides: dict[str, Any] | None = None) -> RunReport:
    """Reprocess under Prefect; `selection` has the fields of `Selection`.

    Raises:
        NightIncomplete: as `nightly`.
    """
    from slowwave.flows.reprocess import OF_THE_STEP, run_reprocess

    given = overrides or {}
    usual = Settings(**{name: value for name, value in given.items() if name not in OF_THE_STEP})
    report = run_reprocess(step, Selection(**selection or {}), Settings(**given), run_as_task, usual)
    save_artifact(report, "reprocess-report", "What was done again")
    return report.check_complete()


@flow(name="export", validate_parameters=False)
@keep_words
def export(to: str, form: str = "parquet", overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Export under Prefect; return the manifest."""
    return export_tables(Settings(**overrides or {}), Path(to), form)


def run_night_under_prefect(paths: list[str], overrides: dict[str, Any]) -> RunReport:
    """Run `nightly`, or the same night without Prefect where Prefect fails before it has begun.

    Raises:
        StoreLocked: another run is at it.
    """

    def run_plain(paths: list[str], overrides: dict[str, Any]) -> RunReport:
        return run_night([Path(p) for p in paths], Settings(**overrides))

    try:
        return run_under_prefect(nightly, run_plain, paths, overrides)
    except NightIncomplete as incomplete:
        return incomplete.report


def run_as_task(step: Callable[..., Result], *args: Any) -> Result:
    """Run a step under Prefect; where Prefect fails, as the plain function that it is."""
    wrapped = Task(step, name=STEP_NAMES.get(step.__name__, step.__name__), cache_policy=NO_CACHE)
    return run_under_prefect(wrapped, step, *args)


class Outcome:
    """What came of a function when it was last called: its result as the one item, or its error."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, which leaves its outcome here."""

        @wraps(function)
        def watched(*args: Any, **named: Any) -> Any:
            try:
                result = function(*args, **named)
            except BaseException as error:
                # What a flow raises is what Prefect may be told: the error that it was made of is the function's own.
                self.results, self.error = [], error.__context__ if isinstance(error, Unquoted) else error
                raise
            self.results, self.error = [result], None
            return result

        return watched


def run_under_prefect(
    wrapped: "Flow[..., Result] | Task[..., Result]", plain: Callable[..., Result], *args: Any
) -> Result:
    """Call a flow or a task; where Prefect fails before its function is called, call `plain`, and say so on stderr.

    Raises:
        Exception: whatever the function raised, or `plain`.
    """
    outcome, watched = Outcome(), copy(wrapped)
    watched.fn = keep_words(outcome.watch(wrapped.fn))
    try:
        return watched(*args)
    except Exception as trouble:
        if outcome.error is not None:
            raise outcome.error from outcome.error.__cause__
        if outcome.results:
            warn_about_prefect(trouble, f"could not note that {wrapped.name} is done")
            return outcome.results[0]  # type: ignore[no-any-return]
        warn_about_prefect(trouble, f"failed, so {wrapped.name} goes on without it")
    return plain(*args)


def save_artifact(report: RunReport, key: str, description: str) -> None:
    """Keep the report with the flow's run; where Prefect can't, say so: the work is done all the same."""
    try:
        create_markdown_artifact(report.render_markdown(), key=key, description=description)
    except Exception as trouble:
        warn_about_prefect(trouble, "could not keep the report")


def warn_about_prefect(trouble: Exception, what: str) -> None:
    """Print a line on stderr about what Prefect did not do."""
    reason = " ".join(f"{type(trouble).__name__}: {trouble}".split())
    print(f"slowwave: Prefect {what} ({reason})", file=sys.stderr)
