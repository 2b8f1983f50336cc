"""What an agent's client is told of slowwave, and in which of its files: hooks and the MCP server, in and out again.

Where each client's documentation has it (Claude Code, Codex CLI, Cursor; 2026):

| client | hooks | MCP server | Where the settings lie |
|---|---|---|---|
| Claude Code | `settings.json` | `~/.claude.json`, a project's `.mcp.json` | `~/.claude`, or `CLAUDE_CONFIG_DIR` |
| Codex | `hooks.json` | `config.toml` | `~/.codex`, or `CODEX_HOME` |
| Cursor | `hooks.json` | `mcp.json` | `~/.cursor` |

Cursor takes context at a session's start alone. A JSON file is read, changed and written as JSON; the bytes of before
are kept beside it, and are back when what was put in is taken out and nothing else has changed. TOML gets a block
between marks.
"""

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from slowwave.schemas.errors import UsageError
from slowwave.text.marked import HASH_MARKS, remove_marked, replace_marked

SERVER = "slowwave"
KEPT = ".before-slowwave"
"""What the name of a file of before ends in."""
OURS = re.compile(r"slowwave\b.*\shook (?:session-start|user-prompt)\b")
SECONDS = 15
"""A hook may take, by the client's watch."""
FRESH = "startup|clear|compact"
"""How a session may start that has no briefing yet."""
INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
HALF = re.compile("[\ud800-\udfff]")
"""Of a character that JSON may hold as an escape and a file can't: where a client has cut a text."""

Json = dict[str, Any]


class Client(StrEnum):
    """An agent that is told of the memory."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"


@dataclass(frozen=True)
class ClientFile:
    """One file of a client's settings, and what is put into it."""

    path: Path
    entries: Json
    """In the file's own form: hooks and servers alone; for TOML a server."""

    @property
    def kept(self) -> Path:
        """Where its bytes of before are."""
        return self.path.with_name(self.path.name + KEPT)

    def add_entries(self, text: str) -> str:
        """Return its text with what is ours, once.

        Raises:
            UsageError: it is not of its form, or has a server of our name that is not ours.
        """
        if self.path.suffix == ".toml":
            return self._add_toml(text)
        data = _remove_ours(self._parse(text))
        for name, value in self.entries.items():
            if not isinstance(value, dict):
                data.setdefault(name, value)
                continue
            held = data.setdefault(name, {})
            if not isinstance(held, dict):
                raise self._refuse(f"{name} is no object")
            for key, more in value.items():
                if key == SERVER and SERVER in held:
                    raise self._refuse(f"it has a server {SERVER} of its own")
                if isinstance(more, list) and not isinstance(held.get(key, []), list):
                    raise self._refuse(f"{name}.{key} is no list")
                held[key] = [*held.get(key, []), *more] if isinstance(more, list) else more
        return _dump(data, text)

    def remove_entries(self, text: str, before: str | None) -> str | None:
        """Return its text without what is ours; None for a file that was made for it.

        Args:
            text: as it is now.
            before: as it was; None where there was none, or nothing is kept of it.
        """
        if self.path.suffix == ".toml":
            return remove_marked(text, HASH_MARKS) or (None if before is None else before)
        data = _remove_ours(held := self._parse(text))
        if data == held:
            return text
        if before is not None and _prune(data) == _prune(_remove_ours(self._parse(before))):
            return before
        if before is None and not _prune(data):
            return None
        return _dump(data, text)

    def _add_toml(self, text: str) -> str:
        server = self.entries[SERVER]
        lines = [f"[mcp_servers.{SERVER}]", *(f"{key} = {_quote(value)}" for key, value in server.items())]
        rest = remove_marked(text, HASH_MARKS)
        added = replace_marked(text, "\n".join(lines), HASH_MARKS)
        try:
            held = tomllib.loads(rest).get("mcp_servers")
            if isinstance(held, dict) and SERVER in held:
                raise self._refuse(f"it has a server {SERVER} of its own")
            tomllib.loads(added)
        except tomllib.TOMLDecodeError as wrong:
            raise self._refuse(str(wrong)) from None
        return added

    def _parse(self, text: str) -> Json:
        if HALF.search(text):  # a byte, as `read_as_it_is` keeps it
            raise self._refuse("it is no UTF-8")
        try:
            data = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
        except (ValueError, RecursionError) as wrong:
            raise self._refuse(f"it is no JSON ({wrong})") from None
        if not isinstance(data, dict):
            raise self._refuse("it holds no object")
        return data

    def _refuse(self, why: str) -> UsageError:
        told = json.dumps(self.entries, ensure_ascii=False)
        return UsageError(f"{self.path} is left as it is: {why}; what it would get: {told}")


def list_client_files(
    client: Client, folder: Path | None, command: Sequence[str], more: Sequence[str]
) -> list[ClientFile]:
    """Return the files of a client's settings with what they get.

    Args:
        client: whose.
        folder: of the project; None for the user's own.
        command: that starts slowwave.
        more: options for it, as a store.
    """
    hooks, server = MAKERS[client](command, more)
    home = Path.home()
    if client is Client.CLAUDE_CODE:
        own = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        mcp = (own if "CLAUDE_CONFIG_DIR" in os.environ else home) / ".claude.json"
        settings = (folder / ".claude" if folder else own) / "settings.json"
        return [ClientFile(settings, hooks), ClientFile(folder / ".mcp.json" if folder else mcp, server)]
    if client is Client.CODEX:
        codex = folder / ".codex" if folder else Path(os.environ.get("CODEX_HOME") or home / ".codex")
        return [ClientFile(codex / "hooks.json", hooks), ClientFile(codex / "config.toml", server)]
    cursor = (folder or home) / ".cursor"
    return [ClientFile(cursor / "hooks.json", hooks), ClientFile(cursor / "mcp.json", server)]


def _make_claude_entries(command: Sequence[str], more: Sequence[str]) -> tuple[Json, Json]:
    return _make_hooks(command, more), {"mcpServers": {SERVER: {"type": "stdio", **_make_server(command, more)}}}


def _make_codex_entries(command: Sequence[str], more: Sequence[str]) -> tuple[Json, Json]:
    return _make_hooks(command, more), {SERVER: _make_server(command, more) | {"startup_timeout_sec": 20}}


def _make_cursor_entries(command: Sequence[str], more: Sequence[str]) -> tuple[Json, Json]:
    start = {"command": _join([*command, "hook", "session-start", *more]), "timeout": SECONDS}
    return {"version": 1, "hooks": {"sessionStart": [start]}}, {"mcpServers": {SERVER: _make_server(command, more)}}


MAKERS: dict[Client, Callable[[Sequence[str], Sequence[str]], tuple[Json, Json]]] = {
    Client.CLAUDE_CODE: _make_claude_entries,
    Client.CODEX: _make_codex_entries,
    Client.CURSOR: _make_cursor_entries,
}


def _make_hooks(command: Sequence[str], more: Sequence[str]) -> Json:
    def make(event: str) -> Json:
        return {"hooks": [{"type": "command", "command": _join([*command, "hook", event, *more]), "timeout": SECONDS}]}

    start = {"matcher": FRESH, **make("session-start")}
    return {"hooks": {"SessionStart": [start], "UserPromptSubmit": [make("user-prompt")]}}


def _make_server(command: Sequence[str], more: Sequence[str]) -> Json:
    return {"command": command[0], "args": [*command[1:], "mcp", *more]}


def _join(words: Sequence[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _quote(value: object) -> str:
    """Return a value as TOML has it, which for strings, numbers and lists of them is as JSON has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _remove_ours(data: Json) -> Json:
    """Return the settings without our hooks and server, and without the lists and objects that held nothing else."""
    data = deepcopy(data)
    hooks, servers = data.get("hooks"), data.get("mcpServers")
    if isinstance(hooks, dict):
        for event, groups in list(hooks.items()):
            kept = _drop_our_hooks(groups) if isinstance(groups, list) else groups
            if kept != groups:
                hooks[event] = kept
                if not kept:
                    del hooks[event]
                    if not hooks:
                        del data["hooks"]
    if isinstance(servers, dict) and _is_our_server(servers.get(SERVER)):
        del servers[SERVER]
        if not servers:
            del data["mcpServers"]
    return data


def _drop_our_hooks(groups: list[Any]) -> list[Any]:
    kept = []
    for group in groups:
        inner = group.get("hooks") if isinstance(group, dict) else None
        left = [one for one in inner if not _is_ours(one)] if isinstance(inner, list) else None
        if left is not None and left != inner:
            group = {**group, "hooks": left}
        if not _is_ours(group) and (left or left == inner):
            kept.append(group)
    return kept


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and bool(OURS.search(str(entry.get("command", ""))))


def _is_our_server(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("args"), list) and "mcp" in entry["args"]


def _prune(data: Json) -> Json:
    """Return the settings without what may differ once ours are out: empty hooks and servers, Cursor's version."""
    pruned = {key: value for key, value in data.items() if (key, value) != ("version", 1)}
    for name in ("hooks", "mcpServers"):
        if isinstance(held := pruned.get(name), dict):
            pruned[name] = {key: value for key, value in held.items() if value}
            if not pruned[name]:
                del pruned[name]
    return pruned


def _dump(data: Json, like: str) -> str:
    """Return JSON with the indent, the order and the end that a text has; with two spaces where it has none."""
    found = INDENT.search(like)
    newline = "\r\n" if "\r\n" in like else "\n"
    end = newline if not like.strip() or like.endswith("\n") else ""
    told = json.dumps(data, ensure_ascii=like.isascii() and bool(like), indent=found[1] if found else 2)
    told = HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", told)
    return ("\ufeff" if like.startswith("\ufeff") else "") + told.replace("\n", newline) + end
