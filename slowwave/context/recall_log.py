"""Log the texts that recall returned, so that the next run does not extract them as new claims."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowwave.context.rendering import date_line
from slowwave.recall.release.said import OMITTED
from slowwave.schemas.errors import StoreUnwritable
from slowwave.store.logs import Asked, append, format_now, log_recall

if TYPE_CHECKING:  # importing blocks takes time, and logging hits does not need them
    from slowwave.context.build import Context
    from slowwave.recall.hits import Answer, Hit
    from slowwave.recall.sessions import SessionHit
    from slowwave.recall.views.browse import Claim
    from slowwave.recall.views.related import Related

FROM_MEMORY = ("memories", "briefing", "open", "sessions", "topics")


def note_hits(
    space_dir: Path,
    answer: "Answer[Hit] | Answer[SessionHit]",
    shown: int | None = None,
) -> bool:
    """Log an answer and its hits that were shown (by default all).

    Return False if the folder cannot be written.
    """
    hits = answer[:shown]
    _note_asked(space_dir, answer, len(hits))
    shown_texts: dict[str, list[str]] = {}
    for hit in hits:  # the text, the quotes, and the later claims' texts
        later = getattr(hit, "successor", None)
        changes = getattr(hit, "changes", ())
        shown_texts[hit.id] = [
            hit.text,
            *(source.quote for source in hit.sources),
            *([later.text] if later else []),
            *(change.successor.text for change in changes),
        ]
    return log_recall(space_dir, shown_texts)


def _note_asked(
    space_dir: Path,
    answer: "Answer[Any] | Context",
    hits: int,
    tokens: int = 0,
    web: str = "",
) -> None:
    """Log the cost of an answer. If the folder cannot be written, it is not counted."""
    cost = answer.cost
    if not cost:
        return
    asked = Asked(
        at=format_now(),
        kind=cost.kind,
        seconds=round(cost.seconds, 4),
        encoding=round(cost.encoding, 4),
        hits=hits,
        tokens=tokens,
        budget=cost.budget,
        warnings=len(answer.warnings),
        web=web,
    )
    with suppress(StoreUnwritable):
        append(space_dir, asked)


def note_block(
    space_dir: Path,
    block: "Context",
    web: str = "",
) -> bool:
    """Log a block, and its lines from the memory by session and message. Return False if the folder cannot be written.

    `web` is the reason for which the web was searched (`WebAnswer.cause`).
    """
    shown: dict[str, list[str]] = {}
    for part in block.parts:
        for line in part.lines if part.name in FROM_MEMORY else ():
            key = "/".join(filter(None, (line.source.session, line.source.message)))
            shown.setdefault(key, []).extend(
                [
                    date_line(line),
                    line.text,
                    *line.text.split(OMITTED),
                    *line.own_words,
                ]
            )
    lines = sum(len(part.lines) for part in block.parts if part.name in FROM_MEMORY)
    _note_asked(
        space_dir=space_dir, answer=block, hits=lines, tokens=block.tokens, web=web
    )
    return log_recall(space_dir, shown)


def note_listed(space_dir: Path, claims: Iterable["Claim | Related"]) -> bool:
    """Log claims that were listed. Return False if the folder cannot be written."""
    return log_recall(
        space_dir, {claim.id: [claim.summary, claim.quote] for claim in claims}
    )
