"""The turns of a running conversation: which go along word for word, and what stands for the others.

The latest go as they are. For older ones stand the conversation's own summaries (`running.py`) and the turns that are
still in mind (`active.py`); a context block packs of them what fits its share.
"""

from collections.abc import Callable, Sequence

from slowwave.chat.active import ActiveMemory
from slowwave.chat.running import RunningSummary
from slowwave.engines.encoders.protocol import Encoder
from slowwave.engines.llm.protocol import Message
from slowwave.schemas.settings import Settings

Counter = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, by the model that reads them."""

TEMPLATE_TOKENS = 12
"""What a chat template adds to a turn, at most."""
RECAP = "recap"
"""Who speaks where a summary stands for turns."""


class Turns:
    """All turns of one conversation, the latest last."""

    def __init__(self, conversation: str, settings: Settings, count: Counter, encoder: Encoder | None = None) -> None:
        self.said: list[Message] = []
        self.count = count
        self.running = RunningSummary(conversation, settings.pyramid)
        self.active = ActiveMemory(encoder, settings.context.active) if encoder else None

    def add(self, role: str, content: str, effect: float = 0.0) -> None:
        """Add one more turn, of `user` or `assistant`; `effect` as `ActiveMemory.add_turn` has it."""
        self.said.append({"role": "user" if role == "user" else "assistant", "content": content})
        self.running.add(role, content)
        if self.active:
            self.active.add_turn(role, content, effect)

    def select_recent(self, budget: int) -> list[Message]:
        """Return the latest turns that fit the budget of tokens, from a person's on."""
        kept = 0
        for tokens in self.count([turn["content"] for turn in reversed(self.said)]):
            budget -= tokens + TEMPLATE_TOKENS
            if budget < 0:
                break
            kept += 1
        latest = self.said[len(self.said) - kept :]
        first = next((at for at, turn in enumerate(latest) if turn["role"] == "user"), len(latest))
        return latest[first:]

    def build_recap(self, older: int, query: str, budget: int) -> list[tuple[str, str]]:
        """Return what stands for the first `older` turns, as turns: summaries, then what of them is in mind for the
        query.

        Without an encoder nothing tells what is in mind, and all of the older turns stand for themselves.
        """
        if older == 0:
            return []
        sealed = [(RECAP, text) for level in self.running.levels for text in level.texts]
        if self.active is None:
            return sealed + [(turn["role"], turn["content"]) for turn in self.said[:older]]
        self.active.boost_by_query(query)
        in_mind = self.active.select(budget, lambda text: self.count([text])[0])
        return sealed + [(trace.speaker, trace.text) for trace in in_mind if trace.number < older]
