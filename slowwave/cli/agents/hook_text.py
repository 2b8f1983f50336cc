"""What a hook tells of the memory: a briefing at a session's start, context for a prompt."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
"""Most intentions that are told of one prompt."""


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
    """Return the memory's text for an event that has one, and log it as returned; empty if there is nothing to tell.

    No graph of the encoder is built, which takes longer than a client waits: without one, words alone are compared.

    Args:
        event: session-start, user-prompt or before-tool.
        prompt: what is searched for.
        folder: that the client works in.
        own_sessions: ids of the running session, which is left out.
        budget: tokens of the text, at most.
        everywhere: tell of all that is known, not of the folder's project alone.
        store: as the command line names it.
        space: as the command line names it.
        tool: the tool that is about to be called.
        arguments: of its call, as JSON or as text.
        transcript: file of the running session, in which nothing is told twice.

    Raises:
        UsageError, StoreError: the memory can't be asked, or not so.
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
            waiting = find_waiting(memory, prompt, here, own_sessions)
            block = build_prompted_context(memory, prompt, budget, here, own_sessions)
    if block.reason != INSTRUCTION:
        note_block(memory.root / memory.space, block)
    text = "\n".join(filter(None, (waiting, block.text)))
    return f"{opening}{fence_block(text)}" if text else ""


def find_waiting(
    memory: "Memory", prompt: str, here: str | None, own_sessions: Sequence[str]
) -> str:
    """Return the intentions that wait for somebody or something that a prompt names, and log them as returned."""
    if here is None or not memory.has_release:
        return ""
    found = [
        one
        for one in memory.intentions(here)
        if one.met is None
        and one.is_named(prompt)
        and not is_of_session(one.session, own_sessions)
    ][:MOST_WAITING]
    if found:
        log_recall(memory.root / memory.space, {one.id: [one.text] for one in found})
    return "\n".join(one.describe() for one in found)
