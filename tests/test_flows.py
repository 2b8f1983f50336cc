"""The flows under a real Prefect server, and that what the deployment names is there."""

import importlib
from pathlib import Path

import pytest
import yaml
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.testing.utilities import prefect_test_harness

from flows.export import export
from flows.nightly import nightly
from flows.reprocess import reprocess

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "codex"


def test_the_deployments_name_flows_that_are_there() -> None:
    declared = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
    named = {one["name"]: one for one in declared["deployments"]}
    assert set(named) == {"nightly", "reprocess", "export"}
    for one in named.values():
        module, _, name = one["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        assert isinstance(flow, Flow)
        assert set(one["parameters"]) <= set(flow.parameters.properties)
    assert named["nightly"]["schedules"][0]["cron"] == "0 3 * * *"
    assert named["nightly"]["concurrency_limit"]["limit"] == 1


@pytest.mark.filterwarnings("ignore")  # Prefect's test server warns at its end, on some machines
def test_a_night_a_reprocessing_and_an_export_under_prefect(tmp_path: Path) -> None:
    given = {"store": str(tmp_path / "s"), "encoder": "hash-384"}
    with prefect_test_harness(server_startup_timeout=120):
        report = nightly([str(SAMPLES)], given)
        assert report.release is not None
        assert [s.step for s in report.steps] == [
            *("read", "passages", "gists", "boilerplate", "observe", "dedupe", "supersede", "assign", "prototypes"),
            *("rollup", "publish"),
        ]
        assert reprocess("observe", {"workspace": "/home/ada/tidepool-web"}, given).release is None
        assert export(str(tmp_path / "out"), "jsonl", given)["release"] == "r1"
        with get_client(sync_client=True) as client:
            runs = client.read_flow_runs()
            assert {run.state_name for run in runs} == {"Completed"}
            tasks = client.read_task_runs()
            assert len(tasks) == 11 + 10
            shown = client.read_artifacts()
            assert any("| passages |" in str(one.data) for one in shown)
