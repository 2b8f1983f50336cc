"""The turns of a running conversation: which go along word for word, and which older ones a question calls up.

The latest go as they are. Of the older ones the most activated by the question are shown (`active.py`), whole while
they fit and shortened to the sentences that bear on it where they don't, in the order they were said, until the budget
is full. Of what does not fit the summaries tell, as far as their share and what is left over reach: the master, then
the higher levels before the lower ones, each with the turns that it covers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from slowwave.chat.effect import get_closing_marks
from slowwave.chat.narrate import Narrator
from slowwave.context.active import ActiveMemory, Trace, format_trace
from slowwave.context.running import RunningSummary, Summary
from slowwave.engines.encoders.protocol import Encoder
from slowwave.engines.llm.protocol import Message
from slowwave.schemas.settings import Settings
from slowwave.text.sentences import split_sentences
from slowwave.text.words import extract_content_words

Counter = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, by the model that reads them."""

TEMPLATE_TOKENS = 12
"""What a chat template adds to a turn, at most."""
LINE_TOKENS = 2
"""What a line adds to its text: a line break, and what a tokenizer makes of a joint."""
HEADING = "# Earlier in this conversation"
LEAST_TOKENS = 24
"""Tokens under which no turn is shortened: less says nothing."""
OMITTED = "…"


@dataclass(frozen=True, slots=True)
class Shown:
    """An older turn that stands in the prompt."""

    trace: Trace
    activation: float
    text: str
    """As it stands there."""
    shortened: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a question called up of the conversation so far."""

    recent: tuple[Message, ...] = ()
    """The latest turns, as they are."""
    shown: tuple[Shown, ...] = ()
    """Older ones, in the order they were said."""
    left_out: tuple[tuple[Trace, float], ...] = ()
    """Older ones that found no room, with their activation, the most activated first."""
    recap: tuple[str, ...] = ()
    """Summaries of what does not stand in the prompt, each with the turns that it covers."""

    @property
    def text(self) -> str:
        """The older turns as a part of a prompt, or nothing."""
        lines = [*self.recap, *(one.text for one in self.shown)]
        return "\n".join([HEADING, *lines]) if lines else ""


class Turns:
    """All turns of one conversation, the latest last."""

    def __init__(
        self, settings: Settings, count: Counter, encoder: Encoder | None = None, narrator: Narrator | None = None
    ) -> None:
        self.said: list[Message] = []
        self.count, self.settings = count, settings.context.active
        self.active = ActiveMemory(encoder, self.settings)
        self.narrator = narrator
        write = partial(narrator.summarise, get_words=settings.pyramid.get_words) if narrator else None
        self._running, self._summed_up = RunningSummary("conversation", settings.pyramid, write), 0
        self._tokens: list[int] = []
        """Of each turn; counted once."""

    def add(self, role: str, content: str, effect: float = 0.0) -> None:
        """Add one more turn, of `user` or `assistant`; `effect` as `ActiveMemory.add_turn` has it."""
        self.said.append({"role": "user" if role == "user" else "assistant", "content": content})
        trace = self.active.add_turn(role, content, effect)
        self._tokens.append(self.count([format_trace(trace)])[0])

    def summarise(self) -> str:
        """Return the master summary of all that was said and those of each level below it, by the model where there
        is one; nothing before the first turn.
        """
        self._sum_up(len(self.said))
        return self._running.render_summary()

    def _sum_up(self, turns: int) -> None:
        """Have the summaries cover so many turns, at least."""
        self._running.extend((turn["role"], turn["content"]) for turn in self.said[self._summed_up : turns])
        self._summed_up = max(self._summed_up, turns)

    def recall(self, query: str, budget: int) -> Recalled:
        """Return the turns for a question within a budget of tokens.

        All of them, as they are, where they fit; else the latest within their share, and older ones by activation.
        """
        recent = self._select_recent(budget, len(self.said))
        if len(recent) == len(self.said):
            return Recalled(tuple(recent))
        recent = self._select_recent(int(budget * self.settings.recent_share), self.settings.recent)
        room = budget - self._count_recent(len(recent)) - self.count([HEADING])[0] - LINE_TOKENS
        older, asked = len(self.said) - len(recent), frozenset(extract_content_words(query))
        self._sum_up(older - older % self._running.shape.first)  # whole groups: else the master changes with each turn
        order = self.active.rank_older(query, older)
        newer = set(range(older + 1, len(self.said) + 1))

        def pack(room: int) -> tuple[tuple[list[Shown], list[tuple[Trace, float]]], int, set[int]]:
            packed = self._pack_older(order, asked, room)
            cost = sum(count + LINE_TOKENS for count in self.count([one.text for one in packed[0]]))
            return packed, cost, newer | {one.trace.number + 1 for one in packed[0] if not one.shortened}

        (shown, left_out), summaries = self._running.pack_beside(
            pack,
            room,
            self.settings.recap_share,
            lambda one: self.count([_format_summary(one)])[0] + LINE_TOKENS,
        )
        self.active.note_used(
            one.trace.number for one in sorted(shown, key=lambda one: -one.activation)[: self.settings.recent]
        )
        recap = tuple(map(_format_summary, summaries))
        return Recalled(tuple(recent), tuple(shown), tuple(left_out), recap)

    def _pack_older(
        self, order: Sequence[tuple[Trace, float]], asked: frozenset[str], room: int
    ) -> tuple[list[Shown], list[tuple[Trace, float]]]:
        """Return what of the older turns is shown, and what is left out, the most activated first."""
        shown: list[Shown] = []
        left_out: list[tuple[Trace, float]] = []
        for trace, value in order:
            cost, text = self._tokens[trace.number] + LINE_TOKENS, format_trace(trace)
            if cost <= room:
                shown.append(Shown(trace, value, text))
            elif room >= LEAST_TOKENS and (text := self._shorten(trace, asked, room - LINE_TOKENS)):
                cost = self.count([text])[0] + LINE_TOKENS
                shown.append(Shown(trace, value, text, shortened=True))
            else:
                left_out.append((trace, value))
                continue
            room -= cost
        return sorted(shown, key=lambda one: one.trace.number), left_out

    def _shorten(self, trace: Trace, asked: frozenset[str], room: int) -> str:
        """Return the sentences of a turn that hold most of what is asked, in their order; nothing where none fits."""
        spans = split_sentences(trace.text)
        sentences = [" ".join(one.text.split()) + get_closing_marks(trace.text, one.end) for one in spans]
        if len(sentences) < 2:
            return ""
        near = [len(asked & frozenset(extract_content_words(one))) for one in sentences]
        kept: list[int] = []
        for at in sorted(range(len(sentences)), key=lambda at: (-near[at], at)):
            text = _join_kept(trace.speaker, sentences, sorted([*kept, at]))
            if near[at] and self.count([text])[0] <= room:
                kept.append(at)
        return _join_kept(trace.speaker, sentences, sorted(kept)) if kept else ""

    def _select_recent(self, budget: int, most: int) -> list[Message]:
        """Return the latest turns that fit the budget of tokens, `most` at most, from a person's on."""
        kept = 0
        for tokens in reversed(self._tokens[len(self._tokens) - most :] if most < len(self._tokens) else self._tokens):
            budget -= tokens + TEMPLATE_TOKENS
            if budget < 0:
                break
            kept += 1
        latest = self.said[len(self.said) - kept :]
        first = next((at for at, turn in enumerate(latest) if turn["role"] == "user"), len(latest))
        return latest[first:]

    def _count_recent(self, kept: int) -> int:
        """Return tokens of the latest turns."""
        return sum(tokens + TEMPLATE_TOKENS for tokens in self._tokens[len(self._tokens) - kept :])


def _format_summary(one: Summary) -> str:
    return f"In short, {one.turns}: {one.text}"


def _join_kept(speaker: str, sentences: Sequence[str], kept: Sequence[int]) -> str:
    """Return a shortened turn; an ellipsis where something is left out."""
    words: list[str] = []
    for n, at in enumerate(kept):
        if at and (n == 0 or kept[n - 1] != at - 1):
            words.append(OMITTED)
        words.append(sentences[at])
    if kept[-1] < len(sentences) - 1:
        words.append(OMITTED)
    return f"{speaker}: {' '.join(words)}"
