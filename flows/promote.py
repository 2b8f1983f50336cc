"""Make live what a gate held back, with the reason of whoever looked at it.

slowwave promote --why REASON
"""

from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held, open_run, take_reason
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.tasks.publish.task import find_run_release, publish_release


def promote_candidate(why: str, settings: Settings) -> RunReport:
    """Release the newest tables, whatever the gates say: a person has looked at what would be lost.

    Raises:
        UsageError: no reason is given, or nothing is held back.
        StoreMissing: there is no such store or space.
        StoreLocked: another run is at it.
    """
    why = take_reason(why, settings)
    with open_run("promote", settings) as (job, report):
        if not is_held(job.store):
            raise UsageError("nothing is held back")
        report.notes.append(f"promoted: {why}")
        report.steps.append(publish_release(job, gated=False))
        report.release = find_run_release(job)
    return report
