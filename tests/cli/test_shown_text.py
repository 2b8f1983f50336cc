"""What a hit says in a line of the terminal."""

from slowwave.cli.recall import _format_hit
from slowwave.recall.hits import Hit, Source

FILLER = "The weather was dull and nobody came. " * 20
ANSWER = "The gauge is read at 07:40 by Clara."


def hit(kind: str, text: str, quote: str) -> Hit:
    return Hit(kind, "m", text, 1.0, None, "active", (Source("s", "m", quote),))  # type: ignore[arg-type]


def test_a_long_message_shows_the_passage_that_answers() -> None:
    shown = _format_hit(1, hit("message", FILLER + ANSWER + "\n" + FILLER, ANSWER)).split("\n")[0]
    assert shown.startswith(f"1. message  … {ANSWER} The weather")
    assert shown.endswith("…")


def test_a_short_one_a_claim_and_one_whose_quote_is_not_in_it_begin_where_they_begin() -> None:
    assert _format_hit(1, hit("message", f"Well. {ANSWER}", ANSWER)).startswith(f"1. message  Well. {ANSWER}\n")
    for kind, quote in (("observation", ANSWER), ("message", "Nobody said this.")):
        shown = _format_hit(1, hit(kind, FILLER + ANSWER, quote))
        assert shown.startswith(f"1. {kind}  The weather was dull")
