"""Learns from labels by hand which sentences are worth remembering, and how well that tells of projects not seen.

    python -m bench.fit.worth PATH… [--standing] [--labels data/labelled/worth.tsv] [--write] [--json]

PATHs are the transcripts that the labelled sentences were drawn from (`bench.nights.draw_sentences`); labels of others
are left out. Each project is judged by a model of the others'. Columns: *sentences* of the project, *worth*, the share
labelled keep or context; *AUC*; *precision* and *recall* of what is called worth remembering at .3, .4 and .5.
`--standing` learns what is worth telling unasked: keep alone, also from invented sentences (`INVENTED`); it judges what
people said that has a category of its own, as skills and blocks tell it. `--write` fits all of them and writes the
model that ships.
"""

import argparse
import csv
from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.nights.draw_sentences import cut_sentences, read_shown_messages
from bench.nights.worth import LABELS, WORTH, read_labels
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.observe import worth
from slowwave.tasks.observe.categories import find_coding_category
from slowwave.tasks.observe.coding import is_coding
from slowwave.tasks.observe.scores import count_words
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import NUMBERS, STANDING_FILE, WORTH_FILE, WorthModel, list_grams

OFTEN = 3
"""Sentences that have a word, or two in a row, for it to be learnt."""
STRENGTH = 0.1
"""Inverse of the penalty on weights."""
CROWD = NUMBERS.index("sentences of the message")
"""Sentences were drawn evenly by message: one of a pasted log stands for more than one of a short message."""
FEWEST = 30
"""Labelled sentences of a project that is judged on its own."""
KEEP = ("keep",)
INVENTED = LABELS.with_name("standing.tsv")
"""Sentences with their label, by one reader, each as if it opened a session."""
INVENTED_COUNT, STANDING_COUNT = 3, 1.5
"""What one of them counts for besides one of a transcript, and a sentence worth telling unasked besides another."""


@dataclass(frozen=True)
class Labelled:
    """A sentence with its label."""

    project: str
    text: str
    numbers: tuple[float, ...]
    label: str
    rule: bool = False
    """Whether a person said it over code and it has a category of its own: what skills and blocks tell."""


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
        for _, session in groupby(rows, key=itemgetter("session_id")):
            every = list(session)
            coding = is_coding(every)
            for one in list_sentences(list(filter(is_turn, every))):
                row = one.turn.row
                if told := wanted.get((row["message_id"], one.text)):
                    label, human = labels[told["hash"]][0], row["origin"] == Origin.HUMAN
                    category = find_coding_category(one.text, human=human, words=count_words(row["text"]))
                    rule = coding and human and category != ""
                    found.setdefault(told["hash"], Labelled(told["project"], one.text, one.numbers, label, rule))
    return list(found.values())


def read_invented() -> list[Labelled]:
    """Return the invented sentences as the observer would see them, as often as they count."""
    blank = {"message_id": "", "speaker": None, "blocks": []}
    with INVENTED.open(encoding="utf-8", newline="") as stream:
        told = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    origins = {"person": Origin.HUMAN, "model": Origin.MODEL}
    rows = [{**blank, "text": row["text"], "role": "", "origin": origins[row["speaker"]]} for row in told]
    return [
        Labelled("", one.text, one.numbers, row["label"])
        for row, message in zip(told, rows, strict=True)
        for one in islice(list_sentences([message]), 1)
    ] * INVENTED_COUNT


def fit_worth_model(sentences: Sequence[Labelled], worth: Collection[str] = WORTH, count: float = 1) -> WorthModel:
    """Return a model of labelled sentences: of whether their label is one of `worth`, which counts for `count`."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    counter = CountVectorizer(analyzer=list_grams, min_df=OFTEN, binary=True)
    words = counter.fit_transform([one.text for one in sentences])
    numbers = np.array([one.numbers for one in sentences])
    means, scales = numbers.mean(axis=0), numbers.std(axis=0)
    scales[scales == 0] = 1.0
    is_worth = np.array([one.label in worth for one in sentences])
    stands_for = np.sqrt(np.expm1(numbers[:, CROWD]))
    fitted = LogisticRegression(C=STRENGTH, max_iter=5000).fit(
        hstack([words, csr_matrix((numbers - means) / scales)], format="csr"),
        is_worth,
        sample_weight=stands_for / stands_for.mean() * np.where(is_worth, count, 1),
    )
    names, weights = counter.get_feature_names_out().tolist(), fitted.coef_[0]
    of_numbers = weights[len(names) :] / scales
    known = dict(zip(names, weights[: len(names)].tolist(), strict=True))
    return WorthModel(known, of_numbers, float(fitted.intercept_[0] - means @ of_numbers))


def judge_projects(
    sentences: Sequence[Labelled], invented: Sequence[Labelled] = (), worth: Collection[str] = WORTH, count: float = 1
) -> list[Result]:
    """Return of each project what a model of the others', and of what is invented, says of it, and of all together.

    With what is invented, the sentences judged are those that are told unasked.
    """
    pairs: dict[str, list[tuple[bool, float]]] = {"all": []}
    for project in sorted({one.project for one in sentences}):
        mine = [one for one in sentences if one.project == project]
        if len(mine) >= FEWEST:
            model = fit_worth_model([*(one for one in sentences if one.project != project), *invented], worth, count)
            mine = [one for one in mine if one.rule or not invented]
            said = model.compute_worth([one.text for one in mine], [one.numbers for one in mine])
            pairs[project] = list(zip((one.label in worth for one in mine), said, strict=True))
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
    parser.add_argument("--standing", action="store_true", help="what is worth telling unasked")
    args = parser.parse_args()
    sentences = collect_labelled(args.paths, read_labels(args.labels))
    invented = read_invented() if args.standing else []
    wanted, count = (KEEP, STANDING_COUNT) if args.standing else (WORTH, 1)
    results = judge_projects(sentences, invented, wanted, count)
    if args.write:
        file = STANDING_FILE if args.standing else WORTH_FILE
        fit_worth_model([*sentences, *invented], wanted, count).save(Path(worth.__file__).parents[1] / file)
    if args.json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=150).print(render_fit_table(results))


if __name__ == "__main__":
    main()
