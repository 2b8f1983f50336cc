"""Build the block of context for a model: web results, memories and the current conversation, within a budget of
tokens.

    block = Memory.open().context("why does the import fail?", budget=500)
    block.text, block.tokens, block.parts

The order is web, memories, conversation. The most relevant web results and turns are nearest to the end, where the
query follows. Memories are recall's best messages, whole, the best first (`direct.py`). Each part has a share of the
budget, and the others use what it leaves. What does not fit is cut between sentences (`packing.py`), with an ellipsis
in place of the rest. Turns that do not fit are summarised.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Unpack

from slowwave.context.active import format_turn
from slowwave.context.conversation import TITLE, Turns
from slowwave.context.direct import (
    find_intended_lines,
    find_tried_lines,
    hide_projects,
    make_hit_line,
    put_narration_last,
    rank_claims,
    rank_messages,
    rank_topics,
    weigh_by_session,
)
from slowwave.context.packing import (
    allot_outline,
    arrange_by_time,
    arrange_lines,
    lengthen_lines,
    make_line,
    names_project,
    pack_lines,
    select_outline,
    tell_replies_once,
)
from slowwave.context.rendering import (
    FORMATS,
    Format,
    Line,
    LineSource,
    Measure,
    Name,
    Part,
)
from slowwave.context.running import (
    ComparedTurn,
    find_own_sessions,
    fold_letters,
    fold_turns,
)
from slowwave.context.tokens import (
    Tokenizer,
    cache_counts,
    replace_surrogates,
    resolve_tokenizer,
)
from slowwave.engines.encoders.protocol import Encoder
from slowwave.recall.hits import Cost, Hit, Hits
from slowwave.recall.live import ReadSession
from slowwave.recall.query import (
    MAX_CHARS,
    Query,
    build_query,
    parse_sessions,
    read_once,
    refuse_unknown_filters,
)
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import resolve_workspace
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import ContextOptions
from slowwave.schemas.settings import ContextSettings, PyramidSettings
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.words import is_follow_up

Packer = Callable[[int], Sequence[Line]]
"""A function that returns the lines of a part that fit a number of tokens."""


@dataclass(frozen=True, slots=True)
class Context:
    """A block of context."""

    text: str
    tokens: int
    """Tokens of `text` by the requested tokenizer. Never over the budget."""
    parts: tuple[Part, ...]
    """The parts, with full sources."""
    reason: str | None = None
    """Why the block has no memories, or None if it has."""
    relevance: float | None = None
    """Relevance of the best memory, 0 to 1, as `Hits.relevance`. None if it is unknown."""
    confident: bool | None = None
    """Whether the memories are certainly about the query, as `Hits.confident`. None without a query."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Warnings: what could not be used, and what was done instead. They do not count when blocks are compared."""
    cost: Cost | None = field(default=None, compare=False)
    """The cost of the block."""


Turn = Mapping[str, object] | tuple[str, str] | str
"""A turn of the conversation: role and content (or text), or a text alone.

Content is a text, a list of parts (as OpenAI and Anthropic have it) of which those with a text count, or None, as in a
call of a tool.
"""

MOST_CLAIMS = 5
"""Most of a model's claims before the messages."""
FAINT = 0.15
"""Least likelihood of a message in an automatic block, if the best hit has 1: the first four hits and their turns reach
it."""


@dataclass(frozen=True, slots=True)
class _SearchOptions:
    """The options of every search for one block."""

    turns: Sequence[tuple[str, str]]
    """The running conversation."""
    automatic: bool
    """Whether no user asked."""
    own_sessions: Iterable[str] | str
    asked: ContextOptions
    """The caller's."""


def build_context(
    reading: ReadSession,
    query: str,
    budget: int | None = None,
    *,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    automatic: bool = False,
    own_sessions: Iterable[str] | str = (),
    **asked: Unpack[ContextOptions],
) -> Context:
    """Return the block for a query; see `Memory.context`."""
    refuse_unknown_filters(asked, ContextOptions)
    settings = reading.settings.context
    room = settings.budget if budget is None else budget
    count = resolve_tokenizer(tokenizer, settings.tokenizer)
    turns = [parse_turn(turn) for turn in conversation]
    read_cost = reading.vectors.start_clock(
        "automatic" if automatic else "context", room
    )
    with reading.warnings.collect_answer_warnings():
        options = _SearchOptions(
            turns,
            automatic,
            own_sessions=read_once(own_sessions),
            asked=asked,
        )
        memories, hits = _search_memories(reading, query, options)
        if automatic:
            memories = _leave_out_faint(memories, hits, room)
        query = replace_surrogates(query)
        encoder = _load_turn_encoder(reading, query, turns)
        warnings = reading.warnings.answer_warnings
    unsure = hits.caveat is not None
    block = assemble_context(
        query,
        memories,
        budget=room,
        count=count,
        settings=settings,
        web=web,
        conversation=turns,
        format=format,
        encoder=encoder,
        unsure=unsure,
        overview=hits.overview,
        pyramid=reading.settings.pyramid,
    )
    has_memories = any(part.name == "memories" for part in block.parts)
    return replace(
        block,
        reason=None if has_memories else _explain_no_memories(memories, hits),
        relevance=hits.relevance,
        confident=has_memories and not unsure,
        warnings=warnings,
        cost=read_cost(),
    )


def _leave_out_faint(
    lines: Sequence[Line],
    hits: Hits,
    budget: int,
) -> list[Line]:
    """Return the lines of an automatic block: all of them if it has an outline, which lists many sessions."""
    has_outline = allot_outline(lines, budget, overview=hits.overview)
    return [line for line in lines if has_outline or line.relevance >= FAINT]


def _explain_no_memories(memories: Sequence[Line], hits: Hits) -> str:
    """Return why a block holds no memories."""
    if hits.reason:
        return hits.reason
    return (
        "what was found does not fit the budget"
        if memories
        else "nothing found bears on it"
    )


def _search_memories(
    reading: ReadSession,
    query: str,
    options: _SearchOptions,
) -> tuple[list[Line], Hits]:
    """Return the memories for a query, and the hits that they come from.

    If a follow-up finds nothing relevant, it is searched again together with the person's turn before it, and the more
    relevant answer is returned.
    """

    def search(text: str) -> tuple[list[Line], Hits]:
        return reading.live.retry_superseded(
            partial(_search_other_sessions, reading, text, options)
        )

    memories, hits = search(query)
    said = (
        text
        for role, text in reversed(options.turns)
        if role != Role.ASSISTANT and text.strip()
    )
    before = next(said, None)
    if hits.confident or before is None or not is_follow_up(query):
        return memories, hits
    wider_memories, wider_hits = search(f"{before}\n{query}"[-MAX_CHARS:])
    if wider_hits.relevance > hits.relevance:
        return wider_memories, wider_hits
    return memories, hits


def _load_turn_encoder(
    reading: ReadSession,
    query: str,
    turns: Sequence[tuple[str, str]],
) -> Encoder | None:
    """Return an encoder for the query and the turns, or None without turns, a release or vectors."""
    view = reading.live.view
    if not turns or view is None:
        return None
    return reading.vectors.prepare_encoder(
        view.release.encoder, [query, *(format_turn(*turn) for turn in turns)]
    )


def _search_other_sessions(
    reading: ReadSession,
    query: str,
    options: _SearchOptions,
) -> tuple[list[Line], Hits]:
    """Return the memories for a query and their hits, from sessions other than the running conversation.

    Sessions among all hits that turn out to be the running conversation are left out, and the search is repeated.
    """
    own_ids = parse_sessions(options.own_sessions)
    turns = fold_turns(options.turns)
    # The store may have read the question too.
    with_query = [
        *turns,
        *fold_turns([("", query)]),
    ]
    widest = replace(options, asked={**options.asked, "everything": True})
    left_out: Sequence[ComparedTurn] = ()
    while turns:
        _, hits = _collect_memories(
            reading, query, widest, own_ids=own_ids, left_out=left_out
        )
        found = {source.session for hit in hits for source in hit.sources}
        more = (
            find_own_sessions(
                view=reading.live.view,
                space_dir=reading.folder,
                turns=with_query,
                sessions=found,
            )
            if found
            else []
        )
        if set(more) <= set(own_ids):
            left_out = turns
            break
        own_ids = (*own_ids, *more)
    return _collect_memories(
        reading, query, options, own_ids=own_ids, left_out=left_out
    )


def _rank_by_session(
    reading: ReadSession,
    view: View,
    query: Query,
    messages: Sequence[Line],
) -> list[Line]:
    """Return the messages of a long report, ranked by their sessions too."""
    vectors = reading.vectors.encode_texts(view.release.encoder, [query.text])
    return weigh_by_session(
        view=view, query=query, vector=vectors.get(query.text), lines=messages
    )


def _collect_memories(
    reading: ReadSession,
    query: str,
    options: _SearchOptions,
    *,
    own_ids: tuple[str, ...],
    left_out: Sequence[ComparedTurn],
) -> tuple[list[Line], Hits]:
    """Return the memories for a query, and the hits that they come from.

    Args:
        reading: the open memory.
        query: the question.
        options: of the search.
        own_ids: sessions that are left out.
        left_out: turns of the running conversation. A message that equals one of them is left out.
    """
    settings = reading.settings.context
    asked = options.asked.copy()
    asked["files"] = read_once(asked.get("files"))
    plain_query = build_query(
        query, settings.hits, ("message",), own_sessions=own_ids, **asked
    )
    # a long report has words of many matters: its sessions tell which count
    is_report = plain_query.is_report
    if is_report:
        asked["everything"] = True
    recall = partial(
        reading.recall,
        query,
        automatic=options.automatic,
        own_sessions=own_ids,
        **asked,
    )
    hits = _leave_out_turns(recall(settings.hits, ("message",)), left_out)
    if reading.live.view is None:  # there is no release yet
        return _make_hit_lines(hits), hits
    view = reading.get_view()
    if options.automatic:
        hits = put_narration_last(view, hits)
    plain_query = resolve_workspace(view, plain_query)
    messages = rank_messages(view, plain_query, hits)
    if messages and is_report:
        messages = _rank_by_session(
            reading=reading, view=view, query=plain_query, messages=messages
        )
    # a hook tells intentions by itself, once
    intended = [] if options.automatic else find_intended_lines(view, plain_query)
    lines = [*intended, *find_tried_lines(view, plain_query), *messages]
    # a model's claims and topics come before the messages
    if lines and view.has_model_claims:
        lines = [*_list_model_lines(view, plain_query, recall), *lines]
    return hide_projects(view, plain_query, lines), hits


def _list_model_lines(
    view: View,
    query: Query,
    recall: Callable[[int, tuple[str, ...]], Hits],
) -> list[Line]:
    """Return a model's claims that answer, and its summaries of topics."""
    topics = rank_topics(recall(1, ("topic",)), query)
    return [*rank_claims(view, recall(MOST_CLAIMS, ("claim",))), *topics]


def _leave_out_turns(hits: Hits, turns: Sequence[ComparedTurn]) -> Hits:
    """Return the hits without messages that equal a turn of the running conversation."""
    said = {text for _, text in turns}
    kept = [hit for hit in hits if fold_letters(hit.text) not in said] if said else hits
    if len(kept) == len(hits):
        return hits
    best = max((hit.relevance or 0.0 for hit in kept), default=0.0)
    reason = None if kept else "the conversation already contains what was found"
    return hits.keep(kept, reason, best)


def _make_hit_lines(hits: Sequence[Hit]) -> list[Line]:
    """Return the lines of hits that are active or not yet distilled."""
    standing = [
        hit
        for hit in hits
        if hit.status in (Status.ACTIVE, Status.NOT_DISTILLED) and hit.sources
    ]
    return [make_hit_line(hit, 1 / (1 + rank)) for rank, hit in enumerate(standing)]


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
    overview: bool = False,
    pyramid: PyramidSettings | None = None,
) -> Context:
    """Return the block, at most `budget` tokens by `count`.

    Args:
        query: the question.
        memories: lines that may answer, the likeliest first.
        budget: tokens.
        count: returns the tokens of a text.
        settings: shares of the parts, and of the conversation's turns.
        web: results, each with `url`, `title` and `text`, as attributes or keys; the best one first.
        conversation: turns, the latest last.
        format: of the block.
        encoder: encodes turns and query. Without one, turns are recalled by their words alone.
        unsure: whether the memories may be about something else; the block then says so.
        overview: whether the query asks for many messages at once; the block then has an outline.
        pyramid: sizes of the summaries of turns that do not fit; by default as in the settings.

    Raises:
        UsageError: the budget or the format is invalid, or a turn or result has no text.
    """
    check_block(budget, format)
    measure = Measure(cache_counts(count), format, unsure)
    packers = dict[Name, Packer]()
    if results := make_web_lines(web):
        # The best is last.
        packers["web"] = lambda room: pack_lines(
            lines=results, query=query, budget=room - TITLE, measure=measure
        )[::-1]
    if memories:
        packers["memories"] = lambda room: _pack_messages(
            lines=memories, query=query, room=room, measure=measure, overview=overview
        )
    # the latest turns rank before the older ones that the query recalls
    if parsed := [parse_turn(turn) for turn in conversation]:
        turns = Turns(
            settings=settings,
            pyramid=pyramid or PyramidSettings(),
            measure=measure,
            encoder=encoder,
        )
        for role, text in parsed:
            turns.add(role, text)
        latest = turns.active.settings.exchange_turns
        if ranked := [*turns.list_latest(latest), *turns.rank_older(query, latest)]:
            packers["conversation"] = lambda room: turns.pack(ranked, query, room)
    return _fill_block(packers, budget, measure)


def check_block(budget: int, format: str) -> None:
    """Check the budget and the format of a block.

    Raises:
        UsageError: the budget is not a whole number of 0 or more, or the format is unknown.
    """
    if not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 0:
        raise UsageError(
            f"budget is {budget!r}; it is the number of tokens the block may have"
        )
    if format not in FORMATS:
        raise UsageError(f"format is {format!r}; it is one of {', '.join(FORMATS)}")


def _fill_block(
    packers: Mapping[Name, Packer],
    budget: int,
    measure: Measure,
) -> Context:
    """Return the block: each part within its share, then each part, memories first, as large as the others allow."""
    # The others use what a part leaves.
    shares: dict[Name, float] = {
        "web": 0.2,
        "memories": 0.5,
        "conversation": 0.3,
    }
    whole = sum(shares[name] for name in packers) or 1.0
    lines = {
        name: [*pack(int(budget * shares[name] / whole))]
        for name, pack in packers.items()
    }
    for name in (
        sorted(packers, key=lambda name: name != "memories") if len(packers) > 1 else ()
    ):
        taken = measure.count_parts(
            [
                Part(other, tuple(shown))
                for other, shown in lines.items()
                if other != name
            ]
        )
        larger = [*packers[name](budget - taken)]
        lines[name] = max(
            (lines[name], larger),
            key=lambda shown: sum(len(line.text) for line in shown),
        )
    parts = [Part(name, tuple(shown)) for name, shown in lines.items()]
    parts = _drop_until_fits(parts, budget, measure)
    return Context(measure.render(parts), measure.count_parts(parts), tuple(parts))


def _drop_until_fits(
    parts: Sequence[Part],
    budget: int,
    measure: Measure,
) -> list[Part]:
    """Return the parts that have lines, without the least relevant lines if the block has more tokens than its lines
    together.
    """
    left = [part for part in parts if part.lines]
    while measure.count_parts(left) > budget:
        least_relevant = min(
            (line for part in left for line in part.lines),
            key=lambda line: line.relevance,
        )
        shorter = [
            replace(
                part,
                lines=tuple(line for line in part.lines if line is not least_relevant),
            )
            for part in left
        ]
        left = [part for part in shorter if part.lines]
    return left


def _pack_messages(
    lines: Sequence[Line],
    query: str,
    room: int,
    measure: Measure,
    *,
    overview: bool,
) -> Sequence[Line]:
    """Return the likeliest messages, whole. If the evidence is spread, add short lines of many sessions, in order of
    time.
    """
    if overview:
        lines = sorted(lines, key=lambda line: not names_project(query, line))
    outline_room = allot_outline(lines, room, overview=overview)
    whole = pack_lines(
        lines=lines, query=query, budget=room - TITLE - outline_room, measure=measure
    )
    if not outline_room:
        return tell_replies_once(arrange_lines(whole))
    left = room - measure.count_part("memories", arrange_lines(whole))
    outline = select_outline(
        lines=lines, shown=whole, query=query, budget=left, measure=measure
    )
    spare = room - measure.count_part("memories", arrange_by_time([*whole, *outline]))
    shown = lengthen_lines(
        whole=whole, outline=outline, lines=lines, budget=spare, measure=measure
    )
    return tell_replies_once(arrange_by_time(shown))


def make_web_lines(web: Iterable[object]) -> list[Line]:
    """Return a line for each result, in the same order."""
    lines = []
    for n, result in enumerate(web):
        read = result.get if isinstance(result, Mapping) else partial(getattr, result)
        fields = (read(name, None) for name in ("url", "title", "text"))
        url, title, text = (
            replace_surrogates(field) if isinstance(field, str) else ""
            for field in fields
        )
        if not (url and (title or text)):
            raise UsageError(f"web result {n + 1} lacks url or text: {result!r:.80}")
        whole = f"{title}.\n\n{text}" if title else text
        lines.append(
            make_line(whole, LineSource(url=" ".join(url.split())), 1 / (1 + n))
        )
    return lines


def parse_turn(turn: Turn) -> tuple[str, str]:
    """Return a turn's role and text.

    Raises:
        UsageError: the value is not a turn.
    """
    if isinstance(turn, str):
        return "", replace_surrogates(turn)
    if isinstance(turn, tuple) and len(turn) == 2:
        return str(turn[0] or ""), _extract_content_text(turn[1], turn)
    if not isinstance(turn, Mapping) or not ("content" in turn or "text" in turn):
        raise UsageError(
            f"a turn is a text, a pair of role and text, or has content or text: got {turn!r:.80}"
        )
    content = turn.get("content")
    text = _extract_content_text(turn.get("text") if content is None else content, turn)
    return str(turn.get("speaker") or turn.get("role") or ""), text


def _extract_content_text(content: object, turn: object) -> str:
    """Return the text of a turn's content: the whole text, or a paragraph for each part that has a text."""
    if content is None or isinstance(content, str):
        return replace_surrogates(content or "")
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise UsageError(
            f"a turn's content is a text, a list of parts or None: got {turn!r:.80}"
        )
    parts = (
        part.get("text") if isinstance(part, Mapping) else part for part in content
    )
    return replace_surrogates(
        "\n\n".join(part for part in parts if isinstance(part, str))
    )
