"""The twins of Codex's log: the same visible text as an event and as a response item, said once.

A rollout writes what was said up to three times: as `response_item` (the model's context), as `event_msg` (the
screen's) and, in newer versions, as `item_completed`. The twins stand next to each other, in either order, with only
bookkeeping between. A text that is really said twice has its twins twice, so counting them keeps it twice.
"""

from dataclasses import dataclass, field
from typing import Literal

Channel = Literal["item", "event", "completed"]

_REMEMBERED = 16


@dataclass(slots=True)
class _SeenText:
    key: int
    channels: set[Channel] = field(default_factory=set)


class Pairs:
    """The latest texts of each kind (user, assistant, thinking), and the channels each came by."""

    def __init__(self) -> None:
        self._said: dict[str, list[_SeenText]] = {}

    def is_twin(self, kind: str, text: str, channel: Channel) -> bool:
        """Return whether the text was said already, by another channel; if not, it is remembered as said."""
        said, key = self._said.setdefault(kind, []), hash(text)
        for earlier in said:
            if earlier.key == key and channel not in earlier.channels:
                earlier.channels.add(channel)
                return True
        said.append(_SeenText(key, {channel}))
        del said[:-_REMEMBERED]
        # Twins are neighbours: once the other side speaks, no twin of this side's earlier texts is still to come.
        for other in {"user": ("assistant", "thinking"), "assistant": ("user",)}.get(kind, ()):
            self._said.pop(other, None)
        return False
