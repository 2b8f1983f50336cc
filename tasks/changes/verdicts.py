"""Decide the outcome of a pair of claims from the classifier's probability and a language model's verdict.

The model moves the classifier's outcome by one step at most. It can keep as a link what the classifier would retire,
retire or drop what would be linked, and link what would be neither.

An answer `changes` needs a quote of the later claim that matches it better than the earlier one (a phrase in both
changes nothing). Otherwise the answer counts as unsure. If the model also quotes the old value, and the earlier claim
contains it, the model's answer alone retires the earlier claim (`supersede.trust`).
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
from slowwave.tasks.changes.pairs import CandidateClaims
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, Question, limit_answer
from slowwave.tasks.llm.quotes import find_anchor, normalise_text
from slowwave.text.fence import format_entry
from slowwave.text.words import singular_words

VERSION = 3
PROMPTS = ("change",)
PAIRS_AT_ONCE = 10
QUOTE_CHARS = 120
CLAIM_CHARS = 400
TOKENS_A_PAIR = 110
DIGITS = 4
"""Digits of a probability in the ledger."""
SUPERSEDED = 0.94
"""Least probability to retire the earlier claim. In held-out talk with changes 40 of 41 such pairs are right; from .9
on 56 of 59 (`docs/decisions/004-changes.md`)."""
LEADING = 0.3
"""Least probability to rank the later of two active claims first if a query finds both."""
LEAST = 0.1
"""Least probability, by the classifier, to ask about a pair that is not among the likest."""
RULE = "judged"
Rows = tuple[int, int]
"""A pair of rows, the earlier claim first."""


class PairAnswer(StrEnum):
    """What the later claim does to the earlier one. The last three are derived; a model answers one of the others."""

    UNRELATED = "unrelated"
    REPEATS = "repeats"
    REFINES = "refines"
    CHANGES = "changes"
    REPLACES = "replaces"
    """The model says `changes`; the later claim contains its quote, and the earlier claim contains the old value."""
    UNSURE = "unsure"
    """The model says `changes`, but the later claim does not contain its quote."""
    UNANSWERED = "unanswered"
    """The model gave an unusable answer, and asking again would not help."""


class Outcome(IntEnum):
    """What happens to the earlier claim, from the least to the most."""

    NOTHING = 0
    LINK = 1
    RETIRE = 2


@dataclass(frozen=True, slots=True)
class ClaimShown:
    """A claim as the judge sees it."""

    id: str
    text: str
    speaker: str | None
    at: datetime
    last: datetime
    """When it was repeated last; equal to `at` if it was said once."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """A model's answer about a pair."""

    answer: PairAnswer
    likely: float
    """The classifier's probability at that time, 0 to 1; kept so that the decision is stable as the store grows."""
    quote: str
    """Verbatim words of the later claim, or empty if the quote was not found."""
    key: str
    """The key of model and prompt."""

    @property
    def outcome(self) -> Outcome:
        """The outcome: one step at most from the classifier's, unless both claims support the answer."""
        if self.answer is PairAnswer.UNANSWERED:
            return find_outcome(self.likely)
        if self.answer is PairAnswer.REPLACES:
            return Outcome.RETIRE
        if (
            self.likely < LEAST
        ):  # asked since the two are alike: both must bear a change out
            return Outcome.NOTHING
        if self.answer is PairAnswer.CHANGES:
            return Outcome.RETIRE if self.likely >= PERHAPS_CHANGED else Outcome.LINK
        if self.answer is PairAnswer.UNSURE:
            return Outcome.LINK
        return Outcome.LINK if self.likely >= SUPERSEDED else Outcome.NOTHING


Ids = tuple[str, str]
"""claim_ids of a pair, the earlier claim first."""
Pair = tuple[ClaimShown, ClaimShown]
Answered = tuple[PairAnswer, str]
"""An answer, and the supporting words of the later claim."""


@dataclass(frozen=True)
class Judge:
    """The model to ask, and the number of pairs to ask it about."""

    key: str
    """The key of its verdicts. Verdicts under another key apply until the pair is asked about again."""
    max_pairs: int
    """The most pairs to ask about; those with the highest probability come first."""
    ask: Callable[[Sequence[Pair]], Sequence[Answered | None]]
    """Returns None for a pair whose question has to wait."""


def find_outcome(likely: float) -> Outcome:
    """Return the classifier's own outcome of a pair."""
    if likely >= SUPERSEDED:
        return Outcome.RETIRE
    return Outcome.LINK if likely >= PERHAPS_CHANGED else Outcome.NOTHING


def read_verdicts(merges: pa.Table) -> dict[Ids, PairVerdict]:
    """Return the verdicts in the ledger (rows of MERGES)."""
    verdicts: dict[Ids, PairVerdict] = {}
    for row in merges.filter(
        pc.equal(merges["kind"], LedgerKind.JUDGEMENT)
    ).to_pylist():
        verdicts[row["from_id"], row["into_id"]] = PairVerdict(
            answer=PairAnswer(row["rule"]),
            likely=round(dict(row["scores"])["likely"], DIGITS),
            quote=row["reason"] or "",
            key=row["step_key"],
        )
    return verdicts


def build_verdict_rows(verdicts: Mapping[Ids, PairVerdict]) -> list[dict[str, Any]]:
    """Return one row of MERGES for each pair; a newer verdict replaces the row of an older one."""
    return [
        {
            "merge_id": compute_content_id(*ids, RULE),
            "kind": LedgerKind.JUDGEMENT,
            "from_id": ids[0],
            "into_id": ids[1],
            "rule": verdict.answer,
            "scores": [("likely", verdict.likely)],
            "reason": verdict.quote,
            "undone": False,
            "step_key": verdict.key,
        }
        for ids, verdict in sorted(verdicts.items())
    ]


@dataclass(frozen=True)
class JudgedPairs:
    """A judge's verdicts, and the pairs that it has yet to judge."""

    answers: dict[Rows, PairVerdict]
    waiting: Set[Rows]


def ask_judge(
    claims: CandidateClaims,
    guesses: Mapping[Rows, float],
    likest: Set[Rows],
    verdicts: Mapping[Rows, PairVerdict],
    judge: Judge,
) -> JudgedPairs:
    """Return the judge's verdicts about the likeliest pairs that it has not judged, and about the `likest`.

    A verdict can reopen a claim that another one may change. So the judge is asked until no pair is open or it was
    asked about `max_pairs`.
    """
    answered: dict[Rows, PairVerdict] = {}
    asked: set[Rows] = set()
    while True:
        # the likeliest open pairs
        known = {**verdicts, **answered}
        likely = _find_pairs_to_ask(
            claims=claims, guesses=guesses, likest=likest, verdicts=known, judge=judge
        )
        open_pairs = sorted(
            likely.keys() - asked, key=lambda pair: (-likely[pair], pair)
        )
        batch = open_pairs[: judge.max_pairs - len(asked)]
        if not batch:
            return JudgedPairs(answered, {*open_pairs, *(asked - answered.keys())})
        # their verdicts
        answers = judge.ask(
            [(_show_claim(claims, old), _show_claim(claims, new)) for old, new in batch]
        )
        asked |= set(batch)
        for pair, answer in zip(batch, answers, strict=True):
            if answer is not None:
                answered[pair] = PairVerdict(
                    answer=answer[0],
                    likely=likely[pair],
                    quote=answer[1],
                    key=judge.key,
                )


def reopen_misjudged(
    claims: CandidateClaims,
    verdicts: Mapping[Rows, PairVerdict],
) -> CandidateClaims:
    """Return the claims without the retirements that a verdict contradicts."""
    standing = {
        frozenset(pair) for pair, v in verdicts.items() if v.outcome < Outcome.RETIRE
    }
    opened = {
        row for row, by in claims.retired.items() if frozenset((row, by)) in standing
    }
    left = {row: by for row, by in claims.retired.items() if row not in opened}
    return replace(claims, retired=left, reopened=claims.reopened | opened)


def _find_pairs_to_ask(
    claims: CandidateClaims,
    guesses: Mapping[Rows, float],
    likest: Set[Rows],
    verdicts: Mapping[Rows, PairVerdict],
    judge: Judge,
) -> dict[Rows, float]:
    """Return pair -> probability of a change, for pairs without a verdict under the judge's key that affect a claim."""
    claims = reopen_misjudged(claims, verdicts)
    likely_pairs = {}
    for (old, new), likely in guesses.items():
        retired = claims.retired.get(old) == new or claims.retired.get(new) == old
        if likely < LEAST and (old, new) not in likest:
            continue
        if old in claims.retired and not retired:
            continue
        verdict = verdicts.get((old, new))
        if verdict is None:
            likely_pairs[old, new] = round(
                max(likely, SUPERSEDED) if retired else likely, DIGITS
            )
        elif verdict.key != judge.key:
            likely_pairs[old, new] = verdict.likely
    return likely_pairs


def _show_claim(claims: CandidateClaims, row: int) -> ClaimShown:
    claim = (
        claims.table.select(["claim_id", "summary", "detail", "speaker"])
        .slice(row, 1)
        .to_pylist()[0]
    )
    return ClaimShown(
        id=claim["claim_id"],
        text=f"{claim['summary']} ({claim['detail']})"
        if claim["detail"]
        else claim["summary"],
        speaker=claim["speaker"],
        at=claims.times[row],
        last=claims.last[row],
    )


class ChangeAnswer(AnswerModel):
    """What the model says of a pair. The quotes first: what is answered then follows from them."""

    pair: int = Field(ge=0, le=99)
    new: str = Field(max_length=QUOTE_CHARS)
    old: str = Field(max_length=QUOTE_CHARS)
    answer: Literal[
        PairAnswer.UNRELATED, PairAnswer.REPEATS, PairAnswer.REFINES, PairAnswer.CHANGES
    ]


class ChangesAnswer(AnswerModel):
    """What it says of a batch."""

    pairs: list[ChangeAnswer]


def build_questions(
    pairs: Sequence[Pair],
    library: Library,
) -> list[Question[Sequence[Pair]]]:
    """Return the questions about pairs, the earlier claim first. The same pairs give the same requests."""
    questions: list[Question[Sequence[Pair]]] = []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[start : start + PAIRS_AT_ONCE]
        entries = [
            _render(f"pair {n}, {which}", claim)
            for n, pair in enumerate(batch, 1)
            for which, claim in zip(("earlier", "later"), pair, strict=True)
        ]
        name = f"{compute_content_id(*(claim.id for pair in batch for claim in pair))}/change"
        answer = limit_answer(ChangesAnswer, pairs=len(batch))
        tokens = TOKENS_A_PAIR * len(batch) + 20
        questions.append(
            Question(
                library.build_request(
                    prompt="change",
                    name=name,
                    entries=entries,
                    answer=answer,
                    tokens=tokens,
                ),
                batch,
            )
        )
    return questions


def parse_answers(
    question: Question[Sequence[Pair]],
    completion: Completion,
    *,
    trust: bool,
) -> dict[Ids, Answered]:
    """Return a valid completion's answers about the pairs that it names, with the later claim's supporting words."""
    answers: dict[Ids, Answered] = {}
    pairs = dict(enumerate(question.about, 1))
    for pair_answer in completion.value.pairs:
        if (pair := pairs.get(pair_answer.pair)) is not None:
            old, new = pair
            answers[old.id, new.id] = _check_answer(pair_answer, old, new, trust=trust)
    return answers


def _check_answer(
    given: ChangeAnswer,
    old: ClaimShown,
    new: ClaimShown,
    *,
    trust: bool,
) -> Answered:
    """Return the answer as far as the two claims support it, with the later claim's words."""
    before = find_anchor(given.new, old.text)
    after = find_anchor(given.new, new.text)
    answer = PairAnswer(given.answer)
    if answer is PairAnswer.CHANGES:
        if after is None or (before is not None and before.score >= after.score):
            answer = PairAnswer.UNSURE
        elif trust and _is_quoted(given.old, old.text):
            answer = PairAnswer.REPLACES
    return answer, new.text[after.start : after.end] if after is not None else ""


def _is_quoted(quote: str, text: str) -> bool:
    """Return True if the text contains the quote, and the quote has a content word."""
    return bool(singular_words(quote)) and normalise_text(
        quote.strip()
    ) in normalise_text(text)


def _render(name: str, claim: ClaimShown) -> str:
    who = f", {' '.join(claim.speaker.split())[:60]}" if claim.speaker else ""
    again = (
        f", said again until {claim.last:%a %Y-%m-%d %H:%M}"
        if claim.last > claim.at
        else ""
    )
    return format_entry(
        f"{name}{who}, {claim.at:%a %Y-%m-%d %H:%M}{again}:",
        mask_injections(claim.text)[:CLAIM_CHARS],
    )
