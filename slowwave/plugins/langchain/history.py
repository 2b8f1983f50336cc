"""A chat message history for LangChain: a conversation in the space's folder, which the next night distils.

    history = MemoryChatHistory(Memory.open(unreleased=True), "thread 7")
    RunnableWithMessageHistory(chain, lambda thread: MemoryChatHistory(memory, thread))

Secrets are replaced before anything is written, so `messages` has placeholders in their place.
"""

import hashlib
from collections.abc import Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from slowwave.memory import Memory
from slowwave.store.logs import rewrite

ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
"""A message's role by LangChain's type; another one (`ChatMessage`) is an agent's."""


class MemoryChatHistory(BaseChatMessageHistory):
    """The messages of one conversation, by an id of the caller's."""

    def __init__(
        self,
        memory: Memory,
        session_id: str,
        workspace: str | None = None,
    ) -> None:
        """Open a conversation; its file is made with the first message."""
        name = f"langchain-{hashlib.sha256(session_id.encode()).hexdigest()[:24]}"
        self._memory = memory
        self._log = memory.begin_conversation(workspace, name=name)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages so far, as they were added, with secrets replaced."""
        kept = [line["extra"] for line in self._log.read_lines()]
        messages: list[BaseMessage] = messages_from_dict(kept)
        return messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages to the conversation's file.

        Raises:
            OSError: the folder can't be written to.
        """
        for message in messages:
            role = ROLES.get(message.type, "agent")
            text = str(message.text)
            self._log.append(role, text, message.name, extra=message_to_dict(message))

    def clear(self) -> None:
        """Forget the conversation and all that nights made of it, as `slowwave forget --note` does.

        Raises:
            StoreLocked: a night is running.
        """
        from slowwave.plugins.langchain.erase import forget_notes

        lines = self._log.read_lines()
        if any(line["content"].strip() for line in lines):
            forget_notes(self._memory, [self._log.session])
        else:  # no night reads these lines, so nothing was made of them
            rewrite(self._log.path, lambda line: None)
