"""The flows under a real Prefect server, and that what the deployment names is there."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prefect import Flow, flow, task
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.testing.utilities import prefect_test_harness

from slowwave.flows.under_prefect import (
    export,
    nightly,
    reprocess,
    run_night_under_prefect,
    run_under_prefect,
)
from slowwave.schemas.errors import StoreLocked
from slowwave.store.lock import writer_lock

# Prefect's test server warns at its end, on some machines.
pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def test_the_deployments_name_flows_that_are_there() -> None:
    declared = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
    named = {one["name"]: one for one in declared["deployments"]}
    assert set(named) == {"nightly", "reprocess", "export"}
    for one in named.values():
        module, _, name = one["entrypoint"].rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, Flow)
        assert set(one["parameters"]) <= set(found.parameters.properties)
    assert named["nightly"]["schedules"][0]["cron"] == "0 3 * * *"
    assert named["nightly"]["concurrency_limit"]["limit"] == 1


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


def test_a_night_a_reprocessing_and_an_export_under_prefect(server: None, tmp_path: Path) -> None:
    given = {"store": str(tmp_path / "s"), "encoder": "hash-384", "gists": "extractive"}
    report = nightly([str(SAMPLES)], given)
    assert report.release is not None
    assert [s.step for s in report.steps] == [
        *("read", "passages", "gists", "boilerplate", "habits", "observe", "dedupe", "supersede"),
        *("relate", "assign", "rollup", "publish"),
    ]
    assert reprocess("observe", {"workspace": "/home/ada/tidepool-web"}, given).release is None
    assert export(str(tmp_path / "out"), "jsonl", given)["release"] == "r1"
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs()
        assert {run.state_name for run in runs} == {"Completed"}
        tasks = client.read_task_runs()
        assert len(tasks) == 12 + 10  # `gists` of a reprocessing are of its step alone
        assert {run.name.rsplit("-", 1)[0] for run in tasks} == {step.step for step in report.steps}
        shown = client.read_artifacts()
        assert any("| passages |" in str(one.data) for one in shown)


def test_what_the_work_raises_is_no_failure_of_prefect(
    server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []

    @task
    def fails() -> None:
        called.append("step")
        raise ConnectionError("a step's own server is away")

    with pytest.raises(ConnectionError, match="own server"):
        run_under_prefect(fails, fails.fn)
    (tmp_path / "default").mkdir()
    with writer_lock(tmp_path / "default", "another", "nightly"), pytest.raises(StoreLocked):
        run_night_under_prefect([str(SAMPLES)], {"store": str(tmp_path)})
    assert called == ["step"]
    assert "slowwave: Prefect" not in capsys.readouterr().err


def test_what_is_done_when_prefect_loses_its_run_is_not_done_twice(
    server: None, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []

    @flow
    def outlives_its_run() -> str:
        called.append("flow")
        with get_client(sync_client=True) as client:
            client.delete_flow_run(flow_run.id)
        return "done"

    assert run_under_prefect(outlives_its_run, outlives_its_run.fn) == "done"
    assert called == ["flow"]
    assert "slowwave: Prefect could not note that outlives-its-run is done" in capsys.readouterr().err
