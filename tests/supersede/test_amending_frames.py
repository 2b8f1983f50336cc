"""Frames: when two claims are one sentence with another value in it."""

import pytest

from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.supersede.frames import compare_clauses, compute_frame_features, count_run_before_value
from slowwave.tasks.supersede.rules import compute_idf, parse_claim


@pytest.mark.parametrize(
    ("earlier", "later", "words"),
    [
        ("I brew my morning coffee with the V60, light roast", "I brew my morning coffee with a Chemex now", 3),
        ("Our power comes from Nordlicht, by contract", "Our power comes from Solwind since May", 2),
        ("The tool is called fairlead", "Belay is bad for a tool. The tool is called hawser", 2),
        ("The kitchen is green", "The kitchen is green", 0),
        ("Prices rose", "The dog sleeps", 0),
        ("", "The dog sleeps", 0),
    ],
)
def test_words_up_to_a_value_of_its_own(earlier: str, later: str, words: int) -> None:
    assert count_run_before_value(normalise_claim(earlier).words, normalise_claim(later).words) == words
    assert count_run_before_value(normalise_claim(later).words, normalise_claim(earlier).words) == words


@pytest.mark.parametrize(
    ("earlier", "later", "opens", "closes"),
    [
        ("Renovation. The worktop will be oiled oak", "The worktop will be quartz, in white", 1, 0),
        ("Concert dress is all black, long sleeves", "Agreed by all: concert dress is navy", 2, 0),
        ("Halvard conducts us, until summer", "Beatrix conducts us from September", 0, 1),
        ("I'm at the lake", "I'm reading a book", 0, 0),
        ("I'll be there", "It's late", 0, 0),
        ("'' … !?", "", 0, 0),
    ],
)
def test_clauses_that_open_or_go_on_alike(earlier: str, later: str, opens: int, closes: int) -> None:
    assert compare_clauses(earlier, later) == compare_clauses(later, earlier) == (opens, closes)


def test_traits_tell_a_value_in_its_place_from_a_sentence_of_its_own() -> None:
    texts = (
        "Planet orbits are integrated with RK4 at a fixed step",
        "Planet orbits are integrated with leapfrog at a fixed step",
        "The orbit viewer gets a dark theme",
    )
    claims = [parse_claim(text, None, "decision", [], text, everyday=False) for text in texts]
    weights = compute_idf(said.claim for said in claims)
    told_anew, other = (compute_frame_features(claims[0], later, weights) for later in claims[1:])
    assert told_anew["another in its place, one word before"]
    assert (told_anew["one word governs"], other["one word governs"]) == (True, False)
    assert told_anew["frame"] > 0.7 > other["frame"]
    assert told_anew.keys() == other.keys()
