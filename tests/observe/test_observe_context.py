"""What a claim brings along: its heading, what it leans on, what it answers; and which sentences win."""

import pytest

from slowwave.schemas.settings import ObserveSettings
from slowwave.tasks.observe.coding import is_coding
from slowwave.tasks.observe.observe import observe
from tests.observe.test_observe import HUMAN, MODEL, said


def claims(*turns, source="generic", **changes):
    table = said(*((*who, None, text) for who, text in turns), source=source)
    return observe(table, ObserveSettings(**changes)).claims.to_pylist()


def code(*turns):
    return claims(*turns, source="codex", max_share=1.0)


WORK = " ".join(
    f"Step {n} of the long plan goes through part {n} of the tree, file by file."
    for n in range(40)
)
"""Makes a session one of many words, whose orders of the moment are no claims."""


def told(rows):
    return [row["summary"] for row in rows]


def test_a_heading_is_part_of_the_claim_it_heads():
    text = "Calls to the tile server:\n4 attempts, 3 second pause between them. Thanks"
    (claim,) = code((HUMAN, text), (MODEL, "Done."))
    assert (
        claim["summary"]
        == "Calls to the tile server. 4 attempts, 3 second pause between them"
    )
    assert claim["quote"] in text


def test_a_heading_without_a_name_is_left_out():
    assert told(
        code(
            (HUMAN, "One more change. Uploads use the north bucket from now on"),
            (MODEL, "Done."),
        )
    ) == ["Uploads use the north bucket from now on"]


def test_what_answers_a_question_heads_nothing():
    rows = claims(
        (MODEL, "What do you play most?"),
        (
            HUMAN,
            "mostly old tango and some Grieg. Rehearsals are on Monday at seven with Ines.",
        ),
        max_share=1.0,
    )
    assert told(rows) == [
        "mostly old tango and some Grieg",
        "Rehearsals are on Monday at seven with Ines",
    ]
    assert rows[0]["detail"] == "What do you play most?"


def test_a_short_pair_is_one_claim():
    rows = claims(
        (HUMAN, "Our parrot is called Moss. He eats sunflower seeds from Hansen."),
        (MODEL, "Lovely."),
    )
    assert told(rows) == [
        "Our parrot is called Moss. He eats sunflower seeds from Hansen"
    ]


def test_a_sentence_that_opens_with_a_pronoun_stays_with_what_it_is_about():
    text = (
        "I was at the dentist in the old harbour street on Thursday morning before work, as every half year. "
        "She has moved me from the blue paste to the green one, because of the gums."
    )
    (claim,) = claims((HUMAN, text), (MODEL, "Good to know."))
    assert claim["summary"].startswith("I was at the dentist")
    assert claim["detail"].startswith("She has moved me from the blue paste")
    assert claim["quote"] in text


def test_a_terse_answer_keeps_the_proposal_and_cites_both_messages():
    proposal = (
        "Shortening the tile cache to 40 seconds would still absorb half of the load."
    )
    (claim,) = [
        c
        for c in code((MODEL, proposal), (HUMAN, "do that, 40 seconds for tiles"))
        if "do that" in c["quote"]
    ]
    # the answer adds "tiles", so it stands before the proposal
    shown = "do that, 40 seconds for tiles"
    assert claim["summary"] == f"{shown} ({proposal.rstrip('.')})"
    assert claim["message_ids"] == ["s1-1", "s1-0"]
    assert claim["quote"] == "do that, 40 seconds for tiles"


def test_a_model_answers_questions_and_repeats_orders():
    answer, repeat = (
        code((HUMAN, text), (MODEL, "The queue is lost at every restart."))[-1]
        for text in (
            "does the queue survive deploys?",
            "the queue should be persistent",
        )
    )
    assert (answer["detail"], repeat["detail"]) == (
        "does the queue survive deploys?",
        None,
    )


def test_a_whole_sentence_needs_no_question():
    (claim,) = claims(
        (MODEL, "What else is there?"),
        (
            HUMAN,
            "My sister Greta lives in Bergen, near the harbour and the old church.",
        ),
    )
    assert (claim["detail"], claim["message_ids"]) == (None, ["s1-1"])


def test_people_among_themselves_bring_no_question():
    rows = claims((HUMAN, "Which knee is it?"), (HUMAN, "The left one since Tuesday."))
    assert [row["detail"] for row in rows] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "The loader now lands Arrow files, one per hour.",
        "The merge groups by `(site, sensor)` as of this commit, and I restarted the job.",
    ],
)
def test_present_behaviour_told_by_a_model_is_a_claim(text):
    assert any(
        row["quote"] in text for row in code((HUMAN, "then do it"), (MODEL, text))
    )


def test_a_request_that_sets_a_value_is_a_claim_and_another_is_none():
    assert told(code((HUMAN, "also cap it at 40 rows"), (MODEL, "Done."))) == [
        "also cap it at 40 rows"
    ]
    in_work = told(
        code((MODEL, WORK), (HUMAN, "check the logs of the loader"), (MODEL, "Done."))
    )
    assert "check the logs of the loader" not in in_work


def test_marked_code_tells_a_coding_session():
    talk = [(HUMAN, "the fights feel slow")] * 7
    plain = said(
        *((*who, None, text) for who, text in [*talk, (MODEL, "I raised the rules.")])
    ).to_pylist()
    marked = said(
        *(
            (*who, None, text)
            for who, text in [*talk, (MODEL, "I raised it in `Rules`.")]
        )
    ).to_pylist()
    assert (is_coding(plain), is_coding(marked)) == (False, True)
