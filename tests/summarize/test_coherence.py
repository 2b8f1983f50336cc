"""Figures that say how a summary stands on its members."""

from datetime import UTC, datetime

import pytest

from slowwave.tasks.summarize.coherence import Coherence, count_coherence, measure_coherence, measure_likeness
from slowwave.text.pyramid import Draft, Member

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
MEMBERS = (
    Member("a", "Clara bought 3 herons for the pond.", NOON, speaker="Ada"),
    Member("b", "The herons ate every frog.", NOON, speaker="Ada"),
)
DRAFT = Draft("topic", "t", 0, 0, MEMBERS)


def test_coverage_counts_a_word_by_how_many_members_say_it() -> None:
    # Of the members' words (clara, bought, 3, heron, pond; heron, ate, frog and perhaps "every") "heron" counts twice.
    little, more = (measure_coherence(DRAFT, text).coverage for text in ("A frog.", "The herons."))
    assert more == pytest.approx(2 * little)
    assert measure_coherence(DRAFT, "Sailing is fun.").coverage == 0
    assert measure_coherence(DRAFT, " ".join(m.text for m in MEMBERS)).coverage == 1


def test_what_no_member_says_is_told() -> None:
    assert measure_coherence(DRAFT, "Clara bought 3 herons.").unfounded is None
    assert "7" in str(measure_coherence(DRAFT, "Clara bought 7 herons.").unfounded)


def test_likeness_is_to_the_summaries_below_alone() -> None:
    vectors = {"top": [1.0, 0.0], "x": [1.0, 0.0], "y": [0.0, 1.0], "lone": [1.0, 0.0]}
    assert measure_likeness(vectors, {"top": ["x", "y"]}) == pytest.approx([2**-0.5])
    assert measure_likeness(vectors, {"top": ["x", "a message"], "lone": ["a message"], "none": ["x"]}) == [1.0]


def test_a_report_has_means_in_percent() -> None:
    found = [Coherence(0.5, None), Coherence(0.25, "7 is nowhere")]
    assert list(count_coherence(found, [0.5, 1.0]).values()) == [38, 1, 75]
    assert count_coherence([], []) == {}
