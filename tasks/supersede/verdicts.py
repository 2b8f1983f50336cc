"""What becomes of two claims, by what the classifier makes of them and by what a language model said, if it was asked.

The model decides, by one step at most: what the classifier would retire it can keep as a link, what would be linked it
can retire or let go, and of what is neither it can make a link. A model alone retires nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import LedgerKind

SUPERSEDED = 0.9
"""Probability from which the earlier claim is retired: of 41 such in talk with changes that was not learnt from 40 are
right, and in 10,000 claims of talk in which hardly anything changes there are 5."""
LINKED = 0.4
"""Probability from which the two are linked and both stand, the later told first: about as likely changed as not."""
RULE = "judged"


class Answer(StrEnum):
    """What the later claim does to the earlier; the last two are no answers of a model's, but what came of one."""

    UNRELATED = "unrelated"
    REPEATS = "repeats"
    REFINES = "refines"
    CHANGES = "changes"
    UNSURE = "unsure"
    """It says `changes`, and its quote does not stand in the later claim."""
    UNANSWERED = "unanswered"
    """No answer that could be used came, and none would if it was asked again."""


class Outcome(IntEnum):
    """What becomes of the earlier claim, from the least to the most."""

    NOTHING = 0
    LINK = 1
    RETIRE = 2


@dataclass(frozen=True, slots=True)
class ClaimShown:
    """A claim as a judge sees it."""

    id: str
    text: str
    speaker: str | None
    at: datetime
    last: datetime
    """When it was said last; `at` where it was said once."""
    beside: tuple[str, ...]
    """What was claimed around it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was answered about a pair."""

    answer: Answer
    likely: float
    """What the classifier made of the pair then, 0 to 1: so what was decided does not move as the store grows."""
    quote: str
    """The later claim's own words; empty where none were found."""
    key: str
    """Under which model and prompt."""

    @property
    def outcome(self) -> Outcome:
        """What follows, at most one step from what the classifier made of it."""
        if self.answer is Answer.UNANSWERED:
            return find_outcome(self.likely)
        if self.answer is Answer.CHANGES:
            return Outcome.RETIRE if self.likely >= LINKED else Outcome.LINK
        if self.answer is Answer.UNSURE:
            return Outcome.LINK
        return Outcome.LINK if self.likely >= SUPERSEDED else Outcome.NOTHING


Ids = tuple[str, str]
"""observation_ids of a pair, the earlier one's first."""
Pair = tuple[ClaimShown, ClaimShown]
Answered = tuple[Answer, str]
"""An answer, and the later claim's words for it."""


@dataclass(frozen=True)
class Judge:
    """Whom to ask, and about how many pairs."""

    key: str
    """Verdicts of another key are asked for again, and stand until then."""
    most: int
    """Pairs that are asked about, the likest to be changes first."""
    ask: Callable[[Sequence[Pair]], Sequence[Answered | None]]
    """None where the question has to wait."""
    least: float = 0.1
    """The classifier's probability from which a pair is asked about."""


def find_outcome(likely: float) -> Outcome:
    """Return what the classifier alone makes of a pair."""
    return Outcome.RETIRE if likely >= SUPERSEDED else Outcome.LINK if likely >= LINKED else Outcome.NOTHING


def has_disagreement(answer: str, likely: float) -> bool:
    """Return whether something else follows than from the classifier alone."""
    return Verdict(Answer(answer), likely, "", "").outcome is not find_outcome(likely)


def read_verdicts(merges: pa.Table) -> dict[Ids, Verdict]:
    """Return what the ledger (rows of MERGES) knows of answers."""
    rows = merges.filter(pc.equal(merges["kind"], LedgerKind.JUDGEMENT)).to_pylist()
    return {
        (row["loser_id"], row["winner_id"]): Verdict(
            Answer(row["rule"]), round(dict(row["scores"])["likely"], 4), row["reason"] or "", row["step_key"]
        )
        for row in rows
    }


def build_verdict_rows(verdicts: Mapping[Ids, Verdict]) -> list[dict[str, Any]]:
    """Return rows of MERGES, one a pair: a later answer takes an earlier one's place."""
    return [
        {
            "merge_id": compute_content_id(*ids, RULE),
            "kind": LedgerKind.JUDGEMENT,
            "loser_id": ids[0],
            "winner_id": ids[1],
            "rule": verdict.answer,
            "scores": [("likely", verdict.likely)],
            "reason": verdict.quote,
            "undone": False,
            "step_key": verdict.key,
        }
        for ids, verdict in sorted(verdicts.items())
    ]


def count_disagreements(verdicts: Iterable[Verdict]) -> int:
    """Return how many decide otherwise than the classifier."""
    return sum(has_disagreement(v.answer, v.likely) for v in verdicts)
