"""Which claims are told unasked."""

import pytest

from slowwave.context.projects.standing import (
    _bear_out_later,
    find_own_words,
    is_certainly_typed,
    join_quotes,
)
from tests.claim_rows import claim_row, message

RULE = "You must ask me before you change a migration."
QUOTED = (
    "Jonas wrote:\n> we deploy tonight, says Anna, and nobody is to ask her about it\n"
)


def row(key, session, chain=None, likely=None, trust="typed"):
    return {
        "claim_id": key,
        "session_id": session,
        "chain_id": chain,
        "chain_at": None if chain is None else "2026-10-05T09:00:00Z",
        "chain_likely": likely,
        "trust": trust,
    }


def test_a_rule_said_again_in_other_words_bears_the_last_wording_out():
    rows = [row("never push", "a", "only by PR", 0.5), row("only by PR", "b")]
    told = _bear_out_later(rows, {"never push": 0.4, "only by PR": 0.3})
    # The first was sure by .4 / (1 - .5) = .8, and is of the same matter by .5: 1 - .7 * (1 - .8 * .5).
    assert told == {"never push": 0.4, "only by PR": pytest.approx(0.58)}


@pytest.mark.parametrize(
    "earlier",
    [
        row("never push", "b", "only by PR", 0.5),  # of the same session
        row("never push", "a", "only by PR", 0.2),  # not linked
        row("never push", "a", "only by PR", 0.5, trust="tool"),
        row("never push", "a"),
    ],
)
def test_what_is_no_witness_leaves_the_later_claim_as_sure_as_it_was(earlier):
    told = _bear_out_later(
        [earlier, row("only by PR", "b")], {"never push": 0.4, "only by PR": 0.3}
    )
    assert told["only by PR"] == 0.3


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        (f"Good. {RULE}", {}, True),
        (f"{RULE}\n{QUOTED}", {}, True),
        # It may be the rest of Jonas' mail.
        (f"{QUOTED}{RULE}", {}, False),
        (RULE, {"trust": "outside"}, False),
        # A model's words, whatever it quotes.
        (RULE, {"observer": "qwen"}, False),
    ],
)
def test_only_what_a_person_certainly_typedis_certainly_typed(text, more, told):
    claim = claim_row(1, RULE, **{"trust": "typed", **more})
    assert is_certainly_typed(claim, message(1, text)) is told


def test_what_goes_on_where_a_quote_ends_is_told_with_it_if_there_is_room():
    said = "6 s is good. The element guy was here. He says they die above 1260"
    quote, beside = (
        "6 s is good. The element guy was here",
        [
            "The element guy was here",
            "The element guy was here. He says they die above 1260",
        ],
    )
    assert join_quotes(said, [quote], beside) == said
    long = f"{said}{' and so on' * 30}"
    whole = long.removeprefix("6 s is good. ")
    assert join_quotes(long, [quote], [beside[0], whole]) == quote


@pytest.mark.parametrize(
    ("text", "quote", "more", "told"),
    [
        (f"Good. {RULE}", RULE, {"observer": "qwen"}, RULE),
        # It says nothing by itself, may be the rest of a mail, or was not typed.
        ("Do that.", "Do that.", {"observer": "qwen"}, ""),
        (f"{QUOTED}{RULE}", RULE, {"observer": "qwen"}, ""),
        (RULE, RULE, {"observer": "qwen", "trust": "outside"}, ""),
    ],
)
def test_a_models_claim_that_names_a_role_is_told_in_the_persons_words(
    text, quote, more, told
):
    summary = "The assistant asks Ada before it changes a migration."
    claim = claim_row(1, summary, **{"quote": quote, "trust": "typed", **more})
    assert find_own_words(claim, message(1, text)) == told
