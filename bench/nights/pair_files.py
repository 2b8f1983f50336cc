"""Reads labelled sentence pairs in the layouts of MSRP, SICK, STS and plain `label⇥a⇥b`, told apart by content.

- MSRP: a header that begins with `Quality` (after a byte order mark), then label, two ids, two sentences.
- SICK: a header with `sentence_A` and `entailment_judgment`; the same claim is ENTAILMENT, a CONTRADICTION is counted.
- STS: a score from 0 to 5 and two texts, in whatever columns; the same claim from `SAME_STS` up.
- plain: 0 or 1, and two texts.
All are tab-separated, without quoting; `.csv` STS benchmark files are the same.
"""

from dataclasses import dataclass
from pathlib import Path

SAME_STS = 4.0
"""STS: 4 is "mostly equivalent, some unimportant details differ", 5 "completely equivalent"."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Two texts, whether they say the same, and whether they contradict each other, where that is known."""

    a: str
    b: str
    same: bool
    contradiction: bool = False


@dataclass(frozen=True, slots=True)
class PairFile:
    """The pairs of a file, and the layout it was read as."""

    name: str
    layout: str
    pairs: tuple[Labelled, ...]
    skipped: int


class UnknownLayout(ValueError):
    """A file none of whose columns are a label and two texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: expected MSRP, SICK, STS or label⇥text⇥text, tab-separated; found none of them")


def read_pairs(path: Path) -> PairFile:
    """Return the pairs of a file; a line with too few columns or no label is skipped and counted.

    Raises:
        UnknownLayout: no layout fits.
    """
    rows = [line.split("\t") for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    if not rows:
        raise UnknownLayout(path)
    head = [cell.strip().casefold() for cell in rows[0]]
    if head[0] == "quality":
        return _build_pair_file(path, "MSRP", [_parse_labelled(r, 0, 3, 4) for r in rows[1:]])
    if "sentence_a" in head and "entailment_judgment" in head:
        columns = [head.index(name) for name in ("entailment_judgment", "sentence_a", "sentence_b")]
        return _build_pair_file(path, "SICK", [_parse_sick(r, *columns) for r in rows[1:]])
    score, a, b = _detect_columns(path, rows)
    values = {r[score].strip() for r in rows if _parse_score(r, score) is not None}
    if values <= {"0", "1"}:
        return _build_pair_file(path, "plain", [_parse_labelled(r, score, a, b) for r in rows])
    return _build_pair_file(path, "STS", [_parse_sts(r, score, a, b) for r in rows])


def _build_pair_file(path: Path, layout: str, pairs: list[Labelled | None]) -> PairFile:
    kept = tuple(p for p in pairs if p is not None)
    return PairFile(path.name, layout, kept, len(pairs) - len(kept))


def _parse_labelled(row: list[str], label: int, a: int, b: int) -> Labelled | None:
    if len(row) <= max(label, a, b) or row[label].strip() not in ("0", "1"):
        return None
    return Labelled(row[a].strip(), row[b].strip(), row[label].strip() == "1")


def _parse_sick(row: list[str], label: int, a: int, b: int) -> Labelled | None:
    if len(row) <= max(label, a, b):
        return None
    judged = row[label].strip().upper()
    return Labelled(row[a].strip(), row[b].strip(), judged == "ENTAILMENT", judged == "CONTRADICTION")


def _parse_sts(row: list[str], score: int, a: int, b: int) -> Labelled | None:
    value = _parse_score(row, score)
    if value is None or len(row) <= max(a, b):
        return None
    return Labelled(row[a].strip(), row[b].strip(), value >= SAME_STS)


def _parse_score(row: list[str], column: int) -> float | None:
    try:
        value = float(row[column])
    except (IndexError, ValueError):
        return None
    return value if 0 <= value <= 5 else None


def _detect_columns(path: Path, rows: list[list[str]]) -> tuple[int, int, int]:
    """Return the column that is a score in nine rows of ten, and the two of the longest texts."""
    width = min(len(r) for r in rows if len(r) > 2) if any(len(r) > 2 for r in rows) else 0
    sample = [r for r in rows if len(r) >= width][:500]
    scores = [c for c in range(width) if sum(_parse_score(r, c) is not None for r in sample) >= 0.9 * len(sample)]
    texts = [c for c in range(width) if c not in scores]
    if not scores or len(texts) < 2:
        raise UnknownLayout(path)
    longest = sorted(texts, key=lambda c: -sum(len(r[c]) for r in sample))[:2]
    return scores[-1], min(longest), max(longest)
