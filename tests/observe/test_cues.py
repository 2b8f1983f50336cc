"""Cues: how a sentence says that something has changed."""

import pytest

from slowwave.tasks.observe import cues
from slowwave.tasks.observe.cues import Phrase, Strength, find_cue
from slowwave.text.words import LATIN
from tests.bench_inputs import ROOT


def test_a_refusal_to_stop_is_no_giving_up() -> None:
    assert "dream" in find_cue("I quit on my dreams").old
    assert find_cue("I won't quit on my dreams").strength is Strength.NONE


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("We banned force pushes to main", {"forc", "push"}),
        ("We ripped out the Redis layer", {"redi", "layer"}),
        ("We are getting rid of the Redis layer", {"redi", "layer"}),
    ],
)
def test_every_form_of_a_verb_that_gives_up_is_heard(text: str, old: set[str]) -> None:
    cue = find_cue(text)
    assert (cue.strength, cue.old) == (Strength.STATED, old)


def test_no_cue_is_missed_because_the_words_it_needs_are_listed_wrongly() -> None:
    phrases = [cues.STATED, cues.GAVE_UP, *cues.GIVEN_UP, *cues.CHANGED, *cues.BESIDE]
    paths = sorted((ROOT / "data" / "labelled").glob("amendments_fresh*.jsonl"))
    lines = [line.lower() for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    ends = {f"we {word}{tail} it" for words, tail in cues._GIVE_UP_FORMS for word in words.split() if "(" not in tail}
    for text in [*lines, *sorted(ends)]:
        opening = frozenset(word[:4] for word in LATIN.findall(text))
        assert [one.pattern.pattern for one in phrases if _is_missed(one, text, opening)] == []


def _is_missed(phrase: Phrase, text: str, opening: frozenset[str]) -> bool:
    return phrase.needs.isdisjoint(opening) and phrase.pattern.search(text) is not None
