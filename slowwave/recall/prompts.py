"""`Memory.context` and `Memory.briefing`, behind their two thin methods: what a memory gives to a model's prompt."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slowwave.recall.briefing import briefed
from slowwave.recall.context import Context, Said, Turn, assembled, remembered
from slowwave.recall.gather import gathered
from slowwave.recall.hits import Hits
from slowwave.recall.query import checked_query
from slowwave.recall.rendering import Format, LineSource
from slowwave.recall.terms import content_words
from slowwave.recall.tokens import Tokenizer, tokenizer_named

if TYPE_CHECKING:
    from slowwave.recall.memory import Memory


def context_of(
    memory: "Memory",
    query: str,
    budget: int | None = None,
    *,
    web: Iterable[object] = (),
    conversation: Iterable[Turn] = (),
    tokenizer: Tokenizer | None = None,
    format: Format = "markdown",
    workspace: str | None = None,
) -> Context:
    """The block for a query; see `Memory.context`."""
    settings = memory.settings.context
    return assembled(
        query,
        _memories(memory, query, workspace),
        settings.budget if budget is None else budget,
        tokenizer or tokenizer_named(settings.tokenizer),
        settings,
        web,
        conversation,
        format,
    )


def briefing_of(
    memory: "Memory", budget: int | None = None, *, tokenizer: Tokenizer | None = None, format: Format = "markdown"
) -> Context:
    """The ambient block of the release; see `Memory.briefing`."""
    settings = memory.settings.context
    return briefed(
        memory._current(),
        settings.briefing_budget if budget is None else budget,
        tokenizer or tokenizer_named(settings.tokenizer),
        format,
    )


def _memories(memory: "Memory", query: str, workspace: str | None) -> list[Said]:
    """What the memory has to say; where the store can't be read, the last answer to this query."""
    settings = memory.settings.context
    hits = memory.recall(query, settings.hits, ("message",), workspace)
    if hits.stale:
        return _told(hits)
    view = memory._current()
    asked = checked_query(query, settings.hits, ("message",), workspace, None, None, None)
    vector = memory._vectors.encoded(view.release.encoder, [asked.text]).get(asked.text)
    return remembered(gathered(view, asked, vector, [hit.id for hit in hits], settings))


def _told(hits: Hits) -> list[Said]:
    """Hits of an old answer as they are, the first one last."""
    return [
        Said(
            " ".join(hit.text.split()),
            frozenset(content_words(hit.text)),
            1.0 / (2 + n),
            LineSource(source.session, source.message, at=hit.observed_at),
            (float(-n), 0, 0),
        )
        for n, hit in enumerate(hits)
        for source in hit.sources[:1]
    ]
