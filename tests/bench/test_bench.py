"""Every measurement runs, each on the smallest input that it takes, and asks nothing of any network."""

import importlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import bench.all
import bench.cost
import bench.fit.secrets
import bench.house
import bench.nights.tiny_models
import bench.startup
from bench.fit.reader import read_invented
from bench.harness import Figures, run
from slowwave.schemas.settings import Settings
from slowwave.tasks import vectors
from tests.bench_inputs import ROOT, modules, runs
from tests.recall_store import build

COMMANDS = sorted(
    ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts)
    for path in (ROOT / "bench").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)
LACKING = {"nights.tiny_models": "pip"}
"""Measurements that need what a test can't have, and what it is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No network: who tries to leave this machine is refused, and fails the test however the refusal is taken."""
    tried: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] != "127.0.0.1":
            tried.append(address)
            raise OSError(f"the network is refused: {address}")
        connect(self, address)

    def look_up_here(host: Any, *more: Any, **options: Any) -> Any:
        if host not in ("127.0.0.1", "localhost"):
            tried.append(host)
            raise OSError(f"the network is refused: {host}")
        return look_up(host, *more, **options)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    yield
    assert not tried


@pytest.fixture(autouse=True)
def surroundings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's settings and proxies, and for processes that a measurement starts no network either."""
    for name in os.environ:
        if name.startswith("SLOWWAVE_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    own = {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PIP_NO_INDEX": "1"}
    for name, value in {
        **own,
        **offline,
        "SLOWWAVE_ENCODER": "hash-384",
        "COLUMNS": "200",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def calls() -> Callable[..., Figures]:
    """The measurement of `bench.startup`, done once: its rows are also those of `bench.cost`."""
    kept: dict[tuple[int, str, Path], Figures] = {}

    @wraps(measure := bench.startup.measure)
    def measure_once(
        *, times: int, encoder: str, folder: Path, code: Path = ROOT
    ) -> Figures:
        if (times, encoder, code) not in kept:
            kept[times, encoder, code] = measure(
                times=times, encoder=encoder, folder=folder, code=code
            )
        return kept[times, encoder, code]

    return measure_once


@pytest.fixture(autouse=True)
def small(
    folder: Path, calls: Callable[..., Figures], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no word on the command line makes small."""
    monkeypatch.setattr(bench.startup, "measure", calls)
    monkeypatch.setattr(bench.cost, "TIMES", 1)
    # By name: torch and LanceDB are imported by who measures, not by who collects.
    monkeypatch.setattr("bench.recall.scale.PAUSE", 0.05)
    monkeypatch.setattr(bench.nights.tiny_models, "CACHE", folder / "models")
    monkeypatch.setattr("bench.fit.layers.EPOCHS", 1)
    monkeypatch.setattr("bench.fit.layers.read_invented", lambda: read_invented()[:24])
    monkeypatch.setattr(bench.fit.secrets, "FILLS", 1)
    monkeypatch.setattr(bench.fit.secrets, "FOLDS", 2)
    monkeypatch.setattr(
        bench.fit.secrets, "SAMPLES", ROOT / "data" / "samples" / "codex"
    )
    monkeypatch.setattr(bench.house, "SAMPLES", ROOT / "data" / "samples" / "codex")
    # Bench.nights.night puts its own there.
    monkeypatch.setattr(vectors, "load_shared_encoder", vectors.load_shared_encoder)
    assert {words[0] for words in bench.all.list_commands()} <= set(COMMANDS)
    monkeypatch.setattr(bench.all, "COMMANDS", "packages\nrecall.locomo no/such/set")


def call(name: str, words: list[object]) -> None:
    """Call a measurement as its command line does."""
    run(importlib.import_module(f"bench.{name}").measure, list(map(str, words)))


def test_every_measurement_has_a_case(folder: Path) -> None:
    assert sorted([*runs(folder), *LACKING]) == COMMANDS


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(LACKING)))
def test_a_measurement_runs_on_its_smallest_input(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, *told in runs(folder)[name]:
        call(name, words)
        printed = capsys.readouterr().out
        assert [one for one in told if one not in printed] == []


def test_calls_and_the_encoder_are_measured_by_the_code_before_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "slowwave", before := tmp_path / "before" / "slowwave")
    used = tmp_path / "used"
    with (before / "__init__.py").open("a") as code:
        code.write(f"\nopen({str(used)!r}, 'a').write('1')\n")
    codes = {"now": ROOT, "before": before.parent}
    rows = list(bench.cost.measure_calls(tmp_path, codes, "hash-384"))
    # a night, six direct calls, and eight with two readers
    assert len(used.read_text()) >= 10
    used.unlink()
    # the graphs are the user's own: to make them takes half a minute
    monkeypatch.delenv("XDG_CACHE_HOME")
    (tmp_path / "texts.json").write_text('["The API listens on port 7070."]')
    encoder = Settings.model_fields["encoder"].default
    rows += bench.cost.measure_encoder(tmp_path, codes, encoder)
    assert used.read_text() == "1"
    assert len(rows) == 4
    for row in rows:
        assert {"now", "before", "MB now", "MB before"} <= set(row), row


def test_the_way_of_a_question_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path / "store")
    call("house", [modules(tmp_path), "--walk", tmp_path / "store", "--json"])
    found = {
        row["followed"]: row
        for row in json.loads(capsys.readouterr().out)
        if "followed" in row
    }
    assert (
        1
        < found["a question"]["modules"]
        < found["a question"]["functions"]
        < found["a night"]["functions"]
    )


@pytest.mark.parametrize("name", LACKING)
def test_a_measurement_that_lacks_something_says_so_in_a_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # as where it is not installed
    with pytest.raises(SystemExit) as stopped:
        call(name, [])
    assert LACKING[name] in str(stopped.value)
    assert "\n" not in str(stopped.value)
