"""Check claims against the checkouts that they are about, outside a night: `slowwave check-claims`."""

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
    """Check the claims of the checkouts that changed since the last check, and publish the result. Return the report.

    Raises:
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    with open_run("check-claims", settings, call=call) as (job, report):
        finish_forgettings(job, report)
        run_step(job, report, check_claims)
        publish_run(job, report, complete=False)
    return report
