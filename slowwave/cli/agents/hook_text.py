"""What a hook tells of the memory: a briefing at a session's start, context for a prompt."""

from collections.abc import Sequence
from pathlib import Path

from slowwave.cli.opening import find_project, open_memory
from slowwave.context.recall_log import note_block
from slowwave.engines.encoders.protocol import without_new_graphs
from slowwave.text.fence import fence_block


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
) -> str:
    """Return the memory's text for an event that has one, and log it as returned; empty if there is nothing to tell.

    No graph of the encoder is built, which takes longer than a client waits: without one, words alone are compared.

    Args:
        event: session-start or user-prompt.
        prompt: what is searched for.
        folder: that the client works in.
        own_sessions: ids of the running session, which is left out.
        budget: tokens of the text, at most.
        everywhere: tell of all that is known, not of the folder's project alone.
        store: as the command line names it.
        space: as the command line names it.

    Raises:
        UsageError, StoreError: the memory can't be asked, or not so.
    """
    with without_new_graphs():
        memory = open_memory(Path(store) if store else None, space)
        here = find_project(memory, folder) if folder and not everywhere else None
        if not (here or everywhere):
            return ""
        opening = ""
        if event == "session-start":
            from slowwave.flows.status import describe_backlog

            opening = describe_backlog(memory.settings)
            block = memory.briefing(budget, workspace=here, own_sessions=own_sessions)
        elif memory.is_asked(prompt, here):
            block = memory.context(
                prompt,
                budget,
                automatic=True,
                workspace=here,
                own_sessions=own_sessions,
            )
        else:
            return ""  # an instruction to the session, not a question to the memory
    note_block(memory.root / memory.space, block)
    return f"{opening}{fence_block(block.text)}" if block.text else block.text
