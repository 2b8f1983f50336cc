"""Summarise a session without a model: its worthy sentences, its title, and its master summary.

The most central sentences of an agent are "Let me check" and "Now I'll fix", which occur in every session. So a
session of a person with an agent is summarised by its ends: the first request, and the agent's last report. Courtesies,
jokes and what is only imagined are not requests, and what answers them is not a report.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from slowwave.schemas.rows import MessageRow
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.reader import KINDS, Reading, load_reader
from slowwave.tasks.observe.statements import LIKELY
from slowwave.tasks.observe.units import SpokenRow, SpokenSentence, list_sentences
from slowwave.tasks.observe.worth import load_worth_model
from slowwave.text.foreign import keep_typed
from slowwave.text.summarise import (
    ASKED,
    IN_PASSING,
    REPORTED,
    SAID,
    UNANSWERED,
    count_words,
    end_sentence,
    pick_leading_sentences,
    truncate_words,
)
from slowwave.text.words import singular_words

VERSION = 5
FIRST_CHARS = 200
TITLE_WORDS = 12
UNMEANT = ("courtesy", "hypothetical", "joke")
"""Kinds of sentences that neither ask for anything nor state a fact."""
PASSING = ("report", "quoted")
"""Kinds of sentences that, as a first request, say what is so at the moment, or what another one says."""
ASSERTED = tuple(kind for kind in KINDS if kind != "question")
NEVER_MEANT = frozenset(UNMEANT)
NEVER_OPEN = frozenset((*UNMEANT, "quoted"))
NEVER_ASKED = frozenset((*UNMEANT, *PASSING))
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
    spoken: SpokenSentence
    """The sentence with its message and the turn before."""


def weigh_sentences(spoken: Sequence[MessageRow]) -> list[WeighedSentence]:
    """Return the sentences of a session's messages (in order, with text, origin, blocks and speaker), weighed."""
    sentences = list(list_sentences(list(_number_typed(spoken))))
    worth = load_worth_model().compute_worth(
        [s.text for s in sentences], [s.numbers for s in sentences]
    )
    weighed = []
    for sentence, log_odds in zip(sentences, worth, strict=True):
        row = sentence.turn.row
        asks = sentence.turn.is_question(sentence.at)
        weighed.append(
            WeighedSentence(
                turn=int(row["message_id"]),
                text=sentence.text.rstrip("?") + "?" if asks else sentence.text,
                by_person=row["origin"] == Origin.HUMAN,
                by_model=row["origin"] == Origin.MODEL,
                asks=asks,
                prose=not sentence.turn.sentences[sentence.at].item,
                worth=log_odds,
                spoken=sentence,
            )
        )
    return weighed


def _number_typed(spoken: Sequence[MessageRow]) -> Iterator[SpokenRow]:
    """Yield messages with their numbers as ids, a person's with what was typed of it, or all if nothing was."""
    for number, row in enumerate(spoken):
        text = row["text"]
        typed = keep_typed(text) if row["origin"] == Origin.HUMAN else text
        yield {
            **row,
            "message_id": str(number),
            "text": typed or text,
            "full_text": text,
        }


def title_session(sentences: Sequence[WeighedSentence]) -> str | None:
    """Return the first sentence of a person, else the first of all, cut to TITLE_WORDS; None without sentences."""
    first = min(sentences, key=lambda sentence: not sentence.by_person, default=None)
    return (
        truncate_words(first.text[:FIRST_CHARS], TITLE_WORDS) or None if first else None
    )


def tell_session(
    sentences: Sequence[WeighedSentence],
    max_words: int,
    spoken: Sequence[MessageRow] = (),
) -> str | None:
    """Return a session's master summary, or None if no agent or no person took part.

    Its parts are what a person asked for first, what they said later (the one sentence most likely worth remembering),
    what the agent reported last, and what is open: a question at the agent's end, or a person's last message without
    an answer. Sentences of a report that share no content word with the other messages are left out, as are a person's
    courtesies, jokes and thoughts, and the answers to them. If nothing is left, the first request follows IN_PASSING.
    Each part consists of whole sentences, and has at most a third of `max_words`. `spoken` has the messages, also those
    without a sentence: "Done." is an answer too.
    """
    by_person = [s for s in sentences if s.by_person]
    answers = [s for s in sentences if s.by_model]
    replies = [n for n, row in enumerate(spoken) if row["origin"] == Origin.MODEL]
    replied = max((*replies, *(s.turn for s in answers)), default=None)
    if not by_person or replied is None:
        return None
    share = max_words // 3
    unmeant = _find_unmeant_turns(by_person, answers)
    meant = [s for s in by_person if s.turn not in unmeant]
    parts = [
        *_tell_request(meant, share),
        *_tell_settled(meant, by_person[0].turn, share),
    ]
    told = [s for s in answers if s.turn not in unmeant]
    before = [s for s in sentences if not told or s.turn != told[-1].turn]
    parts += _tell_report(select_about(told, before), share)
    heard = max(
        (n for n, row in enumerate(spoken) if row["origin"] == Origin.HUMAN),
        default=by_person[-1].turn,
    )
    parts = parts or [IN_PASSING, *_tell_first(by_person, share)]
    return " ".join(
        [
            *parts,
            *_tell_open(
                by_person=by_person,
                answers=answers,
                words=share,
                replied=replied,
                heard=heard,
                unmeant=unmeant,
            ),
        ]
    )


def _find_unmeant_turns(
    by_person: Sequence[WeighedSentence], answers: Sequence[WeighedSentence]
) -> set[int]:
    """Return a person's turns whose sentences are all UNMEANT, and the turns in which the agent answers these."""
    turns = defaultdict[int, list[WeighedSentence]](list)
    for sentence in by_person:
        turns[sentence.turn].append(sentence)
    unmeant = {
        turn for turn, said in turns.items() if not _keep_meant(said, NEVER_MEANT)
    }
    order = sorted({*turns, *(s.turn for s in answers)})
    asking = -1
    for turn in order:
        asking = turn if turn in turns else asking
        if asking in unmeant:
            unmeant.add(turn)
    return unmeant


def _keep_meant(
    sentences: Sequence[WeighedSentence], kinds: frozenset[str]
) -> list[WeighedSentence]:
    """Return a person's sentences that are likelier of another kind than of `kinds`, by the regression."""
    readings = load_reader().read([s.spoken for s in sentences]) if sentences else []
    return [
        sentence
        for sentence, reading in zip(sentences, readings, strict=True)
        if not _is_likelier_of(reading, kinds)
    ]


def _is_likelier_of(reading: Reading, kinds: frozenset[str]) -> bool:
    """Return True if a sentence is likeliest of some kinds. A question may ask about what is only imagined."""
    best = reading.find_likeliest(ASSERTED)
    asks = reading.by_head["question"]
    return best in kinds and reading.by_head[best] >= min(LIKELY, asks)


def _tell_first(sentences: Sequence[WeighedSentence], words: int) -> list[str]:
    """Return the first sentences of the first turn, as many as fit."""
    first = [s.text for s in sentences if s.turn == sentences[0].turn]
    return pick_leading_sentences(first, words)


def _tell_request(by_person: Sequence[WeighedSentence], words: int) -> list[str]:
    """Return a person's requests of the first turn, without sentences of the kinds in NEVER_ASKED."""
    first = [s for s in by_person if s.turn == by_person[0].turn] if by_person else []
    asked = _keep_meant(first, NEVER_ASKED)
    return [ASKED, *_tell_first(asked, words)] if asked else []


def select_about(
    sentences: Sequence[WeighedSentence], others: Sequence[WeighedSentence]
) -> list[WeighedSentence]:
    """Return the sentences that share a content word with others; a courtesy or a joke at the end shares none."""
    words = singular_words(" ".join(s.text for s in others))
    return [s for s in sentences if not words.isdisjoint(singular_words(s.text))]


def _tell_settled(
    by_person: Sequence[WeighedSentence], first: int, words: int
) -> list[str]:
    """Return the person's meant sentence after the turn `first` that is most likely worth remembering."""
    later = [
        s
        for s in by_person
        if s.turn != first
        and not s.asks
        and s.worth >= LEAST
        and count_words(s.text) <= words
    ]
    meant = _keep_meant(later, NEVER_MEANT)
    best = max(meant, key=lambda s: (s.worth, -s.turn), default=None)
    return [SAID, end_sentence(best.text)] if best else []


def _tell_report(answers: Sequence[WeighedSentence], words: int) -> list[str]:
    """Return the end of the last message that `answers` are from: there an agent reports the outcome."""
    last = max((s.turn for s in answers), default=0)
    report = [s for s in answers if s.turn == last and not s.asks]
    closing = list(dict.fromkeys(s.text for s in reversed(report) if s.prose)) or [
        s.text for s in report[-1:]
    ]
    return (
        [REPORTED, *reversed(pick_leading_sentences(closing, words))] if closing else []
    )


def _tell_open(
    by_person: Sequence[WeighedSentence],
    answers: Sequence[WeighedSentence],
    words: int,
    replied: int,
    heard: int,
    unmeant: Collection[int],
) -> list[str]:
    """Return the person's last message if no message of an agent follows, else a question at the agent's end.

    `replied` and `heard` are the numbers of the agent's and the person's last message: "yes" is not a sentence, and the
    question that it answers is open until the agent replies. A message of an `unmeant` turn, a message that shares no
    content word with the earlier ones, and a question without one are courtesies. What another one asks or says is not
    open.
    """
    end = by_person[-1].turn
    if end > max(replied, by_person[0].turn):
        last = [s for s in by_person if s.turn == end]
        earlier = [s for s in (*by_person, *answers) if s.turn != end]
        meant = _keep_meant(last, NEVER_OPEN)
        texts = pick_leading_sentences((s.text for s in meant), words)
        is_open = end not in unmeant and select_about(meant, earlier)
        return [UNANSWERED, *texts] if is_open else []
    asked = answers[-1] if answers else None
    is_answered = asked is not None and asked.turn < heard < replied
    if asked and asked.turn > end and asked.asks and not is_answered:
        texts = pick_leading_sentences([asked.text], words)
        return ["Open:", *texts] if singular_words(asked.text) else []
    return []


def cut_to_worthy_sentences(
    sentences: Sequence[WeighedSentence], spoken: Sequence[MessageRow], every: int
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
