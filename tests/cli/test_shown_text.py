"""What a hit shows of a long message: in a line of the terminal, to an agent, and in JSON."""

import json
from dataclasses import replace

from slowwave.cli.ask import format_hit
from slowwave.recall.hits import Fragment, Hit, Source

FILLER = "The weather was dull and nobody came. " * 20
ANSWER = "The gauge is read at 07:40 by Clara."


def hit(kind: str, text: str, quote: str) -> Hit:
    return Hit(kind, "m", text, 1.0, None, "active", (Source("s", "m", quote),))  # type: ignore[arg-type]


def test_a_long_message_shows_the_passage_that_answers() -> None:
    shown = format_hit(1, hit("message", FILLER + ANSWER + "\n" + FILLER, ANSWER)).split("\n")[0]
    assert shown.startswith(f"1. message  … {ANSWER} The weather")
    assert shown.endswith("…")


def test_a_short_one_a_claim_and_one_whose_quote_is_not_in_it_begin_where_they_begin() -> None:
    assert format_hit(1, hit("message", f"Well. {ANSWER}", ANSWER)).startswith(f"1. message  Well. {ANSWER}\n")
    for kind, quote in (("observation", ANSWER), ("message", "Nobody said this.")):
        shown = format_hit(1, hit(kind, FILLER + ANSWER, quote))
        assert shown.startswith(f"1. {kind}  The weather was dull")


def test_an_agent_gets_the_passage_whole_and_of_the_exchange_as_much() -> None:
    said = FILLER + ANSWER + " " + FILLER
    pair = (Fragment("user", "q", FILLER * 9), Fragment("assistant", "m", said))
    short = replace(hit("message", said, ANSWER), pair=pair).shorten(20)
    assert short.text == f"… {ANSWER} …"
    assert short.pair[0].text == "The weather was dull …"
    assert json.loads(json.dumps(short.as_dict()))["pair"] == [
        {"role": "user", "message": "q", "text": "The weather was dull …"},
        {"role": "assistant", "message": "m"},
    ]
    assert hit("observation", said, ANSWER).shorten(20).text == said
    assert hit("message", "x" * 50, "x" * 10).shorten(20).text == "x" * 20 + " …"


def test_json_has_a_text_once_and_a_hit_comes_back_from_it_whole() -> None:
    one = replace(hit("message", FILLER, ANSWER), pair=(Fragment("user", "q", "Dull?"), Fragment("user", "m", FILLER)))
    told = json.dumps(one.as_dict())
    assert told.count("nobody came") == FILLER.count("nobody came")
    assert Hit.from_dict(json.loads(told)) == one
