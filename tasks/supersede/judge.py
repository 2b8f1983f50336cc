"""What becomes of two claims, by what the classifier makes of them and by what a language model says of the likely.

The model decides, by one step at most: what the classifier would retire it can keep as a link, what would be linked it
can retire or let go, and of what is neither it can make a link. A model alone retires nothing. Whoever says `changes`
shows the words that do: they must stand in the later claim, and better there than in the earlier (a phrase that both
have changes nothing). Else the answer counts as unsure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.tasks.dedupe.judge_llm import CLAIM_CHARS
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library
from slowwave.tasks.llm.quotes import find_anchor
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.surroundings import Surroundings
from slowwave.text.fence import format_entry

VERSION = 1
PROMPTS = ("change",)
BESIDE_CHARS = 200
QUOTE_CHARS = 200
ANSWER_TOKENS = 96
BESIDE = 4
"""Claims that are shown beside each of a pair."""
DIGITS = 4
"""Of a probability in a verdict: as the ledger keeps it."""
SUPERSEDED = 0.9
"""Probability from which the earlier claim is retired: of 41 such in talk with changes that was not learnt from 40 are
right, and in 10,000 claims of talk in which hardly anything changes there are 5."""
LINKED = 0.4
"""Probability from which the two are linked and both stand, the later told first: about as likely changed as not."""
RULE = "judged"
Rows = tuple[int, int]
"""A pair, the row of the earlier claim first."""


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


@dataclass(frozen=True)
class Asked:
    """What a judge said, and how many pairs it is still to be asked about."""

    told: dict[Rows, Verdict]
    waiting: int


def ask_judge(
    held: CandidateClaims,
    around: Surroundings,
    guesses: Mapping[Rows, float],
    told: Mapping[Rows, Verdict],
    judge: Judge,
) -> Asked:
    """Return what the judge says of the likeliest pairs that it has not judged.

    What it frees may be changed by another claim, so it is asked until nothing is left or it has been asked enough.
    """
    fresh: dict[Rows, Verdict] = {}
    tried: set[Rows] = set()
    while True:
        likely = _find_pairs_to_ask(held, guesses, {**told, **fresh}, judge)
        open_pairs = sorted(likely.keys() - tried, key=lambda pair: (-likely[pair], pair))
        now = open_pairs[: judge.most - len(tried)]
        if not now:
            return Asked(fresh, len(open_pairs) + len(tried - fresh.keys()))
        said = judge.ask([_show_pair(held, around, pair) for pair in now])
        tried |= set(now)
        for pair, answered in zip(now, said, strict=True):
            if answered is not None:
                fresh[pair] = Verdict(answered[0], likely[pair], answered[1], judge.key)


def reopen_misjudged(held: CandidateClaims, told: Mapping[Rows, Verdict]) -> CandidateClaims:
    """Return the claims without the retirements that a verdict speaks against."""
    kept = {frozenset(pair) for pair, v in told.items() if v.outcome < Outcome.RETIRE}
    return held.reopen({row for row, by in held.retired.items() if frozenset((row, by)) in kept})


def _find_pairs_to_ask(
    held: CandidateClaims, guesses: Mapping[Rows, float], told: Mapping[Rows, Verdict], judge: Judge
) -> dict[Rows, float]:
    """Return pair -> how likely it is a change, of those that the judge has not judged and something hangs on."""
    held = reopen_misjudged(held, told)
    found = {}
    for (old, new), likely in guesses.items():
        retired = held.retired.get(old) == new or held.retired.get(new) == old
        if likely < judge.least or (old in held.retired and not retired):
            continue
        known = told.get((old, new))
        if known is None:
            found[old, new] = round(max(likely, SUPERSEDED) if retired else likely, DIGITS)
        elif known.key != judge.key:
            found[old, new] = known.likely
    return found


def _show_pair(held: CandidateClaims, around: Surroundings, pair: Rows) -> Pair:
    return _show_claim(held, around, pair[0], pair[1]), _show_claim(held, around, pair[1], pair[0])


def _show_claim(held: CandidateClaims, around: Surroundings, row: int, other: int) -> ClaimShown:
    names = ("observation_id", "summary", "detail", "speaker")
    mine = held.table.select(names).slice(row, 1).to_pylist()[0]
    beside = [mate for mate in around.find_nearest(row, BESIDE + 1) if mate != other][:BESIDE]
    return ClaimShown(
        id=mine["observation_id"],
        text=f"{mine['summary']} ({mine['detail']})" if mine["detail"] else mine["summary"],
        speaker=mine["speaker"],
        at=held.times[row],
        last=held.last[row],
        beside=tuple(held.table["summary"][mate].as_py() for mate in beside),
    )


class ChangeAnswer(AnswerModel):
    """What the model says of a pair. The quote first: what is answered then follows from it."""

    quote: str = Field(max_length=QUOTE_CHARS)
    answer: Literal[Answer.UNRELATED, Answer.REPEATS, Answer.REFINES, Answer.CHANGES]


def build_request(pair: Pair, library: Library) -> Request:
    """Return what to ask about a pair, the earlier claim first."""
    entries = [line for name, claim in zip(("earlier", "later"), pair, strict=True) for line in _render(name, claim)]
    name = f"{compute_content_id(pair[0].id, pair[1].id)}/change"
    return library.build_request("change", name, entries, ChangeAnswer, ANSWER_TOKENS)


def parse_answer(completion: Completion, pair: Pair) -> Answered:
    """Return what a good completion says, and the later claim's own words for it."""
    answer, quote = completion.value.answer, completion.value.quote
    before, there = (find_anchor(quote, claim.text) for claim in pair)
    found = there is not None and (before is None or there.score > before.score)
    if answer is Answer.CHANGES and not found:
        answer = Answer.UNSURE
    return answer, pair[1].text[there.start : there.end] if there is not None else ""


def _render(name: str, claim: ClaimShown) -> list[str]:
    who = f", {' '.join(claim.speaker.split())[:60]}" if claim.speaker else ""
    again = f", said again until {claim.last:%a %Y-%m-%d %H:%M}" if claim.last > claim.at else ""
    label = f"{name}{who}, {claim.at:%a %Y-%m-%d %H:%M}{again}:"
    beside = [format_entry("  beside it:", mask_injections(text)[:BESIDE_CHARS]) for text in claim.beside]
    return [format_entry(label, mask_injections(claim.text)[:CLAIM_CHARS]), *beside]
