"""The graph of a night: the tables that each step reads and writes, as docs/architecture.md draws it.

The order of the steps is `STEPS` in `flows/nightly.py`. Prefect's pages show a step below those that wrote what it
reads. Left out: ledgers (`MARKS`, `QUARANTINE` …) and the completions cache, which any step may use.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slowwave.schemas.tables import (
    ACTIONS,
    BOILERPLATE,
    CHECKS,
    CLAIMS,
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
    """Return the reports of the steps that a step depends on: of each table that it reads, the last that wrote it.

    Args:
        step: its name.
        done: reports of the run so far, in order. A step that was left out or failed has none: its parents then stand
            in its place.
    """
    reads = GRAPH[step].reads if step in GRAPH else ()
    writers = {
        table.name: report
        for report in done
        for table in GRAPH[report.step].writes
        if table in reads
    }
    last = {report.step for report in writers.values()}
    return [report for report in done if report.step in last]
