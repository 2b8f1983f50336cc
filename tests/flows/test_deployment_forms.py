"""Deployments on a real Prefect server: its form refuses what a flow can't do, and each flow runs from JSON."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL

from slowwave.flows.export import GRAPH
from slowwave.flows.prefect import (
    ExportForm,
    backfill,
    backup,
    check,
    export,
    forget_due,
    nightly,
    reprocess,
)
from slowwave.flows.reprocess import FORGET, Daily, Redoable
from slowwave.schemas.settings import Settings
from slowwave.tasks.publish.export import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("reprocess/reprocess", {"step": "obsrve"}),
    ("reprocess/reprocess", {"step": "observe", "selection": {"speaker": "Ada"}}),
    ("reprocess/reprocess", {"step": "observe", "selection": {"since": "soon"}}),
    ("reprocess/reprocess", {"step": "observe", "selection": {"since": 20261001}}),
    ("backfill/backfill", {"step": "observe", "selection": {"since": "March"}}),
    ("backfill/backfill", {"step": "observe", "selection": {"since": "2026-13-01"}}),
    ("backfill/backfill", {"step": "observe", "selection": {"until": "2026-10-32"}}),
    (
        "backfill/backfill",
        {"step": "observe", "selection": {"until": "2026-10-01T25:00"}},
    ),
    ("backfill/backfill", {"step": "topics"}),
    ("nightly/nightly", {"space": "../up"}),
    ("nightly/nightly", {"model": ""}),
    ("export/export", {"to": "out", "form": "docx"}),
    ("export/export", {"to": "out", "partition_by": "month"}),
    ("export/export", {"to": "out", "internal": "perhaps"}),
    ("check/check", {"quick": "perhaps"}),
    ("backup/backup", {"to": 7}),
    ("forget-due/forget-due", {"space": "Ada"}),
]
TAKEN: list[tuple[str, dict[str, Any]]] = [
    (
        "reprocess/reprocess",
        {
            "step": "dedupe",
            "selection": {"since": "2026-10-01", "workspace": "/home/ada"},
        },
    ),
    (
        "reprocess/reprocess",
        {
            "step": "observe",
            "selection": {"until": "2026-10-01T04:00:00Z", "sessions": ["s9"]},
        },
    ),
    (
        "nightly/nightly",
        {
            "space": "ada",
            "model": "off",
            "paths": None,
            "overrides": {"keywords": {"top": 0}},
        },
    ),
    (
        "backfill/backfill",
        {
            "step": "gists",
            "selection": {"since": "2026-10-01", "until": "2026-10-08"},
        },
    ),
    ("export/export", {}),
    (
        "export/export",
        {"partition_by": "day", "since": "r1", "release": "r2", "internal": True},
    ),
    ("check/check", {}),
    ("backup/backup", {}),
    ("forget-due/forget-due", {"space": None}),
]


def test_lists_of_choices_are_whole() -> None:
    assert get_args(Redoable) == tuple(FORGET)
    assert set(get_args(Daily)) == set(FORGET) - {"topics"}
    assert get_args(ExportForm) == (*FORMATS, GRAPH)


def order(client: SyncPrefectClient, name: str, parameters: dict[str, Any]) -> str:
    """Order a run as the form does; return its id."""
    deployment = client.read_deployment_by_name(name)
    given = {**deployment.parameters, **parameters}
    return str(
        client.create_flow_run_from_deployment(deployment.id, parameters=given).id
    )


def test_the_server_refuses_what_no_flow_can_do(server: None, tmp_path: Path) -> None:
    # Of the step that asks for the zone.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {
        **os.environ,
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PYTHONPATH": str(ROOT),
        "PATH": path,
    }
    prefect = [str(Path(sys.executable).with_name("prefect")), "--no-prompt"]
    pool = [*prefect, "work-pool", "create", "slowwave", "--type", "process"]
    subprocess.run(pool, env=own, check=True, capture_output=True)
    deploy = [
        *prefect,
        "deploy",
        "--prefect-file",
        str(ROOT / "deployments" / "prefect.yaml"),
        "--all",
    ]
    told = subprocess.run(
        deploy, env=own, cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr
    with get_client(sync_client=True) as client:
        for name, parameters in REFUSED:
            with pytest.raises(PrefectHTTPStatusError, match="409 Conflict"):
                order(client, name, parameters)
        assert all(order(client, name, parameters) for name, parameters in TAKEN)
        tags = {
            deployment.name: set(deployment.tags)
            for deployment in client.read_deployments()
        }
        assert tags["forget-due"] == {"slowwave", "forget"}
        (trigger,) = client._client.post("/automations/filter", json={}).json()
        assert (trigger["enabled"], trigger["trigger"]["expect"]) == (
            False,
            ["slowwave.night.done"],
        )


def test_every_flow_runs_is_named_and_tagged(server: None, tmp_path: Path) -> None:
    store = {
        "store": str(tmp_path / "s"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
    }
    nightly([str(SAMPLES)], store, space="ada", model="off")
    assert (tmp_path / "s" / "ada").is_dir()
    reprocess("dedupe", {"since": "2020-01-01"}, store, space="ada")
    with pytest.raises(Exception, match="no such session"):
        reprocess("dedupe", {"sessions": ["s9"]}, store, space="ada")
    days = backfill("dedupe", {"since": "2020-01-01"}, store, "ada")
    ended = [(day["day"], day["status"], day["release"]) for day in days]
    assert ended == [("2026-09-21", "done", None), ("2026-10-19", "done", None)]
    with pytest.raises(Exception, match="all sessions at once"):
        backfill("topics", overrides=store, space="ada")
    for _ in range(2):
        export(str(tmp_path / "{release}"), overrides=store, space="ada")
    assert check(overrides=store, space="ada")["releases"] == 1
    made = backup(str(tmp_path / "kept" / "{space}-{release}.slowwave"), store, "ada")
    assert (Path(made["file"]).name, made["encrypted"]) == ("ada-r1.slowwave", False)
    with pytest.raises(Exception, match="nothing is ever due"):
        forget_due(store, "ada")
    report = forget_due({**store, "retention": {"messages_days": 1}}, "ada")
    assert report.steps[0].step == "forget"
    assert report.release is not None
    with get_client(sync_client=True) as client:
        runs = {
            (run.name.split(": ", 1)[1], *sorted(run.tags))
            for run in client.read_flow_runs()
            if ": " in run.name
        }
    assert runs >= {
        ("dedupe, nothing released", "dedupe", "unchanged"),
        ("dedupe", "dedupe", "failed"),
        ("dedupe, 2 days", "dedupe", "done"),
        ("topics", "failed", "topics"),
        ("parquet, r1 as parquet", "done", "parquet"),
        ("parquet, r1 as parquet", "parquet", "unchanged"),
        ("whole, 1 releases", "done", "whole"),
        ("space, r1 of ada", "done", "space"),
        ("due", "due", "failed"),
    }
    name = next(iter((Settings(**store).store / "ada").glob("messages.lance/data/*")))
    name.write_bytes(b"")
    with pytest.raises(Exception, match="damaged, `slowwave check --repair` repairs"):
        check(overrides=store, space="ada")
