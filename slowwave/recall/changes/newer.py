"""Tell which of two hits says something newer, by what the night found or by another value in one sentence."""

from rapidfuzz import fuzz

from slowwave.recall.query import Query
from slowwave.recall.release.view import FIGURE, is_changed
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.schemas.vocabulary import PERHAPS_CHANGED
from slowwave.text.words import extract_content_words, stem

SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
OTHER_FIGURE = "another figure"
OTHER_VALUE = "another value"
SITTING = 3600.0
"""Seconds. What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""


def is_newer(
    later: Candidate,
    earlier: Candidate,
    query: Query,
) -> bool:
    """Return True if a row likely says something newer than another.

    One of these holds: the night found that it changed the other, or perhaps did. The night thought that less likely,
    and the row has most words of the query that the other has. They are one sentence of one workspace with another
    value in it, or have other figures beside two words of the query, and the row has all these words: if it lacks one,
    something else is asked for.
    """
    own_claim = later.claim.id if later.claim else later.id
    if earlier.row["superseded_by"] in (later.id, own_claim):
        return True  # also where it was said before, and then once more
    if earlier.seconds >= later.seconds:
        return False
    chain_id = earlier.row["chain_id"]
    if chain_id is None or chain_id != later.row["chain_id"]:
        is_near = later.row["workspace"] == earlier.row["workspace"]
        return is_near and _has_another_value(later, earlier, query)
    if not is_changed(earlier.row, query.as_of):
        return False
    if is_changed(earlier.row, query.as_of, PERHAPS_CHANGED):
        return True
    asked = extract_content_stems(query.text) & extract_content_stems(earlier.text)
    return len(asked) < 2 * len(asked & extract_content_stems(later.text))


def _has_another_value(
    later: Candidate,
    earlier: Candidate,
    query: Query,
) -> bool:
    """Return True if two rows are one sentence with another value in it, or have other figures, and the later one has
    all words of the query that the earlier one has. What another said within one sitting is an answer.
    """
    asked = extract_content_stems(query.text) & extract_content_stems(earlier.text)
    if not asked <= extract_content_stems(later.text):
        return False
    speaker = later.row.get("speaker")
    is_by_one = speaker is not None and speaker == earlier.row.get("speaker")
    if not is_by_one and later.seconds - earlier.seconds <= SITTING:
        return False
    return name_difference(later.text, earlier.text, len(asked)) is not None


def name_difference(later: str, earlier: str, shared: int) -> str | None:
    """Return OTHER_FIGURE or OTHER_VALUE if a later text states an earlier one anew with it, else None.

    shared: words of a question that both have.
    """
    figures = set(FIGURE.findall(later))
    earlier_figures = set(FIGURE.findall(earlier))
    if earlier_figures and figures - earlier_figures and shared > 1:
        return OTHER_FIGURE
    return OTHER_VALUE if fuzz.ratio(later, earlier) >= SAME else None


def extract_content_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    return frozenset(map(stem, extract_content_words(text)))
