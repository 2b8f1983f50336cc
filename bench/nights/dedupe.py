"""How well slowwave tells claims that are one from claims that only look alike, beside thresholds of plain rapidfuzz.

    python -m bench.nights.dedupe FILE… [--no-encoder] [--encoder all-MiniLM-L6-v2] [--json]

FILEs are labelled pairs, tab-separated without quoting: MSRP (a header that begins with `Quality`), SICK (one with
`entailment_judgment`, whose ENTAILMENT is the same claim), or label and two texts, as `data/labelled/pairs.tsv`, with 1
or STS's scores from 4 ("mostly equivalent") for the same. Columns: precision, recall and F1 of "the same", average
precision of the ranking, and of the pairs known to contradict each other the share merged. Nearly all of the time is
the encoder's: the 11,000 pairs of MSRP and SICK take 14 minutes of one core, and some seconds with `--no-encoder`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz
from sklearn.metrics import average_precision_score

from bench.harness import ENCODER, Figures, Row, run
from slowwave.engines.encoders.load import load_encoder
from slowwave.tasks.dedupe.decide import Decision, Rules, decide
from slowwave.tasks.dedupe.normalise import normalise_claim

LEVELS = (95, 90, 85, 80)
BLOCKED = -100.0
"""A guard's objection ranks a pair below every pair without one."""


class Pair(NamedTuple):
    """Two texts, whether they say the same, and whether they contradict each other, if that is known."""

    a: str
    b: str
    same: bool
    contradiction: bool


def measure(
    files: Sequence[Path], *, no_encoder: bool = False, encoder: str = ENCODER
) -> Figures:
    """Return a row a file and method."""
    rows, notes = list[Row](), []
    for path in files:
        pairs = read_pairs(path)
        same, against = sum(p.same for p in pairs), sum(p.contradiction for p in pairs)
        notes.append(
            f"{path.name}: {len(pairs):,} pairs, {same:,} the same, {against:,} contradictions"
        )
        for name, merged, scores in judge_pairs(pairs, None if no_encoder else encoder):
            rows.append(
                {
                    "file": path.name,
                    "method": name,
                    **score_method(pairs, np.array(merged), scores),
                }
            )
    return Figures(rows, notes=notes)


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a file; a line with too few columns or without a label is skipped."""
    head, *rows = [
        line.split("\t")
        for line in path.read_text("utf-8-sig").splitlines()
        if line.strip()
    ]
    columns, one = (0, 1, 2), 1.0
    if head[0] == "Quality":
        columns = (0, 3, 4)
    elif "entailment_judgment" in head:
        columns = tuple(
            map(head.index, ("entailment_judgment", "sentence_A", "sentence_B"))
        )
    else:
        rows = [head, *rows]
        one = 1.0 if {row[0] for row in rows} <= {"0", "1"} else 4.0
    label, a, b = columns
    cut = [
        (row[label].strip(), row[a].strip(), row[b].strip())
        for row in rows
        if len(row) > max(columns)
    ]
    return [
        Pair(
            a,
            b,
            judged == "ENTAILMENT" if judged.isalpha() else float(judged) >= one,
            judged == "CONTRADICTION",
        )
        for judged, a, b in cut
        if judged.isalpha() or judged.replace(".", "", 1).isdigit()
    ]


def judge_pairs(
    pairs: Sequence[Pair], encoder: str | None
) -> list[tuple[str, list[bool], list[float]]]:
    """Return of each method which pairs it merges, and how it ranks them: rules, with vectors, plain thresholds."""
    claims = [(normalise_claim(pair.a), normalise_claim(pair.b)) for pair in pairs]
    cosines: dict[str, list[float | None]] = {
        "slowwave, rules alone": [None] * len(pairs)
    }
    if encoder is not None:
        vectors = load_encoder(encoder).encode(
            [text for p in pairs for text in (p.a, p.b)]
        )
        cosines["slowwave, rules and vectors"] = np.einsum(
            "ij,ij->i", vectors[::2], vectors[1::2]
        ).tolist()
    methods, rules = list[tuple[str, list[bool], list[float]]](), Rules()
    for name, alike in cosines.items():
        both = zip(claims, alike, strict=True)
        told = [
            decide(a, b, fuzz.ratio(a.sorted_words, b.sorted_words), cosine, rules)
            for (a, b), cosine in both
        ]
        methods.append(
            (name, [d.same for d in told], [_score_decision(d) for d in told])
        )
    for name, scorer in (
        ("token_sort", fuzz.token_sort_ratio),
        ("token_set", fuzz.token_set_ratio),
    ):
        scores = [float(scorer(p.a.casefold(), p.b.casefold())) for p in pairs]
        methods += [
            (f"{name} ≥ {level}", [score >= level for score in scores], scores)
            for level in LEVELS
        ]
    return methods


def _score_decision(decision: Decision) -> float:
    """Return the score that orders pairs for average precision."""
    free = decision.same or decision.rule in ("unlike", "meaning")
    return (
        decision.score
        + 20 * decision.scores.get("cosine", 0.0)
        + (0.0 if free else BLOCKED)
    )


def score_method(
    pairs: Sequence[Pair], merged: np.ndarray, scores: Sequence[float]
) -> dict[str, float | None]:
    """Return a method's figures, from 0 to 1."""
    truth, against = (
        np.array([p.same for p in pairs]),
        np.array([p.contradiction for p in pairs]),
    )
    hits, count, total = (
        int((truth & merged).sum()),
        int(merged.sum()),
        int(truth.sum()),
    )
    return {
        "precision": hits / count if count else None,
        "recall": hits / max(1, total),
        "f1": 2 * hits / max(1, count + total),
        "ap": float(average_precision_score(truth, scores)),
        "contradictions": float((merged & against).sum() / against.sum())
        if against.any()
        else None,
    }


if __name__ == "__main__":
    run(measure)
