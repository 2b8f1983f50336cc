"""`slowwave install`, and each client's own command for a plugin: what hooks and tools tell reaches the model.

`make test-clients` runs this too. The requests are read that the stand-in for a model gets.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.client_files import KEPT
from slowwave.schemas.places import find_cache_folder
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import HOOK_OPENING
from slowwave.store import Store
from tests.clients import drive
from tests.clients.drive import ROOT, Model, Sandbox, call, serve_stub
from tests.clients.test_clients import installed as installed
from tests.killed_nights import SAMPLES
from tests.waiting import wait_until

pytestmark = pytest.mark.clients
GREETING = "Good morning, let us begin with the harbour wall."
BRIEFED = "Only trust X-Forwarded-For from 127.0.0.1"
ASKED = "Which database does tidepool use for the gauge readings?"
ANSWER = "PostgreSQL 17 database"
REPEATED = "pnpm dedupe"
TOLD = "Tried on 4 May 2026: pnpm dedupe; failed: ERR_PNPM_OUTDATED_LOCKFILE"
MINE = "seen-by-my-own-hook"
"""A file that the person's own hook makes."""


@dataclass(frozen=True)
class Connected:
    """A client, and a way to connect it to the memory."""

    prepare: Callable[[Sandbox], None]
    command: Callable[[Sandbox], Sequence[str | Path]]
    """Asks the prompt that follows it, and ends."""
    environment: Callable[[Sandbox], dict[str, str]]
    hooks: str
    """File below the home where a person has hooks."""
    connect: Callable[["Talk"], object]
    disconnect: Callable[["Talk"], object]
    repeat: str
    """A prompt by which the stand-in tries the dead end again."""
    recall: str
    """A prompt by which it asks the memory."""
    briefs: bool = True
    """A session starts with the briefing."""


LISBON = {"query": "When do I leave for Lisbon?"}
LEAVING = "7 May 2027"
"""In the answer of the tool, and in nothing that is asked."""
CLAUDE_REPEAT = call(
    "Collapse the tree.", "Bash", command=REPEATED, description="Collapse"
)
CODEX_REPEAT = call("Collapse the tree.", "exec_command", cmd=REPEATED)
COPILOT_HOOKS = ".copilot/hooks/slowwave.json"
LISTED = "listed"
"""File beside the home: what the MCP server has answered."""
CODEX_RECALL = call(
    "Recall it.",
    "exec_command",  # its first request does not wait for MCP servers
    cmd=f"until grep -q inputSchema $HOME/../{LISTED}; do sleep 0.2; done",
    yield_time_ms=30_000,
).replace("\nSAY", f"\nCALL mcp__slowwave/recall {json.dumps(LISBON)}\nSAY")


def command_claude(box: Sandbox) -> Sequence[str | Path]:
    return [*drive.claude_command(box), "-p"]


def command_codex(box: Sandbox) -> Sequence[str | Path]:
    trust = ["--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
    free = "--dangerously-bypass-approvals-and-sandbox"
    return [box.bin / "node_modules/.bin/codex", "exec", *trust, free]


def command_copilot(box: Sandbox) -> Sequence[str | Path]:
    program = box.bin / "node_modules/.bin/copilot"
    return [program, "--allow-all-tools", "--silent", "-p"]


def install(client: str) -> Callable[["Talk"], object]:
    return lambda talk: talk.run("slowwave", "install", client)


def uninstall(client: str, servers: str) -> Callable[["Talk"], object]:
    """Return what takes the memory out of a client again, and checks that nothing of it is left."""

    def check(talk: "Talk") -> None:
        talk.run("slowwave", "uninstall", client)
        assert "slowwave" not in (talk.box.home / servers).read_text()
        assert not list((talk.box.home / servers).parent.glob(f"*{KEPT}"))

    return check


def add_to_claude(talk: "Talk") -> None:
    program = drive.claude_command(talk.box)[0]
    talk.run(program, "plugin", "marketplace", "add", talk.box.folder)
    told = talk.run(program, "plugin", "install", "slowwave@slowwave")
    assert "Successfully installed plugin: slowwave@slowwave" in told


def remove_from_claude(talk: "Talk") -> None:
    program = drive.claude_command(talk.box)[0]
    talk.run(program, "plugin", "uninstall", "slowwave@slowwave")


def add_to_codex(talk: "Talk") -> None:
    program = talk.box.bin / "node_modules/.bin/codex"
    talk.run(program, "plugin", "marketplace", "add", talk.box.folder)
    told = talk.run(program, "plugin", "add", "slowwave@slowwave")
    assert "Added plugin `slowwave`" in told


def remove_from_codex(talk: "Talk") -> None:
    program = talk.box.bin / "node_modules/.bin/codex"
    talk.run(program, "plugin", "remove", "slowwave@slowwave")


def add_to_gemini(talk: "Talk") -> None:
    program = talk.box.bin / "node_modules/.bin/gemini"
    source = talk.box.folder / "deployments/plugins/gemini-cli"
    told = talk.run(program, "extensions", "install", source, "--consent", piped="y\n")
    assert 'Extension "slowwave" installed successfully' in told


def remove_from_gemini(talk: "Talk") -> None:
    program = talk.box.bin / "node_modules/.bin/gemini"
    talk.run(program, "extensions", "uninstall", "slowwave")


CLAUDE = Connected(
    drive.prepare_claude,
    command_claude,
    drive.make_claude_environment,
    ".claude/settings.json",
    install("claude-code"),
    uninstall("claude-code", ".claude.json"),
    CLAUDE_REPEAT,
    call("Recall it.", "mcp__slowwave__recall", **LISBON),
)
CODEX = Connected(
    drive.prepare_codex,
    command_codex,
    lambda box: {},
    ".codex/hooks.json",
    install("codex"),
    uninstall("codex", ".codex/config.toml"),
    CODEX_REPEAT,
    CODEX_RECALL,
)
GEMINI = Connected(
    drive.prepare_gemini,
    drive.gemini_command,
    drive.make_gemini_environment,
    ".gemini/settings.json",
    add_to_gemini,
    remove_from_gemini,
    call("Collapse the tree.", "run_shell_command", command=REPEATED),
    call("Recall it.", "mcp_slowwave_recall", **LISBON),
    briefs=False,  # it would store the briefing as the person's first prompt
)


def prepare_qwen(box: Sandbox) -> None:
    """As everywhere, without a memory of its own: that would ask the model after each turn."""
    drive.prepare_qwen(box)
    path = box.home / ".qwen/settings.json"
    off = {"memory": {"enableManagedAutoMemory": False}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **off}))


QWEN = Connected(
    prepare_qwen,
    drive.qwen_command,
    drive.make_qwen_environment,
    ".qwen/settings.json",
    install("qwen-code"),
    uninstall("qwen-code", ".qwen/settings.json"),
    call(
        "Collapse the tree.", "run_shell_command", command=REPEATED, is_background=False
    ),
    call("Recall it.", "mcp__slowwave__recall", **LISBON),
)


def prepare_copilot(box: Sandbox) -> None:
    drive.prepare_copilot(box)
    (box.home / COPILOT_HOOKS).parent.mkdir(parents=True)


COPILOT = Connected(
    prepare_copilot,
    command_copilot,
    drive.make_copilot_environment,
    COPILOT_HOOKS,
    install("copilot-cli"),
    uninstall("copilot-cli", COPILOT_HOOKS),
    call("Collapse the tree.", "bash", command=REPEATED, description="Collapse"),
    call("Recall it.", "slowwave-recall", **LISBON),
)
WAYS = {
    "claude-code": CLAUDE,
    "claude-code plugin": replace(
        CLAUDE,
        connect=add_to_claude,
        disconnect=remove_from_claude,
        recall=call("Recall it.", "mcp__plugin_slowwave_slowwave__recall", **LISBON),
    ),
    "codex": CODEX,
    "codex plugin": replace(CODEX, connect=add_to_codex, disconnect=remove_from_codex),
    "gemini extension": GEMINI,
    "qwen-code": QWEN,
    "copilot-cli": COPILOT,
}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project, what was said in it, and the memory of that."""
    folder = tmp_path_factory.mktemp("hooked")
    project, talk = folder / "tidepool", folder / "talk"
    (project / ".git").mkdir(parents=True)
    shutil.copytree(SAMPLES, talk)
    shutil.copy(ROOT / "data/labelled/ends/1-lockfile.jsonl", talk)
    for path in talk.rglob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        for place in ("/home/ada/tidepool", "/home/ada/harbor"):
            text = text.replace(place, str(project))
        path.write_text(text, encoding="utf-8")
    run_night([talk], Settings(store=folder / "store"))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with serve_stub(tmp_path) as started:
        yield started


@pytest.fixture
def box(
    tmp_path: Path, installed: Path, model: Model, known: Path
) -> Iterator[Sandbox]:
    """A home with the memory where it is looked for by default, beside a copy of the plugins."""
    box = Sandbox(tmp_path / "box", installed, model)
    box.project = known / "tidepool"
    shutil.copytree(known / "store", box.home / ".local/share/slowwave/store")
    for folder in ("deployments/plugins", ".claude-plugin", ".agents"):
        shutil.copytree(ROOT / folder, box.folder / folder)
    yield box
    box.end_processes()
    (tmp_path / "log").write_text("\n\n".join(box.log))


class Talk:
    """A client that is asked prompts, each in a session of its own."""

    def __init__(self, way: Connected, box: Sandbox) -> None:
        self.way, self.box = way, box
        bin = box.folder / "bin"
        bin.mkdir()
        program = Path(sys.executable).with_name("slowwave")
        # what the server of MCP answers is also written to a file
        tee = f'[ "$1" = mcp ] && {program} "$@" | tee -a {box.folder / LISTED}'
        (bin / "slowwave").write_text(f'#!/bin/sh\n{tee} || exec {program} "$@"\n')
        (bin / "slowwave").chmod(0o755)
        self.environment = {
            # with the graph of the encoder
            "XDG_CACHE_HOME": str(find_cache_folder().parent),
            "PATH": f"{bin}:{box.make_environment({})['PATH']}",
            **way.environment(box),
        }

    def run(self, *words: str | Path, piped: str = "") -> str:
        return self.box.run(words, self.environment, piped)

    def ask(self, prompt: str) -> list[str]:
        """The requests that the model got."""
        before = len(self.box.model.read())
        (self.box.folder / LISTED).unlink(missing_ok=True)
        printed = self.run(*self.way.command(self.box), prompt)
        answer = "Done." if "SAY Done." in prompt else "Understood."
        assert printed.rstrip().endswith(answer)
        requests = self.box.model.read()[before:].splitlines()
        return [json.dumps(json.loads(one), ensure_ascii=False) for one in requests]

    def knows(self, text: str) -> bool:
        """Return True if the memory has a message with a text, as said or in one of its blocks."""
        store = Store.open(self.box.home / ".local/share/slowwave/store")
        return any(
            text in (said or "")
            for row in store.read(MESSAGES, ["text", "blocks"]).to_pylist()
            for said in (row["text"], *(block["text"] for block in row["blocks"]))
        )


def is_briefed(request: str) -> bool:
    """Return True if a request has the briefing, and False if it has nothing of the memory."""
    told = request.count(HOOK_OPENING)
    assert told == (BRIEFED in request)
    return bool(told)


def add_own_hook(path: Path, event: str) -> None:
    """Put a hook of the person's into a client's settings, beside what they hold."""
    settings = json.loads(path.read_text()) if path.exists() else {}
    hook = {"type": "command", "command": f"touch {path.parent / MINE}"}
    settings["hooks"] = {event: [{"hooks": [hook]}]}
    path.write_text(json.dumps(settings, indent=4))


@pytest.mark.parametrize("name", WAYS)
def test_what_hooks_and_tools_tell_reaches_the_model(name: str, box: Sandbox) -> None:
    way = WAYS[name]
    way.prepare(box)
    hooks = box.home / way.hooks
    add_own_hook(hooks, "BeforeAgent" if way is GEMINI else "UserPromptSubmit")
    before = hooks.read_bytes()
    talk = Talk(way, box)
    way.connect(talk)

    # a prompt that asks nothing gets the briefing alone; on a busy machine it may come too late
    wait_until(lambda: is_briefed(talk.ask(GREETING)[-1]) == way.briefs, every=1)
    # the session that has ended is read
    wait_until(lambda: talk.knows(GREETING), every=1)

    # a question gets its answer, beside the briefing
    asked = talk.ask(ASKED)[-1]
    assert (asked.count(HOOK_OPENING), ANSWER in asked) == (1 + way.briefs, True)
    # what a hook told is nobody's words, and stored nowhere
    wait_until(lambda: talk.knows(ASKED), every=1)
    assert not talk.knows(HOOK_OPENING)

    # the reader may be busy with the session before: then a call is told nothing
    wait_until(lambda: TOLD in talk.ask(way.repeat)[-1], every=1)
    assert LEAVING in talk.ask(way.recall)[-1]
    assert (hooks.parent / MINE).exists()

    way.disconnect(talk)
    after = hooks.read_bytes()
    # Claude Code's own command writes the file in its own form, and Qwen Code a newer version's
    assert after == before or "plugin" in name or way is QWEN
    assert json.loads(before).items() <= json.loads(after).items()
    assert HOOK_OPENING not in talk.ask(ASKED)[-1]
