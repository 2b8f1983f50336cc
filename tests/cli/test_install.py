"""What `slowwave install` puts into a client's settings, and that `uninstall` leaves them as they were."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.parts.client_files import KEPT, Client, list_client_files
from tests.command_line import typed

ROOT = Path(__file__).parents[2]
EXAMPLES, PLUGINS = ROOT / "deployments" / "hooks", ROOT / "deployments" / "plugins"
FILES = {
    Client.CLAUDE_CODE: (".claude/settings.json", ".claude.json"),
    Client.CODEX: (".codex/hooks.json", ".codex/config.toml"),
    Client.CURSOR: (".cursor/hooks.json", ".cursor/mcp.json"),
    Client.QWEN_CODE: (".qwen/settings.json",),
    Client.COPILOT_CLI: (".copilot/hooks/slowwave.json", ".copilot/mcp-config.json"),
}
OF_PROJECT = {
    Client.CLAUDE_CODE: (".claude/settings.json", ".mcp.json"),
    Client.CODEX: FILES[Client.CODEX],
    Client.CURSOR: FILES[Client.CURSOR],
    Client.QWEN_CODE: FILES[Client.QWEN_CODE],
    Client.COPILOT_CLI: (".github/hooks/slowwave.json", ".github/mcp.json"),
}
MINE = {"hooks": [{"type": "command", "command": "notify-send 'hook session-start'"}]}
clients = pytest.mark.parametrize("client", list(Client))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "home"
    where.mkdir()
    monkeypatch.setenv("HOME", str(where))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")  # it has no graph to build
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "QWEN_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    return where


def read_all(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def settings_of(client: Client, home: Path) -> list[dict[str, Any]]:
    texts = {name: (home / name).read_text() for name in FILES[client]}
    return [
        tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
        for name, text in texts.items()
    ]


WRITTEN = [
    b"",
    b"{}",
    b'{"model": "opus", "hooks": {}}',
    b'{\n\t"hooks": {"SessionStart": [], "sessionStart": []},\n\t"permissions": {"allow": ["Bash(ls)"]}\n}',
    json.dumps(
        {
            "hooks": {"SessionStart": [MINE], "Stop": [MINE]},
            "né": "\u00e9\U0001f600",
            "n": 1.50,
        }
    ).encode(),
    json.dumps(
        {"mcpServers": {"git": {"command": "git-mcp"}}, "numStartups": 3}, indent=4
    ).encode()
    + b"\r\n\r\n",
]


@clients
@pytest.mark.parametrize("before", [None, *WRITTEN])
def test_what_is_installed_and_removed_leaves_every_byte(
    home: Path, client: Client, before: bytes | None
) -> None:
    toml = (
        b'model = "gpt-5"\n\n[mcp_servers.git]\ncommand = "git-mcp"'
        if before
        else before
    )
    for name in FILES[client] if before is not None else ():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(toml or b"" if name.endswith(".toml") else before)
        (home / name).chmod(0o600)
    first = read_all(home)
    for _ in range(2):  # the second changes nothing
        done = typed("install", client)
        assert done.exit_code == 0, done.output
    hooks, servers = settings_of(client, home)[0], settings_of(client, home)[-1]
    assert "slowwave" in (servers.get("mcpServers") or servers.get("mcp_servers"))
    assert (
        str(hooks).count("hook session-start")
        == 1 + (b"notify-send" in (before or b"")) * 2
    )
    for name, raw in first.items():
        assert (home / (name + KEPT)).read_bytes() == raw
        assert (
            (home / (name + KEPT)).stat().st_mode & 0o777
            == (home / name).stat().st_mode & 0o777
            == 0o600
        )
    assert typed("uninstall", client).exit_code == 0
    assert read_all(home) == first


@clients
def test_what_was_changed_since_stays(home: Path, client: Client) -> None:
    name = FILES[client][0]
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text('{"model": "opus"}')
    typed("install", client)
    changed = json.loads((home / name).read_text())
    changed["model"] = "haiku"
    event = next(iter(changed["hooks"]))
    # a hook of another tool, whose arguments are as those of our server
    other = {"command": "npx", "args": ["-y", "other-tool", "mcp"]}
    changed["hooks"][event] += [MINE, other]
    (home / name).write_text(json.dumps(changed, indent=2))
    assert typed("uninstall", client).exit_code == 0
    left = json.loads((home / name).read_text())
    assert (left["model"], left["hooks"]) == ("haiku", {event: [MINE, other]})
    assert not (home / (name + KEPT)).exists()


@pytest.mark.parametrize("half", ["\\ud83d", "\\udcaf"])
def test_half_a_character_in_the_settings_stays_an_escape(
    home: Path, half: str
) -> None:
    (home / ".claude.json").write_text(
        f'{{"history": ["né {half}"]}}', encoding="utf-8"
    )
    assert typed("install", "claude-code").exit_code == 0
    written = (home / ".claude.json").read_text(encoding="utf-8")
    assert json.loads(written)["history"] == [json.loads(f'"né {half}"')]


@clients
def test_a_dry_run_changes_nothing(home: Path, client: Client) -> None:
    done = typed("install", client, "--dry-run")
    assert ("hook session-start" in done.output, read_all(home)) == (True, {})
    typed("install", client)
    before = read_all(home)
    assert "-" in typed("uninstall", client, "--dry-run").output
    assert read_all(home) == before


@clients
@pytest.mark.parametrize(
    "broken",
    ["{// a comment\n}", "[1,", '{"hooks": 5, "mcpServers": 5}', "a = [", b"\xff"],
)
def test_what_can_not_be_read_is_left_alone_and_nothing_else_is_written(
    home: Path, client: Client, broken: str | bytes
) -> None:
    last = FILES[client][-1]
    (home / last).parent.mkdir(exist_ok=True)
    (home / last).write_bytes(broken.encode() if isinstance(broken, str) else broken)
    before = read_all(home)
    done = typed("install", client)
    assert done.exit_code == 1
    assert done.output.startswith(f"slowwave: {home / last} is left as it is: ")
    assert "what it would get: {" in done.output
    assert read_all(home) == before


@clients
@pytest.mark.parametrize(
    ("own", "toml", "why"),
    [
        (
            '{"url": "http://x"}',
            '[mcp_servers.slowwave]\nurl = "http://x"\n',
            "has a server slowwave of its own",
        ),
        ('{"args": null}', "mcp_servers = 3\n", "is left as it is"),
    ],
)
def test_a_server_of_the_same_name_is_not_taken_over(
    home: Path, client: Client, own: str, toml: str, why: str
) -> None:
    last = FILES[client][-1]
    (home / last).parent.mkdir(exist_ok=True)
    (home / last).write_text(
        toml if last.endswith("toml") else f'{{"mcpServers": {{"slowwave": {own}}}}}'
    )
    before = read_all(home)
    done = typed("install", client)
    assert (done.exit_code, why in done.output, read_all(home)) == (1, True, before)
    typed("uninstall", client)
    assert read_all(home) == before


@clients
def test_a_project_gets_files_that_others_can_use_and_the_examples_are_these(
    home: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Path.cwd()
    (work / "src").mkdir()
    monkeypatch.chdir(work / "src")
    assert typed("install", client, "--project").exit_code == 0
    assert read_all(home) == {}
    for name in OF_PROJECT[client]:
        shown = EXAMPLES / f"{client}-{Path(name).name.lstrip('.')}"
        assert (work / name).read_text() == shown.read_text()
    assert typed("uninstall", client, "--project").exit_code == 0
    assert not [path for path in work.rglob("*") if path.is_file()]
    (work / OF_PROJECT[client][0]).write_text("{}")
    (work / OF_PROJECT[client][0]).with_name(
        f"{Path(OF_PROJECT[client][0]).name}{KEPT}"
    ).symlink_to(home / "bak")
    if len(OF_PROJECT[client]) > 1:
        (work / OF_PROJECT[client][1]).symlink_to(home / "out")
    assert (
        "is a link out of the project" in typed("install", client, "--project").output
    )
    (work / OF_PROJECT[client][0]).unlink()
    if len(OF_PROJECT[client]) < 2:
        (work / OF_PROJECT[client][0]).symlink_to(home / "out")
    assert (
        "is a link out of the project" in typed("install", client, "--project").output
    )
    assert read_all(home) == {}


def test_store_and_space_are_named_to_the_client(home: Path, tmp_path: Path) -> None:
    typed("install", "claude-code", "--store", tmp_path / "a store", "--space", "work")
    hooks, servers = settings_of(Client.CLAUDE_CODE, home)
    command = hooks["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    assert command.endswith(
        f"hook user-prompt --store '{tmp_path / 'a store'}' --space work"
    )
    assert servers["mcpServers"]["slowwave"]["args"][-4:] == [
        "--store",
        str(tmp_path / "a store"),
        "--space",
        "work",
    ]
    typed("uninstall", "claude-code")
    assert read_all(home) == {}


def test_the_folders_that_clients_are_told_of_elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    typed("install", "claude-code")
    typed("install", "codex")
    assert set(read_all(tmp_path / "c")) == {"settings.json", ".claude.json"}
    assert set(read_all(tmp_path / "x")) == {"hooks.json", "config.toml"}
    assert read_all(home) == {}


def test_an_unknown_client_is_refused_and_nothing_is_there_to_take_out() -> None:
    assert typed("install", "emacs").exit_code == 2
    assert "Nothing to remove." in typed("uninstall", "cursor").output


def test_the_plugins_have_what_install_writes() -> None:
    """Each in the form of its client; Gemini CLI has other events, and milliseconds."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    skills = {path.read_text() for path in PLUGINS.glob("*/skills/slowwave/SKILL.md")}
    assert len(skills) == 1
    for client, manifest in (
        (Client.CLAUDE_CODE, ".claude-plugin/plugin.json"),
        (Client.CODEX, ".codex-plugin/plugin.json"),
    ):
        hooks, servers = list_client_files(client, ROOT, ["slowwave"], ())
        shipped = read(PLUGINS / client / "hooks/hooks.json")
        if client is Client.CLAUDE_CODE:  # it cancels a plugin's hook at the end
            (group,) = shipped["hooks"]["SessionEnd"]
            group["hooks"][0]["command"] = run_through(group["hooks"][0]["command"])
        assert shipped == hooks.entries
        written = read(PLUGINS / client / ".mcp.json")["mcpServers"]
        assert written == servers.entries.get("mcpServers", servers.entries)
        assert read(PLUGINS / client / manifest)["version"] == version
    gemini = PLUGINS / "gemini-cli"
    assert read(gemini / "gemini-extension.json")["version"] == version
    events = read(gemini / "hooks/hooks.json")["hooks"]
    assert {
        event: group["hooks"][0]["command"] for event, (group,) in events.items()
    } == {
        "BeforeAgent": "slowwave hook user-prompt",
        "AfterTool": "slowwave hook before-tool",  # it takes no context before
        "SessionEnd": "slowwave hook session-end",
    }
    for catalogue in (".claude-plugin", ".agents/plugins"):
        (entry,) = read(ROOT / catalogue / "marketplace.json")["plugins"]
        source = entry["source"]
        assert (
            ROOT / (source["path"] if isinstance(source, dict) else source)
        ).is_dir()


def run_through(command: str) -> str:
    """Return what a hook that does its work in the background runs, given that it gets the event."""
    begun, sent, rest = re.fullmatch(
        r"(event=\$\(cat\); )\((printf '%s' \"\$event\" \| )(.+) > /dev/null 2>&1 &\)",
        command,
    ).groups()  # type: ignore[union-attr]
    echoed = subprocess.run(
        ["sh", "-c", f"{begun}{sent}cat"],
        input='{"a": "b\\n"}',
        capture_output=True,
        text=True,
    )
    assert echoed.stdout == '{"a": "b\\n"}'
    return str(rest)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_what_stays_is_named_with_what_removes_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_STORE", str(home / "my store"))
    assert "What stays" not in typed("uninstall", "claude-code").output
    (home / "my store" / "default").mkdir(parents=True)
    said = typed("uninstall", "claude-code").output
    assert f"the memory: rm -r '{home / 'my store'}'" in said
    assert "the encoder's graph" not in said
