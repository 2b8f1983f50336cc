"""Kinds and relations: what a text names, what two claims share of it, and the lists that ship."""

from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import orjson
import pytest

from slowwave.tasks.supersede.kinds import KindIndex, Lexicon, load_kinds, load_relations, normalise_words
from slowwave.text.words import CLAIM_STOP, NEGATIONS, singularise, stem

LABELLED = Path(__file__).parents[2] / "data" / "labelled"
BREWERS = Lexicon.from_lines(["brewers: v60, french press, press, aeropress", "media: press, radio"], singularise)


def known(texts: list[str]) -> KindIndex:
    return KindIndex(texts, load_kinds(), load_relations())


def name(text: str) -> tuple[str, ...]:
    return normalise_words(text, singularise)


def test_a_member_is_found_whatever_its_case_accents_and_number() -> None:
    assert BREWERS.find_members("The V60 is broken") == {name("v60"): frozenset({"brewers"})}
    assert BREWERS.find_members("Two Aeropresses, one aéropress") == {name("aeropress"): frozenset({"brewers"})}
    assert Lexicon.from_lines(["towns: münchen, köln"], singularise).find_members("in MU\u0308NCHEN").keys() == {
        name("munchen")
    }


def test_a_name_is_no_other_word_with_its_stem() -> None:
    watches = Lexicon.from_lines(
        ["watches: withings, garmin", "proxies: ats, nginx", "inits: tini, runit"], singularise
    )
    assert watches.find_members("With a tiny lamp at the gate") == {}
    assert watches.find_members("My Withings broke").keys() == {name("withings")}


def test_phrases_are_found_by_their_stems() -> None:
    ways = Lexicon.from_lines(["ways: cycle, take the tram"], stem)
    assert ways.find_members("I'm cycling") == {normalise_words("cycle", stem): frozenset({"ways"})}
    assert ways.find_members("Taking the tram") == {normalise_words("take the tram", stem): frozenset({"ways"})}


@pytest.mark.parametrize(
    ("word", "one"),
    [("cats", "cat"), ("puppies", "puppy"), ("redis", "redis"), ("bus", "bus"), ("glass", "glass"), ("ups", "ups")],
)
def test_plurals_are_of_one_form(word: str, one: str) -> None:
    assert singularise(word) == singularise(one) == one
    assert singularise(f"{one}'s") == one


@pytest.mark.parametrize("line", ["", "brewers", "brewers:", ": v60", "brewers: …"])
def test_a_line_that_is_no_list_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is needed"):
        Lexicon.from_lines([line], singularise)


def test_the_longest_member_is_meant() -> None:
    assert BREWERS.find_members("a French press, and the press") == {
        name("french press"): frozenset({"brewers"}),
        name("press"): frozenset({"brewers", "media"}),
    }
    assert BREWERS.find_members("French bread") == {}
    assert BREWERS.find_members("") == {}


def test_a_line_counts_its_members() -> None:
    assert BREWERS.sizes == {"brewers": 4, "media": 2}
    assert BREWERS.longest == 2
    assert Lexicon.from_lines([], singularise).find_members("anything") == {}


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
    found = known([earlier, later, "The bins go out on Monday"]).compute_features(0, 1)
    assert found["another of a kind"] == 1
    assert 0 < found["rarest kind"] <= 1
    assert found["none of its kind"] == 0


def test_what_both_name_is_kept_and_changes_nothing() -> None:
    found = known(["The cache is in Redis", "Redis holds the cache for an hour"]).compute_features(0, 1)
    assert found["of a kind kept"] >= 1
    assert found["another of a kind"] == 0


def test_a_thing_with_no_other_of_its_kind_is_told() -> None:
    found = known(["The cache is in Redis", "The garden is wet"]).compute_features(0, 1)
    assert (found["none of its kind"], found["another of a kind"], found["rarest kind"]) == (1, 0, 0)


def test_one_relation_in_two_phrases() -> None:
    found = known(["Anneke looks after the images", "Yusuf is responsible for the images"]).compute_features(0, 1)
    assert found["rarest relation"] > 0
    other = known(["Anneke looks after the images", "The images are blue"]).compute_features(0, 1)
    assert other["rarest relation"] == 0


def test_what_all_claims_name_is_worth_less_than_what_two_do() -> None:
    two = ["Tea for Mia", "Coffee for Mia"]
    seldom = known([*two, *["The sky is wide"] * 20]).compute_features(0, 1)["rarest kind"]
    often = known([*two, *["Cocoa for Mia"] * 20]).compute_features(0, 1)["rarest kind"]
    assert 0 < often < seldom


def test_another_of_those_who_have_things_is_told() -> None:
    assert (
        known(["Staging stores blobs in MinIO", "Production stores blobs in S3"]).compute_features(0, 1)[
            "another holder"
        ]
        == 1
    )
    assert known(["Leila lives in Hamburg", "Sofia moved to Madrid"]).compute_features(0, 1)["another holder"] == 1
    assert (
        known(["Staging stores blobs in MinIO", "Staging stores blobs in S3"]).compute_features(0, 1)["another holder"]
        == 0
    )


def test_texts_without_a_word_have_traits_too() -> None:
    assert set(known(["", "…"]).compute_features(0, 1).values()) == {0.0}


@pytest.mark.parametrize(("file", "shipped"), [("kinds.txt", load_kinds), ("relations.txt", load_relations)])
def test_the_lists_are_in_order_and_without_idle_words(file: str, shipped: Callable[[], Lexicon]) -> None:
    lines = files("slowwave.tasks.supersede").joinpath(file).read_text("utf-8").splitlines()
    names = [line.partition(": ")[0] for line in lines]
    assert names == sorted(set(names))
    form = shipped().form
    idle = {normalise_words(word, form) for word in CLAIM_STOP | NEGATIONS}
    for line in lines:
        members = line.partition(": ")[2].split(", ")
        assert members == sorted(members), line
        assert len({normalise_words(member, form) for member in members}) == len(members) > 2, line
        assert not [member for member in members if member != member.casefold() or not normalise_words(member, form)], (
            line
        )
        assert idle.isdisjoint(normalise_words(member, form) for member in members), line
    assert shipped().longest <= 4


def test_no_kind_is_nearly_all_in_another() -> None:
    members: dict[str, set[tuple[str, ...]]] = {}
    for member, names in load_kinds().lists.items():
        for one in names:
            members.setdefault(one, set()).add(member)
    double = {
        (small, large)
        for small, of in members.items()
        for large in {other for member in of for other in load_kinds().lists[member]} - {small}
        if len(of) <= len(members[large]) and len(of & members[large]) >= 0.8 * len(of)
    }
    assert double == set()


def test_hardly_a_claim_names_one_kind_where_nothing_is_alike() -> None:
    lines = (LABELLED / "nothing_changes.jsonl").read_bytes().splitlines()
    texts = [message["content"] for message in map(orjson.loads, lines) if message.get("content")]
    named = Counter(member for text in texts for member in load_kinds().find_members(text))
    assert {member: n for member, n in named.items() if n > 0.05 * len(texts)} == {}
