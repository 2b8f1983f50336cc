"""Finish a forgetting whose run was killed."""

from slowwave.flows.parts.quarantine_sessions import quarantine_candidate
from slowwave.flows.parts.report import RunReport
from slowwave.tasks.forget.lineage import read_plans
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.forget.task import find_live, seal_plans
from slowwave.tasks.job import Job


def erase_plans(job: Job, report: RunReport) -> None:
    """Erase the rows in the plans of killed runs, if that is not done yet."""
    for plan in read_plans(job.store.dir):
        report.notes.append(
            f"forgetting {plan.run_id} was not finished: it is continued"
        )
        if not plan.erased:
            erase(job.store, plan)


def finish_forgettings(job: Job, report: RunReport) -> None:
    """Finish the forgettings of killed runs before this run changes anything.

    The steps of this run, or the next night, remake the rows that depended on the forgotten ones.
    """
    if not read_plans(job.store.dir):
        return
    # a release made now would contain what a gate holds back
    quarantine_candidate(job, report)
    erase_plans(job, report)
    report.notes += [
        f"certificate of what was forgotten: {path}" for path in seal_plans(job)
    ]
    report.release = find_live(job.store)
