"""Summarise a session without a model: its worthy sentences, its title, and its master summary.

The most central sentences of an agent are "Let me check" and "Now I'll fix", which occur in every session. So a
session of a person with an agent is summarised by its ends: the first request, and the agent's last report.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import load_worth_model
from slowwave.text.summarise import (
    UNANSWERED,
    count_words,
    end_sentence,
    pick_leading_sentences,
    truncate_words,
)
from slowwave.text.words import singular_words

VERSION = 4
FIRST_CHARS = 200
TITLE_WORDS = 12
LEAST = 0.0
"""Least log-odds of being worth remembering for a sentence of a summary; 0 means as likely as not."""


@dataclass(frozen=True, slots=True)
class WeighedSentence:
    """A sentence of a session."""

    turn: int
    """The number of its message: 0, 1, …"""
    text: str
    by_person: bool
    by_model: bool
    asks: bool
    prose: bool
    """True if it is outside lists."""
    worth: float
    """Log-odds of being worth remembering."""


def weigh_sentences(spoken: Sequence[dict[str, Any]]) -> list[WeighedSentence]:
    """Return the sentences of a session's messages (in order, with text, origin, blocks and speaker), weighed."""
    sentences = list(
        list_sentences(
            [{**row, "message_id": number} for number, row in enumerate(spoken)]
        )
    )
    worth = load_worth_model().compute_worth(
        [s.text for s in sentences], [s.numbers for s in sentences]
    )
    weighed = []
    for sentence, log_odds in zip(sentences, worth, strict=True):
        row = sentence.turn.row
        asks = sentence.turn.is_question(sentence.at)
        weighed.append(
            WeighedSentence(
                turn=row["message_id"],
                text=sentence.text.rstrip("?") + "?" if asks else sentence.text,
                by_person=row["origin"] == Origin.HUMAN,
                by_model=row["origin"] == Origin.MODEL,
                asks=asks,
                prose=not sentence.turn.sentences[sentence.at].item,
                worth=log_odds,
            )
        )
    return weighed


def title_session(sentences: Sequence[WeighedSentence]) -> str | None:
    """Return the first sentence of a person, else the first of all, cut to TITLE_WORDS; None without sentences."""
    first = min(sentences, key=lambda sentence: not sentence.by_person, default=None)
    return (
        truncate_words(first.text[:FIRST_CHARS], TITLE_WORDS) or None if first else None
    )


def tell_session(
    sentences: Sequence[WeighedSentence],
    max_words: int,
    spoken: Sequence[dict[str, Any]] = (),
) -> str | None:
    """Return a session's master summary, or None if no agent or no person took part.

    Its parts are what a person asked for first, what they said later (the one sentence most likely worth remembering),
    what the agent reported last, and what is open: a question at the agent's end, or a person's last message without
    an answer. Sentences of a report that share no content word with the other messages are left out. Each part
    consists of whole sentences, and has at most a third of `max_words`. `spoken` has the messages, also those without
    a sentence: "Done." is an answer too.
    """
    by_person = [s for s in sentences if s.by_person]
    answers = [s for s in sentences if s.by_model]
    if not by_person or not answers:
        return None
    share = max_words // 3
    request = [s.text for s in by_person if s.turn == by_person[0].turn]
    parts = ["Asked:", *pick_leading_sentences(request, share)]
    parts += _tell_settled(by_person, share)
    before = [s for s in sentences if s.turn != answers[-1].turn]
    parts += _tell_report(select_about(answers, before), share)
    replied = max(
        (n for n, row in enumerate(spoken) if row["origin"] == Origin.MODEL),
        default=answers[-1].turn,
    )
    return " ".join([*parts, *_tell_open(by_person, answers, share, replied)])


def select_about(
    sentences: Sequence[WeighedSentence], others: Sequence[WeighedSentence]
) -> list[WeighedSentence]:
    """Return the sentences that share a content word with others; a courtesy or a joke at the end shares none."""
    words = singular_words(" ".join(s.text for s in others))
    return [s for s in sentences if not words.isdisjoint(singular_words(s.text))]


def _tell_settled(by_person: Sequence[WeighedSentence], words: int) -> list[str]:
    """Return the person's later sentence that is most likely worth remembering."""
    later = [
        s
        for s in by_person
        if s.turn != by_person[0].turn and not s.asks and count_words(s.text) <= words
    ]
    best = max(later, key=lambda s: (s.worth, -s.turn), default=None)
    return ["Said:", end_sentence(best.text)] if best and best.worth >= LEAST else []


def _tell_report(answers: Sequence[WeighedSentence], words: int) -> list[str]:
    """Return the end of the last message that `answers` are from, where an agent reports the outcome."""
    last = max((s.turn for s in answers), default=0)
    report = [s for s in answers if s.turn == last and not s.asks]
    closing = list(dict.fromkeys(s.text for s in reversed(report) if s.prose)) or [
        s.text for s in report[-1:]
    ]
    return (
        ["Reported:", *reversed(pick_leading_sentences(closing, words))]
        if closing
        else []
    )


def _tell_open(
    by_person: Sequence[WeighedSentence],
    answers: Sequence[WeighedSentence],
    words: int,
    replied: int,
) -> list[str]:
    """Return the person's last message if no message of an agent follows, else a question at the agent's end.

    `replied` is the number of the agent's last message. A message that shares no content word with the earlier ones,
    and a question without any, are courtesies.
    """
    end = by_person[-1].turn
    if end > max(replied, by_person[0].turn):
        last = [s for s in by_person if s.turn == end]
        earlier = [s for s in (*by_person, *answers) if s.turn != end]
        texts = pick_leading_sentences((s.text for s in last), words)
        return [UNANSWERED, *texts] if select_about(last, earlier) else []
    if answers[-1].turn > end and answers[-1].asks and singular_words(answers[-1].text):
        return ["Open:", *pick_leading_sentences([answers[-1].text], words)]
    return []


def cut_to_worthy_sentences(
    sentences: Sequence[WeighedSentence], spoken: Sequence[dict[str, Any]], every: int
) -> list[str]:
    """Return the text of each message cut to its sentences worth remembering, or empty.

    Every `every` messages are a group of the first tier. If a group has no such sentence, its most likely one is kept;
    if it has no sentence at all ("hi"), the first words of its first message. So no group is empty.
    """
    texts: dict[int, list[str]] = defaultdict(list)
    best: dict[int, WeighedSentence] = {}
    for s in sentences:
        if s.worth >= LEAST:
            texts[s.turn].append(s.text)
        best[s.turn // every] = max(
            best.get(s.turn // every, s), s, key=lambda it: (it.worth, -it.turn)
        )
    for s in best.values():
        texts[s.turn] = texts[s.turn] or [s.text]
    for number in range(0, len(spoken), every):
        if number // every not in best:
            texts[number] = [spoken[number]["text"][:FIRST_CHARS]]
    return [". ".join(texts[number]) for number in range(len(spoken))]
