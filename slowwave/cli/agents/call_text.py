"""What a hook tells before a tool call: the dead ends that the call would try again."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.recall.query import is_of_session
from slowwave.recall.views.dead_ends import build_tried
from slowwave.store.journal import log_recall
from slowwave.tasks.dead_ends.match import find_repeated
from slowwave.text.fence import fence_block
from slowwave.text.workspaces import (
    anchor_workspace,
    find_project_root,
    find_workspaces,
)

if TYPE_CHECKING:
    from slowwave.memory import Memory

MOST = 2
"""Most dead ends that are told of one call."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of a transcript's end that are searched for what was told."""


@dataclass(frozen=True)
class Call:
    """A tool call that is about to be made."""

    tool: str
    arguments: str
    """As JSON or as text."""
    folder: str
    """That the client works in."""
    transcript: str | None
    """File of the running session."""


def build_call_text(memory: "Memory", call: Call, own_sessions: Sequence[str]) -> str:
    """Return the dead ends that a call tries again, in two lines each, and log them as returned; empty without one.

    Of a session none is told twice, nor what the session itself tried.

    Raises:
        StoreError: the memory can't be read.
    """
    view = memory.get_view()
    places = find_workspaces(anchor_workspace(call.folder), view.workspaces)
    rows = [
        row
        for row in view.dead_ends
        if row["workspace"] in places
        and not is_of_session(view.native_sessions.get(row["session_id"]), own_sessions)
    ]
    if not rows:
        return ""
    root = find_root(call.folder, places)
    repeated = find_repeated(call.tool, call.arguments, root, rows)
    found = [build_tried(view, row) for row in repeated]
    told = read_told(call.transcript, [one.mark for one in found])
    texts = {one.id: one.describe() for one in found if one.mark not in told}
    texts = dict([*texts.items()][:MOST])
    if not texts:
        return ""
    log_recall(memory.root / memory.space, {key: [text] for key, text in texts.items()})
    return fence_block("\n".join(texts.values()))


def find_root(folder: str, places: Sequence[str]) -> str:
    """Return the folder that stored paths are relative to: the workspace that a folder lies in, else its checkout."""
    inside = [
        place for place in places if f"{folder}/".startswith(f"{place.rstrip('/')}/")
    ]
    if inside:
        return max(inside, key=len)
    return str(find_project_root(Path(folder)) or folder)


def read_told(transcript: str | None, marks: Sequence[str]) -> set[str]:
    """Return the marks that stand in the end of a transcript."""
    if not transcript or not marks:
        return set()
    with suppress(OSError), Path(transcript).open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - MOST_BYTES))
        content = stream.read()
        return {mark for mark in marks if mark.encode() in content}
    return set()
