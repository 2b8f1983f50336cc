"""Figures that say how a summary stands on its members."""

from datetime import UTC, datetime
from typing import Any

import pytest

from slowwave.schemas.counters import describe_counts
from slowwave.tasks.summarize.coherence import (
    Coherence,
    MeasuredMember,
    count_coherence,
    measure_coherence,
)

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
MEMBERS = {
    "a": MeasuredMember("Clara bought 3 herons for the pond.", "Ada", NOON, [1.0, 0.0]),
    "b": MeasuredMember("The herons ate every frog.", "Ada", NOON, [0.0, 1.0]),
    "c": MeasuredMember("The frog of Braga, a frog among frogs.", "Ben", NOON),
}


def row(
    text: str, members: str = "ab", vector: list[float] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "summary_id": "s",
        "tier": 0,
        "text": text,
        "member_ids": [*members],
        "vector": vector,
        **more,
    }


def measure(text: str, **more: Any) -> Coherence:
    return measure_coherence([row(text, **more)], MEMBERS)[0]


def test_a_word_counts_by_how_many_members_say_it_and_by_how_few_of_all_do() -> None:
    pond, herons = (
        measure(text).coverage or 0 for text in ("A bird at the pond.", "The herons.")
    )
    assert pond < herons  # both members have herons
    assert measure("Sailing is fun.").coverage == 0
    assert measure(
        "Clara bought 3 herons for the pond. They ate every frog."
    ).coverage == pytest.approx(1)
    frog, clara = (
        measure_coherence([row(text), row("", "c", summary_id="t")], MEMBERS)[
            0
        ].coverage
        for text in ("Frog.", "Clara.")
    )
    assert (frog or 0) < (clara or 0)  # another summary's member speaks of frogs too


def test_a_script_without_spaces_has_no_words_to_count() -> None:
    eastern = {
        "a": MeasuredMember("昨日、港の水位計が壊れて修理しました。", "Ada", NOON)
    }
    assert (
        measure_coherence([row("水位計が壊れた。", "a")], eastern)[0].coverage is None
    )


def test_what_no_member_says_is_told() -> None:
    assert measure("Clara bought 3 herons.").unfounded is None
    assert "7" in str(measure("Clara bought 7 herons.").unfounded)
    read_along = measure_coherence(
        [row("Clara bought 7 herons.")], MEMBERS, {"s": "Ada: there are 7 of them"}
    )
    assert read_along[0].unfounded is None


def test_likeness_is_to_the_members_and_to_the_summary_above() -> None:
    below = row("low", vector=[1.0, 0.0])
    above = row("high", "s", [0.6, 0.8], summary_id="top", tier=1)
    found = measure_coherence(
        [below, above], MEMBERS | {"s": MeasuredMember("low", vector=[1.0, 0.0])}
    )
    assert [one.likeness for one in found] == pytest.approx([2**-0.5, 0.6])
    assert [one.above for one in found] == [pytest.approx(0.6), None]
    assert measure("low", members="c", vector=[1.0, 0.0]).likeness is None


def test_a_report_has_means_in_percent_by_tier() -> None:
    found = [
        Coherence(0, "", 0.5, None, 0.5, 0.4),
        Coherence(0, "", 0.25, "7 is nowhere", 1.0, None),
    ]
    counts = count_coherence([*found, Coherence(-1, "", 1.0, None, None, None)])
    assert list(describe_counts({}, counts).items()) == [
        ("masters by the model", 1),
        ("masters, stating what no member states", 0),
        ("masters, words of members, percent", 100),
        ("tier 0 by the model", 2),
        ("tier 0, likeness to members, percent", 75),
        ("tier 0, likeness to the tier above, percent", 40),
        ("tier 0, stating what no member states", 1),
        ("tier 0, words of members, percent", 38),
    ]
    assert count_coherence([]) == {}
