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
    assert (
        title_session(weigh_sentences(spoken[:2])) == "How can I help you?"
    )  # an agent's alone, as a sub-agent's
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
    ],
)
def test_a_courtesy_at_the_end_is_not_open(last: str, kept: bool) -> None:
    spoken = speak(
        ("human", "Please repair the dock gate controller, it fails at low tide."),
        ("model", "I repaired the dock gate controller and ran its tests."),
        ("human", last),
    )
    told = tell_session(weigh_sentences(spoken), 90)
    assert told is not None
    assert ("Unanswered:" in told) == kept
