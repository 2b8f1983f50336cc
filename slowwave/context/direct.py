"""A direct question's block opens with recall's best messages as they stand.

What a message says is not cut: a figure or a date stays beside what it is of. One that a later claim has changed is
left out where that one was found too; else it says so and tells what the later one says. One that perhaps is changed
does the same.
"""

from collections.abc import Container, Mapping, Sequence
from typing import cast

from slowwave.context.rendering import LineSource
from slowwave.context.snippets import Snippet
from slowwave.recall.hits import Hit
from slowwave.recall.release.view import View
from slowwave.schemas.tables import MESSAGES
from slowwave.text.words import extract_content_words


def build_message_snippets(view: View, hits: Sequence[Hit], tags: Mapping[str, str]) -> list[Snippet]:
    """Return the messages that recall found, each in one piece with its place (`Snippet.rank`) and what is later
    known of it.

    Args:
        hits: messages, best first.
        tags: how headings name the sessions (`View.session_tags`).
    """
    rows = view.read_by_id(MESSAGES, [hit.id for hit in hits], ["seq", "speaker"])
    shown = [hit for hit in hits if hit.id in rows and not _has_found_successor(view, hit, rows)]
    return [
        _make_message_snippet(hit, rows[hit.id], n, tags, _format_successor_claim(hit)) for n, hit in enumerate(shown)
    ]


def _has_found_successor(view: View, hit: Hit, found: Container[str]) -> bool:
    """Return whether what holds in place of a hit was said in a message that was found."""
    heir = view.truth.rows.get(hit.superseded_by) if hit.superseded_by is not None else None
    return heir is not None and any(key in found for key in cast(list[str], heir["message_ids"]))


def _make_message_snippet(
    hit: Hit, row: Mapping[str, object], rank: int, tags: Mapping[str, str], later: str | None
) -> Snippet:
    text, source = " ".join(hit.text.split()), hit.sources[0]
    seq, speaker = cast(int, row["seq"]), cast(str | None, row["speaker"])
    return Snippet(
        f"{text} ({later})" if later else text,
        frozenset(extract_content_words(text)),
        1.0 / (1 + rank),
        LineSource(source.session, source.message, seq, hit.observed_at, speaker, short=tags.get(source.session)),
        (float(rank), 0, 0),
        rank=rank,
    )


def _format_successor_claim(hit: Hit) -> str | None:
    """Return what is told of the claim that changed a message, or perhaps did."""
    if hit.successor is None:
        return None
    how = "changed" if hit.superseded_by is not None else "perhaps changed"
    at = hit.successor.observed_at
    return f"{how}{f' on {at:%Y-%m-%d}' if at else ''}: {' '.join(hit.successor.text.split())}"
