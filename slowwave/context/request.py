"""`Memory.context` and `Memory.briefing`, behind their two thin methods: what a memory gives to a model's prompt."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from slowwave.context.briefing import Kinds, as_plain, briefed, from_plain, known, session_tags
from slowwave.context.build import Context, Turn, assembled, check_block, remembered
from slowwave.context.direct import whole_messages
from slowwave.context.gather import gathered
from slowwave.context.rendering import Format, LineSource
from slowwave.context.snippets import Said
from slowwave.context.statements import is_direct
from slowwave.context.tokens import Tokenizer, tokenizer_of
from slowwave.recall.hits import Hits
from slowwave.recall.query import When, checked_query
from slowwave.schemas.errors import StoreError
from slowwave.store.trouble import TROUBLE, reading, unread
from slowwave.text.terms import content_words

if TYPE_CHECKING:
    from slowwave.memory import Memory


def context_of(
    memory: "Memory",
    query: str,
    budget: int | None = None,
    *,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
    automatic: bool = False,
    as_of: When = None,
) -> Context:
    """The block for a query; see `Memory.context`."""
    settings = memory.settings.context
    room = settings.budget if budget is None else budget
    check_block(room, format)
    count = tokenizer_of(tokenizer, settings.tokenizer)
    with memory._notes.of_one_answer():
        memories, hits = _memories(memory, query, workspace, automatic, as_of)
        notes = memory._notes.so_far
    block = assembled(query, memories, room, count, settings, web, conversation, format, stale=hits.stale)
    held = any(part.name == "memories" for part in block.parts)
    why = hits.reason or ("what was found does not fit the budget" if memories else "nothing found bears on it")
    return replace(block, reason=None if held else why, relevance=None if hits.stale else hits.relevance, notes=notes)


def briefing_of(
    memory: "Memory",
    budget: int | None = None,
    *,
    tokenizer: Tokenizer | str | None = None,
    format: Format = "markdown",
) -> Context:
    """The ambient block of the release; see `Memory.briefing`."""
    settings = memory.settings.context
    room = settings.briefing_budget if budget is None else budget
    check_block(room, format)
    count = tokenizer_of(tokenizer, settings.tokenizer)
    with memory._notes.of_one_answer():
        kinds, stale = _known(memory)
        notes = memory._notes.so_far
    return replace(briefed(kinds, room, count, format, stale=stale), notes=notes)


def _known(memory: "Memory") -> tuple[Kinds, bool]:
    """What a briefing is made of, and whether it is of the last one, since the store can't be read."""
    question = repr(("briefing", memory._live.named))
    try:
        with reading(memory.root / memory.space):
            view = memory._current()
            kinds = known(view)
    except StoreError as trouble:
        told = memory._briefings.told_plain(question, from_plain)
        if told is None:
            raise
        memory._notes.instead(f"{unread(trouble)}: answered from the last briefing")
        return told, True
    view.once("briefing kept", lambda: memory._briefings.keep_plain(question, as_plain(kinds)))
    return kinds, False


def _memories(
    memory: "Memory", query: str, workspace: str | None, automatic: bool, as_of: When
) -> tuple[list[Said], Hits]:
    """What the memory has to say, and the hits it goes by; where the store can't be read, the last answer."""
    settings = memory.settings.context
    hits = memory.recall(query, settings.hits, ("message",), workspace, automatic=automatic, as_of=as_of)
    if hits.stale:
        return _told(hits), hits
    asked = checked_query(query, settings.hits, ("message",), workspace, None, None, None, as_of=as_of)
    try:
        view = memory._current()
        vector = memory._vectors.encoded(view.release.encoder, [asked.text]).get(asked.text)
        found = gathered(view, asked, vector, [hit.id for hit in hits], settings)
        tags = session_tags(view)
        direct = is_direct(content_words(asked.text))
        return (whole_messages(view, hits, tags) if direct else []) + remembered(found, tags), hits
    except TROUBLE as trouble:
        memory._notes.instead(f"{unread(trouble)}: answered with what was just found, and no more")
        return _told(hits), Hits(hits, hits.reason, stale=True)


def _told(hits: Hits) -> list[Said]:
    """Hits of an old answer that held then, as they are, the first one last."""
    return [
        Said(
            " ".join(hit.text.split()),
            frozenset(content_words(hit.text)),
            1.0 / (2 + n),
            LineSource(source.session, source.message, at=hit.observed_at),
            (float(-n), 0, 0),
        )
        for n, hit in enumerate(hit for hit in hits if hit.status == "active")
        for source in hit.sources[:1]
    ]
