"""How well slowwave tells claims that are one from claims that only look alike, beside thresholds of plain rapidfuzz.

    python -m bench.nights.dedupe FILE… [--no-encoder] [--encoder all-MiniLM-L6-v2] [--json]

FILEs are labelled pairs: MSRP, SICK, STS or plain `label⇥a⇥b` (see `bench/nights/pair_files.py`), as
`data/labelled/pairs.tsv`. Columns: precision, recall and F1 of "the same", average precision of the ranking, and of the
pairs known to contradict each other the share merged. Nearly all of the time is the encoder's: the 11,000 pairs of
MSRP and SICK take 14 minutes of one core, and some seconds with `--no-encoder`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rapidfuzz import fuzz
from sklearn.metrics import average_precision_score

from bench.harness import build_parser, print_rows
from bench.nights.pair_files import Labelled, PairFile, read_pairs
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.errors import EncoderNotFound
from slowwave.tasks.dedupe.decide import Decision, Rules, compare_sentences

LEVELS = (95, 90, 85, 80)
BLOCKED = -100.0
"""A guard's objection ranks a pair below every pair without one."""


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one file; shares from 0 to 1."""

    file: str
    method: str
    precision: float | None
    recall: float
    f1: float
    ap: float
    contradictions: float | None


def evaluate_file(file: PairFile, cosines: Sequence[float] | None) -> list[Result]:
    """Return rules alone, rules with vectors where there are any, and the plain thresholds."""
    methods: list[tuple[str, list[bool], list[float]]] = [_decide_by_rules("slowwave, rules alone", file.pairs, None)]
    if cosines is not None:
        methods.append(_decide_by_rules("slowwave, rules and vectors", file.pairs, cosines))
    for name, scorer in (("token_sort", fuzz.token_sort_ratio), ("token_set", fuzz.token_set_ratio)):
        scores = [float(scorer(p.a.casefold(), p.b.casefold())) for p in file.pairs]
        methods += [(f"{name} ≥ {level}", [s >= level for s in scores], scores) for level in LEVELS]
    return [_build_result(file, *method) for method in methods]


def compute_cosines(pairs: Sequence[Labelled], encoder_name: str) -> list[float] | None:
    """Return cosine of each pair's vectors; None where there is no such encoder here."""
    try:
        encoder = load_encoder(encoder_name)
    except EncoderNotFound:
        return None
    texts = sorted({t for p in pairs for t in (p.a, p.b)})
    place = {text: at for at, text in enumerate(texts)}
    vectors = encoder.encode(texts)
    return [float(vectors[place[p.a]] @ vectors[place[p.b]]) for p in pairs]


def _decide_by_rules(
    name: str, pairs: Sequence[Labelled], cosines: Sequence[float] | None
) -> tuple[str, list[bool], list[float]]:
    rules = Rules()
    near: Sequence[float | None] = cosines or [None] * len(pairs)
    decisions = [compare_sentences(p.a, p.b, cosine=c, rules=rules) for p, c in zip(pairs, near, strict=True)]
    return name, [d.same for d in decisions], [_score_decision(d) for d in decisions]


def _score_decision(decision: Decision) -> float:
    """Return the score that orders pairs for average precision."""
    free = decision.same or decision.rule in ("unlike", "meaning")
    return decision.score + 20 * decision.scores.get("cosine", 0.0) + (0.0 if free else BLOCKED)


def _build_result(file: PairFile, method: str, merged: list[bool], scores: list[float]) -> Result:
    truth = np.array([p.same for p in file.pairs])
    said = np.array(merged)
    against = np.array([p.contradiction for p in file.pairs])
    hits, count = int((truth & said).sum()), int(said.sum())
    precision = hits / count if count else None
    recall = hits / max(1, int(truth.sum()))
    f1 = 2 * hits / max(1, count + int(truth.sum()))
    merged_against = float((said & against).sum() / against.sum()) if against.any() else None
    ap = float(average_precision_score(truth, scores))
    return Result(file.name, method, precision, recall, f1, ap, merged_against)


def main() -> None:
    """Read the files, print a table each."""
    parser = build_parser(__doc__, "files…")
    parser.add_argument("--no-encoder", action="store_true", help="rules alone")
    given = parser.parse_args()
    for path in given.files:
        file = read_pairs(path)
        rows = evaluate_file(file, None if given.no_encoder else compute_cosines(file.pairs, given.encoder))
        same, against = sum(p.same for p in file.pairs), sum(p.contradiction for p in file.pairs)
        title = f"{file.name} ({file.layout}): {len(file.pairs):,} pairs, {same:,} the same, {against:,} contradictions"
        print_rows(list(map(asdict, rows)), given.as_json, title, [f"{file.skipped:,} lines skipped"])


if __name__ == "__main__":
    main()
