"""Decide whether two claims are duplicates, from scores, guards and a rule; for one pair, without tables.

Rules in order: the same words; a guard's objection; the thresholds. All thresholds are in `Rules`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process

from slowwave.tasks.dedupe.guards import align_pair, find_objection, speaker
from slowwave.tasks.dedupe.normalise import ClaimText

Scores = dict[str, float]


@dataclass(frozen=True)
class Rules:
    """Thresholds; see `docs/decisions/008-duplicates.md` for how they were chosen."""

    threshold: float = 78.0
    """Least likeness of duplicates, 0 to 100: token_sort_ratio of the canonical words, less `added_cost` for each
    content word of the longest run that one side adds."""
    added_cost: float = 3.0
    """Cost of an added word: a run of added words is mostly a clause, and means more than the ratio shows."""
    overlap: float = 0.7
    """Least Dice coefficient of the content words, 0 to 1."""
    cosine: float = 0.6
    """Least cosine of the vectors, if both claims have one."""
    rephrased: float = 0.9
    """Least cosine of rephrased duplicates, which may be below `threshold`. They must share `rephrased_overlap` of the
    content words, and neither may add two in a row."""
    rephrased_overlap: float = 0.75


@dataclass(frozen=True)
class Decision:
    """The decision on a pair of claims: the rule or guard, the scores, and the reason."""

    same: bool
    rule: str
    scores: Scores
    reason: str

    @property
    def score(self) -> float:
        """Likeness that ranks several decisions, 0 to 101; the same words come first."""
        return 101.0 if self.rule == "exact" else self.scores["likeness"]


def decide(
    a: ClaimText,
    b: ClaimText,
    token_sort: float,
    cosine: float | None,
    rules: Rules,
) -> Decision:
    """Decide on two normalised claims, given their ratio and cosine; symmetric in a and b."""
    scores = compute_scores(a=a, b=b, token_sort=token_sort, cosine=cosine, rules=rules)
    if a.folded == b.folded:
        reason = speaker(align_pair(a, b))
        return Decision(
            same=reason is None,
            rule="exact" if reason is None else "speaker",
            scores=scores,
            reason=reason or "the same words",
        )
    blocked = find_objection(a, b)
    if blocked is not None:
        return Decision(same=False, rule=blocked[0], scores=scores, reason=blocked[1])
    return _apply_thresholds(scores, rules)


def is_promising(
    a: ClaimText,
    b: ClaimText,
    token_sort: float,
    cosine: float | None,
    rules: Rules,
) -> bool:
    """Return True if two claims are duplicates unless a guard objects: the cheap part of `decide`, run first."""
    return (
        a.folded == b.folded
        or _apply_thresholds(
            compute_scores(a=a, b=b, token_sort=token_sort, cosine=cosine, rules=rules),
            rules,
        ).same
    )


def compute_scores(
    a: ClaimText,
    b: ClaimText,
    token_sort: float,
    cosine: float | None,
    rules: Rules,
) -> Scores:
    """Return the scores that the rules use."""
    scores = {
        "token_sort": float(token_sort),
        "overlap": compute_dice_overlap(a, b),
        "added": float(count_added_words(a, b)),
    }
    scores["likeness"] = max(
        0.0, scores["token_sort"] - rules.added_cost * scores["added"]
    )
    return scores if cosine is None else {**scores, "cosine": float(cosine)}


def compute_token_sort_ratios(
    left: list[ClaimText], right: list[ClaimText]
) -> npt.NDArray[np.float32]:
    """Return token_sort_ratio pair by pair, 0 to 100; shape (pairs,)."""
    words = [c.sorted_words for c in left], [c.sorted_words for c in right]
    return np.asarray(
        process.cpdist(*words, scorer=fuzz.ratio, workers=-1), dtype=np.float32
    )


def compute_dice_overlap(a: ClaimText, b: ClaimText) -> float:
    """Return the Dice coefficient of the sets of content words, 0 to 1."""
    left = set(a.content)
    right = set(b.content)
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0


def count_added_words(a: ClaimText, b: ClaimText) -> int:
    """Return the length of the longest run of content words, in either claim, that the other lacks."""
    return max(
        _measure_longest_run(a.content, set(b.content)),
        _measure_longest_run(b.content, set(a.content)),
    )


def _measure_longest_run(words: tuple[str, ...], other: set[str]) -> int:
    longest = run = 0
    for word in words:
        run = 0 if word in other else run + 1
        longest = max(longest, run)
    return longest


def _apply_thresholds(scores: Scores, rules: Rules) -> Decision:
    cosine = scores.get("cosine")
    if cosine is not None and cosine < rules.cosine:
        return Decision(
            same=False,
            rule="meaning",
            scores=scores,
            reason=f"cosine of the vectors {cosine:.2f}",
        )
    if scores["likeness"] >= rules.threshold and scores["overlap"] >= rules.overlap:
        return Decision(
            same=True,
            rule="likeness",
            scores=scores,
            reason=f"likeness {scores['likeness']:.0f} of 100",
        )
    near = cosine is not None and cosine >= rules.rephrased
    if near and scores["overlap"] >= rules.rephrased_overlap and scores["added"] < 2:
        return Decision(
            same=True,
            rule="rephrased",
            scores=scores,
            reason=f"cosine {cosine:.2f}, {scores['overlap']:.0%} of the words shared",
        )
    return Decision(
        same=False,
        rule="unlike",
        scores=scores,
        reason="too few words shared, or too many added",
    )
