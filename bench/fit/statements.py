"""Fits the weights that tell what of a past session matters to a bug report, and shows what they are worth.

    python -m bench.fit.statements DECISIONS… [--store DIR] [--write] [--json]

DECISIONS are conversations with bug reports beside them, as for `bench.recall.blocks`; a night runs over each into a
scratch store, or into DIR, which is kept. A sentence of a report's session settles as much as the share of its words
that stand in the decision; a word matters when it stands there. Two ridge regressions, logistic: the first weighs the
sentences' signs and each dimension of their vectors, the second, over its log-odds, the words' signs. Every case weighs
alike. The first table is of sets that the fit did not see: each by weights from the others. Last come the weights from
all sets, which `--write` puts into `slowwave/context/weights.json`. Some 2 minutes a set, most of it the night's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
from sklearn.linear_model import LogisticRegression

from bench.harness import ROOT, SCRATCH, Figures, Row, average, run
from bench.recall.blocks import COUNT, extract_words
from bench.recall.talks import Asked, read_talks
from slowwave.context import report
from slowwave.context.build import assemble_context
from slowwave.context.report import Matrix, PastMessage, Sentence, Weights
from slowwave.memory import Memory
from slowwave.recall.hits import Hits
from slowwave.recall.query import Query, Vector, build_query

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

    memory: Memory
    asked: Asked
    query: Query
    vector: Vector | None
    hits: Hits
    messages: list[PastMessage]
    sentences: list[Sentence]


def measure(files: Sequence[Path], *, store: Path = SCRATCH, write: bool = False) -> Figures:
    """Do a night a set and a fit without each; return what blocks hold by these weights, and by those of all sets."""
    talks = [talk for path in files for talk in read_talks(path)]
    sets = {talk.name: list(build_cases(talk.open(store, ENCODER), talk.asked)) for talk in talks}
    weights, rows = fit_weights(list(chain(*sets.values()))), list[Row]()
    if write:
        WRITTEN.write_bytes(orjson.dumps(weights, option=orjson.OPT_APPEND_NEWLINE))
    for name, cases in sets.items():
        if rest := [case for other, some in sets.items() if other != name for case in some]:
            rows.append({"set the fit did not see": name, **evaluate_cases(cases, fit_weights(rest))})
    rows += [{"set it did see": name, **evaluate_cases(cases, weights)} for name, cases in sets.items()]
    return Figures(rows, notes=[str(replace(weights, direction=()))])


def build_cases(memory: Memory, reports: Sequence[Asked]) -> Iterator[Case]:
    """Yield each report whose session is among those that are looked at."""
    view, settings = memory.get_view(), memory.settings.context
    for asked in reports:
        query = build_query(asked.text, 1, "message")
        vector = memory._vectors.encode_texts(view.release.encoder, [query.text]).get(query.text)
        hits = memory.recall(asked.text, settings.hits, ("message",))
        for _, messages in report.load_sessions(view, query, vector, [hit.id for hit in hits], ENCODER):
            sentences = report.extract_sentences(messages)
            if sentences and messages[0].source.session in asked.sessions:
                yield Case(memory, asked, query, vector, hits, messages, sentences)


def fit_weights(cases: Sequence[Case]) -> Weights:
    """Return weights from cases."""
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
    wanted = extract_words(case.asked.answer)
    told = [(len(s.words & wanted) / len(s.words), len(s.words)) for s in case.sentences]
    y, w = np.array(told, dtype=np.float64).T
    return y, w / w.sum() * SENTENCES


def _build_word_signs(case: Case, weights: Weights) -> tuple[Matrix, Matrix, Matrix]:
    """Return signs of the session's words, whether they stand in the decision, and what each weighs."""
    words, signs = report.compute_word_signs(
        report.weigh_sentences(case.messages, case.sentences, weights), len(case.messages)
    )
    wanted = extract_words(case.asked.answer)
    return signs, np.array([float(word in wanted) for word in words]), np.full(len(words), WORDS / len(words))


def _fit_regression(x: Matrix, y: Matrix, w: Matrix, penalty: float) -> tuple[float, Matrix]:
    """Return bias and weights, from shares: each row counts as one that holds, and as one that doesn't, by its
    share.
    """
    model = LogisticRegression(C=penalty, max_iter=5_000, tol=1e-6)
    label = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    model.fit(np.concatenate([x, x]), label, np.concatenate([w * y, w * (1 - y)]))
    return round(float(model.intercept_[0]), 3), model.coef_[0]


def evaluate_cases(cases: Sequence[Case], weights: Weights) -> Row:
    """Return the mean share of the decision's words, and the share of blocks with a stale wording, by budget."""
    rows = []
    for case in cases:
        wanted, old, settings = extract_words(case.asked.answer), case.asked.wordings, case.memory.settings.context
        found = report.rank_sentences(case.memory.get_view(), case.query, case.vector, case.hits, weights)
        texts = {budget: assemble_context(case.query.text, found, budget, COUNT, settings).text for budget in BUDGETS}
        shares = {f"{budget} tokens": len(wanted & extract_words(text)) / len(wanted) for budget, text in texts.items()}
        stale = {f"stale at {b}": any(one in text for one in old) if old else None for b, text in texts.items()}
        rows.append(shares | stale)
    return average(rows)[0]


if __name__ == "__main__":
    run(measure)
