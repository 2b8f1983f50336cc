"""Summaries of a conversation while it runs: the pyramid's own algorithm, turn by turn.

    running = RunningSummary("chat-1", PyramidSettings())
    running.extend([("user", "We should leave Redis.")])
    running.pyramid.master, running.render_summary()

Every n_sum turns are summarised, read along with the sum_window turns before them; every n_sum_sum summaries go under
one of the next level, max_sum_lvl levels high; the master is made again with each turn that completes a group. Groups
once sealed never change. The night that reads the transcript makes the same summaries of the same turns, where neither
has a model.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from slowwave.schemas.settings import PyramidSettings
from slowwave.text.pyramid import (
    MASTER,
    Member,
    Pyramid,
    Shape,
    Writer,
    grow_by_tier,
    grow_many,
    summarize_draft,
)

Packed = TypeVar("Packed")


def build_conversation_shape(settings: PyramidSettings) -> Shape:
    """Return n_sum turns, then n_sum_sum summaries a group, max_sum_lvl tiers, and a master."""
    return Shape(
        first=settings.n_sum,
        above=settings.n_sum_sum,
        tiers=settings.max_sum_lvl,
        window=settings.sum_window,
        master=True,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, and the turns that it covers, from 1."""

    tier: int
    first: int
    last: int
    text: str

    @property
    def turns(self) -> str:
        """The turns in words: turns 1 to 40."""
        return f"turns {self.first} to {self.last}"


class RunningSummary:
    """The pyramid over one conversation, extended as it goes on; its texts are written when they are asked for."""

    def __init__(self, conversation: str, settings: PyramidSettings, write: Writer | None = None) -> None:
        """Begin with no turn; `write` gives each of the drafts a text, extractive by default."""
        self.conversation = conversation
        self.shape = build_conversation_shape(settings)
        self._pyramid, self._grown = Pyramid(), 0
        self._turns: list[Member] = []
        self._write = write or (
            lambda drafts: [summarize_draft(draft, settings.get_words(draft.tier)) for draft in drafts]
        )
        self._least = settings.get_words(MASTER)
        """Tokens of a summary, about: with less room none is made."""

    def extend(self, turns: Iterable[tuple[str | None, str]]) -> None:
        """Add turns: several at once give the same groups as one by one."""
        for speaker, text in turns:
            self._turns.append(Member(f"{self.conversation}-{len(self._turns)}", text, None, speaker=speaker))

    @property
    def pyramid(self) -> Pyramid:
        """The groups of all turns, and the master over all that is sealed and all that is not; None without turns."""
        if self._grown < len(self._turns):
            growth = grow_by_tier(self._pyramid, self._turns, self.shape, "session", self.conversation)
            grow_many([growth], self._write)
            self._grown = len(self._turns)
        return self._pyramid

    @property
    def summaries(self) -> list[Summary]:
        """The master, then what stands for the sealed turns, the highest level first, each turn under exactly one."""
        spans = {turn.id: (number, number) for number, turn in enumerate(self._turns, 1)}
        levels = list[Summary]()
        pyramid = self.pyramid
        for tier in sorted(pyramid.tiers):
            above = pyramid.collect_covered_ids(tier + 1)
            free = list[Summary]()
            for group in pyramid.tiers[tier]:
                key = group.compute_id("session", self.conversation)
                spans[key] = spans[group.members[0]][0], spans[group.members[-1]][1]
                free += [Summary(tier, *spans[key], group.text)] if key not in above else []
            levels = [*free, *levels]
        return [Summary(MASTER, 1, len(self._turns), pyramid.master.text), *levels] if pyramid.master else []

    def render_summary(self) -> str:
        """Return all of them, a line each."""
        return "\n".join(
            f"{'So far' if summary.tier == MASTER else f'Level {summary.tier + 1}'}, {summary.turns}: {summary.text}"
            for summary in self.summaries
        )

    def pack_beside(
        self,
        pack: Callable[[int], tuple[Packed, int, Collection[int]]],
        room: int,
        share: float,
        price: Callable[[Summary], int],
    ) -> tuple[Packed, list[Summary]]:
        """Return what `pack` makes of a room less the share that is held back, and the summaries that fit beside it;
        what it makes of all of the room where every turn stands there whole, or no summary fits.

        Args:
            pack: returns what it packed, its price, and the numbers, from 1, of turns that stand in it whole.
        """
        packed, _, shown = pack(room)
        kept = int(room * share)
        if kept and not all(number in shown for number in range(1, len(self._turns) + 1)):
            fewer, cost, shown = pack(room - kept)
            if summaries := self.select(shown, room - cost, price):
                return fewer, summaries
        return packed, []

    def select(self, shown: Collection[int], room: int, price: Callable[[Summary], int]) -> list[Summary]:
        """Return the summaries of turns that are not all shown (numbers from 1) which fit `room` by their prices: the
        master before all others, and the higher levels before the lower ones; of the same turns one alone.
        """
        chosen = list[Summary]()
        for summary in self.summaries if room >= self._least else ():
            known = all(number in shown for number in range(summary.first, summary.last + 1))
            if not known and price(summary) <= room and summary.turns not in [other.turns for other in chosen]:
                chosen.append(summary)
                room -= price(summary)
        return chosen
