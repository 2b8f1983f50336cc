"""How good an answer was: evidence that it shows, what it saved, what of it no longer holds, and its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from slowwave.tasks.experiment.questions import Question
from slowwave.text.words import extract_content_words

Metric = Literal["evidence", "saved", "stale", "tokens"]
METRICS: dict[Metric, str] = {
    "evidence": "share of the evidence that is shown",
    "saved": "share of what was told again that memory would have shown first",
    "stale": "share of answers that show what no longer holds, unmarked",
    "tokens": "tokens of an answer",
}
LESS_IS_BETTER = frozenset({"stale", "tokens"})


class Item(NamedTuple):
    """A part of an answer: its text, the messages it stands on, and whether it is marked as changed since."""

    text: str
    messages: tuple[str, ...]
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a memory showed."""

    items: tuple[Item, ...]
    tokens: int
    relevance: float | None = None
    """How relevant the memory itself holds it to be, 0 to 1."""


class Score(NamedTuple):
    """Figures of one answer; NaN where the question has no such figure."""

    evidence: float
    saved: float
    stale: float
    tokens: float
    relevance: float


def score_answer(question: Question, answer: Answer) -> Score:
    """Return the figures of an answer."""
    texts = [_normalise(item.text) for item in answer.items]
    found = _find_evidence(question, answer, texts)
    holds = _normalise(question.expect)
    stale = [  # a message that says what holds may name what it replaces
        any(old in item.messages or _normalise(old) in text for old in question.stale)
        and not (item.marked or (holds and holds in text))
        for item, text in zip(answer.items, texts, strict=True)
    ]
    retold = question.kind == "retold"
    return Score(
        float("nan") if retold else found,
        found if retold else float("nan"),
        float(any(stale)) if question.stale else float("nan"),
        float(answer.tokens),
        float("nan") if answer.relevance is None else answer.relevance,
    )


def _find_evidence(question: Question, answer: Answer, texts: Sequence[str]) -> float:
    if question.evidence:
        shown = {message for item in answer.items for message in item.messages}
        each = [one in shown for one in question.evidence]
        return float(any(each)) if question.any else float(np.mean(each))
    if question.expect:
        return float(any(_normalise(question.expect) in text for text in texts))
    wanted = set(extract_content_words(question.words))
    return len(wanted & {word for text in texts for word in extract_content_words(text)}) / max(1, len(wanted))


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold()
