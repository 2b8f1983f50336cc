"""What may become a claim: the sentences of a session, each with what it needs beside it to be understood."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.worth import count_words, describe_sentence, extract_content_words, place_turns
from slowwave.text.sentences import Sentence, list_short_forms, split_sentences

MIN_WORDS = 3
TERSE = 8
"""Words up to which the opening of an answer is taken to need what it answers, and a heading to be one."""
LONGEST_ASKED = 40
"""Words of a question or proposal that are carried along."""
PRONOUN = re.compile(r"(?:it|they|he|she|that|this|these|those)\b", re.I)
QUESTION = re.compile(r"\?[\"'”’)*_!?]*(?:\s|$)")
EMPHASIS = re.compile(r"(?<![\w`/*])(\*{1,3}|__)(?=\S)([^*`\n]*(?:`[^`\n]*`[^*`\n]*)*)(?<=\S)\1(?![\w`/*])")


@dataclass(frozen=True, slots=True)
class Turn:
    """A message with its sentences."""

    row: dict[str, Any]
    sentences: list[Sentence]

    @property
    def text(self) -> str:
        """What was said."""
        return str(self.row["text"])

    def is_question(self, at: int) -> bool:
        """Return whether a sentence is a question; its mark may stand behind it."""
        sentence = self.sentences[at]
        return QUESTION.search(self.text[sentence.start : sentence.end + 2]) is not None

    def find_previous_sentence(self, at: int) -> Sentence | None:
        """Return the sentence right before another."""
        before = self.sentences[at - 1] if 0 < at < len(self.sentences) else None
        return before if before and is_adjacent(self.text, before, self.sentences[at]) else None


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """What a claim answers, and the message that says it."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """A sentence of a session, with what a model of its worth reads."""

    turn: Turn
    last: Turn | None
    """The turn before."""
    at: int
    text: str
    """Without emphasis."""
    news: int
    """Content words new to the session; those of a question are new to who answers it."""
    numbers: tuple[float, ...]
    """`worth.NUMBERS`."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence in its place."""

    row: dict[str, Any]
    """Its message."""
    sentence: Sentence
    text: str
    numbers: tuple[float, ...]
    """Its features besides its words, `worth.NUMBERS`."""
    news: int
    """Content words new to the session; those of a question are new to who answers it."""
    crowd: int
    """Sentences in the message."""
    before: Sentence | None
    """The one beside it that it may bring along."""
    heading: Sentence | None
    """The one beside it that only names what this one is about: part of the claim."""
    leans: bool = False
    """Whether its subject is in the sentence before."""
    answered: AnsweredTurn | None = None
    """The turn that it answers, if it is too terse to be understood alone."""

    @property
    def start(self) -> int:
        """Where the claim begins in the message."""
        return (self.heading or self.sentence).start

    @property
    def summary(self) -> str:
        """The claim: the sentence, under its heading."""
        return f"{strip_emphasis(self.heading.text)}. {self.text}" if self.heading else self.text


def list_sentences(spoken: Sequence[dict[str, Any]]) -> Iterator[SpokenSentence]:
    """Yield every sentence of MIN_WORDS or more of a session's spoken messages (rows of MESSAGES in order)."""
    names, own = collect_speakers(spoken)
    words_before: set[str] = set(own)
    last: Turn | None = None
    for row, place in zip(spoken, place_turns(spoken), strict=True):
        # its sentences, with what the session has not heard yet
        turn = Turn(row, split_sentences(row["text"], names))
        stated: set[str] = set()
        for at, sentence in enumerate(turn.sentences):
            text = strip_emphasis(sentence.text)
            words = extract_content_words(text)
            if count_words(text) >= MIN_WORDS:
                new = len(words - words_before)
                numbers = describe_sentence(sentence, text, turn.text, at, len(turn.sentences), place, words, new)
                yield SpokenSentence(turn, last, at, text, new, numbers)
            if not turn.is_question(at):
                stated |= words
        words_before |= stated
        last = turn


def extract_units(spoken: Sequence[dict[str, Any]]) -> Iterator[Unit]:
    """Yield what may become a claim; questions, repeats, and headings that something follows are left out.

    People among themselves ask and point all the time, and mostly the answer tells: only where a model takes part does
    a sentence bring what it leans on or answers.
    """
    seen: set[str] = set()
    aided = any(row["origin"] == Origin.MODEL for row in spoken)
    for candidate in list_sentences(spoken):
        if (
            candidate.turn.is_question(candidate.at)
            or candidate.text.lower() in seen
            or _is_heading_of_next(candidate.turn, candidate.at)
        ):
            continue
        seen.add(candidate.text.lower())
        # what goes along: the heading, the sentence before, the question
        before = candidate.turn.find_previous_sentence(candidate.at)
        headed = _is_heading_of_next(candidate.turn, candidate.at - 1)
        yield Unit(
            row=candidate.turn.row,
            sentence=candidate.turn.sentences[candidate.at],
            text=candidate.text,
            numbers=candidate.numbers,
            news=candidate.news,
            crowd=len(candidate.turn.sentences),
            before=None if headed else before,
            heading=before if headed else None,
            leans=aided and PRONOUN.match(candidate.text) is not None,
            answered=_find_answered_turn(candidate) if aided else None,
        )


def _is_heading_of_next(turn: Turn, at: int) -> bool:
    """Return whether a short sentence that a colon ends heads the next, which is no item of a list."""
    if at < 0 or turn.find_previous_sentence(at + 1) is None or turn.sentences[at + 1].item:
        return False
    sentence = turn.sentences[at]
    return count_words(sentence.text) <= TERSE and ":" in turn.text[sentence.end - 1 : sentence.end + 1]


def _find_answered_turn(answer: SpokenSentence) -> AnsweredTurn | None:
    """Return the sentence that a short one answers which opens its message, verbatim; None where it answers nothing.

    Of the turn before it is the question, or what a model proposed to a person, that shares most words with the answer;
    of questions that share none the last.
    """
    row, last = answer.turn.row, answer.last
    if last is None or (last.row["role"], last.row["speaker"]) == (row["role"], row["speaker"]):
        return None
    opens = all(count_words(above.text) < MIN_WORDS for above in answer.turn.sentences[: answer.at])
    if not opens or count_words(answer.text) > TERSE:
        return None
    # the question or proposal that shares most words with it
    words, human = extract_content_words(answer.text), row["origin"] == Origin.HUMAN
    offers = [
        (len(words & extract_content_words(above.text)), last.is_question(at), at)
        for at, above in enumerate(last.sentences)
    ]
    shared, asks, at = max((offer for offer in offers if offer[1] or (human and offer[0])), default=(0, False, -1))
    text = strip_emphasis(last.sentences[at].text) if shared or asks else ""
    return AnsweredTurn(last.row["message_id"], text) if 0 < count_words(text) <= LONGEST_ASKED else None


def collect_speakers(spoken: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of those who speak, and the words in them with their short forms, lower-cased."""
    names = tuple(sorted({r["speaker"] for r in spoken if r["speaker"]}))
    parts = {part.lower() for n in names for part in n.split()}
    return names, list_short_forms(parts)


def is_adjacent(text: str, a: Sentence, b: Sentence) -> bool:
    """Return whether no sentence, paragraph or masked text lies between two sentences."""
    return b.position == a.position + 1 and "\n\n" not in text[a.end : b.start]


def strip_emphasis(text: str) -> str:
    """Return one line, without Markdown's emphasis."""
    return " ".join(EMPHASIS.sub(r"\2", text).split())
