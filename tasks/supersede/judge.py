"""The outcome of a pair of claims, by the classifier's probability and a language model's verdict on the likely.

The model decides, by one step at most: what the classifier would retire it can keep as a link, what would be linked it
can retire or let go, and of what is neither it can make a link. Whoever says `changes` shows the words that do: they
must stand in the later claim, and better there than in the earlier (a phrase that both have changes nothing). Else the
answer counts as unsure. Where the model also shows the old value, and that stands in the earlier claim, its word alone
retires (`supersede.trust`).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, LedgerKind
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, Question, limit_answer
from slowwave.tasks.llm.quotes import find_anchor, normalise_text
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.text.fence import format_entry
from slowwave.text.words import extract_stems

VERSION = 2
PROMPTS = ("change",)
PAIRS_AT_ONCE = 10
QUOTE_CHARS, CLAIM_CHARS = 120, 400
TOKENS_A_PAIR = 110
DIGITS = 4
"""Digits of a probability in the ledger."""
SUPERSEDED = 0.9
"""Probability from which the earlier claim is retired: of 41 such in talk with changes that was not learnt from 40 are
right, and in 10,000 claims of talk in which hardly anything changes there are 5."""
LEADING = 0.25
"""Probability from which the later of two that both stand is told first, where both are found."""
RULE = "judged"
Rows = tuple[int, int]
"""A pair, the row of the earlier claim first."""


class Answer(StrEnum):
    """What the later claim does to the earlier; the last three are no answers of a model's, but what came of one."""

    UNRELATED = "unrelated"
    REPEATS = "repeats"
    REFINES = "refines"
    CHANGES = "changes"
    REPLACES = "replaces"
    """It says `changes`, its words stand in the later claim, and the old value stands in the earlier one."""
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
        """What follows: at most one step from what the classifier made of it, but where both claims bear it out."""
        if self.answer is Answer.UNANSWERED:
            return find_outcome(self.likely)
        if self.answer is Answer.REPLACES:
            return Outcome.RETIRE
        if self.answer is Answer.CHANGES:
            return Outcome.RETIRE if self.likely >= PERHAPS_CHANGED else Outcome.LINK
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
    """The model to ask, and about how many pairs."""

    key: str
    """Verdicts of another key are asked for again, and stand until then."""
    max_pairs: int
    """Pairs that are asked about, the likest to be changes first."""
    ask: Callable[[Sequence[Pair]], Sequence[Answered | None]]
    """None where the question has to wait."""
    min_probability: float = 0.1
    """The classifier's probability from which a pair is asked about."""


def find_outcome(likely: float) -> Outcome:
    """Return the classifier's own outcome of a pair."""
    return Outcome.RETIRE if likely >= SUPERSEDED else Outcome.LINK if likely >= PERHAPS_CHANGED else Outcome.NOTHING


def read_verdicts(merges: pa.Table) -> dict[Ids, Verdict]:
    """Return the answers in the ledger (rows of MERGES)."""
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


@dataclass(frozen=True)
class Asked:
    """A judge's answers, and the pairs that it is still to be asked about."""

    answers: dict[Rows, Verdict]
    waiting: Set[Rows]


def ask_judge(
    claims: CandidateClaims, guesses: Mapping[Rows, float], verdicts: Mapping[Rows, Verdict], judge: Judge
) -> Asked:
    """Return the judge's answers about the likeliest pairs that it has not judged.

    What it frees may be changed by another claim, so it is asked until nothing is left or it has been asked enough.
    """
    fresh: dict[Rows, Verdict] = {}
    tried: set[Rows] = set()
    while True:
        # the likeliest open pairs
        likely = _find_pairs_to_ask(claims, guesses, {**verdicts, **fresh}, judge)
        open_pairs = sorted(likely.keys() - tried, key=lambda pair: (-likely[pair], pair))
        now = open_pairs[: judge.max_pairs - len(tried)]
        if not now:
            return Asked(fresh, {*open_pairs, *(tried - fresh.keys())})
        # their verdicts
        answers = judge.ask([(_show_claim(claims, old), _show_claim(claims, new)) for old, new in now])
        tried |= set(now)
        for pair, answered in zip(now, answers, strict=True):
            if answered is not None:
                fresh[pair] = Verdict(answered[0], likely[pair], answered[1], judge.key)


def reopen_misjudged(claims: CandidateClaims, verdicts: Mapping[Rows, Verdict]) -> CandidateClaims:
    """Return the claims without the retirements that a verdict speaks against."""
    standing = {frozenset(pair) for pair, v in verdicts.items() if v.outcome < Outcome.RETIRE}
    opened = {row for row, by in claims.retired.items() if frozenset((row, by)) in standing}
    left = {row: by for row, by in claims.retired.items() if row not in opened}
    return replace(claims, retired=left, reopened=claims.reopened | opened)


def _find_pairs_to_ask(
    claims: CandidateClaims, guesses: Mapping[Rows, float], verdicts: Mapping[Rows, Verdict], judge: Judge
) -> dict[Rows, float]:
    """Return pair -> how likely it is a change, of those that the judge has not judged and something hangs on."""
    claims = reopen_misjudged(claims, verdicts)
    likely_pairs = {}
    for (old, new), likely in guesses.items():
        retired = claims.retired.get(old) == new or claims.retired.get(new) == old
        if likely < judge.min_probability or (old in claims.retired and not retired):
            continue
        verdict = verdicts.get((old, new))
        if verdict is None:
            likely_pairs[old, new] = round(max(likely, SUPERSEDED) if retired else likely, DIGITS)
        elif verdict.key != judge.key:
            likely_pairs[old, new] = verdict.likely
    return likely_pairs


def _show_claim(claims: CandidateClaims, row: int) -> ClaimShown:
    claim = claims.table.select(["observation_id", "summary", "detail", "speaker"]).slice(row, 1).to_pylist()[0]
    return ClaimShown(
        id=claim["observation_id"],
        text=f"{claim['summary']} ({claim['detail']})" if claim["detail"] else claim["summary"],
        speaker=claim["speaker"],
        at=claims.times[row],
        last=claims.last[row],
    )


class ChangeAnswer(AnswerModel):
    """What the model says of a pair. The quotes first: what is answered then follows from them."""

    pair: int = Field(ge=0, le=99)
    new: str = Field(max_length=QUOTE_CHARS)
    old: str = Field(max_length=QUOTE_CHARS)
    answer: Literal[Answer.UNRELATED, Answer.REPEATS, Answer.REFINES, Answer.CHANGES]


class ChangesAnswer(AnswerModel):
    """What it says of a batch."""

    pairs: list[ChangeAnswer]


def build_questions(pairs: Sequence[Pair], library: Library) -> list[Question[Sequence[Pair]]]:
    """Return the questions about pairs, each with the earlier claim first; the same pairs give the same requests."""
    questions: list[Question[Sequence[Pair]]] = []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[start : start + PAIRS_AT_ONCE]
        entries = [
            _render(f"pair {n}, {which}", claim)
            for n, pair in enumerate(batch, 1)
            for which, claim in zip(("earlier", "later"), pair, strict=True)
        ]
        name = f"{compute_content_id(*(claim.id for pair in batch for claim in pair))}/change"
        answer, tokens = limit_answer(ChangesAnswer, pairs=len(batch)), TOKENS_A_PAIR * len(batch) + 20
        questions.append(Question(library.build_request("change", name, entries, answer, tokens), batch))
    return questions


def parse_answers(question: Question[Sequence[Pair]], completion: Completion, *, trust: bool) -> dict[Ids, Answered]:
    """Return a good completion's answers about the pairs that it names, with the later claim's own words for it."""
    answers: dict[Ids, Answered] = {}
    shown = dict(enumerate(question.about, 1))
    for pair_answer in completion.value.pairs:
        if (pair := shown.get(pair_answer.pair)) is None:
            continue
        # as far as the two claims bear it out
        (old, new), answer = pair, Answer(pair_answer.answer)
        before, there = (find_anchor(pair_answer.new, claim.text) for claim in pair)
        if answer is Answer.CHANGES:
            if there is None or (before is not None and before.score >= there.score):
                answer = Answer.UNSURE
            elif (
                trust
                and extract_stems(pair_answer.old)
                and normalise_text(pair_answer.old.strip()) in normalise_text(old.text)
            ):
                answer = Answer.REPLACES
        answers[old.id, new.id] = answer, new.text[there.start : there.end] if there is not None else ""
    return answers


def _render(name: str, claim: ClaimShown) -> str:
    who = f", {' '.join(claim.speaker.split())[:60]}" if claim.speaker else ""
    again = f", said again until {claim.last:%a %Y-%m-%d %H:%M}" if claim.last > claim.at else ""
    return format_entry(f"{name}{who}, {claim.at:%a %Y-%m-%d %H:%M}{again}:", mask_injections(claim.text)[:CLAIM_CHARS])
