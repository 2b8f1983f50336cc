"""Features of a pair of claims, as numbers: a model learns from these which later claim changes which earlier one.

Nothing is read of the words but which of them both have, how rare those are, where they stand, and what kind of thing a
figure, a name or a date is. Two claims of which one changes the other mostly are one sentence with another value in it,
or have a rare word in common and each a value of its own. A terse claim ("30 days, then delete.") says little of its
matter, and what was claimed around it tells: two claims of one matter mostly stand in talk of one matter.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
import pyarrow as pa
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from slowwave.tasks.dedupe.candidates import Floats
from slowwave.tasks.dedupe.normalise import Claim, Claims, normalise_claim
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.text.words import compute_smooth_idf, is_content_word, stem, stem_content_words

LONGEST = 60
"""Words of a claim that are aligned; what is longer is no sentence."""
CHARS = 300
"""Characters that are compared letter by letter."""
VALUE = 3
"""Content words that a value has at most."""
ENOUGH = 4
"""Words of a run; more say no more."""
ARTICLES = frozenset(("a", "an", "the"))
VALUES = ("figures", "names", "identifiers", "dates")
"""Columns of a claim that hold values, a kind each."""

Words = Sequence[str]


@dataclass(frozen=True)
class IdfTable:
    """Stem -> inverse document frequency among the claims of a store, which may be more than are judged."""

    weights: dict[str, float]
    highest: float
    """The weight of a word that no claim has."""

    @classmethod
    def from_stems(cls, stems: Sequence[Sequence[str]] | pa.ChunkedArray) -> "IdfTable":
        """Count the stems of claims."""
        column = stems if isinstance(stems, pa.ChunkedArray) else pa.array(stems, pa.list_(pa.string()))
        words = pl.Series("word", column).list.unique().explode().drop_nulls()
        counts, total = words.value_counts().iter_rows(), max(len(stems), 1)
        return cls({w: compute_smooth_idf(n, total) for w, n in counts}, compute_smooth_idf(1, total))

    def sum_idf(self, words: Iterable[str]) -> float:
        """Return the weight of words together."""
        return math.fsum(self.weights.get(word, self.highest) for word in words)  # in any order the same

    def compute_containment(self, words: Set[str], among: Set[str]) -> float:
        """Return the weight of the words that are among others, over that of all; 0 to 1."""
        whole = self.sum_idf(words)
        return self.sum_idf(words & among) / whole if whole else 0.0


def compute_pair_features(old: Claim, new: Claim, idf: IdfTable) -> dict[str, float]:
    """Return name -> value of what an earlier and a later claim are to each other by their words."""
    x, y = ([word for word in claim.words[:LONGEST] if word not in ARTICLES] for claim in (old, new))
    return {
        **_compute_overlap(old, new, idf),
        **_compute_alignment(old, new, x, y, idf),
        # content words with which they begin and end, and of the longest run that both have and after which each has a
        # word of its own
        "begin alike": _count_common_prefix(x, y),
        "end alike": _count_common_prefix(x[::-1], y[::-1]),
        "alike up to a value": _count_run_before_value(x, y),
        **_compute_values(old, new),
        "says no": float(bool(new.negated)),
        "said no": float(bool(old.negated)),
        "turned": float(bool(old.negated) != bool(new.negated)),
        "asks": float(new.question),
        "asked": float(old.question),
        "both of themselves": float(old.first_person and new.first_person),
        "one of themselves": float(old.first_person != new.first_person),
    }


def _compute_overlap(old: Claim, new: Claim, idf: IdfTable) -> dict[str, float]:
    """Return features of what both have: shares of words by weight, similarity of letters (0 to 1), counts of words."""
    a, b = set(old.content), set(new.content)
    both, first, second = idf.sum_idf(a & b), idf.sum_idf(a), idf.sum_idf(b)
    rarest = max((idf.weights.get(word, idf.highest) for word in a & b), default=0.0)
    return {
        "of the earlier": both / first if first else 0.0,
        "of the later": both / second if second else 0.0,
        "of both": both / (first + second - both) if first + second > both else 0.0,
        "of the shorter": both / min(first, second) if first and second else 0.0,
        "rarest shared": rarest / idf.highest,
        "words shared": min(len(a & b), 6),
        "words earlier": math.log1p(len(a)),
        "words later": math.log1p(len(b)),
        "gone": min(len(a - b), 10),
        "come": min(len(b - a), 10),
        "letters": fuzz.ratio(old.folded[:CHARS], new.folded[:CHARS]) / 100,
        "letters sorted": fuzz.ratio(old.sorted_words[:CHARS], new.sorted_words[:CHARS]) / 100,
        "letters in part": fuzz.partial_ratio(old.folded[:CHARS], new.folded[:CHARS]) / 100,
    }


def _compute_alignment(old: Claim, new: Claim, x: Words, y: Words, idf: IdfTable) -> dict[str, float]:
    """Return features of the frame, which is one sentence in both (by their words), and of what takes a place in it."""
    # walk over the runs that are equal, and those that took another's place
    frame, matched, places, values, governed, same_kind, after_equal = 0.0, 0, 0, 0, 0, 0, False
    for op in Levenshtein.opcodes(x, y):
        left, right = x[op.src_start : op.src_end], y[op.dest_start : op.dest_end]
        gone, come = stem_content_words(left), stem_content_words(right)
        if op.tag == "equal":
            frame, matched = frame + idf.sum_idf(gone), matched + len(gone)
        elif op.tag == "replace" and gone and come:
            places += 1
            if max(len(gone), len(come)) <= VALUE:
                values, governed = values + 1, governed + after_equal
                # a figure, a name, or a name in code for another
                kinds = ((set(left) & getattr(old, kind), set(right) & getattr(new, kind)) for kind in VALUES[:3])
                same_kind += any(had and has for had, has in kinds)
        after_equal = op.tag == "equal"
    # shares of each claim's words, and counts up to what more says no more
    first, second = idf.sum_idf(stem_content_words(x)), idf.sum_idf(stem_content_words(y))
    return {
        "frame of the earlier": frame / first if first else 0.0,
        "frame of the later": frame / second if second else 0.0,
        "frame words": min(matched, 6),
        "places": min(places, 4),
        "values in places": min(values, 3),
        "one place": places == 1,
        "governed by one word": min(governed, 2),
        "one kind in a place": min(same_kind, 2),
        "frame with one place": frame / max(first, second) * (places == values == 1) if frame else 0.0,
    }


def _count_common_prefix(x: Words, y: Words) -> int:
    count = 0
    for left, right in zip(x, y, strict=False):
        if left != right:
            break
        count += is_content_word(left)
    return min(count, ENOUGH)


def _count_run_before_value(x: Words, y: Words) -> int:
    own, other = {stem(word) for word in x}, {stem(word) for word in y}
    ends = {at for at, word in enumerate(y) if is_content_word(word) and stem(word) not in own}
    places: dict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(y):
        places[word].append(at)
    best = 0
    runs: dict[int, int] = {}  # place in y -> content words of the run that ends there and at the word of x before
    for word in x:
        if is_content_word(word) and stem(word) not in other:
            best = max([best, *(count for end, count in runs.items() if end + 1 in ends)])
        runs = {at: runs.get(at - 1, 0) + is_content_word(word) for at in places.get(word, ())}
    return min(best, ENOUGH)


def _compute_values(old: Claim, new: Claim) -> dict[str, float]:
    """Return 0 or 1 for what values two claims have, keep and change."""
    values: dict[str, float] = {}
    for kind in VALUES:
        had, has = getattr(old, kind), getattr(new, kind)
        values |= {
            f"{kind} in both": bool(had and has),
            f"{kind} kept": bool(had & has),
            f"other {kind}": bool(had - has and has - had),
        }
    had, has = (claim.figures | claim.names | claim.identifiers for claim in (old, new))
    # figures less their numbers: "ms" of "150ms", nothing of "8080"
    units = (
        {figure.lstrip("$€£v0123456789.+e-:") + figure[:1].strip("0123456789.v") for figure in figures}
        for figures in (old.figures - new.figures, new.figures - old.figures)
    )
    return values | {
        "other figures in one unit": not set.isdisjoint(*units),
        "had a value": bool(had),
        "has a value": bool(has),
        "a value for a value": bool(had - has and has - had),
        "names the old value": not {stem(value) for value in had}.isdisjoint(new.content),
    }


class Surroundings:
    """The claims by the sessions and turns that they were made in; what is asked for is made then, and kept."""

    def __init__(
        self, candidates: CandidateClaims, claims: Claims, vectors: Floats, idf: IdfTable, sessions: Iterable[str]
    ) -> None:
        """Set up.

        Args:
            candidates: the claims' rows.
            claims: the rows as they are read.
            vectors: of the rows, zeros where there is none; shape (rows, dim).
            idf: of their words.
            sessions: those that are asked for.
        """
        self.claims, self.vectors, self.idf, self.details = claims, vectors, idf, candidates.table["detail"]
        rows = pl.DataFrame(candidates.table.select(["session_id", "observed_at"])).rename({"session_id": "session"})
        rows = rows.with_row_index("row").filter(pl.col("session").is_in(list(sessions)))
        # its moment's place among those of its session that a claim was made in
        rows = rows.with_columns(turn=pl.col("observed_at").rank("dense").over("session").cast(pl.Int64) - 1)
        self.places: dict[int, tuple[str, int]] = {}
        """Row -> the session and turn that its claim was made in."""
        self.rows: dict[tuple[str, int], list[int]] = defaultdict(list)
        """Session and turn -> the rows of the claims made then."""
        self.of_session: dict[str, list[int]] = defaultdict(list)
        """Session -> its rows."""
        for row, session, turn in rows.select("row", "session", "turn").iter_rows():
            self.places[row] = session, turn
            self.rows[session, turn].append(row)
            self.of_session[session].append(row)
        self._direct = cache(self._compute_direction)
        self._nearby = cache(self._count_nearby_stems)
        self._detail = cache(self._collect_detail_stems)

    def compute_features(self, old: int, new: int, *, vectors: bool) -> dict[str, float]:
        """Return the likeness of the talk around two claims: cosines (none without `vectors`), shared words."""
        words, later = (frozenset(self.claims.stems[row]) for row in (old, new))
        detail, later_detail = self._detail(old), self._detail(new)
        share = self.idf.compute_containment
        shares = {
            "earlier's words around the later": share(words, self._find_beside(new, words)),
            "later's words around the earlier": share(later, self._find_beside(old, later)),
            "earlier's words in the later's detail": share(words, later_detail | later),
            "later's words in the earlier's detail": share(later, detail | words),
            "shared with details": share(detail | words, later_detail | later),
        }
        if not vectors:
            return shares
        # directions of the claims themselves, their turns, the turns beside, and their sessions
        own, other = self.vectors[old], self.vectors[new]
        turn, talk, session = (self._direct(*self.places[old], reach) for reach in (0, 1, None))
        turn2, talk2, session2 = (self._direct(*self.places[new], reach) for reach in (0, 1, None))
        return shares | {
            "turns alike": float(turn @ turn2),
            "talk alike": float(talk @ talk2),
            "sessions alike": float(session @ session2),
            "earlier in the later's talk": float(own @ talk2),
            "later in the earlier's talk": float(talk @ other),
            "earlier in the later's session": float(own @ session2),
            "later in the earlier's session": float(session @ other),
        }

    def _find_neighbours(self, session: str, turn: int, reach: int) -> list[int]:
        """Return rows of the claims made up to so many turns away, in order of turn."""
        return [row for at in range(turn - reach, turn + reach + 1) for row in self.rows.get((session, at), ())]

    def _compute_direction(self, session: str, turn: int, reach: int | None) -> Floats:
        """Return the unit sum of claims up to so many turns away, or of the session (None); zeros without a length."""
        if reach is None and turn:
            return self._direct(session, 0, None)  # one a session is kept
        rows = self.of_session[session] if reach is None else self._find_neighbours(session, turn, reach)
        total: Floats = self.vectors[rows].sum(axis=0)
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def _find_beside(self, row: int, stems: frozenset[str]) -> frozenset[str]:
        """Return those of some stems that were claimed in the same turn and the next ones, beside the claim."""
        count, own = self._nearby(*self.places[row]), set(self.claims.stems[row])
        return frozenset(stem for stem in stems if count[stem] > (stem in own))

    def _count_nearby_stems(self, session: str, turn: int) -> Counter[str]:
        """Return the claims of a turn and the next ones that have each stem; one count a turn, however many claims."""
        return Counter(stem for row in self._find_neighbours(session, turn, 1) for stem in set(self.claims.stems[row]))

    def _collect_detail_stems(self, row: int) -> frozenset[str]:
        return frozenset(normalise_claim(self.details[row].as_py() or "").content)
