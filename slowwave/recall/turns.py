"""One hit a turn: what an assistant answers adds to what the person said, and does not compete with it.

An assistant's message repeats and advises on what the person said just before, at greater length. Where both are found
they are one hit, with the score and the relevance of the better one: the person's message, or the answer with the
person's message beside it if the query asks for the answer. It does if a model says so (`recall/prompts.py`), or if
most of the query's words that the two have are the answer's alone.

A turn is a person's message and the one message that answers it. An agent at work says many messages after one order;
each of them stands alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slowwave.recall.release.tables import PassageIndex
from slowwave.recall.retrieve.candidates import Candidate

OWN = 0.5
"""Share of the query's words that an answer has and the person's message lacks, from which the answer is asked for."""


def join_turns(
    layout: PassageIndex, rows: Sequence[Candidate], asks_answer: Callable[[], bool]
) -> list[Candidate]:
    """Return messages with each turn as one row, best first.

    Args:
        layout: the passages of the messages.
        rows: messages, best first.
        asks_answer: returns whether the query asks for what an assistant said.
    """
    at = np.array([row.row["position"] for row in rows], dtype=np.int64)
    questions = dict(zip(layout.message[at].tolist(), rows, strict=True))
    turn_of: dict[str, Candidate] = {}
    for answer, message in zip(rows, layout.answered[at].tolist(), strict=True):
        if message >= 0 and (question := questions.get(message)):
            turn = _join(question, answer, asks_answer())
            turn_of |= {question.id: turn, answer.id: turn}
    turns = {turn.id: turn for turn in (turn_of.get(row.id, row) for row in rows)}
    return sorted(turns.values(), key=lambda turn: -turn.score)


def _join(question: Candidate, answer: Candidate, asks_answer: bool) -> Candidate:
    """Return a turn as one row."""
    says_it = answer.row["own"] >= OWN and answer.score > question.score
    turn = replace(answer, question=question) if asks_answer or says_it else question
    return replace(
        turn,
        score=max(question.score, answer.score),
        relevance=max(question.relevance, answer.relevance),
        covered=max(question.covered, answer.covered),
    )
