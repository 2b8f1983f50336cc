"""The text of a hook: a briefing at a session's start, context for a prompt, or the text before a tool call."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.cli.agents.running_session import find_shown, read_told
from slowwave.cli.opening import find_project, open_memory
from slowwave.context.prompted import INSTRUCTION, build_prompted_context
from slowwave.context.recall_log import note_block
from slowwave.engines.encoders.protocol import without_new_graphs
from slowwave.recall.query import is_of_session
from slowwave.schemas.vocabulary import BEFORE_TOOL
from slowwave.store.logs import log_recall
from slowwave.text.fence import fence_block

if TYPE_CHECKING:
    from slowwave.memory import Memory

MOST_WAITING = 2
"""Most intentions in the text for one prompt."""


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

            call = Call(tool, arguments, here or folder or "", transcript)
            return build_call_text(memory, call, own_sessions)
        opening = ""
        waiting = ""
        if event == "session-start":
            from slowwave.flows.status import describe_backlog

            opening = describe_backlog(memory.settings)
            block = memory.briefing(budget, workspace=here, own_sessions=own_sessions)
        else:
            waiting = find_waiting(memory, prompt, here, own_sessions, transcript)
            block = build_prompted_context(memory, prompt, budget, here, own_sessions)
    if block.reason != INSTRUCTION:
        note_block(memory.root / memory.space, block)
    text = "\n".join(filter(None, (waiting, block.text)))
    return f"{opening}{fence_block(text)}" if text else ""


def find_waiting(
    memory: "Memory",
    prompt: str,
    here: str | None,
    own_sessions: Sequence[str],
    transcript: str | None,
) -> str:
    """Return the first MOST_WAITING intentions of the project `here` that wait for something the prompt names, or for
    what a command has shown in the running session, a line each, and log them as returned. Return "" without a project
    or a release. What the transcript has already is left out.
    """
    if here is None or not memory.has_release:
        return ""
    waiting = [
        one
        for one in memory.intentions(here)
        if one.met is None and not is_of_session(one.session, own_sessions)
    ]
    found = [
        *memory.find_named(waiting, prompt),
        *find_shown(waiting, transcript, here),
    ]
    told = read_told(transcript, [one.mark for one in found])
    fresh = {one.mark: one for one in found if one.mark not in told}
    texts = {one.id: [one.text] for one in [*fresh.values()][:MOST_WAITING]}
    if texts:
        log_recall(memory.root / memory.space, texts)
    return "\n".join(one.describe() for one in [*fresh.values()][:MOST_WAITING])
