"""Isolation of failures: a failed group is done again unit by unit, and units that fail go to quarantine.

A step does its units (sessions, topics) in groups, for speed. Where a group raises what nobody foresaw, its halves are
tried, and theirs, until the units that fail stand alone; the others are done. Those that failed are marked nowhere, so
the next night tries them again, and what was made of them before stands. What would fail everywhere is raised as it is:
the store, the disk, a model that can't be had, settings that can't be obeyed.
"""

import errno
import logging
import re
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from slowwave.schemas.errors import BadRows, SlowwaveError
from slowwave.schemas.rows import QuarantinedRow
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.quarantine import (
    EXCERPT,
    build_quarantine_row,
    update_quarantine,
)
from slowwave.tasks.shards import ShardsFailed
from slowwave.text.redact import redact_text

LOG = logging.getLogger(__name__)
U = TypeVar("U", bound=str)

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Error numbers of a full, read-only or failing disk."""
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
"""An object's address in memory: it differs each night for the same failure."""
WHOLE_STEP = "step"


def is_lasting(error: Exception) -> bool:
    """Return True if an error would recur for every other unit too, so that going on is of no use.

    All errors raised on purpose are, but for rows that can't be stored: those are one step's mistake.
    """
    if isinstance(error, SlowwaveError):
        return not isinstance(error, BadRows)
    return isinstance(error, OSError) and error.errno in DISK


def do_apart(
    units: Sequence[U], do: Callable[[Sequence[U]], object]
) -> dict[U, Exception]:
    """Do some units' work, all at once if possible; return what was raised of those that can't be done.

    Raises:
        Exception: what `is_lasting`.
    """
    try:
        if units:
            do(units)
        return {}
    except Exception as raised:
        error, bad = (
            (raised.first, raised.units)
            if isinstance(raised, ShardsFailed)
            else (raised, frozenset(units))
        )
        if is_lasting(error):
            raise error from error.__cause__
        if len(units) == 1:
            return {units[0]: error}
    good = [unit for unit in units if unit not in bad]
    half = len(units) // 2
    apart = 0 < len(good) < len(units)  # shards may be of texts, and units sessions
    parts = (
        (good, [unit for unit in units if unit in bad])
        if apart
        else (units[:half], units[half:])
    )
    return do_apart(parts[0], do) | do_apart(parts[1], do)


def note_failed_units(
    job: Job,
    report: StepReport,
    kind: str,
    failed: Mapping[str, Exception],
    left: Collection[str] = (),
) -> None:
    """Put the units that failed into quarantine and the report; earlier failures of others are resolved.

    Args:
        job: the run.
        report: the step's.
        kind: what a unit is: session, topic; or the step as a whole.
        failed: what was raised, by the unit's id.
        left: units that were to be done and were not tried.
    """
    rows = []
    waiting = {f"{unit}/{kind}" for unit in left}
    clean = redact_text if job.settings.redact else str
    for unit, error in failed.items():
        LOG.info("%s/%s of %s failed", unit, kind, report.step, exc_info=error)
        rows.append(
            _build_failure_row(
                step=report.step, row_id=f"{unit}/{kind}", error=error, clean=clean
            )
        )
    if failed:
        many = f"{len(failed)} {kind}s" if len(failed) > 1 else f"a {kind}"
        what = f"{many} of {report.step} failed, tried again next night"
        if kind == WHOLE_STEP:
            what = f"{report.step} failed, what it had made before stands"
        report.failed.append(
            f"{what}: {_describe_failure(next(iter(failed.values())))}"
        )

    def is_settled(row: QuarantinedRow) -> bool:
        return str(row["row_id"]).endswith(f"/{kind}") and row["row_id"] not in waiting

    update_quarantine(
        store=job.store, step=report.step, rows=rows, is_settled=is_settled
    )


def _build_failure_row(
    step: str,
    row_id: str,
    error: Exception,
    clean: Callable[[str], str],
) -> QuarantinedRow:
    """Return the row of QUARANTINE of a unit that failed, with the end of the traceback.

    Equal failures of a unit give equal rows. `clean` takes secrets out.
    """
    why = clean(_describe_failure(error))
    trace = "".join(traceback.format_exception(error))
    excerpt = clean(ADDRESS.sub("0x…", trace))[-EXCERPT:]
    return build_quarantine_row(
        step=step,
        key=(row_id, why, excerpt),
        reason=why,
        excerpt=excerpt,
        row_id=row_id,
    )


def _describe_failure(error: Exception) -> str:
    """Return an error's kind and words in one line."""
    return " ".join(traceback.format_exception_only(error)[-1].split())
