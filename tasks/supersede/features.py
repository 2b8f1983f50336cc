"""What two claims are to each other, as numbers: a model learns from these which later claim changes which earlier one.

Nothing is read of the words but which of them both have, how rare those are, where they stand, and what kind of thing a
figure, a name or a date is. Two claims of which one changes the other mostly are one sentence with another value in it,
or have a rare word in common and each a value of its own.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from slowwave.tasks.dedupe.normalise import Claim
from slowwave.text.words import compute_smooth_idf, stem, stem_content_words

ARTICLES = frozenset(("a", "an", "the"))
LONGEST = 60
"""Words of a claim that are aligned; what is longer is no sentence."""
CHARS = 300
"""Characters that are compared letter by letter."""


@dataclass(frozen=True)
class IdfTable:
    """Stem -> inverse document frequency among the claims of a store."""

    weights: dict[str, float]
    most: float
    """Of a word that no claim has."""

    @classmethod
    def from_stems(cls, stems: Sequence[Sequence[str]]) -> "IdfTable":
        """Count the stems of claims."""
        counts = Counter(word for own in stems for word in set(own))
        total = max(len(stems), 1)
        return cls({w: compute_smooth_idf(n, total) for w, n in counts.items()}, compute_smooth_idf(1, total))

    def sum_idf(self, words: Iterable[str]) -> float:
        """Return the weight of words together."""
        return math.fsum(self.weights.get(word, self.most) for word in words)  # in any order the same

    def compute_containment(self, words: Set[str], among: Set[str]) -> float:
        """Return weight of the words that are among others, over that of all; 0 to 1."""
        whole = self.sum_idf(words)
        return self.sum_idf(words & among) / whole if whole else 0.0


def compute_pair_features(old: Claim, new: Claim, idf: IdfTable) -> dict[str, float]:
    """Return name -> value of what an earlier and a later claim are to each other by their words."""
    return _compute_overlap(old, new, idf) | _compute_alignment(old, new, idf) | _compute_values(old, new)


def _compute_overlap(old: Claim, new: Claim, idf: IdfTable) -> dict[str, float]:
    """Return what both have: shares of words by weight, similarity of letters from 0 to 1, counts of words."""
    a, b = set(old.content), set(new.content)
    both, first, second = idf.sum_idf(a & b), idf.sum_idf(a), idf.sum_idf(b)
    rarest = max((idf.weights.get(word, idf.most) for word in a & b), default=0.0)
    return {
        "of the earlier": both / first if first else 0.0,
        "of the later": both / second if second else 0.0,
        "of both": both / (first + second - both) if first + second > both else 0.0,
        "of the shorter": compute_overlap(a, b, idf),
        "rarest shared": rarest / idf.most,
        "words shared": min(len(a & b), 6),
        "words earlier": math.log1p(len(a)),
        "words later": math.log1p(len(b)),
        "gone": min(len(a - b), 10),
        "come": min(len(b - a), 10),
        "letters": fuzz.ratio(old.folded[:CHARS], new.folded[:CHARS]) / 100,
        "letters sorted": fuzz.ratio(old.sorted_words[:CHARS], new.sorted_words[:CHARS]) / 100,
        "letters in part": fuzz.partial_ratio(old.folded[:CHARS], new.folded[:CHARS]) / 100,
    }


def compute_overlap(a: Set[str], b: Set[str], idf: IdfTable) -> float:
    """Return weight of the words in common over that of the claim with less of it, 0 to 1."""
    least = min(idf.sum_idf(a), idf.sum_idf(b))
    return idf.sum_idf(a & b) / least if least else 0.0


def _compute_alignment(old: Claim, new: Claim, idf: IdfTable) -> dict[str, float]:
    """Return how much of the earlier stands in the same order in the later (its frame), in how many places of that
    other words stand, and content words with which both begin.
    """
    x, y = ([word for word in claim.words[:LONGEST] if word not in ARTICLES] for claim in (old, new))
    frame, places, begin = 0.0, 0, 0
    for op in Levenshtein.opcodes(x, y):
        gone, come = (
            stem_content_words(words) for words in (x[op.src_start : op.src_end], y[op.dest_start : op.dest_end])
        )
        frame += idf.sum_idf(gone) if op.tag == "equal" else 0.0
        places += op.tag == "replace" and bool(gone and come)
        begin = len(gone) if op.tag == "equal" and op.src_start == op.dest_start == 0 else begin
    whole = idf.sum_idf(stem_content_words(x))
    return {
        "frame of the earlier": frame / whole if whole else 0.0,
        "places": min(places, 4),
        "begin alike": min(begin, 4),
    }


def _compute_values(old: Claim, new: Claim) -> dict[str, float]:
    """Return 0 or 1 for what values two claims have, and change."""
    others: dict[str, float] = {
        f"other {kind}": bool(had - has and has - had)
        for kind in ("figures", "names", "dates")
        for had, has in [(getattr(old, kind), getattr(new, kind))]
    }
    had, has = _collect_values(old), _collect_values(new)
    units = ({_extract_unit(f) for f in figures} for figures in (old.figures - new.figures, new.figures - old.figures))
    return others | {
        "names in both": bool(old.names and new.names),
        "other figures in one unit": not set.isdisjoint(*units),
        "a value for a value": bool(had - has and has - had),
        "names the old value": not {stem(value) for value in had}.isdisjoint(new.content),
    }


def _collect_values(claim: Claim) -> frozenset[str]:
    return claim.figures | claim.names | claim.identifiers


def _extract_unit(figure: str) -> str:
    """Return a figure less its number: "ms" of "150ms", nothing of "8080"."""
    return figure.lstrip("$€£v0123456789.+e-:") + figure[:1].strip("0123456789.v")
