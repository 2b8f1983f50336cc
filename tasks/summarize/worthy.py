"""Summaries of a session without a model: the sentences they are made from, its title, and its master summary.

The most central sentences of what agents say are "Let me check" and "Now I'll fix": everybody says them all the time.
So a person's session with an agent is told by its ends: what was asked first, and what the agent reported last.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import load_worth_model
from slowwave.text.summarise import end_sentence, pick_leading_sentences, truncate_words

FIRST_CHARS = 200
TITLE_WORDS = 12
LEAST = 0.0
"""Log-odds of being worth remembering from which a sentence may stand in a summary: as likely as not."""


@dataclass(frozen=True, slots=True)
class WeighedSentence:
    """A sentence of a session."""

    turn: int
    """Number of its message: 0, 1, …"""
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
    sentences = list(list_sentences([{**row, "message_id": number} for number, row in enumerate(spoken)]))
    worth = load_worth_model().compute_worth([s.text for s in sentences], [s.numbers for s in sentences])
    weighed = []
    for sentence, likely in zip(sentences, worth, strict=True):
        row, asks = sentence.turn.row, sentence.turn.is_question(sentence.at)
        by_person, by_model = row["origin"] == Origin.HUMAN, row["origin"] == Origin.MODEL
        text = sentence.text.rstrip("?") + "?" if asks else sentence.text
        prose = not sentence.turn.sentences[sentence.at].item
        weighed.append(WeighedSentence(row["message_id"], text, by_person, by_model, asks, prose, likely))
    return weighed


def title_session(sentences: Sequence[WeighedSentence]) -> str | None:
    """Return the first sentence that a person said, else the first of all, cut to TITLE_WORDS; None without any."""
    first = min(sentences, key=lambda sentence: not sentence.by_person, default=None)
    return truncate_words(first.text[:FIRST_CHARS], TITLE_WORDS) or None if first else None


def tell_session(sentences: Sequence[WeighedSentence], max_words: int) -> str | None:
    """Return what a person asked an agent for first, what else they said, what it reported last, and what is open.

    Each part is whole sentences, a third of `max_words` at most; the one sentence of the person's that is likeliest
    worth remembering stands for what they said later. Open is a question at the agent's end, or a person's last message
    that has no answer. None where no agent or no person took part.
    """
    by_person = [s for s in sentences if s.by_person]
    answers = [s for s in sentences if s.by_model]
    if not by_person or not answers:
        return None
    share = max_words // 3
    # The goal: the first message of the person's.
    goal = [s.text for s in by_person if s.turn == by_person[0].turn]
    parts = ["Asked:", *pick_leading_sentences(goal, share)]
    # What was settled on the way.
    settled = [s for s in by_person if s.turn != by_person[0].turn and not s.asks and len(s.text.split()) <= share]
    best = max(settled, key=lambda s: (s.worth, -s.turn), default=None)
    if best and best.worth >= LEAST:
        parts += ["Said:", end_sentence(best.text)]
    # The agent's last report, from its end: that is where an agent says what came of it.
    report = [s for s in answers if s.turn == answers[-1].turn and not s.asks]
    closing = list(dict.fromkeys(s.text for s in reversed(report) if s.prose)) or [r.text for r in report[-1:]]
    if closing:
        parts += ["Reported:", *reversed(pick_leading_sentences(closing, share))]
    # What is open.
    if by_person[-1].turn > max(answers[-1].turn, by_person[0].turn):
        last = (s.text for s in by_person if s.turn == by_person[-1].turn)
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
    texts: dict[int, list[str]] = defaultdict(list)
    best: dict[int, WeighedSentence] = {}
    for s in sentences:
        if s.worth >= LEAST:
            texts[s.turn].append(s.text)
        best[s.turn // every] = max(best.get(s.turn // every, s), s, key=lambda it: (it.worth, -it.turn))
    for s in best.values():
        texts[s.turn] = texts[s.turn] or [s.text]
    for number in range(0, len(spoken), every):
        if number // every not in best:
            texts[number] = [spoken[number]["text"][:FIRST_CHARS]]
    return [". ".join(texts[number]) for number in range(len(spoken))]
