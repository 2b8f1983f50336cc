"""How good an answer was: evidence that it shows, what it saved, what of it no longer holds, and its tokens."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slowwave.tasks.experiment.definition import Metric
from slowwave.tasks.experiment.questions import Question
from slowwave.text.words import extract_content_words

METRICS: dict[Metric, str] = {
    "evidence": "share of the evidence that is shown",
    "saved": "share of what was told again that memory would have shown first",
    "stale": "share of answers that show what no longer holds, unmarked",
    "silence": "share of questions that memory can't know on which it keeps silent",
    "right": "mean of evidence and, where memory can't know, of silence",
    "tokens": "tokens of an answer",
}
LESS_IS_BETTER = frozenset({"stale", "tokens"})
NAN = float("nan")


class Item(NamedTuple):
    """A part of an answer: its text, the messages it stands on, and whether it is marked as changed since."""

    text: str
    messages: tuple[str, ...]
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a memory showed, its tokens, and how relevant the memory itself holds it to be, 0 to 1."""

    items: tuple[Item, ...]
    tokens: int
    relevance: float | None = None


class Score(NamedTuple):
    """Figures of one answer; NaN where the question has no such figure."""

    evidence: float
    saved: float
    stale: float
    silence: float
    right: float
    tokens: float
    relevance: float


def score_answer(question: Question, answer: Answer) -> Score:
    """Return the figures of an answer."""
    texts = [_normalise(item.text) for item in answer.items]
    found = _find_evidence(question, answer, texts)
    holds = _normalise(question.expect)
    stale = any(  # a message that says what holds may name what it replaces
        not item.marked
        and not (holds and holds in text)
        and any(old in item.messages or _normalise(old) in text for old in question.stale)
        for item, text in zip(answer.items, texts, strict=True)
    )
    kind, silent = question.kind, float(not answer.items)
    return Score(
        evidence=found if kind not in ("retold", "foreign") else NAN,
        saved=found if kind == "retold" else NAN,
        stale=float(stale) if question.stale else NAN,
        silence=silent if kind == "foreign" else NAN,
        right={"retold": NAN, "foreign": silent}.get(kind, found),
        tokens=float(answer.tokens),
        relevance=NAN if answer.relevance is None else answer.relevance,
    )


def _find_evidence(question: Question, answer: Answer, texts: list[str]) -> float:
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
