"""The graph of a night: the tables that each step reads and writes, as docs/architecture.md draws it.

The order of the steps is `STEPS` in `flows/nightly.py`. Prefect's pages show a step after those that wrote what it
reads. Left out: ledgers (`MARKS`, `QUARANTINE` …) and the completions cache, which any step may use.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slowwave.schemas.tables import (
    ACTIONS,
    BOILERPLATE,
    CHECKS,
    CLAIMS,
    DEAD_ENDS,
    FILES,
    GISTS,
    LINES,
    MERGES,
    MESSAGES,
    PASSAGES,
    PATTERNS,
    RELATIONS,
    RELEASES,
    SESSIONS,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
    Table,
)
from slowwave.tasks.job import StepReport


@dataclass(frozen=True)
class StepTables:
    """The tables of one step."""

    reads: tuple[Table, ...]
    """What other steps wrote. A step also reads its own tables, to find what they lack."""
    writes: tuple[Table, ...]


READ = (MESSAGES, SESSIONS, FILES)
MADE = (
    PASSAGES,
    GISTS,
    BOILERPLATE,
    LINES,
    ACTIONS,
    PATTERNS,
    DEAD_ENDS,
    CLAIMS,
    MERGES,
    RELATIONS,
    CHECKS,
    TOPICS,
    TOPIC_HISTORY,
)
GRAPH = {
    "read": StepTables((), READ),
    "forget": StepTables(READ, (*READ, *MADE, SUMMARIES)),
    "passages": StepTables((MESSAGES, SESSIONS), (PASSAGES,)),
    "gists": StepTables((MESSAGES, SESSIONS), (GISTS,)),
    "boilerplate": StepTables((MESSAGES, SESSIONS), (BOILERPLATE, LINES)),
    "habits": StepTables((MESSAGES, SESSIONS), (ACTIONS, PATTERNS)),
    "attempts": StepTables((MESSAGES, SESSIONS), (DEAD_ENDS,)),
    "observe": StepTables((MESSAGES, SESSIONS, PASSAGES, BOILERPLATE), (CLAIMS,)),
    "dedupe": StepTables((MESSAGES, SESSIONS, CLAIMS, BOILERPLATE), (CLAIMS, MERGES)),
    "supersede": StepTables(
        (MESSAGES, SESSIONS, CLAIMS, MERGES, PASSAGES),
        (CLAIMS, MERGES, PASSAGES),
    ),
    "relate": StepTables((CLAIMS,), (RELATIONS,)),
    "checks": StepTables((CLAIMS, PASSAGES, SESSIONS), (CHECKS,)),
    "assign": StepTables((MESSAGES, CLAIMS), (CLAIMS, TOPICS, TOPIC_HISTORY)),
    "rollup": StepTables(
        (MESSAGES, SESSIONS, PASSAGES, BOILERPLATE, CLAIMS, TOPICS),
        (SUMMARIES, TOPICS),
    ),
    "publish": StepTables((*READ, *MADE, SUMMARIES), (RELEASES,)),
}
"""The steps of a run by name, in their order."""


def find_parents(step: str, done: Iterable[StepReport]) -> list[StepReport]:
    """Return the reports of the steps that a step depends on: for each table that it reads, the last step that wrote
    it.

    Args:
        step: its name.
        done: reports of the run so far, in order. If a step has none, the step that wrote its table before it counts. A
            step of a backfill has one for each day, of which the last counts.
    """
    reads = GRAPH[step].reads if step in GRAPH else ()
    writers = {
        table.name: report
        for report in done
        for table in GRAPH[report.step].writes
        if table in reads
    }
    last = {id(report) for report in writers.values()}
    return [report for report in done if id(report) in last]
