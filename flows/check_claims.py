"""Compare claims with the checkouts that they are about now, without a night: `slowwave check-claims`."""

import operator
from collections.abc import Callable
from typing import Any

from slowwave.flows.nightly import publish_run
from slowwave.flows.parts.finish import finish_forgettings
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import open_run, run_step
from slowwave.schemas.settings import Settings
from slowwave.tasks.checks.task import check_claims


def run_claim_check(
    settings: Settings, call: Callable[..., Any] = operator.call
) -> RunReport:
    """Look at the checkouts that changed since the last night, and publish what came of it.

    Raises:
        StoreMissing: there is no such store or space.
        StoreLocked: another run is at it.
    """
    with open_run("check-claims", settings, call=call) as (job, report):
        finish_forgettings(job, report)
        run_step(job, report, check_claims)
        publish_run(job, report, complete=False)
    return report
