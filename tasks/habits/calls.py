"""Tool calls as what they do, rows of ACTIONS: files read and edited, commands run, places searched."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from posixpath import isabs, join, normpath
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import ACTIONS
from slowwave.schemas.vocabulary import ActionKind, Origin
from slowwave.tasks.habits.commands import find_edited_in_place, read_command
from slowwave.tasks.habits.shell import parse_script

COLUMNS = ["message_id", "session_id", "seq", "origin", "text", "blocks", "ts"]
"""Columns of MESSAGES that are read."""
PATCH_FILE = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.*\S)\s*$", re.MULTILINE)
"""Lines of Codex's patches that name a file."""
PATCH = "*** Begin Patch"
DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True)
class Action:
    """One thing that a call does; columns of ACTIONS."""

    kind: ActionKind
    path: str | None = None
    command: str | None = None
    line: str | None = None
    role: str | None = None
    ok: bool | None = None


def find_actions(messages: pa.Table, sessions: pa.Table, step_key: str) -> pa.Table:
    """Return rows of ACTIONS, in order of session and place.

    Args:
        messages: COLUMNS of whole sessions.
        sessions: session_id, workspace and inactive of those sessions; what was taken back does nothing.
        step_key: of the step.
    """
    # messages that stand, each with the turn of the person that it is in
    about = pl.DataFrame(sessions).select("session_id", "workspace", "inactive")
    gone = about.explode("inactive", empty_as_null=True)["inactive"].drop_nulls()
    live = pl.DataFrame(messages).filter(~pl.col("message_id").is_in(gone.implode())).sort("session_id", "seq")
    by_person = (pl.col("origin") == Origin.HUMAN) & (pl.col("text") != "")
    live = live.with_columns(by_person.cum_sum().over("session_id").cast(pl.Int64).alias("turn"))
    # their tool calls, and whether each failed
    blocks = live.select("message_id", "session_id", "seq", "turn", "ts", "blocks").explode("blocks")
    blocks = blocks.filter(pl.col("blocks").is_not_null()).unnest("blocks")
    calls = blocks.filter((pl.col("type") == "tool_call") & pl.col("name").is_not_null())
    if not calls.height:
        return ACTIONS.make_empty_table()
    results = blocks.filter((pl.col("type") == "tool_result") & pl.col("call_id").is_not_null())
    failures = results.group_by("session_id", "call_id").agg(pl.col("is_error").drop_nulls().last().alias("failed"))
    calls = calls.join(failures, on=["session_id", "call_id"], how="left", maintain_order="left")
    calls = calls.join(about.drop("inactive"), on="session_id", how="left", maintain_order="left")
    # a call may do several things
    rows = []
    parts: dict[str, int] = {}
    for call in calls.iter_rows(named=True):
        for action in read_call(call["name"], call["text"] or "", call["failed"], call["workspace"]):
            part = parts[call["message_id"]] = parts.get(call["message_id"], -1) + 1
            rows.append(
                {
                    **{name: call[name] for name in ("message_id", "session_id", "workspace", "turn", "seq")},
                    **vars(action),
                    "action_id": compute_content_id(call["message_id"], str(part)),
                    "part": part,
                    "at": call["ts"],
                    "tool": call["name"],
                    "step_key": step_key,
                }
            )
    return pa.Table.from_pylist(rows, schema=ACTIONS.schema)


@cache
def _load_tools() -> tuple[dict[str, ActionKind], dict[str, list[str]]]:
    table = tomllib.loads((Path(__file__).parent / "tools.toml").read_text(encoding="utf-8"))
    kinds = {name: ActionKind(kind) for kind, names in table["kinds"].items() for name in names}
    return kinds, table["arguments"]


def read_call(tool: str, given: str, failed: bool | None, workspace: str | None) -> list[Action]:
    """Return what a call does, in order; nothing of its texts but paths and commands.

    Args:
        tool: its name, as the transcript has it.
        given: its arguments, JSON or, of patches, raw.
        failed: what its result says; None where it says nothing.
        workspace: a folder, or a mere name; paths are told from it on, those outside are not told.
    """
    kinds, names = _load_tools()
    kind = kinds.get(re.sub(r"[^a-z0-9]", "", tool.lower()), ActionKind.OTHER)
    ok = None if failed is None else not failed
    if PATCH in given and kind in (ActionKind.EDIT, ActionKind.RUN):
        text = given if given.lstrip().startswith(PATCH) else given.replace("\\n", "\n")
        paths = dict.fromkeys(locate(path, workspace) for path in PATCH_FILE.findall(text))
        return [Action(ActionKind.EDIT, path, ok=ok) for path in paths]
    arguments = _parse_arguments(given)
    if kind is ActionKind.RUN:
        script = _get_first(arguments, names["command"])
        folder = _get_first(arguments, names["folder"]) or ""
        return list(_read_script(script, folder, failed, workspace)) if script else []
    if kind is ActionKind.EDIT and arguments.get("command") == "view":  # an editor of many commands
        kind = ActionKind.READ
    path = _get_first(arguments, names["path"])
    return [Action(kind, locate(path, workspace) if path else None, ok=ok)]


def locate(path: str, workspace: str | None, folder: str = "") -> str | None:
    """Return a path from the workspace on; None for one outside of it.

    Of a workspace that is a mere name an absolute path stays as it is: what lies in it can't be told.
    """
    whole = join(folder, _slash(path))
    root = _slash(workspace).rstrip("/") if workspace else ""
    if not _is_absolute(whole):
        inside = normpath(whole)
        return None if inside.startswith("..") or whole[:1] in "~$" else inside.removeprefix("./")
    whole = normpath(whole)
    if not _is_absolute(root):
        return whole
    return "." if whole == root else whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else None


def _read_script(script: str, folder: str, failed: bool | None, workspace: str | None) -> Iterator[Action]:
    commands = parse_script(script)
    # One that failed says so of its single command, one that went well of each where none could hide another's end.
    is_told = len(commands) == 1 or (failed is False and all(command.joint == "&&" for command in commands[:-1]))
    ok = not failed if is_told and failed is not None else None
    before = ""
    for command in commands:
        fed, before = before == "|", command.joint
        meaning = read_command(command)
        if fed and meaning.form is None:  # `… | tail -3` looks at no file
            continue
        cwd = None if command.folder is None else locate(command.folder or ".", workspace, folder)
        action = Action(meaning.kind, None, meaning.form, meaning.line, meaning.role, ok)
        if meaning.kind is ActionKind.EDIT:
            for path in find_edited_in_place(command.words) or [
                path for path in command.writes if not path.startswith("/dev/")
            ]:
                whole = path if cwd in (None, ".") else join(cwd or "", path)
                yield replace(action, path=locate(whole, workspace))
        elif meaning.kind is ActionKind.RUN and cwd is not None:
            yield replace(action, path=cwd.removeprefix("."))
        else:  # what runs elsewhere is no habit of this workspace
            yield Action(meaning.kind, ok=ok)


def _parse_arguments(given: str) -> Mapping[str, Any]:
    """Return the arguments; of a list of words (`bash -lc SCRIPT`) the script, or the words in a row."""
    try:
        parsed = orjson.loads(given)
    except orjson.JSONDecodeError:
        return {}
    arguments = parsed if isinstance(parsed, dict) else {}
    for name, value in arguments.items():
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            is_shell = len(value) > 2 and re.fullmatch("-.*c", value[-2])
            arguments[name] = value[-1] if is_shell else " ".join(value)
    return arguments


def _get_first(arguments: Mapping[str, Any], names: list[str]) -> str | None:
    return next((text for name in names if isinstance(text := arguments.get(name), str) and text.strip()), None)


def _slash(path: str) -> str:
    return path.replace("\\", "/") if DRIVE.match(path) or ("\\" in path and "/" not in path) else path


def _is_absolute(path: str) -> bool:
    return isabs(path) or bool(DRIVE.match(path))
