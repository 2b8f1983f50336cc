"""The hooks as clients call them: a process, the documented JSON on its standard input, its answer and exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import HOOK_OPENING
from slowwave.store.logs import load_recalled_spans
from tests.command_line import typed
from tests.talk_files import session
from tests.transcript_rows import put

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "deployments" / "hooks"
SAID = [
    (
        "user",
        "We decided that PostgreSQL keeps the gauge readings from now on, in a database of its own.",
    ),
    ("assistant", "Noted, PostgreSQL keeps the gauge readings."),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the memory knows."""
    folder = tmp_path_factory.mktemp("hooks") / "tidepool"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    return folder


@pytest.fixture(scope="module")
def store(project: Path) -> Path:
    where = project.parent / "store"
    talks = [
        session(project.parent, "s1", 2, SAID, workspace=str(project)),
        session(
            project.parent,
            "s2",
            3,
            [("user", "The heron nests at Kilbrack.")],
            workspace="elsewhere",
        ),
    ]
    run_night(talks, Settings(store=where, encoder="hash-384"))
    return where


def example(name: str, folder: Path) -> dict[str, Any]:
    """A documented event, in a folder of this machine."""
    given = json.loads((EXAMPLES / f"event-{name}.json").read_text())
    return given | (
        {"workspace_roots": [str(folder)]} if "cursor" in name else {"cwd": str(folder)}
    )


@pytest.mark.parametrize(
    "client",
    ["claude-code-settings", "codex-hooks", "cursor-hooks", "copilot-cli-slowwave"],
)
def test_the_commands_in_a_clients_file_give_the_documented_answer_to_the_documented_event(
    store: Path, project: Path, tmp_path: Path, client: str
) -> None:
    (store / "default" / "recalls.jsonl").unlink(missing_ok=True)
    program = tmp_path / "slowwave"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m slowwave "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SLOWWAVE_STORE": str(store),
        "XDG_CONFIG_HOME": str(store),
    }
    environment |= {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    if client == "copilot-cli-slowwave":
        environment |= {"COPILOT_HOOK_DIR": str(EXAMPLES)}
    for event, entries in json.loads((EXAMPLES / f"{client}.json").read_text())[
        "hooks"
    ].items():
        if event in ("SessionEnd", "Stop", "PreToolUse"):
            continue  # tests/cli/test_same_day.py, tests/dead_ends/test_before_tool.py
        name = "session-start" if event.casefold() == "sessionstart" else "user-prompt"
        given = json.dumps(
            example(f"{client.rpartition('-')[0]}-{name}", project / "src")
        ).encode()
        for command in (
            one["command"] for entry in entries for one in entry.get("hooks", [entry])
        ):
            done = subprocess.run(
                command,
                shell=True,
                input=given,
                env=environment,
                capture_output=True,
                check=True,
            )
            assert done.stderr == b""
            answer = json.loads(done.stdout)
            if client == "cursor-hooks":
                told = answer.pop("additional_context")
                assert answer == {}
            elif client == "copilot-cli-slowwave":
                told = answer.pop("additionalContext")
                assert answer == {}
            else:
                told = answer["hookSpecificOutput"].pop("additionalContext")
                assert answer["hookSpecificOutput"] == {"hookEventName": event}
            assert told.startswith(HOOK_OPENING)
            assert "PostgreSQL keeps the gauge readings" in told
            assert "heron" not in told
    assert load_recalled_spans(store / "default")


def test_a_call_in_copilot_goes_on_though_the_program_is_gone(tmp_path: Path) -> None:
    """Copilot CLI 1.0.102 denies each call whose hook ends with an error."""
    hooks = json.loads((EXAMPLES / "copilot-cli-slowwave.json").read_text())["hooks"]
    command = hooks["PreToolUse"][0]["hooks"][0]["command"]
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        input=b"{}",
    )
    assert b"slowwave" in done.stderr
    assert (done.returncode, done.stdout) == (0, b"")


ASKED = {"cwd": "HERE", "prompt": "Which database keeps the gauge readings?"}
CALLS: list[tuple[list[str], object]] = [
    (["session-start"], {"cwd": "/somewhere/else", "source": "startup"}),
    (["session-start"], {"cwd": "HERE", "source": "resume"}),
    (["user-prompt"], {"cwd": "HERE", "prompt": "thanks"}),
    (["user-prompt"], {"cwd": "HERE", "prompt": "The heron?"}),
    (["user-prompt"], {"cwd": "HERE", "prompt": "\x00 \ud800"}),
    (["user-prompt"], {"cwd": "HERE"}),
    (
        ["user-prompt"],
        {"cwd": "HERE", "prompt": ["Which database keeps the gauge readings?"]},
    ),
    (["user-prompt"], {"cwd": 5, "prompt": 5}),
    (["before-tool"], {"cwd": "HERE"}),
    (["before-tool"], {"cwd": "HERE", "tool_name": 5, "tool_input": [5]}),
    (["before-tool"], {"cwd": "HERE", "tool_name": "Bash", "tool_input": "{"}),
    (
        ["before-tool"],
        {"cwd": "HERE", "tool_name": "Bash", "tool_input": {"command": "x" * 300_000}},
    ),
    (["user-prompt"], "no JSON"),
    (["user-prompt"], []),
    (["user-prompt", "--store", "/nowhere"], ASKED),
    (["user-prompt", "--no-such-option"], ASKED),
    (["user-prompt", "--budget", "many"], ASKED),
    (["stop"], ASKED),
    ([], {}),
    (["user-prompt"], ASKED),
    (
        ["user-prompt"],
        {
            "cwd": "HERE",
            "prompt": "\x00Which database\x00\ud83d keeps the gauge readings?",
        },
    ),
    (
        ["session-start", "--everywhere"],
        {"cwd": "/somewhere/else", "source": "startup"},
    ),
]
"""The last three alone are answered."""
DRIVER = """
import json, os, sys, tempfile
from slowwave.cli.main import main

for words, given in json.load(sys.stdin):
    with tempfile.TemporaryFile() as event, tempfile.TemporaryFile() as told:
        event.write((given if given == "no JSON" else json.dumps(given)).encode())
        event.seek(0)
        out = os.dup(1)
        os.dup2(event.fileno(), 0), os.dup2(told.fileno(), 1)
        sys.stdin, sys.argv = open(0, closefd=False), ["slowwave", "hook", *words]
        try:
            main()
        except SystemExit as ended:
            sys.stdout.flush()
            os.dup2(out, 1)
            told.seek(0)
            print(json.dumps([ended.code or 0, told.read().decode(errors="replace")]), flush=True)
"""
"""Calls in one process, each with files for its input and output: the imports are paid for once."""


def call_each(
    calls: list[tuple[list[str], object]], project: Path, store: Path
) -> list[tuple[int, str]]:
    """Exit status and output of each call of the hook."""
    raw = json.dumps(calls).replace("HERE", str(project)).encode()
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SLOWWAVE_STORE": str(store),
        "XDG_CONFIG_HOME": str(store),
    }
    command = [sys.executable, "-c", DRIVER]
    done = subprocess.run(
        command,
        input=raw,
        cwd=store.parent,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    return [
        (status, told) for status, told in map(json.loads, done.stdout.splitlines())
    ]


def test_whatever_is_amiss_no_prompt_is_stopped(store: Path, project: Path) -> None:
    ends = call_each(CALLS, project, store)
    assert [status for status, _ in ends] == [0] * len(CALLS)
    assert [number for number, (_, told) in enumerate(ends) if told] == [
        len(CALLS) - 3,
        len(CALLS) - 2,
        len(CALLS) - 1,
    ]
    assert "heron" in ends[-1][1]


SMALL_TALK = (
    "ok",
    "thanks",
    "continue",
    "yes please do that",
    "run the tests",
    "what did you do?",
    "looks good, commit it",
    "go on with the next step",
    "can you try that again?",
    "no, revert it",
    "why did it fail?",
    "fix the failing test",
    "make it shorter, and add a comment",
    "add type hints to the new helper function",
    "rename the variable foo to something clearer everywhere",
)
QUESTIONS = {
    "why the database?": "SQLite",  # a short one
    "Which database does tidepool use for the gauge readings?": "PostgreSQL 17",
    "Why was the high water at Port Aven an hour late?": "local clock time",
    "Should the longitude be added to the phases in the station files?": "Greenwich phase lags",
    "Which port should the tidepool service listen on?": "port 9090",
    "Which unit do heights have outside the front end, and above what?": "metres above LAT",
}


def test_of_21_everyday_prompts_those_that_ask_the_memory_are_answered(
    tmp_path: Path,
) -> None:
    store, here = tmp_path / "store", Path("/home/ada/tidepool")
    run_night([ROOT / "data" / "samples" / "claude-code"], Settings(store=store))
    prompts = [*SMALL_TALK, *QUESTIONS]
    ends = call_each(
        [(["user-prompt"], {"cwd": "HERE", "prompt": one}) for one in prompts],
        here,
        store,
    )
    told = dict(zip(prompts, (text for _, text in ends), strict=True))
    assert {prompt: told[prompt] for prompt in SMALL_TALK} == dict.fromkeys(
        SMALL_TALK, ""
    )
    assert [
        prompt for prompt, answer in QUESTIONS.items() if answer not in told[prompt]
    ] == []
    to_agents = [
        (["user-prompt"], {"cwd": "HERE", "prompt": one, "agent_id": "a1"})
        for one in QUESTIONS
    ]
    assert call_each(to_agents, here, store) == [(0, "")] * len(QUESTIONS)
    unknown = [
        (["user-prompt"], {"cwd": "/somewhere/else", "prompt": one})
        for one in QUESTIONS
    ]
    assert call_each(unknown, here, store) == [(0, "")] * len(QUESTIONS)


def test_a_hook_is_no_command_for_people_and_has_help_all_the_same() -> None:
    assert " hook " not in typed("--help").output
    assert "session-start or user-prompt" in typed("hook", "--help").output


def test_a_hook_of_cursor_finds_what_cursor_itself_wrote_of_its_folder(
    tmp_path: Path,
) -> None:
    """Its transcripts name the folder with dashes, and its event as it is."""
    folder = tmp_path / "pond"
    folder.mkdir()
    dashed = re.sub("[^A-Za-z0-9]+", "-", str(folder)).strip("-")
    said = [("user", SAID[0][1]), ("assistant", SAID[1][1])]
    lines = (
        {"role": role, "message": {"content": [{"type": "text", "text": text}]}}
        for role, text in said
    )
    run_night(
        [
            put(
                tmp_path / f".cursor/projects/{dashed}/agent-transcripts/u1/u1.jsonl",
                tuple(lines),
            )
        ],
        Settings(store=tmp_path / "store", encoder="hash-384"),
    )
    given = example("cursor-session-start", folder)
    environment = os.environ | {
        "SLOWWAVE_STORE": str(tmp_path / "store"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "slowwave", "hook", "session-start"]
    done = subprocess.run(
        command,
        input=json.dumps(given).encode(),
        env=environment,
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert "PostgreSQL" in json.loads(done.stdout)["additional_context"]
