"""The language model's server goes down at each kind of request: the night is released, and the next one mends it."""

import re
from pathlib import Path
from typing import Any

import pytest

import tests.llm_scripts as scripts
from slowwave.cli.common import INCOMPLETE
from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, RELEASED, SUMMARIES
from slowwave.store import Store
from tests.command_line import typed
from tests.fake_llm_server import serving
from tests.killed_nights import SAMPLES, digests

MADE = (MESSAGES, CLAIMS, SUMMARIES)
KINDS = ("gist", "account", "topics")
"""What the first step asks for, one in the middle, and the last."""


def make_settings(root: Path) -> Settings:
    spec = "scripted:tests.llm_scripts:faithful"
    return Settings(store=root, encoder="hash-384", llm=spec, gists="llm")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("whole")
    run_night([SAMPLES / "generic"], make_settings(root))
    return digests(root, MADE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_goes_down_at_a_stage_costs_no_night(
    kind: str, whole: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down, faithful = list[str](), scripts.faithful

    def answer(request: Request) -> Any:
        if down or scripts.kind(request) == kind:
            down.append(kind)
            return scripts.absent(request)
        return faithful(request)

    with monkeypatch.context() as trouble:
        trouble.setattr(scripts, "faithful", answer)
        first = run_night([SAMPLES / "generic"], make_settings(tmp_path))
    assert first.release is not None
    assert down
    second = run_night([SAMPLES / "generic"], make_settings(tmp_path))
    assert second.failures == []
    store = Store.open(tmp_path)
    for table in RELEASED:
        keys = store.read(table, [table.key])[table.key].to_pylist()
        assert len(set(keys)) == len(keys)
    assert digests(tmp_path, MADE) == whole
    assert run_night([SAMPLES / "generic"], make_settings(tmp_path)).release is None


def test_of_a_dead_model_the_last_lines_tell_and_what_stood_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    words = ("--llm", "openai:scripted@http://127.0.0.1:9/v1", "--store", str(tmp_path))
    run_night(
        [SAMPLES / "generic" / "marit-and-theo.jsonl"],
        make_settings(tmp_path).model_copy(update={"gists": "off"}),
    )
    before = {
        row["summary_id"]: row["text"]
        for row in Store.open(tmp_path).read(SUMMARIES).to_pylist()
    }
    again = typed("reprocess", "topics", *words)
    assert {
        row["summary_id"]: row["text"]
        for row in Store.open(tmp_path).read(SUMMARIES).to_pylist()
    } == before
    night = typed("run", SAMPLES / "generic", "--plain", *words)
    assert (again.exit_code, night.exit_code) == (INCOMPLETE, INCOMPLETE)
    left = next(
        line for line in night.output.splitlines() if line.startswith("Left out: ")
    )
    why = r"\(openai:scripted is unavailable: .+\)"
    assert re.search(
        rf"left for another night .*sessions \d+, summaries \d+ {why}", left
    )
    assert night.output.count("openai:scripted is unavailable") == 1


def test_a_model_that_the_server_does_not_have_is_a_failure_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no server that will be back by the next night: the name is wrong until a person changes it."""
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    with serving(lambda prompt, nth: "", model="another") as server:
        spec = f"openai:misspelt@{server.url}"
        words = [
            "run",
            str(SAMPLES / "generic"),
            "--plain",
            "--llm",
            spec,
            "--store",
            str(tmp_path),
        ]
        night = typed(*words, env={"COLUMNS": "200"})
    told = [line for line in night.output.splitlines() if "misspelt" in line]
    why = "openai:misspelt is unavailable: the server has other models: another"
    assert len(told) == 1
    assert told[0].endswith(f"({why}).")
    assert night.exit_code == INCOMPLETE


def test_a_talk_with_a_model_that_the_server_does_not_have_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    with serving(lambda prompt, nth: "", model="another") as server:
        words = [
            "talk",
            "--llm",
            f"openai:misspelt@{server.url}",
            "--store",
            str(tmp_path),
        ]
        talk = typed(*words, input="Hello.\nAgain.\n")
    assert talk.exit_code == INCOMPLETE
    assert talk.stderr.splitlines()[1:] == [
        "slowwave: openai:misspelt is unavailable: the server has other models: another"
    ]
