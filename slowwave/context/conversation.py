"""The running conversation: its latest turns, older turns that a question recalls, and summaries of the others.

The latest turns are shown in full. Of the older ones, those that the question activates most (`active.py`) are shown in
their order, until the budget is full. The turns that do not fit are summarised, within a share of the budget and the
room that is left: first by the master summary, then by the higher levels, then by the lower ones, each with the turns
that it covers. They are the pyramid's summaries, made turn by turn. Without a model, the run that reads the transcript
makes the same summaries of the same turns.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass

from slowwave.context.active import ActiveMemory, Trace
from slowwave.context.packing import arrange_lines, make_line, pack_lines
from slowwave.context.rendering import Line, LineSource, Measure, Part
from slowwave.engines.encoders.protocol import Encoder
from slowwave.engines.llm.protocol import ChatMessage
from slowwave.recall.release.said import OMITTED
from slowwave.schemas.settings import ContextSettings, PyramidSettings
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

TEMPLATE_TOKENS = 12
"""Most tokens that a chat template adds to a turn."""
TITLE = 2
"""Approximate tokens of a part's title."""


def build_conversation_shape(settings: PyramidSettings) -> Shape:
    """Return the pyramid's shape: n_sum turns, then n_sum_sum summaries a group, max_sum_lvl tiers, and a master."""
    return Shape(
        first=settings.n_sum,
        above=settings.n_sum_sum,
        tiers=settings.max_sum_lvl,
        window=settings.sum_window,
        master=True,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary and the range of turns that it covers, counted from 1."""

    tier: int
    first: int
    last: int
    text: str

    @property
    def turns(self) -> str:
        """The turns in words: "turns 1 to 40"."""
        return f"turns {self.first} to {self.last}"

    @property
    def line(self) -> Line:
        """The summary as a line that comes before all turns."""
        return make_line(self.text, LineSource(message=self.turns, seq=-1))


class RunningSummary:
    """The pyramid of a conversation. It grows with the turns, and its texts are written when they are needed."""

    def __init__(
        self,
        settings: PyramidSettings,
        write: Writer | None = None,
    ) -> None:
        """Begin without turns. `write` gives each draft a text; by default the text is extractive."""
        self.shape = build_conversation_shape(settings)
        self.turns: list[Member] = []
        self.pyramid = Pyramid()
        self._write = write or (
            lambda drafts: [
                summarize_draft(draft, settings.get_words(draft.tier))
                for draft in drafts
            ]
        )
        self._grown = 0

    def extend(self, turns: Sequence[tuple[str, str]]) -> None:
        """Add turns. Adding several at once gives the same groups as one by one."""
        self.turns += [
            Member(f"conversation-{number}", text, None, speaker=speaker)
            for number, (speaker, text) in enumerate(turns, len(self.turns))
        ]

    def grow(self) -> Pyramid:
        """Return the pyramid of all turns: its groups, and the master over sealed and unsealed ones."""
        if self._grown < len(self.turns):
            grow_many(
                [
                    grow_by_tier(
                        pyramid=self.pyramid,
                        members=self.turns,
                        shape=self.shape,
                        scope="session",
                        scope_id="conversation",
                    )
                ],
                self._write,
            )
            self._grown = len(self.turns)
        return self.pyramid

    def list_summaries(self) -> list[Summary]:
        """Return the master, then the summaries that no other covers, the highest level first.

        Each turn of a sealed group is covered by the master and exactly one other. Without turns, the list is empty.
        """
        pyramid = self.grow()
        levels = list[Summary]()
        spans = {turn.id: (number, number) for number, turn in enumerate(self.turns, 1)}
        for tier in sorted(pyramid.tiers):
            covered = pyramid.collect_covered_ids(tier + 1)
            uncovered = list[Summary]()
            for group in pyramid.tiers[tier]:
                key = group.compute_id("session", "conversation")
                first = spans[group.members[0]][0]
                last = spans[group.members[-1]][1]
                spans[key] = first, last
                if key not in covered:
                    uncovered.append(
                        Summary(
                            tier=tier,
                            first=first,
                            last=last,
                            text=group.text,
                        )
                    )
            levels = [*uncovered, *levels]
        if not pyramid.master:
            return []
        return [
            Summary(
                tier=MASTER, first=1, last=len(self.turns), text=pyramid.master.text
            ),
            *levels,
        ]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The parts of a conversation for a question: the latest turns, older ones that it activates, and summaries."""

    recent: tuple[ChatMessage, ...] = ()
    """The latest turns in full."""
    shown: tuple[Line, ...] = ()
    """Older turns in their order. Their relevance is their activation."""
    left_out: tuple[Line, ...] = ()
    """Older turns that did not fit, the most activated first."""
    recap: tuple[Line, ...] = ()
    """Summaries of turns that are not in the prompt."""
    text: str = ""
    """Summaries and older turns as text for a prompt."""


class Turns:
    """All turns of a conversation, the latest last."""

    def __init__(
        self,
        settings: ContextSettings,
        pyramid: PyramidSettings,
        measure: Measure,
        encoder: Encoder | None = None,
        write: Writer | None = None,
    ) -> None:
        """Begin without turns. Without `encoder`, turns are recalled by their words alone; `write` is as in
        `RunningSummary`.
        """
        self.settings = settings
        self.measure = measure
        self.messages: list[tuple[str, str]] = []
        """Role and text of each."""
        self.active = ActiveMemory(encoder, settings.active)
        self.summary = RunningSummary(pyramid, write)
        self._least = pyramid.get_words(MASTER)
        """Approximate tokens of a summary. With less room, none is made."""

    def add(
        self,
        role: str,
        text: str,
        effect: float = 0.0,
    ) -> Trace:
        """Add a turn. `effect` is as in `ActiveMemory.add_turn`."""
        self.messages.append((role, text))
        return self.active.add_turn(role, text, effect)

    def render_summary(self) -> str:
        """Return the master summary of all turns and the summaries of each level below it, a line each."""
        self._summarise(len(self.messages))
        return "\n".join(
            f"{'So far' if summary.tier == MASTER else f'Level {summary.tier + 1}'}, {summary.turns}: {summary.text}"
            for summary in self.summary.list_summaries()
        )

    def _summarise(self, turns: int) -> None:
        """Extend the summaries to at least so many turns."""
        self.summary.extend(self.messages[len(self.summary.turns) : turns])

    def list_latest(self, latest: int) -> list[Line]:
        """Return the latest turns that have a text, the last one first."""
        first = max(0, len(self.messages) - latest)
        return self._make_lines(
            (number, 1.0) for number in reversed(range(first, len(self.messages)))
        )

    def rank_older(
        self,
        query: str,
        latest: int,
    ) -> list[Line]:
        """Return the older turns that the query activates, the most activated first."""
        called = self.active.rank_older(query, len(self.messages) - latest)
        return self._make_lines(
            (trace.number, activation) for trace, activation in called
        )

    def _make_lines(self, numbers: Iterable[tuple[int, float]]) -> list[Line]:
        """Return lines of turns, given by index and relevance. Turns without text are left out."""
        lines = []
        for number, relevance in numbers:
            role, text = self.messages[number]
            source = LineSource(
                message=str(number + 1), seq=number, speaker=role or None
            )
            lines += [make_line(text, source, relevance)] if text.strip() else []
        return lines

    def pack(
        self,
        ranked: Sequence[Line],
        query: str,
        room: int,
        latest: int = 0,
    ) -> list[Line]:
        """Return summaries and turns that fit a room of tokens, in order of the conversation.

        Args:
            ranked: turns, the likeliest first.
            query: long turns are cut by its words.
            room: tokens.
            latest: number of latest turns that are shown in any case.
        """
        budget = room - TITLE
        lines = pack_lines(
            lines=ranked, query=query, budget=budget, measure=self.measure
        )
        recap = list[Line]()
        # Summaries get a share if a turn does not fit. If no summary fits, the turns get it back.
        held_back = int(budget * self.settings.active.recap_share)
        if held_back and self._list_missing(lines, latest):
            fewer = pack_lines(
                lines=ranked,
                query=query,
                budget=budget - held_back,
                measure=self.measure,
            )
            left = budget - sum(map(self.measure.count_line, fewer))
            recap = self._select_summaries(
                self._list_missing(fewer, latest), left, len(self.messages) - latest
            )
            lines = fewer if recap else lines
        chosen = [*recap, *lines]
        while (
            chosen
            and self.measure.count_part("conversation", arrange_lines(chosen)) > room
        ):
            chosen.pop()
        return [*arrange_lines(chosen)]

    def _list_missing(
        self,
        shown: Collection[Line],
        latest: int,
    ) -> set[int]:
        """Return the numbers, from 1, of turns with text that are neither shown whole nor among the latest."""
        whole = {line.source.seq for line in shown if OMITTED not in line.pieces}
        older = self.messages[: len(self.messages) - latest]
        return {
            number + 1
            for number, (_, text) in enumerate(older)
            if number not in whole and text.strip()
        }

    def _select_summaries(
        self,
        missing: Set[int],
        room: int,
        older: int,
    ) -> list[Line]:
        """Return the summaries of missing turns that fit a room, of the first `older` turns.

        The master comes first, then the higher levels before the lower ones. Of summaries of the same turns, one is
        returned.
        """
        if room < self._least:
            return []
        # Else the master would change with each turn.
        self._summarise(older - older % self.summary.shape.first)
        chosen = dict[str, Line]()
        for summary in self.summary.list_summaries():
            cost = self.measure.count_line(summary.line)
            covered = range(summary.first, summary.last + 1)
            if (
                cost <= room
                and summary.turns not in chosen
                and not missing.isdisjoint(covered)
            ):
                chosen[summary.turns] = summary.line
                room -= cost
        return list(chosen.values())

    def recall(
        self,
        query: str,
        budget: int,
    ) -> Recalled:
        """Return the turns for a question within a budget of tokens.

        If all turns fit, all are returned in full. Otherwise the latest within their share, and older ones by
        activation.
        """
        recent = self._select_recent(budget, len(self.messages))
        if len(recent) < len(self.messages):
            active = self.settings.active
            recent = self._select_recent(
                int(budget * active.recent_share), active.recent
            )
        latest = tuple[ChatMessage, ...](
            {"role": "user" if role == "user" else "assistant", "content": text}
            for role, text in recent
        )
        if len(recent) == len(self.messages):
            return Recalled(latest)
        # older turns that the query recalls, and those of them that fit
        room = budget - sum(map(self._count_turn, recent))
        ranked = self.rank_older(query, len(recent))
        lines = self.pack(ranked=ranked, query=query, room=room, latest=len(recent))
        shown = [line for line in lines if line.source.seq != -1]
        places = {line.source.seq for line in shown}
        activated = sorted(shown, key=lambda line: -line.relevance)[
            : self.settings.active.recent
        ]
        self.active.note_used(line.source.seq or 0 for line in activated)
        return Recalled(
            recent=latest,
            shown=tuple(shown),
            left_out=tuple(line for line in ranked if line.source.seq not in places),
            recap=tuple(line for line in lines if line.source.seq == -1),
            text=self.measure.render([Part("conversation", tuple(lines))]),
        )

    def _select_recent(
        self,
        budget: int,
        count: int,
    ) -> list[tuple[str, str]]:
        """Return at most `count` latest turns that fit the budget of tokens, beginning with a person's turn."""
        latest = list[tuple[str, str]]()
        for turn in reversed(self.messages[max(0, len(self.messages) - count) :]):
            budget -= self._count_turn(turn)
            if budget < 0:
                break
            latest = [turn, *latest]
        first = next(
            (at for at, (role, _) in enumerate(latest) if role == "user"), len(latest)
        )
        return latest[first:]

    def _count_turn(self, turn: tuple[str, str]) -> int:
        """Return the tokens of a turn, role and text, in a prompt."""
        return self.measure.count(f"{turn[0]}: {turn[1]}") + TEMPLATE_TOKENS
