"""The graph of a night: it is what the steps do, what Prefect's pages show, and what docs/architecture.md draws."""

import operator
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTaskRunId,
)
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL

from slowwave.flows.nightly import STEPS, run_night
from slowwave.flows.parts.graph import GRAPH, find_parents
from slowwave.flows.parts.run import STEP_NAMES
from slowwave.flows.prefect import TaskRunner, nightly, run_night_under_prefect
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    COMPLETIONS,
    EXCLUSIONS,
    FORGOTTEN,
    MARKS,
    QUARANTINE,
    RELEASES,
    RUNS,
    Table,
)
from slowwave.store.store import Store
from slowwave.tasks.job import StepReport
from slowwave.tasks.progress import show_progress
from tests.flows.test_under_prefect import do_night
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"
LEDGERS = {
    table.name
    for table in (MARKS, QUARANTINE, FORGOTTEN, EXCLUSIONS, RUNS, RELEASES, COMPLETIONS)
}
READING = ("open_dataset", "read", "read_as_stored", "read_ids", "count")
WRITING = ("append", "merge", "update", "merge_changed", "delete_ids")
PARENTS = {
    "read": set(),
    "passages": {"read"},
    "gists": {"read"},
    "boilerplate": {"read"},
    "habits": {"read"},
    "attempts": {"read"},
    "observe": {"read", "passages", "boilerplate"},
    "dedupe": {"read", "boilerplate", "observe"},
    "supersede": {"passages", "dedupe", "read"},
    "relate": {"supersede"},
    "checks": {"read", "supersede"},
    "assign": {"read", "supersede"},
    "rollup": {"read", "boilerplate", "supersede", "assign"},
    "publish": {
        "read",
        "gists",
        "boilerplate",
        "habits",
        "attempts",
        "supersede",
        "relate",
        "checks",
        "assign",
        "rollup",
    },
}
"""Of a whole night. Topics are written by `assign` and, with their titles, by `rollup`."""


def watch_tables(
    patch: pytest.MonkeyPatch,
) -> tuple[dict[str, set[str]], dict[str, set[str]], Callable[..., Any]]:
    """Return what each step reads and writes of the store, filled while a night runs, and how that calls a step."""
    reads, writes, inside = (
        defaultdict[str, set[str]](set),
        defaultdict[str, set[str]](set),
        list[object](),
    )

    def watch(name: str, into: dict[str, set[str]]) -> None:
        inner = getattr(Store, name)

        def watched(store: Store, table: Table, *args: Any, **named: Any) -> Any:
            if len(inside) == 1 and table.name not in LEDGERS:
                # A write looks at its table too.
                into[str(inside[0])].add(table.name)
            inside.append(table)
            try:
                return inner(store, table, *args, **named)
            finally:
                inside.pop()

        patch.setattr(Store, name, watched)

    def call(step: Callable[..., Any], *args: Any) -> Any:
        inside.append(STEP_NAMES[step.__name__])
        try:
            return step(*args)
        finally:
            inside.pop()

    for name in READING:
        watch(name, reads)
    for name in WRITING:
        watch(name, writes)
    return reads, writes, call


def test_the_graph_is_what_a_night_reads_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes, call = watch_tables(monkeypatch)
    run_night(
        [SAMPLES],
        Settings(store=tmp_path, encoder="hash-384", gists="extractive"),
        call,
    ).check_complete()
    assert list(reads) == [name for name in GRAPH if name != "forget"]  # nothing is due
    for step, tables in reads.items():
        node = GRAPH[step]
        own = {table.name for table in node.writes}
        assert writes[step] == own - LEDGERS, step
        assert {table.name for table in node.reads} - own == tables - own, step


def test_a_step_that_was_left_out_or_failed_gives_its_place_to_its_parents() -> None:
    done = [
        StepReport(name)
        for name in GRAPH
        if name not in ("gists", "dedupe", "supersede", "forget")
    ]
    assert [report.step for report in find_parents("assign", done[:7])] == [
        "read",
        "observe",
    ]
    assert find_parents("assign", []) == find_parents("of a plugin", done) == []


def test_of_the_days_of_a_backfill_the_last_one_counts() -> None:
    days = [StepReport(name, rows_out=day) for day in (1, 2) for name in GRAPH]
    parents = find_parents("relate", days)
    assert [(one.step, one.rows_out) for one in parents] == [("assign", 2)]


def test_architecture_draws_the_graph() -> None:
    drawing = (
        (ROOT / "docs" / "architecture.md")
        .read_text()
        .split("```mermaid")[1]
        .split("```")[0]
    )
    tables = dict(re.findall(r"(\w+)\[(\w+)\]", drawing))
    edges = re.findall(
        r"^ +([\w &]+) -->\|(\w+)\| (\w+)",
        re.sub(r"[\[({]+[\w ]+[\])}]+", "", drawing),
        re.MULTILINE,
    )
    assert [step for _, step, _ in edges] == [
        step for step in GRAPH if step != "forget"
    ]
    for sources, step, target in edges:
        reads, writes = (
            {table.name for table in some}
            for some in (GRAPH[step].reads, GRAPH[step].writes)
        )
        drawn = {tables[name] for name in sources.split(" & ") if name in tables}
        assert (reads - writes) & set(tables.values()) <= drawn <= reads, step
        assert tables.get(target, RELEASES.name) in writes, step
    assert [name for name in GRAPH if name not in ("read", "forget", "publish")] == [
        STEP_NAMES[step.__name__] for step in STEPS
    ]


def read_edges(client: SyncPrefectClient, flow_run: str) -> dict[str, set[str]]:
    """Return parents by task, as the page of a flow's run draws them."""
    nodes = dict(client._client.get(f"/flow_runs/{flow_run}/graph-v2").json()["nodes"])
    names = {key: node["label"].rsplit("-", 1)[0] for key, node in nodes.items()}
    return {
        names[key]: {names[one["id"]] for one in node["parents"]}
        for key, node in nodes.items()
    }


def test_prefect_shows_the_graph_its_lines_and_its_counts(
    server: None, tmp_path: Path
) -> None:
    given = {"store": str(tmp_path / "s"), "encoder": "hash-384", "gists": "extractive"}
    report = nightly([str(SAMPLES)], given)
    APILogWorker.drain_all(timeout=PATIENCE)
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs()
        assert read_edges(client, str(run.id)) == PARENTS
        tasks = {
            task.name.rsplit("-", 1)[0]: task.id for task in client.read_task_runs()
        }
        artifacts = {one.key: one for one in client.read_artifacts()}
        for step in report.steps:
            wanted = LogFilter(task_run_id=LogFilterTaskRunId(any_=[tasks[step.step]]))
            lines = [line.message for line in client.read_logs(wanted)]
            (begins,) = [
                line for line in lines if line.startswith(f"{step.step} begins")
            ]
            assert all(name in begins for name in PARENTS[step.step])
            ends = f"{step.step} ends: {step.rows_in:,} row"
            assert [
                line
                for line in lines
                if line.startswith(ends) and f"{step.rows_out:,} row" in line
            ]
            counts, progress = (
                artifacts[f"step-{step.step}"],
                artifacts[f"step-{step.step}-progress"],
            )
            assert counts.task_run_id == progress.task_run_id == tasks[step.step]
            assert progress.data == 100
            assert f'{{"what": "rows out", "count": {step.rows_out}}}' in str(
                counts.data
            )


def test_a_night_of_the_command_sends_its_lines_to_the_server_and_none_to_the_terminal(
    server: None, tmp_path: Path
) -> None:
    told = do_night(tmp_path, "--prefect", PREFECT_API_URL=str(PREFECT_API_URL.value()))
    assert (told.returncode, "Released r1" in told.stdout) == (0, True), told.stderr
    assert "observe begins" not in told.stdout + told.stderr
    with get_client(sync_client=True) as client:
        run = max(client.read_flow_runs(), key=lambda run: run.start_time)
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id]))
        lines = [line.message for line in client.read_logs(wanted)]
        assert [
            line for line in lines if line.startswith("observe begins after read (")
        ]
        assert len([line for line in lines if " ends: " in line]) == 13


@pytest.mark.failing
def test_a_failed_step_is_no_parent_and_the_next_ones_hang_together(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("the blue cabinet")

    monkeypatch.setattr("slowwave.flows.prefect.RETRY_SECONDS", 0)
    monkeypatch.setattr("slowwave.tasks.topics.task.refresh_topics", fail)
    given = {
        "store": str(tmp_path / "s"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
    }
    assert run_night_under_prefect([str(SAMPLES / "codex")], given).failures
    with get_client(sync_client=True) as client:
        run = max(client.read_flow_runs(), key=lambda run: run.start_time)
        edges = read_edges(client, str(run.id))
        # Claims as `supersede` left them.
        assert edges["rollup"] == {
            "read",
            "boilerplate",
            "supersede",
        }
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        kept = {
            one.key: one.data for one in client.read_artifacts(artifact_filter=of_run)
        }
        assert "step-assign" not in kept
        assert kept["step-assign-progress"] == 0


def test_progress_moves_while_a_step_runs(
    server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slowwave.flows.prefect.PROGRESS_SECONDS", 0.05)
    wanted = ArtifactFilter(key=ArtifactFilterKey(any_=["step-knit-progress"]))

    def read_progress() -> list[object]:
        with get_client(sync_client=True) as client:
            return [one.data for one in client.read_artifacts(artifact_filter=wanted)]

    def knit() -> str:
        with show_progress("knit", 8) as advance:
            for rows in (2, 4):  # two of eight, then six
                advance(rows)
                wait_until(
                    lambda done=75.0 if rows == 4 else 25.0: read_progress() == [done],
                    read_progress,
                )
        return "knitted"

    assert operator.call(TaskRunner(), knit) == "knitted"
