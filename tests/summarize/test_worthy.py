"""What a session's summaries are made from: sentences worth remembering, and never nothing."""

from slowwave.tasks.summarize.worthy import cut_to_worthy_sentences


def test_a_group_in_which_nobody_made_a_sentence_keeps_its_first_words() -> None:
    said = [
        {"text": text, "origin": "human", "blocks": [], "speaker": None, "role": "user"} for text in ("hi", "hm", "ok")
    ]
    assert cut_to_worthy_sentences(said, 2) == ["hi", "", "ok"]
