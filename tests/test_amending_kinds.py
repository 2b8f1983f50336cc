"""Kinds and relations: what a text names, what two claims share of it, and the lists that ship."""

from collections.abc import Callable
from importlib.resources import files

import pytest

from tasks.amending.kinds import KnownKinds, Lexicon, kinds, relations, stems
from tasks.deduping.normalise import carries

BREWERS = Lexicon.of(["brewers: v60, french press, press, aeropress", "media: press, radio", "none:", ""])


def test_a_member_is_found_whatever_its_ending_and_case() -> None:
    assert BREWERS.named_in("The V60 is broken") == {stems("v60"): frozenset({"brewers"})}
    assert Lexicon.of(["ways: cycle, tram"]).named_in("I'm cycling") == {stems("cycle"): frozenset({"ways"})}


def test_the_longest_member_is_meant() -> None:
    assert BREWERS.named_in("a French press, and the press") == {
        stems("french press"): frozenset({"brewers"}),
        stems("press"): frozenset({"brewers", "media"}),
    }
    assert BREWERS.named_in("French bread") == {}
    assert BREWERS.named_in("") == {}


def test_a_line_counts_its_members() -> None:
    assert BREWERS.sizes == {"brewers": 4, "media": 2}
    assert BREWERS.longest == 2
    assert Lexicon.of([]).named_in("anything") == {}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("I take the tram to the office, line 14", "I cycle to the office every day"),
        ("Cappuccino with oat milk, no sugar", "Cappuccino with almond milk for me"),
        ("We render tickets with WeasyPrint", "Tickets are rendered with Typst now"),
        ("I've been a vegetarian since school", "I'm pescatarian these days"),
    ],
)
def test_another_of_its_kind_is_seen(earlier: str, later: str) -> None:
    found = KnownKinds([earlier, later, "The bins go out on Monday"]).traits(0, 1)
    assert found["another of a kind"] == 1
    assert 0 < found["rarest kind"] <= 1
    assert found["of a kind gone"] >= 1
    assert found["none of its kind"] == 0


def test_what_both_name_is_kept_and_changes_nothing() -> None:
    found = KnownKinds(["The cache is in Redis", "Redis holds the cache for an hour"]).traits(0, 1)
    assert found["of a kind kept"] >= 1
    assert found["another of a kind"] == 0


def test_a_thing_with_no_other_of_its_kind_is_told() -> None:
    found = KnownKinds(["The cache is in Redis", "The garden is wet"]).traits(0, 1)
    assert (found["of a kind"], found["none of its kind"], found["another of a kind"]) == (1, 1, 0)


def test_one_relation_in_two_phrases() -> None:
    found = KnownKinds(["Anneke looks after the images", "Yusuf is responsible for the images"]).traits(0, 1)
    assert found["one relation"] == 1
    assert found["rarest relation"] > 0
    other = KnownKinds(["Anneke looks after the images", "The images are blue"]).traits(0, 1)
    assert other["one relation"] == other["rarest relation"] == 0


def test_what_all_claims_name_is_worth_less_than_what_two_do() -> None:
    two = ["Tea for Mia", "Coffee for Mia"]
    seldom = KnownKinds([*two, *["The sky is wide"] * 20]).traits(0, 1)["rarest kind"]
    often = KnownKinds([*two, *["Cocoa for Mia"] * 20]).traits(0, 1)["rarest kind"]
    assert 0 < often < seldom


def test_texts_without_a_word_have_traits_too() -> None:
    assert set(KnownKinds(["", "…"]).traits(0, 1).values()) == {0.0}


@pytest.mark.parametrize(("name", "shipped"), [("kinds.txt", kinds), ("relations.txt", relations)])
def test_the_lists_are_in_order_and_without_idle_words(name: str, shipped: Callable[[], Lexicon]) -> None:
    lines = files("tasks.amending").joinpath(name).read_text("utf-8").splitlines()
    names = [line.partition(": ")[0] for line in lines]
    assert names == sorted(set(names))
    for line in lines:
        members = line.partition(": ")[2].split(", ")
        assert members == sorted(members), line
        assert len({stems(member) for member in members}) == len(members) > 2, line
        assert not [member for member in members if member != member.casefold() or not stems(member)], line
        assert not [member for member in members if " " not in member and not carries(member)], line
    assert shipped().longest <= 4
