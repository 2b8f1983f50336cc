"""The block of context for a model: web results, memories and the current conversation, within a budget of tokens.

    block = Memory.open().context("why does the import fail?", budget=500)
    block.text, block.tokens, block.parts

The order is web, memories, conversation; in each part what is more relevant stands nearer to the end, where the query
comes. But beside a direct question the memories are recall's best messages, whole, the best first (`direct.py`). Each
part has its share of the budget (settings); what one doesn't use goes to the others. What does not fit is recapped: the
sentences that cover most of what matters are kept, with an ellipsis where something is left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING

from slowwave.context.active import ActiveMemory
from slowwave.context.direct import MessageLine, arrange_lines, pack_messages
from slowwave.context.outline import allot_outline, arrange_by_time, select_outline
from slowwave.context.packing import GAP, Piece, Snippet, build_snippet_lines, pack
from slowwave.context.rendering import (
    FORMATS,
    Caveat,
    Format,
    Line,
    LineSource,
    Name,
    Part,
    count_overhead_tokens,
    get_renderer,
)
from slowwave.context.running import RunningSummary, Summary
from slowwave.context.tokens import Tokenizer, cache_counts
from slowwave.engines.encoders.protocol import Encoder
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import ActiveSettings, ContextSettings, PyramidSettings
from slowwave.text.sentences import split_sentences
from slowwave.text.words import extract_content_words

if TYPE_CHECKING:
    from slowwave.recall.hits import Cost

MAX_PIECES = 1_200
"""Sentences that the packing chooses from: the most relevant ones."""
TITLE = 2
"""Tokens of a part's title, about."""
FADES = 0.85
"""Of relevance, for each turn or page further from the query."""


@dataclass(frozen=True, slots=True)
class Context:
    """A block of context."""

    text: str
    tokens: int
    """Of `text`, by the tokenizer asked for; never over the budget."""
    parts: tuple[Part, ...]
    """What stands in it, with full sources."""
    stale: bool = False
    """Its memories are those of the last answer to the query, since the store could not be read."""
    reason: str | None = None
    """Why it holds no memories; None where it does."""
    relevance: float | None = None
    """Of what is nearest to the query in memory, 0 to 1, as `Hits.relevance`; None where that is not known."""
    confident: bool | None = None
    """Whether the memories are surely about the query, as `Hits.confident`; None where nothing was asked."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What could not be used, and what was done instead. It makes no other block of this one."""
    cost: "Cost | None" = field(default=None, compare=False)
    """What it took."""


Turn = Mapping[str, object] | tuple[str, str] | str
"""A turn of the conversation: role and content (or text), or words alone.

Content is a text, a list of parts of which those with a text count (OpenAI's and Anthropic's), or None: a call of a
tool, which says nothing.
"""


Content = Sequence[Snippet] | Sequence[MessageLine]
"""What a part may show."""


def assemble_context(
    query: str,
    memories: Content,
    budget: int,
    count: Tokenizer,
    settings: ContextSettings,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    format: Format = "markdown",
    *,
    encoder: Encoder | None = None,
    caveat: Caveat | None = None,
    pyramid: PyramidSettings | None = None,
) -> Context:
    """Return the block, at most `budget` tokens by `count`.

    Args:
        memories: sentences of past sessions with their relevance, or messages that may answer, the likeliest first.
        web: results, each with `url`, `title` and `text`, as attributes or keys; the best one first.
        conversation: turns, the latest last.
        encoder: by whose vectors the turns are called up; None: by their words alone.
        caveat: what is to be said of the memories.
        pyramid: sizes of the summaries of turns that find no room; by default as settings have them.

    Raises:
        UsageError: a budget that is none, an unknown format, a turn or result without text.
    """
    check_block(budget, format)
    turns = [parse_turn(turn) for turn in conversation]
    block = _Block(query, budget, settings, cache_counts(count), format, caveat, turns, pyramid or PyramidSettings())
    contents: dict[Name, Content] = {
        "web": build_web_snippets(web, query),
        "memories": memories,
        "conversation": rank_turns(turns, query, settings.active, encoder),
    }
    shares = {"web": settings.web_share, "memories": settings.memory_share, "conversation": settings.conversation_share}
    return block.fill({name: (some, shares[name]) for name, some in contents.items() if some})


def check_block(budget: int, format: str) -> None:
    """Refuse what no block can have.

    Raises:
        UsageError: a budget that is no whole number of 0 or more, or an unknown format.
    """
    if not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 0:
        raise UsageError(f"budget is {budget!r}; it is the number of tokens the block may have")
    if format not in FORMATS:
        raise UsageError(f"format is {format!r}; it is one of {', '.join(FORMATS)}")


class _Block:
    """A block being filled."""

    def __init__(
        self,
        query: str,
        budget: int,
        settings: ContextSettings,
        count: Tokenizer,
        format: Format,
        caveat: Caveat | None,
        turns: Sequence[tuple[str, str]],
        pyramid: PyramidSettings,
    ) -> None:
        self.turns, self.recap_share = turns, settings.active.recap_share
        self.running = RunningSummary("conversation", pyramid)
        self.running.extend(turns)
        self.query, self.budget, self.share, self.count = query, budget, settings.message_share, count
        self.format, self.caveat = format, caveat
        self.render = get_renderer(format, caveat)

    def fill(self, contents: Mapping[Name, tuple[Content, float]]) -> Context:
        """Return each part within its share, then, with what the others left, as large as it gets; memories first."""
        whole = sum(share for _, share in contents.values()) or 1.0
        parts: dict[Name, Part] = {
            name: self.build_part(name, some, int(self.budget * share / whole))
            for name, (some, share) in contents.items()
        }
        for name in sorted(contents, key=lambda name: name != "memories") if len(contents) > 1 else ():
            others = self.count_part_tokens(part for other, part in parts.items() if other != name)
            parts[name] = max(
                (parts[name], self.build_part(name, contents[name][0], self.budget - others)),
                key=lambda part: sum(len(line.text) for line in part.lines),
            )
        # where the whole has more tokens than its pieces had, the least relevant lines go
        lines = {name: list(part.lines) for name, part in parts.items()}
        while self.count_part_tokens(filled := [Part(name, tuple(some)) for name, some in lines.items()]) > self.budget:
            places = [(line.relevance, n, at) for n, part in enumerate(filled) for at, line in enumerate(part.lines)]
            if not places:
                break
            _, n, at = min(places)
            del lines[filled[n].name][at]
        shown = tuple(part for part in filled if part.lines)
        return Context(self.render(shown), self.count_part_tokens(shown), shown, self.caveat == "stale")

    def count_part_tokens(self, parts: Iterable[Part]) -> int:
        """Return tokens of the parts as one block."""
        text = self.render(list(parts))
        return self.count(text) if text else 0

    def build_part(self, name: Name, content: Content, budget: int) -> Part:
        """Return messages as they stand, or the sentences that cover most, as lines."""
        messages = [message for message in content if isinstance(message, MessageLine)]
        if messages:
            return self.build_whole_part(name, messages, budget)
        # the likeliest sentences, each with its price
        snippets = [snippet for snippet in content if isinstance(snippet, Snippet)]
        likely = sorted(
            sorted(snippets, key=lambda snippet: -snippet.relevance)[:MAX_PIECES], key=lambda snippet: snippet.place
        )
        groups = {group: n for n, group in enumerate(dict.fromkeys(snippet.source.group for snippet in likely))}
        lines = {place: n for n, place in enumerate(dict.fromkeys(snippet.place[:2] for snippet in likely))}
        pieces: list[Piece] = []
        for snippet in likely:
            tag, heading = count_overhead_tokens(snippet.source, self.format, self.count)
            cost = self.count(snippet.text + GAP)
            line, group = lines[snippet.place[:2]], groups[snippet.source.group]
            pieces.append(Piece(snippet.worths, cost, line, tag, group, heading))

        # those that cover most of what matters
        def count_tokens(some: Sequence[int]) -> int:
            return self.count_part_tokens([Part(name, build_snippet_lines(likely, some))])

        return Part(name, build_snippet_lines(likely, pack(pieces, budget - 1, count_tokens)))

    def build_whole_part(self, name: Name, messages: Sequence[MessageLine], budget: int) -> Part:
        """Return messages as lines, the likeliest first; where they have more tokens than their prices, fewer."""

        def price(line: Line) -> int:
            return self.count(line.text) + count_overhead_tokens(line.source, self.format, self.count)[0]

        def head(source: LineSource) -> int:
            return count_overhead_tokens(source, self.format, self.count)[1]

        # The likeliest messages whole, and where the evidence is spread, a little of many sessions.
        if name == "conversation":
            return self.build_conversation_part(messages, budget, price, head)
        left = allot_outline(messages, budget)
        whole = pack_messages(messages, self.query, budget - TITLE - left, self.share, price, head)
        outline = list[Line]()
        if left:
            room = budget - self.count_part_tokens([Part(name, arrange_lines(whole))])
            query_words = frozenset(extract_content_words(self.query))
            outline = select_outline(messages, [line.source for line in whole], query_words, room, price, head)
        # Spread evidence is told in the order of time, else the best first.
        chosen, arrange = [*whole, *outline], arrange_by_time if left else arrange_lines
        while chosen and self.count_part_tokens([Part(name, arrange(chosen))]) > budget:
            chosen.pop()
        return Part(name, arrange(chosen))

    def build_conversation_part(
        self,
        messages: Sequence[MessageLine],
        budget: int,
        price: Callable[[Line], int],
        head: Callable[[LineSource], int],
    ) -> Part:
        """Return turns as lines, and summaries of those that find no room."""

        def pack(room: int) -> tuple[list[Line], int, set[int]]:
            lines = pack_messages(messages, self.query, room, self.share, price, head)
            # turns, from 1, that stand whole among the lines, or say nothing
            shown = {line.source.seq: line.text for line in lines}
            whole = {n + 1 for n, (_, text) in enumerate(self.turns) if shown.get(n, "") == " ".join(text.split())}
            return lines, sum(map(price, lines)), whole

        def tell(summary: Summary) -> Line:
            return Line(summary.text, LineSource(message=summary.turns, seq=-1))  # before all turns

        packed, summaries = self.running.pack_beside(
            pack, budget - TITLE, self.recap_share, lambda summary: price(tell(summary))
        )
        chosen = [*map(tell, summaries), *packed]
        while chosen and self.count_part_tokens([Part("conversation", arrange_lines(chosen))]) > budget:
            chosen.pop()
        return Part("conversation", arrange_lines(chosen))


def rank_turns(
    turns: Sequence[tuple[str, str]], query: str, settings: ActiveSettings, encoder: Encoder | None
) -> list[MessageLine]:
    """Return the conversation's turns as they are to be shown: the latest exchange, the last turn first, then what the
    query calls up of the others (`ActiveMemory`), the most activated first.
    """
    mind = ActiveMemory(encoder, settings)
    for role, text in turns:
        mind.add_turn(role, text)
    latest = range(max(0, len(turns) - mind.weights.exchange_turns), len(turns))
    order = [*reversed(latest), *(trace.number for trace, _ in mind.rank_older(query, latest.start))]
    return [
        MessageLine(turns[n][1], LineSource(message=str(n + 1), seq=n, speaker=turns[n][0] or None), 1 / (1 + place))
        for place, n in enumerate(order)
        if turns[n][1].strip()
    ]


def build_web_snippets(web: Iterable[object], query: str) -> list[Snippet]:
    """Return the results' sentences, the best result last."""
    snippets: list[Snippet] = []
    query_words = frozenset(extract_content_words(query))
    for n, result in enumerate(web):
        read = result.get if isinstance(result, Mapping) else partial(getattr, result)
        fields = (read(name, None) for name in ("url", "title", "text"))
        url, title, text = (field if isinstance(field, str) else "" for field in fields)
        if not (url and (title or text)):
            raise UsageError(f"web result {n + 1} lacks url or text: {result!r:.80}")
        source = LineSource(url=" ".join(url.split()))
        whole = f"{title}.\n\n{text}" if title else text
        # its sentences; what has none (code, a table) is one piece
        pieces = [" ".join(piece.text.split()) for piece in split_sentences(whole)] or [" ".join(whole.split())]
        for number, piece in enumerate(piece for piece in pieces if piece):
            words = frozenset(extract_content_words(piece)) or frozenset({piece.lower()})
            near = len(words & query_words) / max(1, min(len(words), len(query_words)))
            relevance, place = FADES**n * (0.5 + 0.4 * near), (float(-n), 0, number)
            snippets.append(Snippet(piece, dict.fromkeys(words, relevance), relevance, source, place, number))
    return snippets


def parse_turn(turn: Turn) -> tuple[str, str]:
    """Return role and text.

    Raises:
        UsageError: it is no turn.
    """
    if isinstance(turn, str):
        return "", turn
    if isinstance(turn, tuple) and len(turn) == 2:
        return str(turn[0] or ""), _extract_content_text(turn[1], turn)
    if not isinstance(turn, Mapping) or not ("content" in turn or "text" in turn):
        raise UsageError(f"a turn is a text, a pair of role and text, or has content or text: got {turn!r:.80}")
    content = turn.get("content")
    text = _extract_content_text(turn.get("text") if content is None else content, turn)
    return str(turn.get("speaker") or turn.get("role") or ""), text


def _extract_content_text(content: object, turn: object) -> str:
    """Return the text of a turn's content: whole, or its parts that have one, a paragraph each."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise UsageError(f"a turn's content is a text, a list of parts or None: got {turn!r:.80}")
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "\n\n".join(part for part in parts if isinstance(part, str))
