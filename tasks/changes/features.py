"""Compute features of a pair of claims, from which a model learns which later claim changes which earlier one.

Of the words, the features use only which of them both claims have, how rare these are, where they are, and whether a
word is a figure, a name or a date. Two claims of which one changes the other are mostly one sentence with another
value, or share a rare word and have a value each. A terse claim ("30 days, then delete.") says little about its
subject; the claims made around it say more, since two claims about one subject are mostly made in similar talk.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from itertools import pairwise, repeat

import numpy as np
import polars as pl
import pyarrow as pa
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein, Opcode

from slowwave.tasks.dedupe.candidates import Floats
from slowwave.tasks.dedupe.normalise import ClaimText, ClaimTexts, normalise_claim
from slowwave.text.words import (
    compute_smooth_idf,
    is_content_word,
    stem,
    stem_content_words,
)

LONGEST = 60
"""Most words of a claim to align; a longer text is not a sentence."""
CHARS = 300
"""Most characters to compare letter by letter."""
VALUE = 3
"""Most content words of a value."""
ENOUGH = 4
"""Most words counted of a run."""
ARTICLES = frozenset(("a", "an", "the"))
VALUES = ("figures", "names", "identifiers", "dates")
"""Fields of a claim that hold values, one kind of value each."""

ANOTHER = "another thing"
"""Name of the feature that one word which names the thing differs, and its value does."""
SAYS = "says "
"""Prefix of the features for words and word pairs of the later claim; a model uses those it was fitted with."""
READ = ("summary", "speaker", "category", "pack")
"""Columns of a claim that its features are computed from."""

Words = Sequence[str]


@dataclass(frozen=True)
class IdfTable:
    """Stem -> inverse document frequency over the claims of a store, which can be more than those judged."""

    weights: dict[str, float]
    highest: float
    """The weight of a word that occurs in no claim."""

    @classmethod
    def from_stems(cls, stems: Sequence[Sequence[str]] | pa.ChunkedArray) -> "IdfTable":
        """Count the stems of claims."""
        column = (
            stems
            if isinstance(stems, pa.ChunkedArray)
            else pa.array(stems, pa.list_(pa.string()))
        )
        words = pl.Series("word", column).list.unique().explode().drop_nulls()
        counts = words.value_counts().iter_rows()
        total = max(len(stems), 1)
        return cls(
            {w: compute_smooth_idf(n, total) for w, n in counts},
            compute_smooth_idf(1, total),
        )

    def sum_idf(self, words: Iterable[str]) -> float:
        """Return the total weight of words."""
        # Fsum does not depend on the order.
        return math.fsum(map(self.weights.get, words, repeat(self.highest)))

    def compute_containment(self, words: Set[str], among: Set[str]) -> float:
        """Return the weight of the words that are in `among`, divided by the weight of all; 0 to 1."""
        whole = self.sum_idf(words)
        return self.sum_idf(words & among) / whole if whole else 0.0


def compute_features(pairs: pa.Table, idf: IdfTable) -> list[dict[str, float]]:
    """Return the features of pairs described by `Evidence.describe`; a feature with an unknown value is left out."""
    computed = []
    for pair in pairs.to_pylist():
        old = pair["left"]
        new = pair["right"]
        earlier, later = (
            normalise_claim(claim["summary"], claim["speaker"]) for claim in (old, new)
        )
        named = old["speaker"] is not None and new["speaker"] is not None
        features = compute_pair_features(earlier, later, idf) | {
            "one speaker": old["speaker"] == new["speaker"],
            "two speakers": named and old["speaker"] != new["speaker"],
            "everyday": new["pack"] == "personal",
        }
        if old["category"] and new["category"]:
            features |= {
                "one category": old["category"] == new["category"],
                "event": new["category"] == "event",
                "was an event": old["category"] == "event",
            }
        features |= dict.fromkeys(
            (SAYS + gram for gram in list_grams(later.words)), 1.0
        )
        computed.append(
            features
            | {
                name: value
                for name, value in pair["known"].items()
                if value is not None
            }
        )
    return computed


def build_matrix(features: Sequence[dict[str, float]], names: Sequence[str]) -> Floats:
    """Return features as a matrix of shape (pairs, names).

    An unknown feature is NaN; a word that the later claim lacks is 0.
    """
    places = {name: at for at, name in enumerate(names)}
    missing = [0.0 if name.startswith(SAYS) else np.nan for name in names]
    matrix = np.full((len(features), len(names)), missing, np.float32)
    for row, values in zip(matrix, features, strict=True):
        for name in values.keys() & places.keys():
            row[places[name]] = values[name]
    return matrix


def list_grams(words: Sequence[str]) -> set[str]:
    """Return the words, and each two words in a row."""
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}


def compute_pair_features(
    old: ClaimText,
    new: ClaimText,
    idf: IdfTable,
) -> dict[str, float]:
    """Return the features of an earlier and a later claim, by name."""
    x, y = (
        [word for word in claim.words[:LONGEST] if word not in ARTICLES]
        for claim in (old, new)
    )
    return {
        **_compute_overlap(old, new, idf),
        **_compute_alignment(old=old, new=new, x=x, y=y, idf=idf),
        # content words of the common beginning, of the common end, and of the longest common run that a different word
        # follows in each claim
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


def _compute_overlap(old: ClaimText, new: ClaimText, idf: IdfTable) -> dict[str, float]:
    """Return shares of common words by weight, similarity of letters (0 to 1), and counts of words."""
    a = set(old.content)
    b = set(new.content)
    both = idf.sum_idf(a & b)
    first = idf.sum_idf(a)
    second = idf.sum_idf(b)
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
        "letters sorted": fuzz.ratio(old.sorted_words[:CHARS], new.sorted_words[:CHARS])
        / 100,
        "letters in part": fuzz.partial_ratio(old.folded[:CHARS], new.folded[:CHARS])
        / 100,
    }


def _compute_alignment(
    old: ClaimText,
    new: ClaimText,
    x: Words,
    y: Words,
    idf: IdfTable,
) -> dict[str, float]:
    """Return features of the frame (the words of the sentence that both share) and of the words that differ in it."""
    runs = _align_words(old=old, new=new, x=x, y=y, idf=idf)
    # shares of each claim's words, and capped counts
    first = idf.sum_idf(stem_content_words(x))
    second = idf.sum_idf(stem_content_words(y))
    only_one_value = runs.places == runs.values == 1
    return {
        "frame of the earlier": runs.frame / first if first else 0.0,
        "frame of the later": runs.frame / second if second else 0.0,
        "frame words": min(runs.matched, 6),
        "places": min(runs.places, 4),
        "values in places": min(runs.values, 3),
        "one place": runs.places == 1,
        "governed by one word": min(runs.governed, 2),
        "one kind in a place": min(runs.same_kind, 2),
        ANOTHER: runs.is_of_another,
        "frame with one place": runs.frame / max(first, second) * only_one_value
        if runs.frame
        else 0.0,
    }


@dataclass
class Alignment:
    """Counts over the aligned words of two claims."""

    frame: float = 0.0
    """Weight of the words that are equal."""
    matched: int = 0
    """Number of the content words that are equal."""
    places: int = 0
    """Runs of words that another run replaces."""
    values: int = 0
    """Places short enough to hold a value in both claims."""
    governed: int = 0
    """Values right after equal words."""
    same_kind: int = 0
    """Values that are a figure, a name or an identifier in both claims."""
    is_of_another: bool = False
    """Whether the later claim names another thing, and says something else of it."""


def _align_words(
    old: ClaimText,
    new: ClaimText,
    x: Words,
    y: Words,
    idf: IdfTable,
) -> Alignment:
    """Walk over the runs that are equal and the runs that another run replaces."""
    opcodes = list(Levenshtein.opcodes(x, y))
    runs = Alignment(
        is_of_another=_is_of_another(old=old, new=new, x=x, y=y, opcodes=opcodes)
    )
    after_equal = False
    for op in opcodes:
        left = x[op.src_start : op.src_end]
        right = y[op.dest_start : op.dest_end]
        gone = stem_content_words(left)
        come = stem_content_words(right)
        if op.tag == "equal":
            runs.frame += idf.sum_idf(gone)
            runs.matched += len(gone)
        elif op.tag == "replace" and gone and come:
            runs.places += 1
            if max(len(gone), len(come)) <= VALUE:
                runs.values += 1
                runs.governed += after_equal
                runs.same_kind += _is_same_kind(
                    old=old, new=new, left=left, right=right
                )
        after_equal = op.tag == "equal"
    return runs


def _is_of_another(
    old: ClaimText,
    new: ClaimText,
    x: Words,
    y: Words,
    opcodes: Sequence[Opcode],
) -> bool:
    """Return True if a word that names the thing differs, and what is said of it: "the web service has port 3000".

    The first words that differ are one each and no value. A content word of both follows, and then others differ.
    """
    first = next((at for at, op in enumerate(opcodes) if op.tag != "equal"), None)
    if first is None or first + 1 == len(opcodes):
        return False
    op = opcodes[first]
    left = x[op.src_start : op.src_end]
    right = y[op.dest_start : op.dest_end]
    values = _collect_values(old) | _collect_values(new)
    are_names = all(
        len(words) == 1 and is_content_word(words[0]) and words[0] not in values
        for words in (left, right)
    )
    if not are_names or stem(left[0]) == stem(right[0]):
        return False
    rest = [op for op in opcodes[first + 2 :] if op.tag != "equal"]
    gone = any(_has_content(x[op.src_start : op.src_end]) for op in rest)
    come = any(_has_content(y[op.dest_start : op.dest_end]) for op in rest)
    return gone and come and is_content_word(x[op.src_end])


def _collect_values(claim: ClaimText) -> Set[str]:
    return claim.figures | claim.identifiers


def _has_content(words: Words) -> bool:
    return any(map(is_content_word, words))


def _is_same_kind(
    old: ClaimText,
    new: ClaimText,
    left: Words,
    right: Words,
) -> bool:
    """Return True if both runs have a figure, both a name, or both an identifier."""
    kinds = (
        (set(left) & getattr(old, kind), set(right) & getattr(new, kind))
        for kind in VALUES[:3]
    )
    return any(had and has for had, has in kinds)


def _count_common_prefix(x: Words, y: Words) -> int:
    count = 0
    for left, right in zip(x, y, strict=False):
        if left != right:
            break
        count += is_content_word(left)
    return min(count, ENOUGH)


def _count_run_before_value(x: Words, y: Words) -> int:
    own = {stem(word) for word in x}
    other = {stem(word) for word in y}
    ends = {
        at
        for at, word in enumerate(y)
        if is_content_word(word) and stem(word) not in own
    }
    places: dict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(y):
        places[word].append(at)
    best = 0
    # Place in y -> content words of the run that ends there and at the word of x before.
    runs: dict[int, int] = {}
    for word in x:
        if is_content_word(word) and stem(word) not in other:
            best = max(
                [best, *(count for end, count in runs.items() if end + 1 in ends)]
            )
        runs = {
            at: runs.get(at - 1, 0) + is_content_word(word)
            for at in places.get(word, ())
        }
    return min(best, ENOUGH)


def _compute_values(old: ClaimText, new: ClaimText) -> dict[str, float]:
    """Return 0 or 1 for the values that two claims have, keep and change."""
    values: dict[str, float] = {}
    for kind in VALUES:
        had = getattr(old, kind)
        has = getattr(new, kind)
        values |= {
            f"{kind} in both": bool(had and has),
            f"{kind} kept": bool(had & has),
            f"other {kind}": bool(had - has and has - had),
        }
    had, has = (claim.figures | claim.names | claim.identifiers for claim in (old, new))
    # units of figures: "ms" of "150ms", "" of "8080"
    units = (
        {
            figure.lstrip("$€£v0123456789.+e-:") + figure[:1].strip("0123456789.v")
            for figure in figures
        }
        for figures in (old.figures - new.figures, new.figures - old.figures)
    )
    return values | {
        "other figures in one unit": not set.isdisjoint(*units),
        "had a value": bool(had),
        "has a value": bool(has),
        "a value for a value": bool(had - has and has - had),
        "names the old value": not {stem(value) for value in had}.isdisjoint(
            new.content
        ),
    }


def _number_turns(
    table: pa.Table,
    sessions: Iterable[str],
) -> Iterator[tuple[int, str, int]]:
    """Yield each row of some sessions with its session and its turn.

    A turn's number is the rank of its time among the times of the session's claims.
    """
    rows = pl.DataFrame(table.select(["session_id", "observed_at"]))
    numbered = (
        rows.with_row_index("row")
        .filter(pl.col("session_id").is_in(list(sessions)))
        .with_columns(
            turn=pl.col("observed_at").rank("dense").over("session_id").cast(pl.Int64)
            - 1
        )
    )
    yield from numbered.select("row", "session_id", "turn").iter_rows()


class Surroundings:
    """The claims by session and turn, for features of the talk around a claim; computed when needed, and cached."""

    def __init__(
        self,
        table: pa.Table,
        claims: ClaimTexts,
        vectors: Floats,
        idf: IdfTable,
        sessions: Iterable[str],
    ) -> None:
        """Set up.

        Args:
            table: the claims.
            claims: the normalised claims of the rows.
            vectors: unit vectors of the rows, zeros for a row without one; shape (rows, dim).
            idf: weights of their words.
            sessions: the sessions that features are needed for.
        """
        self.claims = claims
        self.vectors = vectors
        self.idf = idf
        self.details = table["detail"]
        self.by_model: list[float | None] = (
            table["by_model"].cast(pa.float64()).to_pylist()
            if "by_model" in table.schema.names
            else [None] * table.num_rows
        )
        """Whether a model said each claim; None if that is unknown."""
        self.workspaces: list[str | None] = table["workspace"].to_pylist()
        self.times: list[datetime] = table["observed_at"].to_pylist()
        self.places: dict[int, tuple[str, int]] = {}
        """Row -> the session and turn in which the claim was made."""
        self.rows: dict[tuple[str, int], list[int]] = defaultdict(list)
        """Session and turn -> the rows of the claims made in it."""
        self.of_session: dict[str, list[int]] = defaultdict(list)
        """Session -> the rows of its claims."""
        for row, session, turn in _number_turns(table, sessions):
            self.places[row] = session, turn
            self.rows[session, turn].append(row)
            self.of_session[session].append(row)
        self._direct = cache(self._compute_direction)
        self._nearby = cache(self._count_nearby_stems)
        self._detail = cache(self._collect_detail_stems)

    @cached_property
    def first_used(self) -> dict[tuple[str | None, str], datetime]:
        """Workspace and stem -> when the first claim with it was made."""
        first: dict[tuple[str | None, str], datetime] = {}
        for row, stems in enumerate(self.claims.stems):
            for word in stems:
                key = self.workspaces[row], word
                first[key] = min(first.get(key, self.times[row]), self.times[row])
        return first

    def compute_older_share(self, old: int, new: int) -> float:
        """Return the weight, as a share, of the later claim's own words that a claim before the earlier one has.

        A new value is mostly a new word. The name of another thing was mostly used before.
        """
        own = frozenset(self.claims.stems[new]).difference(self.claims.stems[old])
        place = self.workspaces[new]
        older = {word for word in own if self.first_used[place, word] < self.times[old]}
        return self.idf.compute_containment(own, older)

    def compute_features(
        self,
        old: int,
        new: int,
        *,
        vectors: bool,
    ) -> dict[str, float]:
        """Return features of the talk around two claims: shares of words, and cosines if `vectors`."""
        shares = self._compute_word_shares(old, new)
        return shares | self._compute_cosines(old, new) if vectors else shares

    def _compute_word_shares(self, old: int, new: int) -> dict[str, float]:
        words, later = (frozenset(self.claims.stems[row]) for row in (old, new))
        detail = self._detail(old)
        later_detail = self._detail(new)
        share = self.idf.compute_containment
        return {
            "earlier's words around the later": share(
                words, self._find_beside(new, words)
            ),
            "later's words around the earlier": share(
                later, self._find_beside(old, later)
            ),
            "earlier's words in the later's detail": share(words, later_detail | later),
            "later's words in the earlier's detail": share(later, detail | words),
            "shared with details": share(detail | words, later_detail | later),
        }

    def _compute_cosines(self, old: int, new: int) -> dict[str, float]:
        """Return cosines of the claims, their turns, the turns around, and their sessions."""
        own = self.vectors[old]
        other = self.vectors[new]
        turn, talk, session = (
            self._direct(*self.places[old], reach) for reach in (0, 1, None)
        )
        turn2, talk2, session2 = (
            self._direct(*self.places[new], reach) for reach in (0, 1, None)
        )
        return {
            "turns alike": float(turn @ turn2),
            "talk alike": float(talk @ talk2),
            "sessions alike": float(session @ session2),
            "earlier in the later's talk": float(own @ talk2),
            "later in the earlier's talk": float(talk @ other),
            "earlier in the later's session": float(own @ session2),
            "later in the earlier's session": float(session @ other),
        }

    def _find_neighbours(
        self,
        session: str,
        turn: int,
        reach: int,
    ) -> list[int]:
        """Return the rows of claims made at most `reach` turns away, in order of turn."""
        return [
            row
            for at in range(turn - reach, turn + reach + 1)
            for row in self.rows.get((session, at), ())
        ]

    def _compute_direction(
        self,
        session: str,
        turn: int,
        reach: int | None,
    ) -> Floats:
        """Return the normalised sum of the vectors of claims at most `reach` turns away, or of the session if None.

        The result is zero if the sum is.
        """
        if reach is None and turn:
            return self._direct(session, 0, None)  # cache one result a session
        rows = (
            self.of_session[session]
            if reach is None
            else self._find_neighbours(session, turn, reach)
        )
        total: Floats = self.vectors[rows].sum(axis=0)
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def _find_beside(self, row: int, stems: frozenset[str]) -> frozenset[str]:
        """Return the stems, of those given, that another claim of the same turn or a turn next to it has."""
        count = self._nearby(*self.places[row])
        own = set(self.claims.stems[row])
        return frozenset(stem for stem in stems if count[stem] > (stem in own))

    def _count_nearby_stems(self, session: str, turn: int) -> Counter[str]:
        """Return for each stem the number of claims that have it, in a turn and the turns next to it."""
        return Counter(
            stem
            for row in self._find_neighbours(session, turn, 1)
            for stem in set(self.claims.stems[row])
        )

    def _collect_detail_stems(self, row: int) -> frozenset[str]:
        return frozenset(normalise_claim(self.details[row].as_py() or "").content)
