"""Fits the weights that tell what of a past session matters to a bug report, and shows what they are worth.

    python -m bench.fit.statements DECISIONS REPORTS [DECISIONS REPORTS …] [--stores DIR …] [--write] [--json]

DECISIONS are conversations and REPORTS their cases, as for `bench.recall.blocks`; a night runs over each into a
scratch store, or, with as many `--stores`, into these, which are kept. A sentence of a case's session settles as much
as the share of its words that stand in the decision; a word matters when it stands there. Two ridge regressions,
logistic: the first weighs the sentences' signs and each dimension of their vectors, the second, over its log-odds, the
words' signs. Every case weighs alike. The first table is of sets that the fit did not see: each by weights from the
others. Last come the weights from all sets, which `--write` puts into `slowwave/context/weights.json`. Some 2
minutes a set, most of it the night's.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from sklearn.linear_model import LogisticRegression

from bench.harness import ROOT, SCRATCH, Figures, Row, average, run
from bench.recall.blocks import COUNT, extract_words
from slowwave.context import report
from slowwave.context.build import assemble_context
from slowwave.context.report import Matrix, PastMessage, Sentence, Weights
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.query import Query, build_query
from slowwave.recall.retrieve.pools import Vector
from slowwave.schemas.settings import Settings

ENCODER = "all-MiniLM-L6-v2"
BUDGETS = (125, 250, 500, 1_000, 2_000)
WRITTEN = ROOT / "slowwave" / "context" / "weights.json"
SENTENCE_PENALTY, WORD_PENALTY = 0.1, 1.0
"""C of the regressions: 1 over the weight of the squared weights, of signs in their deviations."""
MEANING = 3.0
"""What a dimension of the vectors counts against a sign's deviation in that penalty."""
SENTENCES, WORDS = 4.0, 50.0
"""What a case's sentences and words weigh together."""


@dataclass(frozen=True)
class Case:
    """A report, with the session it is about."""

    query: Query
    vector: Vector | None
    hits: list[str]
    decision: str
    stale: list[str]
    messages: list[PastMessage]
    sentences: list[Sentence]


@dataclass(frozen=True)
class CaseSet:
    """Cases of one store."""

    name: str
    memory: Memory
    cases: list[Case]


def measure(
    files: Sequence[Path], *, stores: Sequence[str] = (), store: Path = SCRATCH, write: bool = False
) -> Figures:
    """Do a night a set and a fit without each; return what blocks hold by these weights, and by those of all sets."""
    pairs = list(zip(files[::2], files[1::2], strict=True))
    folders = [Path(name) for name in stores] or [store / str(n) for n in range(len(pairs))]
    sets = [load_case_set(*pair, folder) for pair, folder in zip(pairs, folders, strict=True)]
    unseen = [(one, fit_weights([other for other in sets if other is not one])) for one in sets if len(sets) > 1]
    weights = fit_weights(sets)
    if write:
        WRITTEN.write_bytes(orjson.dumps(weights, option=orjson.OPT_APPEND_NEWLINE))
    rows = [{"set the fit did not see": one.name, **evaluate_case_set(one, fitted)} for one, fitted in unseen]
    rows += [{"set it did see": one.name, **evaluate_case_set(one, weights)} for one in sets]
    return Figures(rows, notes=[str(replace(weights, direction=()))])


def load_case_set(decisions: Path, reports: Path, store: Path) -> CaseSet:
    """Return the cases, after a night over the conversations."""
    run_night([decisions.absolute()], Settings(store=store, encoder=ENCODER)).check_complete()
    memory = Memory.open(store)
    rows = [json.loads(line) for line in reports.read_text(encoding="utf-8").splitlines()]
    return CaseSet(decisions.stem, memory, [case for row in rows for case in _build_cases(memory, row)])


def _build_cases(memory: Memory, row: dict[str, Any]) -> list[Case]:
    """Return the case, if its session is among those that are looked at."""
    view = memory.get_view()
    query = build_query(row["report"], 1, "message")
    vector = memory._vectors.encode_texts(view.release.encoder, [query.text]).get(query.text)
    hits = [hit.id for hit in memory.recall(row["report"], memory.settings.context.hits, ("message",))]
    loaded = report.load_sessions(view, query, vector, hits, memory.settings.context)
    return [
        Case(query, vector, hits, row["decision"], row["stale"], messages, sentences)
        for _, messages in loaded
        if (sentences := report.extract_sentences(messages)) and messages[0].source.session == row["session_id"]
    ]


def fit_weights(sets: Sequence[CaseSet]) -> Weights:
    """Return weights from the sets together."""
    cases = [case for one in sets for case in one.cases]
    signs = np.concatenate([report.compute_sentence_signs(case.messages, case.sentences) for case in cases])
    meaning = np.concatenate([_require_vectors(case) for case in cases])
    y, w = (np.concatenate(some) for some in zip(*map(_compute_sentence_targets, cases), strict=True))
    spread = signs.std(axis=0) + 1e-9
    bias, told = _fit_regression(np.hstack([signs / spread, meaning * MEANING]), y, w, SENTENCE_PENALTY)
    sentence, direction = np.split(told, [len(spread)])
    first = Weights(bias, _round(sentence / spread), 0.0, (), ENCODER, _round(direction * MEANING))
    x, y, w = (np.concatenate(some) for some in zip(*(_build_word_signs(case, first) for case in cases), strict=True))
    word_bias, told = _fit_regression(x, y, w, WORD_PENALTY)
    return replace(first, word_bias=word_bias, word=_round(told))


def _round(weights: Matrix) -> tuple[float, ...]:
    return tuple(weights.round(3).tolist())


def _require_vectors(case: Case) -> Matrix:
    found = report.compute_meaning(case.messages, case.sentences)
    if found is None:
        raise SystemExit("a store without vectors: nothing to fit a direction on")
    return found


def _compute_sentence_targets(case: Case) -> tuple[Matrix, Matrix]:
    """Of each sentence the share of the words that stand in the decision, and what it weighs."""
    wanted = extract_words(case.decision)
    told = [(len(s.words & wanted) / len(s.words), len(s.words)) for s in case.sentences]
    y, w = np.array(told, dtype=np.float64).T
    return y, w / w.sum() * SENTENCES


def _build_word_signs(case: Case, weights: Weights) -> tuple[Matrix, Matrix, Matrix]:
    """Return signs of the session's words, whether they stand in the decision, and what each weighs."""
    words, signs = report.compute_word_signs(
        report.weigh_sentences(case.messages, case.sentences, weights), len(case.messages)
    )
    wanted = extract_words(case.decision)
    return signs, np.array([float(word in wanted) for word in words]), np.full(len(words), WORDS / len(words))


def _fit_regression(x: Matrix, y: Matrix, w: Matrix, penalty: float) -> tuple[float, Matrix]:
    """Return bias and weights, from shares: each row counts as one that holds, and as one that doesn't, by its
    share.
    """
    model = LogisticRegression(C=penalty, max_iter=5_000, tol=1e-6)
    label = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    model.fit(np.concatenate([x, x]), label, np.concatenate([w * y, w * (1 - y)]))
    return round(float(model.intercept_[0]), 3), model.coef_[0]


def evaluate_case_set(one: CaseSet, weights: Weights) -> Row:
    """Return the mean share of the decision's words, and the share of blocks with a stale wording, by budget."""
    settings, rows = one.memory.settings.context, []
    for case in one.cases:
        found = report.collect_sentences(one.memory.get_view(), case.query, case.vector, case.hits, settings, weights)
        texts = {budget: assemble_context(case.query.text, found, budget, COUNT, settings).text for budget in BUDGETS}
        wanted = extract_words(case.decision)
        shares = {f"{budget} tokens": len(wanted & extract_words(text)) / len(wanted) for budget, text in texts.items()}
        stale = {
            f"stale at {b}": any(old in text for old in case.stale) if case.stale else None for b, text in texts.items()
        }
        rows.append(shares | stale)
    return average(rows)[0]


if __name__ == "__main__":
    run(measure)
