"""By which words a text tells a claim that was superseded, or the one that took its place."""

from dataclasses import replace

from slowwave.recall.release.supersessions import Supersession, Words

PORT = Supersession(
    claim="a",
    by="b",
    at=None,
    session="s",
    workspace=None,
    words=Words(("api", "listen", "port", "8080")),
    gone=Words(("8080",)),
    come=Words(("9090",)),
    values=Words(("8080",)),
)


def test_a_text_makes_the_old_claim_again_only_with_its_words_and_what_was_given_up() -> None:
    assert PORT.is_restated_in(Words(("api", "listen", "port", "8080", "again")), 0.8)
    assert not PORT.is_restated_in(Words(("8080", "readings")), 0.8)  # the value alone, of something else
    assert not PORT.is_restated_in(Words(("api", "listen", "port")), 0.75)  # without what was given up
    cake = Words(("wedding", "cake", "come", "konditorei", "lindt"))
    lindt = replace(PORT, words=cake, gone=Words(("konditorei", "lindt")), values=Words(("konditorei", "lindt")))
    assert lindt.is_restated_in(cake - {"konditorei"}, 0.75)  # half a name stands for the name
    moved = replace(PORT, gone=Words(("api", "listen")))  # the new claim says 8080 too: from 8080 to 9090
    assert moved.is_restated_in(Words(("api", "listen", "8080")), 0.6)
    assert not moved.is_restated_in(Words(("api", "listen", "port", "9090")), 0.6)


def test_a_text_corrects_it_with_what_came_in_its_place() -> None:
    assert PORT.is_corrected_in(Words(("9090", "now")))
    assert not PORT.is_corrected_in(Words(("api", "port", "8080")))


def test_an_echo_takes_up_the_value_or_much_of_the_rest() -> None:
    assert PORT.is_echoed_in(Words(("8080", "fine")))
    assert PORT.is_echoed_in(Words(("api", "listen")))
    assert not PORT.is_echoed_in(Words(("api", "tests")))
