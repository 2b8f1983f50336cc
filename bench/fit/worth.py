"""Learns from labels by hand which sentences are worth remembering, and how well that tells of projects not seen.

    python -m bench.fit.worth PATH… [--labels data/labelled/worth.tsv] [--write] [--json]

PATHs are the transcripts that the labelled sentences were drawn from (`bench.nights.draw_sentences`); labels of others
are left out. Each project is judged by a model of the others'. Columns: *sentences* of the project, *worth*, the share
labelled keep or context; *AUC*; *precision* and *recall* of what is called worth remembering at .3, .4 and .5.
`--write` fits all of them and writes the model that ships.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.nights.draw_sentences import cut_sentences, read_shown_messages
from bench.nights.worth import LABELS, WORTH, read_labels
from slowwave.schemas.vocabulary import is_turn
from slowwave.tasks.observe import worth
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import NUMBERS, WorthModel, list_grams

OFTEN = 3
"""Sentences that have a word, or two in a row, for it to be learnt."""
STRENGTH = 0.1
"""Inverse of the penalty on weights."""
CROWD = NUMBERS.index("sentences of the message")
"""Sentences were drawn evenly by message: one of a pasted log stands for more than one of a short message."""
FEWEST = 30
"""Labelled sentences of a project that is judged on its own."""


@dataclass(frozen=True)
class Labelled:
    """A sentence with its label."""

    project: str
    text: str
    numbers: tuple[float, ...]
    label: str

    @property
    def is_worth(self) -> bool:
        """Whether it is worth remembering, by itself or with its neighbours."""
        return self.label in WORTH


@dataclass(frozen=True)
class Result:
    """One project, judged by the others'."""

    project: str
    sentences: int
    worth: float
    auc: float
    precision_30: float
    recall_30: float
    precision_40: float
    recall_40: float
    precision_50: float
    recall_50: float


def collect_labelled(paths: Sequence[Path], labels: dict[str, tuple[str, str]]) -> list[Labelled]:
    """Return the labelled sentences of the transcripts as the observer sees them."""
    found: dict[str, Labelled] = {}
    for path in paths:
        messages = read_shown_messages([path])
        wanted = {(s["message_id"], s["text"]): s for s in cut_sentences(messages) if s["hash"] in labels}
        rows = messages.sort_by([("session_id", "ascending"), ("seq", "ascending")]).to_pylist()
        for _, turns in groupby(filter(is_turn, rows), key=itemgetter("session_id")):
            for one in list_sentences(list(turns)):
                if told := wanted.get((one.turn.row["message_id"], one.text)):
                    label = labels[told["hash"]][0]
                    found.setdefault(told["hash"], Labelled(told["project"], one.text, one.numbers, label))
    return list(found.values())


def fit_worth_model(sentences: Sequence[Labelled], labels: Sequence[bool] | None = None) -> WorthModel:
    """Return a model of labelled sentences: of whether they are worth it, or of the `labels`."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    counter = CountVectorizer(analyzer=list_grams, min_df=OFTEN, binary=True)
    words = counter.fit_transform([one.text for one in sentences])
    numbers = np.array([one.numbers for one in sentences])
    means, scales = numbers.mean(axis=0), numbers.std(axis=0)
    scales[scales == 0] = 1.0
    stands_for = np.sqrt(np.expm1(numbers[:, CROWD]))
    fitted = LogisticRegression(C=STRENGTH, max_iter=5000).fit(
        hstack([words, csr_matrix((numbers - means) / scales)], format="csr"),
        labels if labels is not None else [one.is_worth for one in sentences],
        sample_weight=stands_for / stands_for.mean(),
    )
    names, weights = counter.get_feature_names_out().tolist(), fitted.coef_[0]
    of_numbers = weights[len(names) :] / scales
    known = dict(zip(names, weights[: len(names)].tolist(), strict=True))
    return WorthModel(known, of_numbers, float(fitted.intercept_[0] - means @ of_numbers))


def judge_projects(sentences: Sequence[Labelled]) -> list[Result]:
    """Return of each project what a model of the others' says of it, and of all together."""
    pairs: dict[str, list[tuple[bool, float]]] = {"all": []}
    for project in sorted({one.project for one in sentences}):
        mine = [one for one in sentences if one.project == project]
        if len(mine) >= FEWEST:
            model = fit_worth_model([one for one in sentences if one.project != project])
            said = model.compute_worth([one.text for one in mine], [one.numbers for one in mine])
            pairs[project] = list(zip((one.is_worth for one in mine), said, strict=True))
            pairs["all"] += pairs[project]
    return [_measure_project(name, some) for name, some in pairs.items() if some]


def _measure_project(name: str, pairs: Sequence[tuple[bool, float]]) -> Result:
    from sklearn.metrics import roc_auc_score

    is_worth = np.array([one for one, _ in pairs])
    likely = 1 / (1 + np.exp(-np.array([said for _, said in pairs])))
    auc = float(roc_auc_score(is_worth, likely)) if 0 < is_worth.sum() < len(pairs) else float("nan")
    shares = [value for least in (0.3, 0.4, 0.5) for value in _measure_threshold(is_worth, likely >= least)]
    return Result(name, len(pairs), float(is_worth.mean()), auc, *shares)


def _measure_threshold(is_worth: Any, called: Any) -> tuple[float, float]:
    """Return precision and recall."""
    right = float((is_worth & called).sum())
    return right / max(called.sum(), 1), right / max(is_worth.sum(), 1)


def render_fit_table(results: Sequence[Result]) -> Table:
    """For people."""
    shown = Table(*(field.name for field in fields(Result)))
    for one in results:
        shown.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in astuple(one)))
    return shown


def main() -> None:
    """Fit, judge and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--labels", type=Path, default=LABELS, help="labelled sentences, by hash")
    parser.add_argument("--write", action="store_true", help="write the model that ships")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    sentences = collect_labelled(args.paths, read_labels(args.labels))
    results = judge_projects(sentences)
    if args.write:
        fit_worth_model(sentences).save(Path(worth.__file__).parents[1] / worth.WORTH_FILE)
    if args.json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=150).print(render_fit_table(results))


if __name__ == "__main__":
    main()
