"""Learns from labels by hand which sentences are worth remembering, and how well that tells of projects not seen.

    python -m bench.fit.worth PATH… [--standing] [--held PROJECT] [--labels data/labelled/worth.tsv] [--write] [--json]

PATHs are the transcripts that the labelled sentences were drawn from; labels of others are left out. Each project is
judged by a model of the others'. Columns: *sentences* of the project, *worth*, the share labelled keep or context;
*AUC*; precision (*p*) and recall (*r*) of what is called worth remembering at .3, .4 and .5. `--standing` learns what
is worth telling unasked: keep alone, also from invented sentences (`INVENTED`); it judges what people said. `--write`
fits all of them, the held project apart, and writes the model that ships.
"""

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import LABELLED, ROOT, Figures, Row, run
from bench.nights.worth import (
    LABELS,
    WORTH,
    cut_sentences,
    read_labels,
    read_shown_messages,
)
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.observe.coding import is_coding
from slowwave.tasks.observe.units import list_sentences
from slowwave.tasks.observe.worth import (
    NUMBERS,
    STANDING_FILE,
    WORTH_FILE,
    WorthModel,
    list_grams,
)

OFTEN = 3
"""Sentences that have a word, or two in a row, for it to be learnt."""
STRENGTH = 0.1
"""Inverse of the penalty on weights."""
CROWD = NUMBERS.index("sentences of the message")
"""Sentences were drawn evenly by message: one of a pasted log stands for more than one of a short message."""
FEWEST = 30
"""Labelled sentences of a project that is judged on its own."""
INVENTED = LABELLED / "standing.tsv"
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
    """Whether a person said it over code: what skills and blocks tell."""


def measure(
    paths: Sequence[Path],
    *,
    standing: bool = False,
    labels: Path = LABELS,
    held: str = "",
    write: bool = False,
) -> Figures:
    """Return a row a project, and all; write the model."""
    sentences, invented = (
        collect_labelled(paths, read_labels(labels)),
        read_invented() if standing else [],
    )
    wanted, count = (("keep",), STANDING_COUNT) if standing else (WORTH, 1)
    rows = judge_projects(sentences, invented, wanted, count)
    if write:
        file = ROOT / "tasks" / (STANDING_FILE if standing else WORTH_FILE)
        fit_worth_model(
            [*(one for one in sentences if one.project != held), *invented],
            wanted,
            count,
        ).save(file)
    return Figures(rows)


def collect_labelled(
    paths: Sequence[Path], labels: dict[str, tuple[str, str]]
) -> list[Labelled]:
    """Return the labelled sentences of the transcripts as the observer sees them."""
    found: dict[str, Labelled] = {}
    for path in paths:
        messages = read_shown_messages([path])
        wanted = {
            (one.message_id, one.text): one
            for one in cut_sentences(messages)
            if one.hash in labels
        }
        rows = messages.sort_by(
            [("session_id", "ascending"), ("seq", "ascending")]
        ).to_pylist()
        for _, session in groupby(rows, key=itemgetter("session_id")):
            every = list(session)
            coding = is_coding(every)
            for one in list_sentences(list(filter(is_turn, every))):
                row = one.turn.row
                if told := wanted.get((row["message_id"], one.text)):
                    human = row["origin"] == Origin.HUMAN
                    rule = coding and human
                    labelled = Labelled(
                        told.project, one.text, one.numbers, labels[told.hash][0], rule
                    )
                    found.setdefault(told.hash, labelled)
    return list(found.values())


def read_invented() -> list[Labelled]:
    """Return the invented sentences as the observer would see them, as often as they count."""
    blank = {"message_id": "", "speaker": None, "blocks": [], "role": ""}
    origins = {"person": Origin.HUMAN, "model": Origin.MODEL}
    with INVENTED.open(encoding="utf-8", newline="") as stream:
        told = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Labelled("", one.text, one.numbers, row["label"])
        for row in told
        for one in islice(
            list_sentences(
                [{**blank, "text": row["text"], "origin": origins[row["speaker"]]}]
            ),
            1,
        )
    ] * INVENTED_COUNT


def fit_worth_model(
    sentences: Sequence[Labelled], worth: Collection[str] = WORTH, count: float = 1
) -> WorthModel:
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
    return WorthModel(
        known, of_numbers, float(fitted.intercept_[0] - means @ of_numbers)
    )


def judge_projects(
    sentences: Sequence[Labelled],
    invented: Sequence[Labelled],
    worth: Collection[str],
    count: float,
) -> list[Row]:
    """Return of each project what a model of the others', and of what is invented, says of it, and of all together.

    With invented sentences, the sentences judged are those that may be shown unasked.
    """
    pairs: dict[str, list[tuple[bool, float]]] = {"all": []}
    for project in sorted({one.project for one in sentences}):
        mine = [one for one in sentences if one.project == project]
        if len(mine) >= FEWEST:
            model = fit_worth_model(
                [*(one for one in sentences if one.project != project), *invented],
                worth,
                count,
            )
            mine = [one for one in mine if one.rule or not invented]
            said = model.compute_worth(
                [one.text for one in mine], [one.numbers for one in mine]
            )
            pairs[project] = list(
                zip((one.label in worth for one in mine), said, strict=True)
            )
            pairs["all"] += pairs[project]
    return [
        {"project": name, **_measure_project(*map(np.array, zip(*some, strict=True)))}
        for name, some in pairs.items()
        if some
    ]


def _measure_project(is_worth: Any, said: Any) -> dict[str, float | None]:
    from sklearn.metrics import roc_auc_score

    likely = 1 / (1 + np.exp(-said))
    auc = (
        float(roc_auc_score(is_worth, likely))
        if 0 < is_worth.sum() < len(is_worth)
        else None
    )
    figures = {"sentences": len(is_worth), "worth": float(is_worth.mean()), "AUC": auc}
    for least in (0.3, 0.4, 0.5):
        called = likely >= least
        right = float((is_worth & called).sum())
        figures |= {
            f"p {least}": right / max(called.sum(), 1),
            f"r {least}": right / max(is_worth.sum(), 1),
        }
    return figures


if __name__ == "__main__":
    run(measure)
