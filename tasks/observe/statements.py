"""Decide what of a person's words to an agent is kept, by what they mean: the kind, the duration, and the reason.

A statement is kept if the likeliest of its kinds says what is so, what is meant to be or what was done, or if it likely
holds beyond its session. A question, an order of the moment, a courtesy, a joke, something imagined, refused or quoted
is kept only for what holds in it. A yes is kept in the words of the proposal that it accepts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from slowwave.tasks.observe.reader import KINDS, SETTLING, Reading, load_reader
from slowwave.tasks.observe.units import (
    AnsweredTurn,
    Unit,
    is_adjacent,
    strip_emphasis,
)
from slowwave.tasks.observe.worth import extract_content_words
from slowwave.text.sentences import Sentence

LIKELY = 0.5
"""Probability from which a statement holds beyond its session."""
NAMED = 0.4
"""Probability from which a statement has the category of its kind."""
LEAST_KEPT = 0.4
"""Least share of the kinds that are kept in a statement's kinds."""
FEW = 2
"""Most content words of an answer that is not understood without its proposal."""
KEPT = (*SETTLING, "plan", "report", "retraction")
"""Kinds that are kept."""
UNSAID = tuple(
    kind for kind in KINDS if kind not in (*SETTLING, "plan", "report", "order")
)
"""Kinds that state nothing: what holds is less sure to be what they say."""
SETTLED = ("rule", "decision", "correction")
"""Kinds that settle something, for which there may be a reason."""
REASONS = ("fact", "report", "preference", "quoted")
"""Kinds of a sentence that gives the reason for the one beside it."""
CATEGORIES = {
    "coding": {
        "rule": "convention",
        "decision": "decision",
        "preference": "preference",
        "plan": "plan",
        "fact": "context",
        "correction": "context",
    },
    "personal": {
        "rule": "preference",
        "decision": "preference",
        "preference": "preference",
        "plan": "plan",
        "fact": "fact",
        "correction": "fact",
        "report": "event",
    },
}
"""Category of a kind, by pack. A correction says what is so."""
UNSURE = {"coding": "", "personal": "fact"}
"""Category of a statement whose kind is not sure, by pack."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A person's sentence that is kept, with its reading."""

    unit: Unit
    reading: Reading
    reason: Sentence | None
    """The sentence beside it that gives the reason."""

    @property
    def told(self) -> float:
        """Probability that it may be told unasked: that it holds, and is neither asked, imagined nor quoted."""
        return self.reading.told * (
            1 - max(self.reading.by_head[kind] for kind in UNSAID)
        )

    @property
    def proposal(self) -> AnsweredTurn | None:
        """The proposal that it decides on, if it has few words, or mostly words of the proposal."""
        answered = self.unit.answered
        if answered is None or self.reading.find_likeliest(KEPT) not in SETTLED:
            return None
        words = extract_content_words(self.unit.text)
        added = words - extract_content_words(answered.text)
        is_alone = len(words) > FEW and 2 * len(added) > len(words)
        return None if is_alone else answered

    def find_category(self, pack: str) -> str:
        """Return the category of the likeliest kind, or of an unsure one."""
        kind = self.reading.find_likeliest(
            SETTLING if self.reading.told >= LIKELY else KEPT
        )
        is_sure = self.reading.by_head[kind] >= NAMED
        return CATEGORIES[pack].get(kind, UNSURE[pack]) if is_sure else UNSURE[pack]


def read_statements(units: Sequence[Unit]) -> dict[tuple[str, int], Statement]:
    """Return what persons tell an agent, by `Unit.key`: the sentences that are kept."""
    said = [unit for unit in units if unit.is_said]
    read = load_reader().read([unit.spoken for unit in said])
    readings = {unit.key: reading for unit, reading in zip(said, read, strict=True)}
    return {
        unit.key: Statement(unit, readings[unit.key], _find_reason(unit, readings))
        for unit in said
        if is_kept(readings[unit.key])
    }


def _find_reason(
    unit: Unit, readings: Mapping[tuple[str, int], Reading]
) -> Sentence | None:
    """Return the sentence directly before or after one that settles something, if that gives a reason."""
    if readings[unit.key].find_likeliest() not in SETTLED:
        return None
    message, at = unit.key
    sentences = unit.spoken.turn.sentences
    for beside in (at - 1, at + 1):
        reading = readings.get((message, beside))
        if reading is None or reading.find_likeliest() not in REASONS:
            continue
        first, second = sorted((at, beside))
        if is_adjacent(unit.row["text"], sentences[first], sentences[second]):
            return sentences[beside]
    return None


def is_kept(reading: Reading) -> bool:
    """Return True if a person's sentence states something, or likely holds beyond its session."""
    kept = fsum(reading.by_head[kind] for kind in KEPT)
    return reading.told >= LIKELY or kept >= LEAST_KEPT * fsum(
        reading.by_head[kind] for kind in KINDS
    )


def word_decision(answer: str, proposal: str) -> str:
    """Return a decision in the words of the proposal; if the answer adds words to it, after the answer."""
    added = extract_content_words(answer) - extract_content_words(proposal)
    return f"{strip_emphasis(answer)} ({proposal})" if added else proposal
