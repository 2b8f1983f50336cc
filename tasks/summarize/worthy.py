"""What of a session's messages its extractive summaries are made from: the sentences that are worth remembering.

The most central sentences of what agents say are "Let me check" and "Now I'll fix": everybody says them all the time.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.units import MIN_WORDS, list_sentences
from slowwave.tasks.observe.worth import load_worth_model
from slowwave.text.summarise import truncate_words

FIRST_CHARS = 200
TITLE_WORDS = 12
LEAST = 0.0
"""Log-odds of being worth remembering from which a sentence may stand in a summary: as likely as not."""


def find_first_request(spoken: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the opening of a person's first message of MIN_WORDS words, as the session's title; None without any."""
    said = (row["text"] for row in spoken if row["origin"] == Origin.HUMAN)
    first = next((text for text in said if len(text.split()) >= MIN_WORDS), "")
    return truncate_words(first[:FIRST_CHARS], TITLE_WORDS) or None


def cut_to_worthy_sentences(spoken: Sequence[Mapping[str, Any]], every: int) -> list[str]:
    """Return the text of each message cut to its sentences worth remembering, empty where there is none.

    spoken: a session's messages in order, with text, origin, blocks and speaker. Of each `every` messages, a group of
    the first tier, the likeliest sentence is kept where there is no other, and the first words where nobody made a
    sentence ("hi"), so that no group has nothing to say.
    """
    rows = [{**row, "message_id": place} for place, row in enumerate(spoken)]
    found = list(list_sentences(rows))
    likely = load_worth_model().compute_worth([one.text for one in found], [one.numbers for one in found])
    told: dict[int, list[str]] = defaultdict(list)
    best: dict[int, tuple[float, int, str]] = {}
    for one, worth in zip(found, likely, strict=True):
        place = one.turn.row["message_id"]
        if worth >= LEAST:
            told[place].append(one.text)
        best[place // every] = max(best.get(place // every, (worth, -place, one.text)), (worth, -place, one.text))
    for _, negative, text in best.values():
        told[-negative] = told[-negative] or [text]
    for place in range(0, len(rows), every):
        if place // every not in best:
            told[place] = [rows[place]["text"][:FIRST_CHARS]]
    return [". ".join(told[place]) for place in range(len(rows))]
