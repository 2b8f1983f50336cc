"""What a session says without a model: the sentences its summaries are made from, its title, and its master summary.

The most central sentences of what agents say are "Let me check" and "Now I'll fix": everybody says them all the time.
So a person's session with an agent is told by its ends: what was asked first, and what the agent reported last.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.units import SpokenSentence, list_sentences
from slowwave.tasks.observe.worth import load_worth_model
from slowwave.text.summarise import end_sentence, pick_leading_sentences, truncate_words

FIRST_CHARS = 200
TITLE_WORDS = 12
LEAST = 0.0
"""Log-odds of being worth remembering from which a sentence may stand in a summary: as likely as not."""


@dataclass(frozen=True, slots=True)
class WeighedSentence:
    """A sentence of a session."""

    place: int
    """Of its message: 0, 1, …"""
    text: str
    by_person: bool
    by_model: bool
    asks: bool
    prose: bool
    """Whether it stands outside lists."""
    worth: float
    """Log-odds of being worth remembering."""


def weigh_sentences(spoken: Sequence[dict[str, Any]]) -> list[WeighedSentence]:
    """Return the sentences of a session's messages (in order, with text, origin, blocks and speaker), weighed."""
    found = list(list_sentences([{**row, "message_id": place} for place, row in enumerate(spoken)]))
    worth = load_worth_model().compute_worth([one.text for one in found], [one.numbers for one in found])
    return [_weigh_sentence(one, likely) for one, likely in zip(found, worth, strict=True)]


def _weigh_sentence(one: SpokenSentence, worth: float) -> WeighedSentence:
    row, asks = one.turn.row, one.turn.is_question(one.at)
    by_person, by_model = row["origin"] == Origin.HUMAN, row["origin"] == Origin.MODEL
    text = one.text.rstrip("?") + "?" if asks else one.text
    return WeighedSentence(
        row["message_id"], text, by_person, by_model, asks, not one.turn.sentences[one.at].item, worth
    )


def title_session(sentences: Sequence[WeighedSentence]) -> str | None:
    """Return the first sentence that a person said, else the first of all, cut to TITLE_WORDS; None without any."""
    first = min(sentences, key=lambda one: not one.by_person, default=None)
    return truncate_words(first.text[:FIRST_CHARS], TITLE_WORDS) or None if first else None


def tell_session(sentences: Sequence[WeighedSentence], max_words: int) -> str | None:
    """Return what a person asked an agent for first, what else they said, what it reported last, and what is open.

    Each part is whole sentences, a third of `max_words` at most; the one sentence of the person's that is likeliest
    worth remembering stands for what they said later. Open is a question at the agent's end, or a person's last message
    that has no answer. None where no agent or no person took part.
    """
    asked = [one for one in sentences if one.by_person]
    answers = [one for one in sentences if one.by_model]
    if not asked or not answers:
        return None
    share = max_words // 3
    # The goal: the first message of the person's.
    parts = ["Asked:", *pick_leading_sentences((one.text for one in asked if one.place == asked[0].place), share)]
    # What was settled on the way.
    said = [one for one in asked if one.place != asked[0].place and not one.asks and len(one.text.split()) <= share]
    best = max(said, key=lambda one: (one.worth, -one.place), default=None)
    if best and best.worth >= LEAST:
        parts += ["Said:", end_sentence(best.text)]
    # The agent's last report, from its end: that is where an agent says what came of it.
    report = [one for one in answers if one.place == answers[-1].place and not one.asks]
    closing = list(dict.fromkeys(one.text for one in reversed(report) if one.prose)) or [r.text for r in report[-1:]]
    if closing:
        parts += ["Reported:", *reversed(pick_leading_sentences(closing, share))]
    # What is open.
    if asked[-1].place > max(answers[-1].place, asked[0].place):
        last = (one.text for one in asked if one.place == asked[-1].place)
        parts += ["Unanswered:", *pick_leading_sentences(last, share)]
    elif answers[-1].asks:
        parts += ["Open:", *pick_leading_sentences([answers[-1].text], share)]
    return " ".join(parts)


def cut_to_worthy_sentences(
    sentences: Sequence[WeighedSentence], spoken: Sequence[dict[str, Any]], every: int
) -> list[str]:
    """Return the text of each message cut to its sentences worth remembering, empty where there is none.

    Of each `every` messages, a group of the first tier, the likeliest sentence is kept where there is no other, and the
    first words where nobody made a sentence ("hi"), so that no group has nothing to say.
    """
    told: dict[int, list[str]] = defaultdict(list)
    best: dict[int, WeighedSentence] = {}
    for one in sentences:
        if one.worth >= LEAST:
            told[one.place].append(one.text)
        best[one.place // every] = max(best.get(one.place // every, one), one, key=lambda it: (it.worth, -it.place))
    for one in best.values():
        told[one.place] = told[one.place] or [one.text]
    for place in range(0, len(spoken), every):
        if place // every not in best:
            told[place] = [spoken[place]["text"][:FIRST_CHARS]]
    return [". ".join(told[place]) for place in range(len(spoken))]
