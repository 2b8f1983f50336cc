"""One hit a turn: what an assistant answers adds to what the person said, and does not compete with it.

An assistant's message repeats and advises on what the person said just before, mostly at greater length. Where both are
found they are one hit, with the score and the relevance of the better one. What the hit is depends on whose words the
query asks for (`recall/prompts.py`):

- a person's: the person's message, alone if the answer is long and does not score MARGIN more
- an assistant's: the answer, with the person's message beside it
- anybody's: the message that scores higher, with the other beside it

An answer that only acknowledges a statement ("Ok, noted.") stands behind it, whatever is asked for.

A person's message that has no word beyond the query's only asks the same: its answer has its own score, and the
question beside it.

A turn is a person's message and the one message that answers it. An agent at work says many messages after one order;
each of them stands alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto

import numpy as np

from slowwave.recall.query import Query, only_asks, says_little
from slowwave.recall.release.tables import PassageIndex
from slowwave.recall.retrieve.candidates import LONG, Candidate
from slowwave.text.words import singular_words, split_words

MARGIN = 1.0
"""Difference between the scores from which an answer tells more than the person's message, whatever speaker the query
asks for."""
LONGER = 2
"""Times the query's letters up to which a person's message may ask the same."""


class Whose(Enum):
    """Whose words a query asks for."""

    PERSON = auto()
    ASSISTANT = auto()
    ANYBODY = auto()


def join_turns(
    layout: PassageIndex,
    rows: Sequence[Candidate],
    query: Query,
    find_asked: Callable[[], Whose],
) -> list[Candidate]:
    """Return messages with each turn as one row, best first.

    Args:
        layout: the passages of the messages.
        rows: messages, best first.
        query: the query.
        find_asked: returns whose words the query asks for.
    """
    at = np.array([row.row["position"] for row in rows], dtype=np.int64)
    questions = dict(zip(layout.message[at].tolist(), rows, strict=True))
    turn_of: dict[str, Candidate] = {}
    for answer, message in zip(rows, layout.answered[at].tolist(), strict=True):
        if message >= 0 and (question := questions.get(message)):
            if _asks_the_same(question, query):
                # Its likeness to the query says nothing of what the answer is about.
                turn = replace(answer, beside=question)
            else:
                turn = _join(
                    question=question, answer=answer, asked=find_asked(), query=query
                )
            turn_of |= {question.id: turn, answer.id: turn}
    turns = {turn.id: turn for turn in (turn_of.get(row.id, row) for row in rows)}
    return sorted(turns.values(), key=lambda turn: -turn.score)


def _asks_the_same(question: Candidate, query: Query) -> bool:
    """Return True if a person's message has no content word beyond the query's."""
    is_short = len(question.text) <= LONGER * len(query.text)
    return is_short and singular_words(question.text) <= query.stems


def _join(
    question: Candidate,
    answer: Candidate,
    asked: Whose,
    query: Query,
) -> Candidate:
    """Return a turn as one row."""
    if asked is Whose.PERSON and answer.score - question.score >= MARGIN:
        asked = Whose.ANYBODY
    leads = asked is Whose.ASSISTANT or (
        asked is Whose.ANYBODY and answer.score > question.score
    )
    if leads and says_little(answer.text, query):
        leads = only_asks(question.text)
    first, other = (answer, question) if leads else (question, answer)
    better = answer if answer.score > question.score else question
    return replace(
        first,
        beside=other,
        is_alone=asked is Whose.PERSON and len(split_words(answer.text)) > LONG,
        score=better.score,
        contributions=better.contributions,
        relevance=max(question.relevance, answer.relevance),
        covered=max(question.covered, answer.covered),
    )
