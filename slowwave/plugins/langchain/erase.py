"""Erase notes and conversations that LangChain asks to remove."""

from collections.abc import Sequence

from slowwave.memory import Memory
from slowwave.schemas.errors import UsageError


def forget_notes(memory: Memory, sessions: Sequence[str]) -> None:
    """Forget notes and conversations by the ids of their sessions, with all rows that nights made of them.

    The next night remakes rows that depended on them. Like every forgetting, this deletes earlier releases.

    Raises:
        UsageError: slowwave is installed for reading alone.
        StoreLocked: a night is running.
    """
    if not sessions:
        return
    try:
        from slowwave.flows.forget import run_forget
        from slowwave.tasks.forget.select import Wanted
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"to remove a message is to forget it, which needs the extra `night`: {missing}"
        ) from None
    settings = memory.settings.model_copy(update={"space": memory.space})
    run_forget(Wanted(notes=tuple(sessions)), settings, rebuild=False)
