"""`Memory.context` and `Memory.briefing`, behind their two thin methods: what a memory gives to a model's prompt."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, Unpack

from slowwave.context.active import format_turn
from slowwave.context.build import Context, Turn, assemble_context, check_block, parse_turn
from slowwave.context.direct import (
    DIRECT_WORDS,
    put_narration_last,
    rank_claims,
    rank_messages,
    rank_topics,
    tell_hit,
)
from slowwave.context.projects.briefing import (
    Kinds,
    collect_briefing_lines,
    collect_unreleased,
    pack_briefing,
)
from slowwave.context.rendering import Caveat, Format, Line
from slowwave.context.report import rank_sentences
from slowwave.context.tokens import Tokenizer, replace_surrogates, resolve_tokenizer
from slowwave.last_answers import LastAnswers
from slowwave.recall.hits import Hit, Hits
from slowwave.recall.live import LiveRelease, Notes, QueryVectors, read_unreleased
from slowwave.recall.query import MAX_CHARS, build_query, read_once, refuse_unknown_filters
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import place_query
from slowwave.schemas.errors import TROUBLE, StoreError, explain_unreadable, translate_read_errors
from slowwave.schemas.filters import MessageFilters
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import Role, Status
from slowwave.store.workspaces import anchor_workspace, require_workspaces
from slowwave.text.words import is_follow_up

CLAIMS = 5
"""Claims that a model made, of which those that answer a plain question come first."""


class OpenMemory(Protocol):
    """What of a `Memory` blocks and briefings are made from."""

    settings: Settings
    root: Path
    space: str
    _vectors: QueryVectors
    _notes: Notes
    _answers: LastAnswers
    _live: LiveRelease

    def get_view(self) -> View:
        """Return what answers now."""
        ...

    def recall(
        self, query: str, k: int, kinds: tuple[str, ...], *, automatic: bool, **filters: Unpack[MessageFilters]
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
        memories, hits = _collect_memories(memory, query, automatic, filters)
        before = next((text for role, text in reversed(turns) if role != Role.ASSISTANT and text.strip()), None)
        if not hits.confident and before is not None and is_follow_up(query):
            wider = _collect_memories(memory, f"{before}\n{query}"[-MAX_CHARS:], automatic, filters)
            memories, hits = wider if wider[1].relevance > hits.relevance else (memories, hits)
        # the encoder by whose vectors the turns are called up
        view, query = memory._live.view, replace_surrogates(query)
        spoken = [query, *(format_turn(*turn) for turn in turns)] if turns and view is not None else []
        encoder = memory._vectors.prepare_encoder(view.release.encoder, spoken) if spoken and view is not None else None
        notes = memory._notes.answer_notes
    # the block, with what is to be said of its memories
    pending = sum(hit.status == Status.NOT_DISTILLED for hit in hits)
    old = hits.stale and (not hits or pending < len(hits))
    caveat: Caveat | None = "stale" if old else "unsure" if hits.caveat else None
    block = assemble_context(
        *(query, memories, room, count, settings, web, turns, format),
        encoder=encoder,
        caveat=caveat,
        pyramid=memory.settings.pyramid,
    )
    has_memories = any(part.name == "memories" for part in block.parts)
    why = hits.reason or ("what was found does not fit the budget" if memories else "nothing found bears on it")
    relevance = None if hits.stale else hits.relevance
    return replace(
        block,
        reason=None if has_memories else why,
        relevance=relevance,
        confident=has_memories and caveat is None,
        notes=notes,
        cost=read_cost(),
    )


def build_briefing(
    memory: OpenMemory,
    budget: int | None = None,
    *,
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
) -> Context:
    """Return the ambient block of the release; see `Memory.briefing`."""
    settings = memory.settings.context
    room = settings.briefing_budget if budget is None else budget
    check_block(room, format)
    count = resolve_tokenizer(tokenizer, settings.tokenizer)
    read_cost = memory._vectors.start_clock("briefing", room)
    with memory._notes.collect_answer_notes():
        place = anchor_workspace(workspace) if workspace else None
        counted_by = tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__qualname__", None)
        question = repr(("briefing", memory._live.named, place, room, format, counted_by))
        try:
            with translate_read_errors(memory.root / memory.space):
                view, kinds = collect_briefing_kinds(memory, place)
        except StoreError as trouble:  # the store is away: the last one to just this
            if not (last := memory._answers.get(question)):
                raise
            memory._notes.replace_notes(f"{explain_unreadable(trouble)}: answered from the last briefing")
            block = Context(last["text"], last["tokens"], (), stale=True)
        else:  # kept as it is to read once it is old
            if question not in view.kept_briefings:
                old = pack_briefing(kinds, room, count, format, stale=True)
                memory._answers.put(question, {"text": old.text, "tokens": old.tokens}, view.release.run_id)
                view.kept_briefings.add(question)
            block = pack_briefing(kinds, room, count, format)
        notes = memory._notes.answer_notes
    return replace(block, notes=notes, cost=read_cost())


def collect_briefing_kinds(memory: OpenMemory, workspace: str | None) -> tuple[View, Kinds]:
    """Return the release, and what a briefing may have of it and of what was written since."""
    view = memory.get_view()
    written = read_unreleased(view, memory.root / memory.space, (Role.USER,)) if not memory._live.named else []
    known = view.workspaces | {hit.workspace for hit in written}
    places = require_workspaces(workspace, known) if workspace else ()
    return view, [*collect_briefing_lines(view, places), collect_unreleased(written, places)]


def _collect_memories(
    memory: OpenMemory, query: str, automatic: bool, filters: MessageFilters
) -> tuple[list[Line], Hits]:
    """Return the memories for a query, and the hits they rest on; where the store can't be read, the last answer."""
    settings = memory.settings.context
    filters["files"] = read_once(filters.get("files"))
    hits = memory.recall(query, settings.hits, ("message",), automatic=automatic, **filters)
    if hits.stale:
        return _tell_hits(hits), hits
    plain_query = build_query(query, settings.hits, ("message",), **filters)
    try:
        view = memory.get_view()
        # messages beside a plain question, with a model's claims; beside a report sentences of the likeliest sessions
        if automatic:
            hits = put_narration_last(view, hits)
        plain_query = place_query(view, plain_query)
        encode = partial(memory._vectors.encode_texts, view.release.encoder)
        if len(set(plain_query.content_words)) <= DIRECT_WORDS:
            messages = rank_messages(view, plain_query, hits)
            if not messages or not view.has_model_claims:
                return messages, hits
            claims = memory.recall(query, CLAIMS, ("observation",), automatic=automatic, **filters)
            topics = rank_topics(memory.recall(query, 1, ("topic",), automatic=automatic, **filters), plain_query)
            return [*rank_claims(view, claims), *topics, *messages], hits
        vector = encode([plain_query.text]).get(plain_query.text)
        return rank_sentences(view, plain_query, vector, hits), hits
    except TROUBLE as trouble:
        memory._notes.replace_notes(f"{explain_unreadable(trouble)}: answered with what was just found, and no more")
        return _tell_hits(hits), Hits(hits, hits.reason, stale=True)


def _tell_hits(hits: Sequence[Hit]) -> list[Line]:
    """Return hits that hold, or are not yet distilled, as they are."""
    kept = [hit for hit in hits if hit.status in (Status.ACTIVE, Status.NOT_DISTILLED) and hit.sources]
    return [tell_hit(hit, 1 / (1 + place)) for place, hit in enumerate(kept)]
