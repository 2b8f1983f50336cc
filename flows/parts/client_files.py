"""Add slowwave's hooks and MCP server to the settings files of an agent's client, and remove them.

The files, by each client's documentation (Claude Code, Codex CLI, Cursor, Qwen Code, Copilot CLI; 2026):

| client | hooks | MCP server | Where the settings lie |
|---|---|---|---|
| Claude Code | `settings.json` | `~/.claude.json`, a project's `.mcp.json` | `~/.claude`, or `CLAUDE_CONFIG_DIR` |
| Codex | `hooks.json` | `config.toml` | `~/.codex`, or `CODEX_HOME` |
| Cursor | `hooks.json` | `mcp.json` | `~/.cursor` |
| Qwen Code | `settings.json` | `settings.json` | `~/.qwen`, or `QWEN_HOME` |
| Copilot CLI | `hooks/slowwave.json` | `mcp-config.json` | `~/.copilot`, or `COPILOT_HOME` |

A project's files of Copilot CLI lie in `.github`, its server in `mcp.json`. Cursor takes context only at a session's
start, and Gemini CLI after a tool call but not before. So does Qwen Code, which reads the context of a hook of
`PreToolUse`, and drops it. A JSON file is parsed, changed and written as JSON, and its earlier bytes are kept beside it
(`.bak`). TOML gets a block between marks. Removal restores the earlier bytes if the file was not changed since; else it
removes only our entries.
"""

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from slowwave.schemas.errors import UsageError
from slowwave.text.marked import (
    HASH_MARKS,
    read_as_it_is,
    remove_marked,
    replace_marked,
)

SERVER = "slowwave"
KEPT = ".bak"
"""Suffix of the file that keeps the earlier bytes."""
OURS = re.compile(
    r"slowwave\b.*\shook (?:session-start|user-prompt|before-tool|session-end)\b"
)
SECONDS = 15
"""Timeout of a hook, which the client enforces."""
SECONDS_BEFORE_TOOL = 5
"""Timeout of a hook before a tool call."""
WRITING = "Bash|Edit|MultiEdit|Write|NotebookEdit|apply_patch"
"""Tools whose calls may repeat a failed attempt. Tools that only read get no hook."""
WRITING_IN_QWEN = "run_shell_command|edit|write_file|notebook_edit"
FRESH = "startup|clear|compact"
"""The kinds of a session's start that have no briefing yet."""
Json = dict[str, Any]
CURSORS: Json = {"version": 1}
"""Additional fields of the files of Cursor and Copilot CLI."""
ANYWAY = "; exit 0" if os.name == "nt" else " || true"
"""Behind a command: it ends well even if the program is gone. Copilot CLI stops each tool call whose hook fails."""


class Client(StrEnum):
    """An agent whose settings can get hooks and a server."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    QWEN_CODE = "qwen-code"
    COPILOT_CLI = "copilot-cli"


@dataclass(frozen=True)
class ClientFile:
    """One file of a client's settings, and the entries to put into it."""

    path: Path
    entries: Json
    """Hooks and servers, in the structure of the file. For TOML, one server by its name."""

    @property
    def kept(self) -> Path:
        """The file that keeps the earlier bytes."""
        return self.path.with_name(self.path.name + KEPT)

    def add_entries(
        self,
        text: str,
    ) -> str:
        """Return the file's text with our entries. Earlier entries of ours are replaced.

        Raises:
            UsageError: the text is malformed, or has a server of our name that is not ours.
        """
        if self.path.suffix == ".toml":
            return self._add_toml(text)
        data = _remove_ours(self._parse(text))
        for name, value in self.entries.items():
            if not isinstance(value, dict):
                data.setdefault(name, value)
                continue
            stored = data.setdefault(name, {})
            if not isinstance(stored, dict):
                raise self._make_refusal(f"{name} is not an object")
            self._add_values(name, stored, value)
        return _dump(data)

    def _add_values(
        self,
        name: str,
        stored: Json,
        given: Json,
    ) -> None:
        """Add values to an object of the file in place. A list is appended to the list that the file has."""
        for key, more in given.items():
            if key == SERVER and SERVER in stored:
                raise self._make_refusal(f"it has a server {SERVER} of its own")
            if not isinstance(more, list):
                stored[key] = more
                continue
            there = stored.get(key, [])
            if not isinstance(there, list):
                raise self._make_refusal(f"{name}.{key} is not a list")
            stored[key] = [*there, *more]

    def _add_toml(
        self,
        text: str,
    ) -> str:
        """Return the text of a TOML file with a table of our server between marks."""
        lines = [f"[mcp_servers.{SERVER}]"]
        for key, value in self.entries[SERVER].items():
            # Strings, numbers and lists of them are in TOML as they are in JSON.
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
        rest = remove_marked(text, HASH_MARKS)
        added = replace_marked(text, "\n".join(lines), HASH_MARKS)
        try:
            stored = tomllib.loads(rest).get("mcp_servers")
            if isinstance(stored, dict) and SERVER in stored:
                raise self._make_refusal(f"it has a server {SERVER} of its own")
            tomllib.loads(added)
        except tomllib.TOMLDecodeError as wrong:
            raise self._make_refusal(str(wrong)) from None
        return added

    def remove_entries(
        self,
        text: str,
        before: str | None,
    ) -> str | None:
        """Return the file's text without our entries; None if the file should be deleted.

        If only our entries differ from the earlier text, that text is returned as it was.

        Args:
            text: the file's text now.
            before: its earlier text; None if there was no file, or it was not kept.
        """
        if self.path.suffix == ".toml":
            return remove_marked(text, HASH_MARKS) or before
        data = _remove_ours(parsed := self._parse(text))
        if data == parsed:
            return text
        if (
            before is not None
            and _remove_ours(self._parse(before)) | CURSORS == data | CURSORS
        ):
            return before
        return _dump(data) if data.keys() - CURSORS.keys() else None

    def _parse(
        self,
        text: str,
    ) -> Json:
        try:
            text.encode()  # bytes that are not UTF-8 were read as surrogates, which can't be encoded
            data = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
        except UnicodeEncodeError:
            raise self._make_refusal("it is not UTF-8") from None
        except (ValueError, RecursionError) as wrong:
            raise self._make_refusal(f"it is not JSON ({wrong})") from None
        if not isinstance(data, dict):
            raise self._make_refusal("it does not hold an object")
        return data

    def _make_refusal(
        self,
        why: str,
    ) -> UsageError:
        entries = json.dumps(self.entries, ensure_ascii=False)
        return UsageError(
            f"{self.path} is left as it is: {why}; what it would get: {entries}"
        )


def list_client_files(
    client: Client,
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the files of a client's settings with the entries that they get.

    Args:
        client: the client.
        folder: of the project; None for the user's own settings.
        command: the words that start slowwave.
        more: options to add to each command, such as a store.
    """
    if client is Client.CLAUDE_CODE:
        return _list_claude_files(folder, command, more)
    if client is Client.CODEX:
        return _list_codex_files(folder, command, more)
    if client is Client.QWEN_CODE:
        return _list_qwen_files(folder, command, more)
    if client is Client.COPILOT_CLI:
        return _list_copilot_files(folder, command, more)
    return _list_cursor_files(folder, command, more)


def _list_claude_files(
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the files of Claude Code's settings with the entries that they get."""
    home = Path.home()
    own = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    mcp = (own if "CLAUDE_CONFIG_DIR" in os.environ else home) / ".claude.json"
    settings = (folder / ".claude" if folder else own) / "settings.json"
    server = {"type": "stdio", **_make_server(command, more)}
    return [
        ClientFile(settings, _make_hooks("SessionEnd", command, more)),
        ClientFile(
            folder / ".mcp.json" if folder else mcp, {"mcpServers": {SERVER: server}}
        ),
    ]


def _list_codex_files(
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the files of Codex's settings with the entries that they get."""
    own = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    codex = folder / ".codex" if folder else own
    server = {**_make_server(command, more), "startup_timeout_sec": 20}
    return [
        ClientFile(codex / "hooks.json", _make_hooks("Stop", command, more)),
        ClientFile(codex / "config.toml", {SERVER: server}),
    ]


def _list_cursor_files(
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the files of Cursor's settings with the entries that they get."""
    cursor = (folder or Path.home()) / ".cursor"
    start = {
        "command": _join([*command, "hook", "session-start", *more]),
        "timeout": SECONDS,
    }
    hooks = {**CURSORS, "hooks": {"sessionStart": [start]}}
    servers = {"mcpServers": {SERVER: _make_server(command, more)}}
    return [
        ClientFile(cursor / "hooks.json", hooks),
        ClientFile(cursor / "mcp.json", servers),
    ]


def _list_qwen_files(
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the file of Qwen Code's settings with the entries that it gets."""
    own = Path(os.environ.get("QWEN_HOME") or Path.home() / ".qwen")
    settings = (folder / ".qwen" if folder else own) / "settings.json"
    hooks = _make_hooks("Stop", command, more)["hooks"]
    (at_tool,) = hooks.pop("PreToolUse")
    # a failed edit has an event of its own
    for event in ("PostToolUse", "PostToolUseFailure"):
        hooks[event] = [{**at_tool, "matcher": WRITING_IN_QWEN}]
    servers = {SERVER: _make_server(command, more)}
    return [ClientFile(settings, {"hooks": hooks, "mcpServers": servers})]


def _list_copilot_files(
    folder: Path | None,
    command: Sequence[str],
    more: Sequence[str],
) -> list[ClientFile]:
    """Return the files of Copilot CLI's settings with the entries that they get."""
    own = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
    place = folder / ".github" if folder else own
    hooks = _make_hooks("Stop", command, more)["hooks"]
    (at_start,) = hooks["SessionStart"]
    del at_start["matcher"]  # a start has other kinds there
    (before_tool,) = hooks["PreToolUse"]
    before_tool["hooks"][0]["command"] += ANYWAY
    server = {"type": "local", **_make_server(command, more), "tools": ["*"]}
    return [
        ClientFile(place / "hooks" / f"{SERVER}.json", {**CURSORS, "hooks": hooks}),
        ClientFile(
            place / ("mcp.json" if folder else "mcp-config.json"),
            {"mcpServers": {SERVER: server}},
        ),
    ]


def _make_server(
    command: Sequence[str],
    more: Sequence[str],
) -> Json:
    """Return the entry of the MCP server."""
    return {"command": command[0], "args": [*command[1:], "mcp", *more]}


def _make_hooks(
    end: str,
    command: Sequence[str],
    more: Sequence[str],
) -> Json:
    """Return hooks for the start of a session, each prompt, tool calls that change something, and the event `end`."""

    def make(
        event: str,
        seconds: int = SECONDS,
    ) -> Json:
        hook = {
            "type": "command",
            "command": _join([*command, "hook", event, *more]),
            "timeout": seconds,
        }
        return {"hooks": [hook]}

    at_start = {"matcher": FRESH, **make("session-start")}
    before_tool = {"matcher": WRITING, **make("before-tool", SECONDS_BEFORE_TOOL)}
    return {
        "hooks": {
            "SessionStart": [at_start],
            "UserPromptSubmit": [make("user-prompt")],
            "PreToolUse": [before_tool],
            end: [make("session-end")],
        }
    }


def find_hooked_clients() -> list[str]:
    """Return the names of the clients whose user settings have our hooks."""
    hooks = {
        str(client): list_client_files(
            client=client, folder=None, command=["slowwave"], more=()
        )[0].path
        for client in Client
    }
    return [name for name, path in hooks.items() if OURS.search(read_as_it_is(path))]


def _join(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _remove_ours(data: Json) -> Json:
    """Return the settings without our hooks and server, and without the lists and objects that become empty."""
    data = dict(data)
    if isinstance(hooks := data.get("hooks"), dict):
        data["hooks"] = {
            event: left
            for event, groups in hooks.items()
            if (left := _drop_our_hooks(groups)) != []
        }
    if isinstance(servers := data.get("mcpServers"), dict):
        data["mcpServers"] = {
            name: server
            for name, server in servers.items()
            if name != SERVER or not _is_our_server(server)
        }
    return {
        name: value
        for name, value in data.items()
        if value or name not in ("hooks", "mcpServers")
    }


def _drop_our_hooks(groups: Any) -> Any:
    if not isinstance(groups, list):
        return groups
    left = []
    for group in groups:
        inner = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(inner, list) and any(map(_is_our_hook, inner)):
            group = {
                **group,
                "hooks": [entry for entry in inner if not _is_our_hook(entry)],
            }
            left += [group] if group["hooks"] else []
        elif not _is_our_hook(group):
            left.append(group)
    return left


def _is_our_hook(entry: object) -> bool:
    """Return True if an object is a hook of ours: its command runs our hook."""
    return isinstance(entry, dict) and bool(OURS.search(str(entry.get("command", ""))))


def _is_our_server(server: object) -> bool:
    """Return True if a server that has our name is ours: `mcp` is an argument of its command."""
    args = server.get("args") if isinstance(server, dict) else None
    return isinstance(args, list) and "mcp" in args


def _dump(data: Json) -> str:
    """Return JSON text. If a string has half a surrogate pair, all characters beyond ASCII are escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(data, indent=2) + "\n"
    return text
