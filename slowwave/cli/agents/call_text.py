"""The text of a hook before a tool call: dead ends that the call would repeat, and intentions that wait for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.cli.agents.running_session import (
    find_shown,
    list_done_by_moves,
    read_told,
)
from slowwave.context.projects.intentions import list_intentions
from slowwave.recall.query import is_of_session
from slowwave.recall.release.view import View
from slowwave.recall.views.dead_ends import build_tried, list_of_others
from slowwave.store.logs import log_recall
from slowwave.tasks.dead_ends.match import find_repeated
from slowwave.tasks.dead_ends.moves import read_call_moves
from slowwave.text.fence import fence_block
from slowwave.text.workspaces import (
    anchor_workspace,
    find_project_root,
    find_workspaces,
)

if TYPE_CHECKING:
    from slowwave.memory import Memory

MOST = 2
"""Most dead ends and intentions in the text for one call."""


@dataclass(frozen=True)
class Call:
    """A tool call that is about to be made."""

    tool: str
    arguments: str
    """As JSON or as text."""
    folder: str
    """The folder that the client works in."""
    transcript: str | None
    """The file of the running session."""


def build_call_text(
    memory: "Memory",
    call: Call,
    own_sessions: Sequence[str],
) -> str:
    """Return the dead ends that a call would repeat, in two lines each, and the intentions that wait for it.

    Return "" if there is none, or the folder is of no known project. What is in the transcript already, and what the
    running session tried or said itself, is left out. The returned texts are logged as recalled.

    Raises:
        StoreError: the memory can't be read.
    """
    view = memory.get_view()
    places = find_workspaces(anchor_workspace(call.folder), view.workspaces)
    if not places:
        return ""
    root = find_root(call.folder, places)
    texts = [
        *_find_dead_ends(
            view=view, call=call, places=places, root=root, own=own_sessions
        ),
        *_find_intentions(
            view=view, call=call, places=places, root=root, own=own_sessions
        ),
    ]
    told = read_told(call.transcript, [mark for mark, _, _ in texts])
    marked = {text[0]: text for text in texts if text[0] not in told}
    fresh = [*marked.values()][:MOST]
    if not fresh:
        return ""
    log_recall(memory.root / memory.space, {key: [text] for _, key, text in fresh})
    return fence_block("\n".join(text for _, _, text in fresh))


Told = tuple[str, str, str]
"""The mark, id and text of a dead end or an intention."""


def _find_dead_ends(
    view: View,
    call: Call,
    places: Sequence[str],
    root: str,
    own: Sequence[str],
) -> list[Told]:
    """Return the dead ends that a call would repeat, without the running session's own."""
    rows = list_of_others(view, places, own)
    repeated = (
        find_repeated(
            tool=call.tool, given=call.arguments, workspace=root, dead_ends=rows
        )
        if rows
        else []
    )
    found = [build_tried(view, row) for row in repeated]
    return [(one.mark, one.id, one.describe()) for one in found]


def _find_intentions(
    view: View,
    call: Call,
    places: Sequence[str],
    root: str,
    own: Sequence[str],
) -> list[Told]:
    """Return the intentions that wait for a file that a call edits, or for a version that it names or that an earlier
    command of the session has shown.
    """
    waiting = [
        one
        for one in list_intentions(view, places)
        if one.met is None and one.is_waiting and not is_of_session(one.session, own)
    ]
    if not waiting:
        return []
    done = list_done_by_moves(
        read_call_moves(
            tool=call.tool, given=call.arguments, failed=None, workspace=root
        )
    )
    found = [
        *(one for one in waiting if any(map(one.is_met_by, done))),
        *find_shown(waiting, call.transcript, root),
    ]
    return [(one.mark, one.id, one.describe()) for one in found]


def find_root(folder: str, places: Sequence[str]) -> str:
    """Return the folder that stored paths are relative to: the workspace that a folder lies in, else its checkout."""
    inside = [
        place for place in places if f"{folder}/".startswith(f"{place.rstrip('/')}/")
    ]
    if inside:
        return max(inside, key=len)
    return str(find_project_root(Path(folder)) or folder)
