"""The block for a prompt to an agent, which may ask the memory nothing: a hook's, and the page that shows it."""

from collections.abc import Iterable
from typing import Any, Protocol

from slowwave.context.build import Context


class AskedMemory(Protocol):
    """What is used of a memory."""

    def is_asked(self, prompt: str, workspace: str | None = None) -> bool:
        """Return True if a prompt asks the memory something."""

    def context(self, *args: Any, **more: Any) -> Context:
        """Return the block for a question."""


INSTRUCTION = "a hook takes this for an instruction to the session, not for a question to the memory"


def build_prompted_context(
    memory: AskedMemory,
    prompt: str,
    budget: int,
    workspace: str | None,
    own_sessions: Iterable[str] = (),
) -> Context:
    """Return the block for a prompt; an empty one, with the reason, if the prompt asks the memory nothing.

    Args:
        memory: the memory.
        prompt: what a person typed to an agent.
        budget: tokens.
        workspace: the project that the agent works in; None for all.
        own_sessions: ids of the running session, which is left out.
    """
    if not memory.is_asked(prompt, workspace):
        return Context(text="", tokens=0, parts=(), reason=INSTRUCTION)
    return memory.context(
        prompt,
        budget,
        automatic=True,
        workspace=workspace,
        own_sessions=own_sessions,
    )
