"""Work under Prefect that does not hang on it: where Prefect fails, the work is done as a plain function instead.

What failed is told by whether the function itself was called and what came of it, not by the kind of error: its own
error is raised as it is, what it did is never done twice, and all else is Prefect's.
"""

import sys
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, TypeVar

from prefect import Flow, Task
from prefect.artifacts import create_markdown_artifact

from slowwave.flows.report import RunReport

Result = TypeVar("Result")


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
                self.results, self.error = [], error
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
    watched.fn = outcome.watch(wrapped.fn)
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
