"""The plugins in deployments/plugins, installed by each client's own command: their hooks and tools answer.

`make test-clients` runs this too. The memory is a night over data/samples; the model is a stand-in that calls a tool.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.places import find_cache_folder
from slowwave.schemas.settings import Settings
from tests.clients import drive
from tests.clients.drive import ROOT, Model, Sandbox, serve_stub
from tests.clients.test_clients import installed as installed
from tests.killed_nights import SAMPLES

pytestmark = pytest.mark.clients
ASKED = "Which database does tidepool use for the gauge readings?"
ANSWER = "PostgreSQL 17 database"
LISBON = {"query": "When do I leave for Lisbon?"}
TOLD = "7 May 2027"
"""In the answer of the tool, and in nothing that is asked."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the samples' talk about tidepool was; beside it the memory of them."""
    folder = tmp_path_factory.mktemp("plugins")
    project = folder / "tidepool"
    project.mkdir()
    talk = folder / "samples"
    shutil.copytree(SAMPLES, talk)
    for path in talk.rglob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("/home/ada/tidepool", str(project)), "utf-8")
    run_night([talk], Settings(store=folder / "store"))
    return project


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with serve_stub(tmp_path) as started:
        yield started


@pytest.fixture
def box(
    tmp_path: Path,
    installed: Path,
    model: Model,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sandbox:
    """A home whose search path has the command, in a project that the memory knows."""
    bin = tmp_path / "bin"
    bin.mkdir()
    command = bin / "slowwave"
    environment = {
        "SLOWWAVE_STORE": project.parent / "store",
        "PYTHONPATH": ROOT,
        "XDG_CACHE_HOME": find_cache_folder().parent,  # with the graph of the encoder
    }
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    command.write_text(f'#!/bin/sh\n{words} exec {sys.executable} -m slowwave "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    box = Sandbox(tmp_path / "box", installed, model)
    box.project = project
    shutil.copytree(ROOT / "deployments/plugins", box.folder / "deployments/plugins")
    for catalogue in (".claude-plugin", ".agents"):
        shutil.copytree(ROOT / catalogue, box.folder / catalogue)
    return box


def test_claude_code_installs_it_and_hooks_and_tools_answer(
    box: Sandbox,
) -> None:
    drive.prepare_claude(box)
    command = drive.claude_command(box)
    program = command[0]
    box.run([program, "plugin", "marketplace", "add", box.folder], {})
    told = box.run([program, "plugin", "install", "slowwave@slowwave"], {})
    assert "Successfully installed plugin: slowwave@slowwave" in told
    env = drive.make_claude_environment(box)
    for prompt in (ASKED, call("mcp__plugin_slowwave_slowwave__recall")):
        box.run([*command, "-p", prompt], env)
    assert_answered(box)


def test_codex_installs_it_and_hooks_and_tools_answer(
    box: Sandbox,
) -> None:
    drive.prepare_codex(box)
    program = box.bin / "node_modules/.bin/codex"
    box.run([program, "plugin", "marketplace", "add", box.folder], {})
    told = box.run([program, "plugin", "add", "slowwave@slowwave"], {})
    assert "Added plugin `slowwave`" in told
    # its first request does not wait for MCP servers
    wait = 'CALL exec_command {"cmd": "sleep 20", "yield_time_ms": 25000}\nCALL'
    recall = call("mcp__slowwave/recall").replace("CALL", wait)
    for prompt in (ASKED, recall):
        trust = ["--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
        trust += ["--dangerously-bypass-approvals-and-sandbox"]
        box.run([program, "exec", *trust, prompt], {})
    assert_answered(box)


def test_gemini_cli_installs_it_and_hooks_and_tools_answer(
    box: Sandbox,
) -> None:
    drive.prepare_gemini(box)
    program = box.bin / "node_modules/.bin/gemini"
    source = box.folder / "deployments/plugins/gemini-cli"
    words = [program, "extensions", "install", source, "--consent"]
    told = box.run(words, {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, "y\n")
    assert 'Extension "slowwave" installed successfully' in told
    for prompt in (ASKED, call("mcp_slowwave_recall")):
        drive.gemini(box, prompt)
    assert_answered(box)


def call(tool: str) -> str:
    return drive.call("Recall it.", tool, **LISBON)


def assert_answered(box: Sandbox) -> None:
    """A request has the memories of the prompt's hook, and a later one the tool's answer."""
    (box.folder / "log").write_text("\n\n".join(box.log))
    sent = [json.loads(line) for line in box.model.read().splitlines()]
    texts = [json.dumps(one, ensure_ascii=False) for one in sent]
    assert any(ANSWER in text and TOLD not in text for text in texts), box.log[-1]
    assert any(TOLD in text for text in texts), box.log[-1]
