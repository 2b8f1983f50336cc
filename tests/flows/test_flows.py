"""The flows under a real Prefect server, and that what the deployment names is there."""

import errno
import importlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow, tags
from prefect.client.orchestration import get_client
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

from slowwave.flows.prefect import (
    PrefectFailed,
    TaskRunner,
    export,
    name_flow_run,
    nightly,
    reprocess,
    restore_words,
    run_night_under_prefect,
)
from slowwave.schemas.errors import StoreLocked, UsageError
from slowwave.schemas.tables import RELEASED
from slowwave.store.lock import writer_lock
from tests.command_line import typed
from tests.talk_files import session
from tests.waiting import wait_until

# Prefect's test server warns at its end, on some machines.
pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def test_the_deployments_name_flows_that_are_there() -> None:
    declared = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
    named = {one["name"]: one for one in declared["deployments"]}
    assert set(named) == {
        "nightly",
        "reprocess",
        "backfill",
        "export",
        "check",
        "backup",
        "forget-due",
    }
    for one in named.values():
        module, _, name = one["entrypoint"].rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, Flow)
        assert set(one["parameters"]) <= set(found.parameters.properties)
    assert named["nightly"]["schedules"][0]["cron"] == "0 3 * * *"
    assert "concurrency_limit" not in named["nightly"]


def test_a_night_a_reprocessing_and_an_export_under_prefect(
    server: None, tmp_path: Path
) -> None:
    given = {"store": str(tmp_path / "s"), "encoder": "hash-384", "gists": "extractive"}
    with tags("of mine"):
        report = nightly([str(SAMPLES)], given)
    nightly([str(SAMPLES)], given)
    assert report.release is not None
    assert [s.step for s in report.steps] == [
        *(
            "read",
            "passages",
            "gists",
            "boilerplate",
            "habits",
            "attempts",
            "observe",
            "dedupe",
            "supersede",
        ),
        *("relate", "checks", "assign", "rollup", "publish"),
    ]
    assert (
        reprocess("observe", {"workspace": "/home/ada/tidepool-web"}, given).release
        is None
    )
    assert export(str(tmp_path / "out"), "jsonl", given)["release"] == "r1"
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs()
        assert {run.state_name for run in runs} == {"Completed"}
        night, news = (
            f"night of {datetime.now():%Y-%m-%d}: ",
            f"{report.steps[0].rows_out} messages in 2 sessions new",
        )
        nights = {run.name: set(run.tags) for run in runs if run.name.startswith(night)}
        assert nights == {
            night + news: {"of mine", "done"},
            f"{night}nothing new": {"unchanged"},
        }
        tasks = client.read_task_runs()
        # A night without news only reads; a reprocessing reads nothing.
        assert len(tasks) == 14 + 1 + 13
        assert {run.name.rsplit("-", 1)[0] for run in tasks} == {
            step.step for step in report.steps
        }
        shown = client.read_artifacts()
        assert any("Released r1: " in str(one.data) for one in shown)
        steps = [
            json.loads(str(one.data))
            for one in shown
            if one.key == "night-report-steps"
        ]
        assert [table[1]["step"] for table in steps] == ["passages", "passages"]
        assert {
            one.key for one in shown if f"/night/{report.run_id})" in str(one.data)
        } == {"night-report-page"}


@pytest.mark.failing
def test_a_flow_of_which_a_step_failed_ends_as_failed_and_tells_prefect_no_words(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, given = (
        [str(SAMPLES)],
        {"store": str(tmp_path / "s"), "encoder": "hash-384", "keywords": {"top": 0}},
    )
    errors: list[Exception] = [KeyError("the blue cabinet")]

    def fail(*_: object, **__: object) -> None:
        raise errors[-1]

    monkeypatch.setattr("slowwave.tasks.topics.task.refresh_topics", fail)
    first: Any = nightly(paths, given, return_state=True)
    assert first.is_failed()
    assert all(
        told in str(first.message)
        for told in ("Released r1", "Not everything was done")
    )
    why = "assign failed, what it had made before stands: KeyError: 'the blue cabinet'"
    assert run_night_under_prefect(paths, given).failures == [why]
    # An error may quote what was said, and Prefect's server is no part of the store: of a step's error the run's row
    # has the words.
    errors.append(OSError(errno.ENOSPC, "no room for the blue cabinet"))
    third: Any = nightly(paths, given, return_state=True)
    assert "Unquoted: OSError at " in str(third.message)
    run_id = str(third.message).split("`slowwave inspect runs` has it, as run ")[1]
    shown = typed("inspect", "runs", "--store", given["store"]).stdout
    assert (
        f"{run_id} failed: failed: OSError: [Errno 28] no room for the blue cabinet"
        in shown
    )
    APILogHandler().flush()
    database = Path(
        str(PREFECT_API_DATABASE_CONNECTION_URL.value()).partition(":///")[2]
    )

    def is_kept(words: bytes) -> bool:
        files = database.parent.glob(f"{database.name}*")
        return any(words in path.read_bytes() for path in files)

    # A busy server writes what it is sent a while later.
    wait_until(lambda: is_kept(b"Unquoted: KeyError at "))
    assert not is_kept(b"blue cabinet")


@pytest.mark.parametrize(
    ("flow", "parameters", "words"),
    [
        (
            reprocess,
            {"step": "dream"},
            "UsageError: no step 'dream': it is one of read, ",
        ),
        (
            reprocess,
            {"step": "observe", "selection": {"sessions": ["s9"]}},
            "UsageError: no such session: s9",
        ),
        (
            reprocess,
            {"step": "observe", "selection": {"speaker": "Ada"}},
            "UsageError: a selection has no speaker",
        ),
        (
            reprocess,
            {"step": "observe", "selection": {"since": "soon"}},
            "UsageError: since is 'soon'; it is a day",
        ),
        (export, {"to": "out", "form": "docx"}, "UsageError: formats are parquet, "),
        (
            export,
            {"to": "out", "overrides": {"space": "../up"}},
            "UsageError: setting space: ",
        ),
        (
            nightly,
            {"paths": ["/nowhere/at/all"]},
            "NoSuchPath: /nowhere/at/all: no such file or folder",
        ),
    ],
)
def test_what_was_asked_wrongly_is_told_in_its_own_words(
    server: None,
    tmp_path: Path,
    flow: Flow[..., object],
    parameters: dict[str, Any],
    words: str,
) -> None:
    store = {
        "store": str(tmp_path / "s"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
    }
    nightly([str(SAMPLES)], store)
    ended: Any = flow(
        **parameters | {"overrides": store | parameters.get("overrides", {})},
        return_state=True,
    )
    assert ended.is_failed()
    assert words in str(ended.message)


def test_an_error_outside_of_a_run_points_to_no_row(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("the blue cabinet")

    monkeypatch.setattr("slowwave.flows.prefect.export_tables", fail)
    ended: Any = export("out", return_state=True)
    assert str(ended.message).endswith(
        ": no run has noted it; the same command in a terminal shows its words"
    )


def test_the_export_deployment_runs_again_and_again(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())[
        "deployments"
    ]
    (parameters,) = [one["parameters"] for one in declared if one["name"] == "export"]
    monkeypatch.chdir(tmp_path)
    store = {
        "store": str(tmp_path / "s"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
    }
    nightly([str(SAMPLES)], store)
    made = [export(**parameters, overrides=store) for _ in range(2)]
    assert [one["written"] for one in made] == [True, False]
    first = {
        path: path.stat().st_mtime_ns
        for path in (tmp_path / "data/export/default/r1").iterdir()
    }
    assert len(first) == len(RELEASED) + 1  # and the manifest
    chat = session(tmp_path, "chat", 2, [("user", "The boiler in the cellar leaks.")])
    nightly([str(chat)], store)
    assert export(**parameters, overrides=store)["to"] == "data/export/default/r2"
    assert {path: path.stat().st_mtime_ns for path in first} == first
    with pytest.raises(Exception, match="is not empty"):
        export(**parameters, form="jsonl", overrides=store)


def test_a_night_whose_run_cannot_be_named_goes_on_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    name_flow_run("nothing new", "unchanged")  # outside of any run
    assert "Prefect could not name the run" in caplog.text


def test_what_a_step_raises_is_raised_as_it_is_and_tried_once_more_where_it_may_pass(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slowwave.flows.prefect.RETRY_SECONDS", 0)
    called: list[str] = []

    def fail() -> None:
        called.append("fail")
        raise ConnectionError("a step's own server is away")

    def recover() -> str:
        called.append("recover")
        if called.count("recover") == 1:
            raise ConnectionError("away for a moment")
        return "done"

    def refuse() -> None:
        called.append("refuse")
        raise UsageError("it would be refused again")

    with pytest.raises(ConnectionError, match="own server"):
        TaskRunner()(fail)
    assert TaskRunner()(recover) == "done"
    with pytest.raises(UsageError, match="refused again"):
        TaskRunner()(refuse)
    assert called == ["fail", "fail", "recover", "recover", "refuse"]
    (tmp_path / "default").mkdir()
    with (
        writer_lock(tmp_path / "default", "another", "nightly"),
        pytest.raises(StoreLocked),
    ):
        run_night_under_prefect([str(SAMPLES)], {"store": str(tmp_path)})


def test_what_prefect_itself_raises_is_told_as_its_failure() -> None:
    with (
        pytest.raises(
            PrefectFailed, match=r"^Prefect failed \(RuntimeError: no server\)$"
        ),
        restore_words(),
    ):
        raise RuntimeError("no server")
