"""What a session's summaries are made from: sentences worth remembering, and never nothing."""

from slowwave.tasks.summarize.worthy import cut_to_worthy_sentences, find_first_request


def test_a_group_in_which_nobody_made_a_sentence_keeps_its_first_words() -> None:
    said = [
        {"text": text, "origin": "human", "blocks": [], "speaker": None, "role": "user"} for text in ("hi", "hm", "ok")
    ]
    assert cut_to_worthy_sentences(said, 2) == ["hi", "", "ok"]


def test_a_session_is_titled_by_what_a_person_first_asked() -> None:
    request = "Please let the importer refuse every file that has no header, and say which one it was."
    spoken = [
        {"origin": "model", "text": "How can I help you?"},
        *({"origin": "human", "text": t} for t in ("/mode", request)),
    ]
    assert find_first_request(spoken) == "Please let the importer refuse every file that has no header, and …"
    assert find_first_request(spoken[:2]) is None
