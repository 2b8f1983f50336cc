"""What a session says without a model: sentences worth remembering, and never nothing; its ends; its title."""

from typing import Any

import pytest

from slowwave.tasks.summarize.worthy import (
    cut_to_worthy_sentences,
    tell_session,
    title_session,
    weigh_sentences,
)

REQUEST = "Please let the importer refuse every file that has no header, and say which one it was."


def speak(*turns: tuple[str, str]) -> list[dict[str, Any]]:
    roles = {"human": "user", "model": "assistant"}
    return [
        {"origin": o, "text": t, "blocks": [], "speaker": None, "role": roles[o]}
        for o, t in turns
    ]


def test_a_group_in_which_nobody_made_a_sentence_keeps_its_first_words() -> None:
    said = speak(("human", "hi"), ("human", "hm"), ("human", "ok"))
    assert cut_to_worthy_sentences(weigh_sentences(said), said, 2) == ["hi", "", "ok"]


def test_a_session_with_an_agent_is_told_by_what_was_asked_and_what_came_of_it() -> (
    None
):
    report = "Let me look at the importer.\n\n- read `it.py`\n\nThe importer names each file without a header."
    spoken = speak(
        ("model", "How can I help you?"),
        ("human", "/mode"),
        ("human", REQUEST),
        ("model", report),
    )
    told = weigh_sentences(spoken)
    assert (
        title_session(told)
        == "Please let the importer refuse every file that has no header, and …"
    )
    # An agent's alone, as a sub-agent's.
    assert title_session(weigh_sentences(spoken[:2])) == "How can I help you?"
    assert tell_session(told, 60) == (
        f"Asked: {REQUEST} Reported: Let me look at the importer. The importer names each file without a header."
    )
    open_end = [
        *spoken,
        *speak(("model", "Both are fixed. Shall I also log the line?")),
    ]
    assert str(tell_session(weigh_sentences(open_end), 60)).endswith(
        "Open: Shall I also log the line?"
    )
    waits = [*spoken, *speak(("human", "What does it print for an empty file?"))]
    assert str(tell_session(weigh_sentences(waits), 60)).endswith(
        "Unanswered: What does it print for an empty file?"
    )
    assert (
        tell_session(
            weigh_sentences(
                speak(("human", REQUEST), ("human", "That sounds good to me."))
            ),
            60,
        )
        is None
    )
    long = speak(
        ("human", " ".join(f"word{n}" for n in range(900))),
        ("model", "It is done. " * 400),
    )
    assert len(str(tell_session(weigh_sentences(long), 60)).split()) < 50


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ("Have a nice weekend!", False),  # shares no content word with the rest
        ("Schönes Wochenende und viele Grüße.", False),
        ("The dock gate still fails, please look.", True),
        ("The customer asked us whether we decided to keep the dock gate.", False),
    ],
)
def test_a_courtesy_or_anothers_question_at_the_end_is_not_open(
    last: str, kept: bool
) -> None:
    spoken = speak(
        ("human", "Please repair the dock gate controller, it fails at low tide."),
        ("model", "I repaired the dock gate controller and ran its tests."),
        ("human", last),
    )
    told = tell_session(weigh_sentences(spoken), 90)
    assert told is not None
    assert ("Unanswered:" in told) == kept


def test_a_short_answer_is_one_and_a_courtesy_does_not_hide_the_report() -> None:
    asked = speak(
        ("human", "Import the photos of the old phone, please."),
        ("model", "41,208 photos are imported, and 17 photos are empty files."),
        ("human", "Delete those 17 photos then."),
    )
    deleted = [*asked, *speak(("model", "Deleted."))]
    told = str(tell_session(weigh_sentences(deleted), 90, deleted))
    # "Deleted." is no sentence, and answers all the same.
    assert "Unanswered:" not in told
    assert "Unanswered: Delete those 17 photos" in str(
        tell_session(weigh_sentences(asked), 90, asked)
    )
    enjoy = [*asked, *speak(("model", "Enjoy your meal with the family!"))]
    assert str(tell_session(weigh_sentences(enjoy), 90, enjoy)).endswith(
        "Reported: 41,208 photos are imported, and 17 photos are empty files."
    )


def test_a_proposal_is_open_until_the_agent_did_what_the_person_accepted() -> None:
    accepted = speak(
        ("human", "Render the page of the berths."),
        ("model", "The page of the berths is rendered. Shall I open the browser?"),
        ("human", "yes"),  # no sentence
    )
    told = tell_session(weigh_sentences(accepted), 90, accepted)
    assert str(told).endswith("Open: Shall I open the browser?")
    done = [*accepted, *speak(("model", "Opened."))]
    assert "Open:" not in str(tell_session(weigh_sentences(done), 90, done))
