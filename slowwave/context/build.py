"""The block of context for a model: web results, memories and the current conversation, within a budget of tokens.

    block = Memory.open().context("why does the import fail?", budget=500)
    block.text, block.tokens, block.parts

The order is web, memories, conversation. Web results and turns that are more relevant stand nearer to the end, where
the query comes; memories are recall's best messages, whole, the best first (`direct.py`). Each part has its share of
the budget; what one doesn't use goes to the others. What does not fit whole is cut between sentences (`packing.py`),
with an ellipsis where something is left out; turns without room are summed up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Protocol, Unpack

from slowwave.context.active import format_turn
from slowwave.context.conversation import TITLE, Turns
from slowwave.context.direct import (
    DIRECT_WORDS,
    put_narration_last,
    rank_claims,
    rank_messages,
    rank_topics,
    tell_hit,
    weigh_by_session,
)
from slowwave.context.packing import (
    allot_outline,
    arrange_by_time,
    arrange_lines,
    make_line,
    pack_lines,
    select_outline,
)
from slowwave.context.rendering import FORMATS, Format, Line, LineSource, Measure, Name, Part
from slowwave.context.running import Said, find_own_sessions, fold_letters, fold_turns
from slowwave.context.tokens import Tokenizer, cache_counts, replace_surrogates, resolve_tokenizer
from slowwave.engines.encoders.protocol import Encoder
from slowwave.recall.hits import Cost, Hit, Hits
from slowwave.recall.live import LiveRelease, Notes, QueryVectors
from slowwave.recall.query import MAX_CHARS, build_query, parse_sessions, read_once, refuse_unknown_filters
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import place_query
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import MessageFilters
from slowwave.schemas.settings import ContextSettings, PyramidSettings, Settings
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.words import is_follow_up

Packer = Callable[[int], Sequence[Line]]
"""Returns the lines of a part that fit a number of tokens."""


@dataclass(frozen=True, slots=True)
class Context:
    """A block of context."""

    text: str
    tokens: int
    """Of `text`, by the tokenizer asked for; never over the budget."""
    parts: tuple[Part, ...]
    """Its parts, with full sources."""
    reason: str | None = None
    """Why it holds no memories; None where it does."""
    relevance: float | None = None
    """Of what is nearest to the query in memory, 0 to 1, as `Hits.relevance`; None where that is not known."""
    confident: bool | None = None
    """Whether the memories are surely about the query, as `Hits.confident`; None where nothing was asked."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What could not be used, and what was done instead. It makes no other block of this one."""
    cost: Cost | None = field(default=None, compare=False)
    """The cost of the block."""


Turn = Mapping[str, object] | tuple[str, str] | str
"""A turn of the conversation: role and content (or text), or words alone.

Content is a text, a list of parts of which those with a text count (OpenAI's and Anthropic's), or None: a call of a
tool, which says nothing.
"""

CLAIMS = 5
"""Claims that a model made, of which those that answer a plain question come first."""


class OpenMemory(Protocol):
    """The parts of a `Memory` that blocks and briefings use."""

    settings: Settings
    root: Path
    space: str
    _vectors: QueryVectors
    _notes: Notes
    _live: LiveRelease

    def get_view(self) -> View:
        """Return the release that answers queries now."""
        ...

    def recall(
        self,
        query: str,
        k: int,
        kinds: tuple[str, ...],
        *,
        automatic: bool,
        own_sessions: Iterable[str] | str,
        **filters: Unpack[MessageFilters],
    ) -> Hits:
        """Return the hits of a query."""
        ...


def build_context(
    memory: OpenMemory,
    query: str,
    budget: int | None = None,
    *,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    automatic: bool = False,
    own_sessions: Iterable[str] | str = (),
    **filters: Unpack[MessageFilters],
) -> Context:
    """Return the block for a query; see `Memory.context`."""
    refuse_unknown_filters(filters, MessageFilters)
    settings = memory.settings.context
    room = settings.budget if budget is None else budget
    count = resolve_tokenizer(tokenizer, settings.tokenizer)
    # what the memory knows of it; a follow-up that finds nothing sure is asked together with what it follows
    turns = [parse_turn(turn) for turn in conversation]
    read_cost = memory._vectors.start_clock("automatic" if automatic else "context", room)
    with memory._notes.collect_answer_notes():
        own = read_once(own_sessions)
        ask_once = partial(_ask_others, memory, turns=turns, automatic=automatic, own=own, filters=filters)

        def ask(text: str) -> tuple[list[Line], Hits]:
            return memory._live.retry_superseded(partial(ask_once, text))

        memories, hits = ask(query)
        before = next((text for role, text in reversed(turns) if role != Role.ASSISTANT and text.strip()), None)
        if not hits.confident and before is not None and is_follow_up(query):
            wider = ask(f"{before}\n{query}"[-MAX_CHARS:])
            memories, hits = wider if wider[1].relevance > hits.relevance else (memories, hits)
        # the encoder by whose vectors the turns are called up
        view, query = memory._live.view, replace_surrogates(query)
        spoken = [query, *(format_turn(*turn) for turn in turns)] if turns and view is not None else []
        encoder = memory._vectors.prepare_encoder(view.release.encoder, spoken) if spoken and view is not None else None
        notes = memory._notes.answer_notes
    # the block, which says so if its memories may be about something else
    unsure = hits.caveat is not None
    block = assemble_context(
        *(query, memories, room, count, settings, web, turns, format),
        encoder=encoder,
        unsure=unsure,
        pyramid=memory.settings.pyramid,
    )
    has_memories = any(part.name == "memories" for part in block.parts)
    why = hits.reason or ("what was found does not fit the budget" if memories else "nothing found bears on it")
    return replace(
        block,
        reason=None if has_memories else why,
        relevance=hits.relevance,
        confident=has_memories and not unsure,
        notes=notes,
        cost=read_cost(),
    )


def _ask_others(
    memory: OpenMemory,
    query: str,
    turns: Sequence[tuple[str, str]],
    automatic: bool,
    own: Iterable[str] | str,
    filters: MessageFilters,
) -> tuple[list[Line], Hits]:
    """Return the memories for a query, and the hits they rest on, from other sessions than the running conversation."""
    own_ids, said = parse_sessions(own), fold_turns(turns)
    spoken = [*said, *fold_turns([("", query)])]  # the store may have read the question too
    while True:
        lines, hits = _collect_memories(memory, query, automatic, own_ids, (), filters)
        found = {source.session for hit in hits for source in hit.sources} if said else set[str]()
        more = find_own_sessions(memory._live.view, memory.root / memory.space, spoken, found) if found else []
        if not set(more) - set(own_ids):
            repeated = len(_leave_out_turns(hits, said)) < len(hits)
            return _collect_memories(memory, query, automatic, own_ids, said, filters) if repeated else (lines, hits)
        own_ids = (*own_ids, *more)


def _collect_memories(
    memory: OpenMemory,
    query: str,
    automatic: bool,
    own: tuple[str, ...],
    turns: Sequence[Said],
    filters: MessageFilters,
) -> tuple[list[Line], Hits]:
    """Return the memories for a query, and the hits they rest on.

    Args:
        memory: whose they are.
        query: what is asked.
        automatic: whether nobody asked.
        own: sessions that are left out.
        turns: of the conversation that is running: a message that is word for word one of them is left out.
        filters: as `recall` has them.
    """
    # what recall finds; before the first release that is all
    settings = memory.settings.context
    filters["files"] = read_once(filters.get("files"))
    recall = partial(memory.recall, query, automatic=automatic, own_sessions=own, **filters)
    hits = _leave_out_turns(recall(settings.hits, ("message",)), turns)
    if memory._live.view is None:
        return _tell_hits(hits), hits
    plain_query = build_query(query, settings.hits, ("message",), own_sessions=own, **filters)
    view = memory.get_view()
    if automatic:
        hits = put_narration_last(view, hits)
    plain_query = place_query(view, plain_query)
    messages = rank_messages(view, plain_query, hits)
    # a report's messages by their sessions too
    if messages and len(set(plain_query.content_words)) > DIRECT_WORDS:
        vectors = memory._vectors.encode_texts(view.release.encoder, [plain_query.text])
        messages = weigh_by_session(view, plain_query, vectors.get(plain_query.text), messages)
    # a model's claims before them
    if not messages or not view.has_model_claims:
        return messages, hits
    claims = recall(CLAIMS, ("observation",))
    topics = rank_topics(recall(1, ("topic",)), plain_query)
    return [*rank_claims(view, claims), *topics, *messages], hits


def _leave_out_turns(hits: Hits, turns: Sequence[Said]) -> Hits:
    """Return an answer without the messages that are word for word a turn of the running conversation."""
    said = {text for _, text in turns}
    kept = [hit for hit in hits if fold_letters(hit.text) not in said] if said else hits
    if len(kept) == len(hits):
        return hits
    best = max((hit.relevance or 0.0 for hit in kept), default=0.0)
    return Hits(kept, None if kept else "what was found stands in the conversation", best, hits.notes)


def _tell_hits(hits: Sequence[Hit]) -> list[Line]:
    """Return hits that hold, or are not yet distilled, as they are."""
    standing = [hit for hit in hits if hit.status in (Status.ACTIVE, Status.NOT_DISTILLED) and hit.sources]
    return [tell_hit(hit, 1 / (1 + rank)) for rank, hit in enumerate(standing)]


def assemble_context(
    query: str,
    memories: Sequence[Line],
    budget: int,
    count: Tokenizer,
    settings: ContextSettings,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    format: Format = "markdown",
    *,
    encoder: Encoder | None = None,
    unsure: bool = False,
    pyramid: PyramidSettings | None = None,
) -> Context:
    """Return the block, at most `budget` tokens by `count`.

    Args:
        memories: messages that may answer, the likeliest first.
        web: results, each with `url`, `title` and `text`, as attributes or keys; the best one first.
        conversation: turns, the latest last.
        encoder: by whose vectors the turns are called up; None: by their words alone.
        unsure: whether the memories may be about something else, which the block then says.
        pyramid: sizes of the summaries of turns that find no room; by default as settings have them.

    Raises:
        UsageError: a budget that is none, an unknown format, a turn or result without text.
    """
    check_block(budget, format)
    measure = Measure(cache_counts(count), format, unsure)
    # what fills each part
    packers = dict[Name, Packer]()
    if results := make_web_lines(web):
        packers["web"] = lambda room: pack_lines(results, query, room - TITLE, measure)[::-1]  # the best last
    if memories:
        packers["memories"] = lambda room: _pack_messages(memories, query, room, measure)
    # a conversation's turns, the latest before older ones that the query calls up
    if parsed := [parse_turn(turn) for turn in conversation]:
        turns = Turns(settings, pyramid or PyramidSettings(), measure, encoder)
        for role, text in parsed:
            turns.add(role, text)
        latest = turns.active.settings.exchange_turns
        if ranked := [*turns.list_latest(latest), *turns.rank_older(query, latest)]:
            packers["conversation"] = lambda room: turns.pack(ranked, query, room)
    return _fill_block(packers, budget, measure)


def check_block(budget: int, format: str) -> None:
    """Refuse what no block can have.

    Raises:
        UsageError: a budget that is no whole number of 0 or more, or an unknown format.
    """
    if not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 0:
        raise UsageError(f"budget is {budget!r}; it is the number of tokens the block may have")
    if format not in FORMATS:
        raise UsageError(f"format is {format!r}; it is one of {', '.join(FORMATS)}")


def _fill_block(packers: Mapping[Name, Packer], budget: int, measure: Measure) -> Context:
    """Return the parts within their shares, then each, memories first, as large as what the others left lets it be."""
    shares: dict[Name, float] = {"web": 0.2, "memories": 0.5, "conversation": 0.3}  # what one leaves goes to the others
    whole = sum(shares[name] for name in packers) or 1.0
    lines = {name: [*pack(int(budget * shares[name] / whole))] for name, pack in packers.items()}
    for name in sorted(packers, key=lambda name: name != "memories") if len(packers) > 1 else ():
        taken = measure.count_parts([Part(other, tuple(shown)) for other, shown in lines.items() if other != name])
        larger = [*packers[name](budget - taken)]
        lines[name] = max((lines[name], larger), key=lambda shown: sum(len(line.text) for line in shown))
    # where the whole has more tokens than its lines had, the least relevant go
    while measure.count_parts(parts := [Part(name, tuple(shown)) for name, shown in lines.items() if shown]) > budget:
        least_relevant = min((line for part in parts for line in part.lines), key=lambda line: line.relevance)
        lines = {name: [line for line in shown if line is not least_relevant] for name, shown in lines.items()}
    return Context(measure.render(parts), measure.count_parts(parts), tuple(parts))


def _pack_messages(lines: Sequence[Line], query: str, room: int, measure: Measure) -> Sequence[Line]:
    """Return the likeliest messages whole; if the evidence is spread, a little of many sessions in order of time."""
    outline_room = allot_outline(lines, room)
    whole = pack_lines(lines, query, room - TITLE - outline_room, measure)
    if not outline_room:
        return arrange_lines(whole)
    left = room - measure.count_part("memories", arrange_lines(whole))
    return arrange_by_time([*whole, *select_outline(lines, [line.source for line in whole], query, left, measure)])


def make_web_lines(web: Iterable[object]) -> list[Line]:
    """Return a line for each result, in their order."""
    lines = []
    for n, result in enumerate(web):
        read = result.get if isinstance(result, Mapping) else partial(getattr, result)
        fields = (read(name, None) for name in ("url", "title", "text"))
        url, title, text = (replace_surrogates(field) if isinstance(field, str) else "" for field in fields)
        if not (url and (title or text)):
            raise UsageError(f"web result {n + 1} lacks url or text: {result!r:.80}")
        whole = f"{title}.\n\n{text}" if title else text
        lines.append(make_line(whole, LineSource(url=" ".join(url.split())), 1 / (1 + n)))
    return lines


def parse_turn(turn: Turn) -> tuple[str, str]:
    """Return role and text.

    Raises:
        UsageError: it is no turn.
    """
    if isinstance(turn, str):
        return "", replace_surrogates(turn)
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
        return replace_surrogates(content or "")
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise UsageError(f"a turn's content is a text, a list of parts or None: got {turn!r:.80}")
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return replace_surrogates("\n\n".join(part for part in parts if isinstance(part, str)))
