"""Answers of `recall` and `habits` to an agent: short, and only as many as fit the budget.

A hit has its text, project, day, speaker and a short id. `show` returns the rest, down to the messages.
"""

from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from slowwave.context.tokens import resolve_tokenizer
from slowwave.recall.hits import Hit, Hits, Successor
from slowwave.recall.sessions import SessionHit, SessionHits
from slowwave.recall.views.browse import Claim
from slowwave.recall.views.habits import Habit
from slowwave.recall.views.related import Related
from slowwave.schemas.ids import SHORT_ID, shorten_id
from slowwave.schemas.vocabulary import Status
from slowwave.text.fence import escape_line, escape_values
from slowwave.text.times.days import format_date
from slowwave.text.times.relative_days import add_days


class RecallResult(BaseModel):
    """What `recall` found."""

    release: str | None
    """The release that answered; null before the first."""
    hits: list[dict[str, Any]]
    """Best first: id, kind, text, workspace, day, speaker, relevance; of a claim also category and confidence, as of a
    message that one was made of (claim, where its words are others); of what no longer holds, or perhaps not, status
    and later, what holds instead; of a message that says more, changes: each changed sentence's text, status and
    later. Of a long message stands the passage that answers, between ellipses. Sessions with id, title, text,
    workspace, day, until, probability, quotes.
    """
    left_out: int = 0
    """Further hits for which the budget had no room."""
    stopped: str | None = None
    """Set if hits of other matters are left out; `everything` returns them."""
    confident: bool
    """Whether the nearest is surely about the query."""
    caveat: str | None = None
    """What to say of hits that may be about something else."""
    reason: str | None = None
    """Why there are none."""
    warnings: list[str] = []
    """What could not be used, and what was done instead."""


def fit_hits(
    results: Hits | SessionHits,
    release: str | None,
    budget: int,
    tokenizer: str,
) -> CallToolResult:
    """Return an answer of at most `budget` tokens with the first hits, and how many are left out. No hit is cut."""
    hits = [
        escape_values(
            _shorten_hit(hit) if isinstance(hit, Hit) else _shorten_session(hit)
        )
        for hit in results
    ]
    reason = results.reason and escape_line(results.reason)

    def keep_first(number: int) -> RecallResult:
        return RecallResult(
            release=release,
            hits=hits[:number],
            left_out=len(hits) - number,
            stopped=results.stopped,
            confident=results.confident,
            caveat=results.caveat,
            reason=reason
            if number or not hits
            else f"no hit fits a budget of {budget} tokens",
            warnings=list(map(escape_line, results.warnings)),
        )

    return fit_answer(
        keep_first=keep_first, parts=len(hits), budget=budget, tokenizer=tokenizer
    )


def fit_answer(
    keep_first: Callable[[int], BaseModel],
    parts: int,
    budget: int,
    tokenizer: str,
) -> CallToolResult:
    """Return the answer with as many of its parts as fit the budget.

    Its text is compact JSON, as it was counted; the SDK would indent it.

    Args:
        keep_first: returns the answer with a number of its first parts.
        parts: the number of all parts.
        budget: the most tokens, by the tokenizer.
        tokenizer: as the setting `context.tokenizer` names it.
    """
    count = resolve_tokenizer(None, tokenizer)
    fitting = bisect_right(
        range(1, parts + 1),
        budget,
        key=lambda number: count(keep_first(number).model_dump_json()),
    )
    answer = keep_first(fitting)
    return CallToolResult(
        content=[TextContent(text=answer.model_dump_json())],
        structured_content=answer.model_dump(),
    )


def shorten_habit(habit: Habit) -> dict[str, Any]:
    """Return the fields of a habit that an agent gets."""
    plain = habit.as_dict()
    fields = {name: plain[name] for name in ("kind", "workspace", "text", "share")}
    return {**fields, "sources": [source.id[:SHORT_ID] for source in habit.sources]}


def date_claim(claim: Claim | Related) -> dict[str, Any]:
    """Return a claim's fields. Its summary has the date beside words such as "yesterday"."""
    summary = add_days(claim.summary, claim.observed_at)
    plain: dict[str, Any] = escape_values(claim.as_dict() | {"summary": summary})
    return plain


def _shorten_changes(hit: Hit) -> list[dict[str, Any]]:
    """Return the changed sentences of a message, but for the one that the hit's status tells of."""
    shown = (hit.superseded_by, hit.perhaps_superseded_by)
    return [
        {
            "text": change.text,
            "status": change.status,
            "later": _shorten_successor(change.successor),
        }
        for change in hit.changes
        if change.by not in shown or hit.is_partly_changed_by(change.by)
    ]


def _shorten_successor(later: Successor) -> dict[str, Any]:
    """Return a later claim's words and day."""
    text = add_days(later.text, later.observed_at)
    return {"text": text, "day": _format_day(later.observed_at)}


def _name_status(hit: Hit) -> str | None:
    """Return the name of a hit's change, certain or possible; None if the hit holds."""
    changed = "superseded"
    if hit.successor and hit.successor.takes_back:
        changed = "taken back"
    elif hit.successor and hit.successor.restores:
        changed = "reverted"
    if hit.successor and hit.successor.corrects:
        return "corrected by the person"
    if hit.status == Status.ACTIVE:
        return f"perhaps {changed}" if hit.perhaps_superseded_by else None
    return changed if hit.status == Status.SUPERSEDED else hit.status


def _shorten_hit(hit: Hit) -> dict[str, Any]:
    later = hit.successor and _shorten_successor(hit.successor)
    claim = hit.get_claim_in_other_words()
    more = {
        "relevance": hit.relevance and round(hit.relevance, 2),
        "claim": add_days(claim, hit.said_at) if claim else None,
        "category": hit.category or None,
        "confidence": hit.confidence,
        "trust": hit.trust_note,
        "status": _name_status(hit),
        "later": later,
        "changes": _shorten_changes(hit) or None,
        "code": " ".join(check.note for check in hit.not_in_code) or None,
    }
    other = hit.get_beside()
    beside = {other.role: hit.sources[1].quote} if other else {}
    return {
        "id": shorten_id(hit.id),
        "kind": hit.kind,
        "text": add_days(_get_passage(hit), hit.said_at),
        **beside,
        "workspace": hit.workspace,
        "day": _format_day(hit.observed_at),
        "speaker": hit.speaker,
        **{name: value for name, value in more.items() if value is not None},
    }


def _shorten_session(hit: SessionHit) -> dict[str, Any]:
    return {
        "id": shorten_id(hit.id),
        "kind": "session",
        "title": hit.title,
        "text": hit.summary,
        "workspace": hit.workspace,
        "day": _format_day(hit.started_at),
        "until": _format_day(hit.ended_at),
        "probability": round(hit.probability, 3),
        "quotes": [source.quote for source in hit.sources],
    }


def _get_passage(hit: Hit) -> str:
    """Return a hit's text; for a message, the passage that was found, with ellipses if text around it is left out."""
    if hit.kind != "message" or not hit.sources:
        return hit.text
    passage = hit.sources[0].quote.strip()
    before, _, after = hit.text.partition(passage)
    return f"{'… ' if before.strip() else ''}{passage}{' …' if after.strip() else ''}"


def _format_day(at: datetime | None) -> str | None:
    return format_date(at) if at else None
