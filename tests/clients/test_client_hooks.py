"""`slowwave install` in a home, then the real client: what each hook tells reaches the model, and nothing else breaks.

`make test-clients` runs this too. The requests are read that the stand-in for a model gets.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from slowwave.cli.agents.hook import INTRODUCTION
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.client_files import KEPT
from slowwave.schemas.places import find_cache_folder
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
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
class Hooked:
    """A client with hooks."""

    name: str
    """By which `slowwave install` knows it."""
    prepare: Callable[[Sandbox], None]
    command: Callable[[Sandbox], Sequence[str | Path]]
    """Asks the prompt that follows it, and ends."""
    environment: Callable[[Sandbox], dict[str, str]]
    hooks: str
    """File below the home."""
    servers: str
    """File below the home, where MCP servers are named."""
    repeat: str
    """A prompt by which the stand-in tries the dead end again."""


def command_codex(box: Sandbox) -> Sequence[str | Path]:
    trust = ["--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
    free = "--dangerously-bypass-approvals-and-sandbox"
    return [box.bin / "node_modules/.bin/codex", "exec", *trust, free]


HOOKED = [
    Hooked(
        "claude-code",
        drive.prepare_claude,
        lambda box: [*drive.claude_command(box), "-p"],
        drive.make_claude_environment,
        ".claude/settings.json",
        ".claude.json",
        call("Collapse the tree.", "Bash", command=REPEATED, description="Collapse"),
    ),
    Hooked(
        "codex",
        drive.prepare_codex,
        command_codex,
        lambda box: {},
        ".codex/hooks.json",
        ".codex/config.toml",
        call("Collapse the tree.", "exec_command", cmd=REPEATED),
    ),
]


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
    """A home with the memory where it is looked for by default."""
    box = Sandbox(tmp_path / "box", installed, model)
    box.project = known / "tidepool"
    shutil.copytree(known / "store", box.home / ".local/share/slowwave/store")
    yield box
    box.end_processes()
    (tmp_path / "log").write_text("\n\n".join(box.log))


class Talk:
    """A client that is asked prompts, each in a session of its own."""

    def __init__(self, client: Hooked, box: Sandbox) -> None:
        self.client, self.box = client, box
        # with the graph of the encoder
        self.environment = {"XDG_CACHE_HOME": str(find_cache_folder().parent)}

    def slowwave(self, *words: str) -> str:
        program = Path(sys.executable).with_name("slowwave")
        return self.box.run([program, *words], self.environment)

    def ask(self, prompt: str) -> list[str]:
        """The requests that the model got."""
        before = len(self.box.model.read())
        command = [*self.client.command(self.box), prompt]
        given = self.client.environment(self.box)
        printed = self.box.run(command, {**self.environment, **given})
        answer = "Done." if "SAY Done." in prompt else "Understood."
        assert printed.rstrip().endswith(answer)
        requests = self.box.model.read()[before:].splitlines()
        return [json.dumps(json.loads(one), ensure_ascii=False) for one in requests]

    def knows(self, text: str) -> bool:
        """Return True if the memory has a message with a text."""
        store = Store.open(self.box.home / ".local/share/slowwave/store")
        return any(text in said for said in store.read(MESSAGES)["text"].to_pylist())


def add_own_hook(path: Path) -> None:
    """Put a hook of the person's into a client's settings, beside what they hold."""
    settings = json.loads(path.read_text()) if path.exists() else {}
    hook = {"type": "command", "command": f"touch {path.parent / MINE}"}
    settings["hooks"] = {"UserPromptSubmit": [{"hooks": [hook]}]}
    path.write_text(json.dumps(settings, indent=4))


@pytest.mark.parametrize("client", HOOKED, ids=lambda client: client.name)
def test_what_the_hooks_tell_reaches_the_model(client: Hooked, box: Sandbox) -> None:
    client.prepare(box)
    hooks, servers = box.home / client.hooks, box.home / client.servers
    add_own_hook(hooks)
    before = hooks.read_bytes()
    talk = Talk(client, box)
    talk.slowwave("install", client.name)

    # a prompt that asks nothing gets the briefing alone
    first = talk.ask(GREETING)[-1]
    assert (first.count(INTRODUCTION), BRIEFED in first) == (1, True)
    # the session that has ended is read
    wait_until(lambda: talk.knows(GREETING), every=1)

    # a question gets its answer beside the briefing
    asked = talk.ask(ASKED)[-1]
    assert (asked.count(INTRODUCTION), ANSWER in asked) == (2, True)

    # the reader may be busy with the session before: then a call is told nothing
    wait_until(lambda: TOLD in talk.ask(client.repeat)[-1], every=1)
    assert (hooks.parent / MINE).exists()

    talk.slowwave("uninstall", client.name)
    assert hooks.read_bytes() == before
    assert "slowwave" not in servers.read_text()
    assert not list(hooks.parent.glob(f"*{KEPT}"))
    assert INTRODUCTION not in talk.ask(ASKED)[-1]
