"""Read tool calls as rows of ACTIONS: files read and edited, commands run, places searched."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from posixpath import isabs, join, normpath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import ACTIONS
from slowwave.schemas.tool_calls import (
    PATCH,
    join_words,
    list_patched_files,
    parse_arguments,
)
from slowwave.schemas.vocabulary import ActionKind, Origin
from slowwave.tasks.habits.commands import find_edited_in_place, read_command
from slowwave.tasks.habits.shell import parse_script

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ["message_id", "session_id", "seq", "origin", "text", "blocks", "ts"]
"""Columns of MESSAGES that are read."""
DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True)
class Action:
    """One action of a call; columns of ACTIONS."""

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
        sessions: session_id, workspace and inactive of those sessions. Inactive messages have no actions.
        step_key: the step's key.
    """
    import polars as pl  # a hook, which reads single calls, starts without it

    about = pl.DataFrame(sessions).select("session_id", "workspace", "inactive")
    rows: list[dict[str, Any]] = []
    parts: dict[str, int] = {}
    for call in _find_calls(pl.DataFrame(messages), about).iter_rows(named=True):
        for action in read_call(
            tool=call["name"],
            given=call["text"] or "",
            failed=call["failed"],
            workspace=call["workspace"],
        ):
            part = parts[call["message_id"]] = parts.get(call["message_id"], -1) + 1
            rows.append(
                _build_row(call=call, action=action, part=part, step_key=step_key)
            )
    return pa.Table.from_pylist(rows, schema=ACTIONS.schema)


def _find_calls(
    messages: "pl.DataFrame",
    about: "pl.DataFrame",
) -> "pl.DataFrame":
    """Return the tool calls of the active messages, each with its turn, its workspace and its failure, if known."""
    import polars as pl

    inactive = about.explode("inactive", empty_as_null=True)["inactive"].drop_nulls()
    live = messages.filter(~pl.col("message_id").is_in(inactive.implode())).sort(
        "session_id", "seq"
    )
    by_person = (pl.col("origin") == Origin.HUMAN) & (pl.col("text") != "")
    live = live.with_columns(
        by_person.cum_sum().over("session_id").cast(pl.Int64).alias("turn")
    )
    blocks = live.select(
        "message_id", "session_id", "seq", "turn", "ts", "blocks"
    ).explode("blocks")
    blocks = blocks.filter(pl.col("blocks").is_not_null()).unnest("blocks")
    calls = blocks.filter(
        (pl.col("type") == "tool_call") & pl.col("name").is_not_null()
    )
    results = blocks.filter(
        (pl.col("type") == "tool_result") & pl.col("call_id").is_not_null()
    )
    failures = results.group_by("session_id", "call_id").agg(
        pl.col("is_error").drop_nulls().last().alias("failed")
    )
    calls = calls.join(
        failures, on=["session_id", "call_id"], how="left", maintain_order="left"
    )
    return calls.join(
        about.drop("inactive"), on="session_id", how="left", maintain_order="left"
    )


def _build_row(
    call: Mapping[str, Any],
    action: Action,
    part: int,
    step_key: str,
) -> dict[str, Any]:
    """Return a row of ACTIONS: the `part`-th action of a message."""
    return {
        **{
            name: call[name]
            for name in ("message_id", "session_id", "workspace", "turn", "seq")
        },
        **vars(action),
        "action_id": compute_content_id(call["message_id"], str(part)),
        "part": part,
        "at": call["ts"],
        "tool": call["name"],
        "step_key": step_key,
    }


@cache
def _load_tools() -> tuple[dict[str, ActionKind], dict[str, list[str]]]:
    table = tomllib.loads(
        (Path(__file__).parent / "tools.toml").read_text(encoding="utf-8")
    )
    kinds = {
        name: ActionKind(kind)
        for kind, names in table["kinds"].items()
        for name in names
    }
    return kinds, table["arguments"]


def read_call(
    tool: str,
    given: str,
    failed: bool | None,
    workspace: str | None,
) -> list[Action]:
    """Return the actions of a call, in order. Of its texts only paths and commands are kept.

    Args:
        tool: the tool's name in the transcript.
        given: its arguments, as JSON or, for patches, as text.
        failed: True if the result is an error; None if the result does not say.
        workspace: a folder, or only a name. Paths are relative to it; paths outside are dropped.
    """
    kinds, names = _load_tools()
    kind = kinds.get(re.sub(r"[^a-z0-9]", "", tool.lower()), ActionKind.OTHER)
    ok = None if failed is None else not failed
    if PATCH in given and kind in (ActionKind.EDIT, ActionKind.RUN):
        paths = dict.fromkeys(
            locate(path, workspace) for path in list_patched_files(given)
        )
        return [Action(ActionKind.EDIT, path, ok=ok) for path in paths]
    arguments = parse_arguments(given)
    if kind is ActionKind.RUN:
        script = _get_first(arguments, names["command"])
        folder = _get_first(arguments, names["folder"]) or ""
        return (
            list(
                _read_script(
                    script=script, folder=folder, failed=failed, workspace=workspace
                )
            )
            if script
            else []
        )
    if kind is ActionKind.EDIT and join_words(arguments.get("command")) == "view":
        # An editor of many commands.
        kind = ActionKind.READ
    path = _get_first(arguments, names["path"])
    return [Action(kind, locate(path, workspace) if path else None, ok=ok)]


def locate(path: str, workspace: str | None, folder: str = "") -> str | None:
    """Return a path relative to the workspace, or None if it is outside.

    If the workspace is only a name, an absolute path stays absolute, since it cannot be compared.
    """
    whole = join(folder, _slash(path))
    root = _slash(workspace).rstrip("/") if workspace else ""
    if not _is_absolute(whole):
        inside = normpath(whole)
        return (
            None
            if inside.startswith("..") or whole[:1] in "~$"
            else inside.removeprefix("./")
        )
    whole = normpath(whole)
    if not _is_absolute(root):
        return whole
    if whole == root:
        return "."
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else None


def _read_script(
    script: str,
    folder: str,
    failed: bool | None,
    workspace: str | None,
) -> Iterator[Action]:
    commands = parse_script(script)
    # A result applies to a single command, or, if it is a success, to each of several joined by `&&` alone.
    is_known = len(commands) == 1 or (
        failed is False and all(command.joint == "&&" for command in commands[:-1])
    )
    ok = not failed if is_known and failed is not None else None
    before = ""
    for command in commands:
        fed = before == "|"
        before = command.joint
        meaning = read_command(command)
        if fed and meaning.form is None:  # `… | tail -3` reads no file
            continue
        cwd = (
            None
            if command.folder is None
            else locate(command.folder or ".", workspace, folder)
        )
        action = Action(
            kind=meaning.kind,
            path=None,
            command=meaning.form,
            line=meaning.line,
            role=meaning.role,
            ok=ok,
        )
        if meaning.kind is ActionKind.EDIT:
            for path in find_edited_in_place(command.words) or [
                path for path in command.writes if not path.startswith("/dev/")
            ]:
                whole = path if cwd in (None, ".") else join(cwd or "", path)
                yield replace(action, path=locate(whole, workspace))
        elif meaning.kind is ActionKind.RUN and cwd is not None:
            yield replace(action, path=cwd.removeprefix("."))
        else:  # a command that runs elsewhere is not a habit of this workspace
            yield Action(meaning.kind, ok=ok)


def _get_first(arguments: Mapping[str, Any], names: list[str]) -> str | None:
    return next(
        (text for name in names if (text := join_words(arguments.get(name))).strip()),
        None,
    )


def _slash(path: str) -> str:
    return (
        path.replace("\\", "/")
        if DRIVE.match(path) or ("\\" in path and "/" not in path)
        else path
    )


def _is_absolute(path: str) -> bool:
    return isabs(path) or bool(DRIVE.match(path))
