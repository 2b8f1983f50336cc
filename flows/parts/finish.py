"""What a run that was killed had begun to forget is carried to its end, by whichever run comes next."""

from slowwave.flows.parts.quarantine_sessions import quarantine_candidate
from slowwave.flows.parts.report import RunReport
from slowwave.tasks.forget.lineage import read_plans
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.forget.task import find_live, seal_plans
from slowwave.tasks.job import Job


def erase_plans(job: Job, report: RunReport) -> None:
    """Erase what plans of killed runs say, if that is not done yet."""
    for plan in read_plans(job.store.dir):
        report.notes.append(
            f"forgetting {plan.run_id} was not finished: it is continued"
        )
        if not plan.erased:
            erase(job.store, plan)


def finish_forgettings(job: Job, report: RunReport) -> None:
    """Carry the forgettings of killed runs to their end, before this run changes anything. What depended on them is
    made anew by this run's steps, or by the next night.
    """
    if not read_plans(job.store.dir):
        return
    # A release made now would have what a gate holds back.
    quarantine_candidate(job, report)
    erase_plans(job, report)
    report.notes += [
        f"certificate of what was forgotten: {path}" for path in seal_plans(job)
    ]
    report.release = find_live(job.store)
