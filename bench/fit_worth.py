"""Learns from labels by hand which sentences are worth remembering, and how well that tells of projects not seen.

    python -m bench.fit_worth PATH… [--labels data/labelled/worth.tsv] [--write] [--json]

PATHs are the transcripts that the labelled sentences were drawn from (`bench.draw_sentences`); labels of others are
left out. Each project is judged by a model of the others'. Columns: *sentences* of the project, *worth*, the share
labelled keep or context; *AUC*; *precision* and *recall* of what is called worth remembering at .3, .4 and .5;
*category*, of what is worth it the share given the label's category. `--write` fits all of them and writes the model
that ships.
"""

import argparse
import zipfile
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

from bench.draw_sentences import cut_sentences, read_shown_messages
from bench.worth import LABELS, read_labels
from slowwave.schemas.vocabulary import is_turn
from slowwave.tasks.observe import worth
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import NUMBERS, WORTH, WorthModel, mask_words

WORDS = {"ngram_range": (1, 2), "min_df": 3, "binary": True, "token_pattern": r"[\w']+|[!?…]"}
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
    category: str

    @property
    def is_worth(self) -> bool:
        """Whether it is worth remembering."""
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
    category: float


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
                    found.setdefault(
                        told["hash"], Labelled(told["project"], one.text, one.numbers, *labels[told["hash"]])
                    )
    return list(found.values())


def fit_worth_model(sentences: Sequence[Labelled]) -> WorthModel:
    """Return a model of labelled sentences."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    words = CountVectorizer(**WORDS).fit([mask_words(one.text) for one in sentences])
    numbers = StandardScaler().fit(np.array([one.numbers for one in sentences]))
    empty = WorthModel(words, numbers, None, None, None)

    def fit(some: Sequence[Labelled], told: Sequence[Any]) -> Any:
        matrix = empty.build_matrix([one.text for one in some], [one.numbers for one in some])
        stands_for = np.sqrt(np.expm1([one.numbers[CROWD] for one in some]))
        weights = stands_for / stands_for.mean()
        return LogisticRegression(C=STRENGTH, max_iter=5000).fit(matrix, told, sample_weight=weights)

    held = [one for one in sentences if one.is_worth]
    return WorthModel(
        words,
        numbers,
        worth=fit(sentences, [one.is_worth for one in sentences]),
        leans=fit(held, [one.label == "context" for one in held]),
        categories=fit(held, [one.category for one in held]),
    )


def judge_projects(sentences: Sequence[Labelled]) -> list[Result]:
    """Return of each project what a model of the others' says of it, and of all together."""
    from sklearn.metrics import roc_auc_score

    results, told = [], []
    for project in sorted({one.project for one in sentences}):
        mine = [one for one in sentences if one.project == project]
        if len(mine) < FEWEST:
            continue
        model = fit_worth_model([one for one in sentences if one.project != project])
        said = model.judge([one.text for one in mine], [one.numbers for one in mine])
        told += list(zip(mine, said, strict=True))
        results.append((project, told[-len(mine) :]))
    rows = []
    for project, pairs in [("all", told), *results]:
        is_worth = np.array([one.is_worth for one, _ in pairs])
        likely = np.array([said.worth for _, said in pairs])
        named = [said.choose_category(tuple(said.categories)) == one.category for one, said in pairs if one.is_worth]
        shares = [_measure_threshold(is_worth, likely >= least) for least in (0.3, 0.4, 0.5)]
        rows.append(
            Result(
                project,
                len(pairs),
                float(is_worth.mean()),
                float(roc_auc_score(is_worth, likely)) if 0 < is_worth.sum() < len(pairs) else float("nan"),
                *(value for pair in shares for value in pair),
                float(np.mean(named)) if named else float("nan"),
            )
        )
    return rows


def _measure_threshold(is_worth: Any, called: Any) -> tuple[float, float]:
    """Return precision and recall."""
    right = float((is_worth & called).sum())
    return right / max(called.sum(), 1), right / max(is_worth.sum(), 1)


def write_model(model: WorthModel) -> None:
    """Save a model where the night loads it from."""
    import skops.io

    parts = {field.name: getattr(model, field.name) for field in fields(WorthModel)}
    skops.io.dump(parts, _find_model(), compression=zipfile.ZIP_DEFLATED)


def _find_model() -> Path:
    return Path(worth.__file__).with_name(worth.FILE)


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
        write_model(fit_worth_model(sentences))
    if args.json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=150).print(render_fit_table(results))


if __name__ == "__main__":
    main()
