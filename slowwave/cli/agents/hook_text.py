"""The text of a hook: a briefing at a session's start, context for a prompt, or the text before a tool call."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slowwave.cli.agents.running_session import find_shown, read_told
from slowwave.cli.opening import find_project, open_memory
from slowwave.context.projects.intentions import Intention
from slowwave.context.prompted import INSTRUCTION, build_prompted_context
from slowwave.context.recall_log import note_block
from slowwave.engines.encoders.protocol import without_new_graphs
from slowwave.recall.query import is_of_session
from slowwave.recall.views.dead_ends import Tried, build_tried, list_of_others
from slowwave.schemas.vocabulary import BEFORE_TOOL
from slowwave.store.logs import log_recall
from slowwave.tasks.dead_ends.match import find_named_commands
from slowwave.text.fence import fence_block
from slowwave.text.workspaces import anchor_workspace, find_workspaces

if TYPE_CHECKING:
    from slowwave.memory import Memory

MOST_WAITING = 2
"""Most intentions and dead ends in the text for one prompt."""


def build_hook_text(
    *,
    event: str,
    prompt: str,
    folder: str | None,
    own_sessions: Sequence[str],
    budget: int,
    everywhere: bool,
    store: str | None,
    space: str | None,
    tool: str = "",
    arguments: str = "",
    transcript: str | None = None,
) -> str:
    """Return the memory's text for an event, and log it as returned.

    Return "" if the memory has nothing for it, or the folder is of no known project and `everywhere` is off. The
    encoder's graph is not built here, since that takes longer than a client waits: without it, only words are compared.

    Args:
        event: session-start, user-prompt or before-tool.
        prompt: the query.
        folder: the folder that the client works in.
        own_sessions: ids of the running session, which is left out.
        budget: most tokens of the text.
        everywhere: include every project, not only the folder's.
        store: as the command line names it.
        space: as the command line names it.
        tool: the tool that is about to be called.
        arguments: of its call, as JSON or as text.
        transcript: file of the running session: what it has already of dead ends and intentions is left out.

    Raises:
        UsageError, StoreError: as `open_memory`.
    """
    with without_new_graphs():
        memory = open_memory(Path(store) if store else None, space)
        here = find_project(memory, folder) if folder and not everywhere else None
        if not (here or everywhere):
            return ""
        if event == BEFORE_TOOL:
            from slowwave.cli.agents.call_text import Call, build_call_text

            call = Call(
                tool=tool,
                arguments=arguments,
                folder=here or folder or "",
                transcript=transcript,
            )
            return build_call_text(memory, call, own_sessions)
        opening = ""
        waiting = ""
        if event == "session-start":
            from slowwave.flows.status import describe_backlog

            opening = describe_backlog(memory.settings)
            block = memory.briefing(budget, workspace=here, own_sessions=own_sessions)
        else:
            block = build_prompted_context(
                memory=memory,
                prompt=prompt,
                budget=budget,
                workspace=here,
                own_sessions=own_sessions,
            )
            # the block for a question has the dead ends that it names
            with_dead_ends = block.reason == INSTRUCTION
            session = RunningSession(own_sessions, transcript)
            if here and memory.has_release:
                waiting = find_prompted(
                    memory=memory,
                    prompt=prompt,
                    here=here,
                    running=session,
                    with_dead_ends=with_dead_ends,
                )
    if block.reason != INSTRUCTION:
        note_block(memory.root / memory.space, block)
    text = "\n".join(filter(None, (waiting, block.text)))
    return f"{opening}{fence_block(text)}" if text else ""


class RunningSession(NamedTuple):
    """The session that a hook is called in."""

    ids: Sequence[str]
    """Its possible ids."""
    transcript: str | None
    """Its file."""


def find_prompted(
    memory: "Memory",
    prompt: str,
    here: str,
    running: RunningSession,
    *,
    with_dead_ends: bool,
) -> str:
    """Return the notes that a prompt calls for, of the project `here`, and log them as returned.

    They are the first MOST_WAITING intentions that wait for something the prompt names or that a command has shown in
    the running session, and dead ends that the prompt would try again. Notes that the transcript has already are left
    out.
    """
    waiting = [
        one
        for one in memory.intentions(here)
        if one.met is None and not is_of_session(one.session, running.ids)
    ]
    found: list[Intention | Tried] = [
        *memory.find_named(waiting, prompt),
        *find_shown(waiting, running.transcript, here),
    ]
    if with_dead_ends:
        view = memory.get_view()
        places = find_workspaces(anchor_workspace(here), view.workspaces)
        rows = list_of_others(view, places, running.ids)
        found += [build_tried(view, row) for row in find_named_commands(prompt, rows)]
    told = read_told(running.transcript, [one.mark for one in found])
    marked = {one.mark: one for one in found if one.mark not in told}
    fresh = [*marked.values()][:MOST_WAITING]
    if fresh:
        texts = {one.id: [one.describe()] for one in fresh}
        log_recall(memory.root / memory.space, texts)
    return "\n".join(one.describe() for one in fresh)
