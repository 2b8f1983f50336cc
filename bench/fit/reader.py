"""Learns from labelled statements of persons what kind each is, and how well that tells of writers not seen.

    python -m bench.fit.reader [--labels data/labelled] [--write] [--json]

Every file `statements_*.jsonl` of the folder holds the sessions of one writer. Each writer is judged by a reader of the
others' sessions. Columns, a row a kind and writer: *labelled* sentences of that kind, *AP* the average precision,
*precision* and *recall* of what reaches .5. The last rows, *told*, are of what holds beyond its session; *cues* are the
precision and recall of the cue phrases on the same sentences, if they name the kind. `--write` fits all writers and
writes the reader that ships.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.fit.worth import INVENTED
from bench.harness import LABELLED, ROOT, Figures, Row, run
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.reader import (
    FARTHEST,
    HEADS,
    KINDS,
    READER_FILE,
    SETTLING,
    Reading,
    StatementReader,
    describe_statement,
    list_runs,
    weigh_runs,
)
from slowwave.tasks.observe.units import ASKING, SpokenSentence, list_sentences
from slowwave.tasks.observe.worth import list_grams

STRENGTH = 0.3
"""Inverse of the penalty on weights."""
FEWEST_WORDS, FEWEST_RUNS = 2, 3
"""Sentences that have a word, or a run of letters, for it to be learnt."""
OVERLAP = 0.5
"""Share of the statement or of the sentence that both have in common, for the sentence to have the statement's kind."""
ACCEPTED = LABELLED / "statements_assents.jsonl"
"""Proposals that a person accepts in a word or two: some settle something, others are of the moment."""
PAIRED = LABELLED / "standing_pairs.tsv"
"""The later statements of labelled pairs: those that change something, and those that only sound like it."""
SEALED = "sealed"
"""Part of the names of files that nothing is learnt from."""


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with what its writer says of it, a value for each of HEADS; None if nothing is said."""

    writer: str
    language: str
    sentence: SpokenSentence
    heads: tuple[bool | None, ...]


def measure(
    paths: Sequence[Path] = (), *, labels: Path = LABELLED, write: bool = False
) -> Figures:
    """Return a row a head and writer; write the reader."""
    named = paths or sorted(labels.glob("statements_*.jsonl"))
    sealed = [path for path in named if SEALED in path.name]
    labelled = read_labelled([path for path in named if path not in sealed])
    invented = read_invented()
    rows: list[Row] = []
    for writer in sorted({one.writer for one in labelled}):
        others = [one for one in labelled if one.writer != writer]
        mine = [one for one in labelled if one.writer == writer]
        rows += judge(writer, fit_reader([*others, *invented]), mine)
    everything = fit_reader([*labelled, *invented])
    for path in sealed:
        rows += judge(path.stem, everything, read_labelled([path]))
    if write:
        everything.save(ROOT / "tasks" / READER_FILE)
    return Figures(rows)


def read_labelled(paths: Sequence[Path]) -> list[LabelledSentence]:
    """Return the sentences of labelled sessions as the observer sees them, each with the kinds of its statements."""
    return [
        one
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
        for one in _label_session(json.loads(line))
    ]


def read_invented() -> list[LabelledSentence]:
    """Return sentences with a single label: whether each may be shown unasked.

    They are those of persons in INVENTED and PAIRED, and the proposals of ACCEPTED as a night reads them, as if the
    person had said them.
    """
    said = [
        (path.stem, row["text"], row["label"] == "keep")
        for path in (INVENTED, PAIRED)
        for row in _read_rows(path)
        if row["speaker"] == "person"
    ]
    return [
        LabelledSentence(writer, "", one, (*(None for _ in KINDS), holds))
        for writer, text, holds in [*said, *_read_accepted()]
        for one in islice(list_sentences(as_spoken([("user", text)])), 1)
    ]


def _read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def _read_accepted() -> Iterator[tuple[str, str, bool]]:
    """Yield the writer of each accepted proposal, the proposal without its question mark, and whether it holds."""
    for line in ACCEPTED.read_text(encoding="utf-8").splitlines():
        session = json.loads(line)
        proposal, answer = session["turns"]
        holds = all(one["standing"] for one in answer["statements"])
        yield session["writer"], proposal["text"].rstrip(ASKING), holds


def as_spoken(turns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return roles and texts as messages of a session."""
    origins = {"user": Origin.HUMAN, "assistant": Origin.MODEL}
    return [
        {
            "message_id": str(at),
            "speaker": None,
            "blocks": [],
            "role": role,
            "origin": origins[role],
            "text": text,
        }
        for at, (role, text) in enumerate(turns)
    ]


def _label_session(session: dict[str, Any]) -> Iterator[LabelledSentence]:
    """Yield the sentences of one session that a statement overlaps."""
    turns = session["turns"]
    spoken = as_spoken([(turn["role"], turn["text"]) for turn in turns])
    for one in list_sentences(spoken, least_said=1):
        statements = turns[int(one.turn.row["message_id"])].get("statements") or ()
        within = [told for told in statements if _overlaps(one, told["quote"])]
        if within:
            kinds = {told["kind"] for told in within}
            holds = any(t["standing"] and t["kind"] in SETTLING for t in within)
            heads = (*(kind in kinds for kind in KINDS), holds)
            yield LabelledSentence(session["writer"], session["language"], one, heads)


def _overlaps(one: SpokenSentence, quote: str) -> bool:
    """Return True if a sentence and a statement of its message have enough of their text in common."""
    sentence, start = one.turn.sentences[one.at], one.turn.text.find(quote)
    end = start + len(quote)
    shared = min(end, sentence.end) - max(start, sentence.start)
    shorter = min(len(quote), sentence.end - sentence.start)
    return start >= 0 and shared > 0 and shared >= OVERLAP * shorter


def fit_reader(labelled: Sequence[LabelledSentence]) -> StatementReader:
    """Return a reader of labelled sentences: a logistic regression for each of HEADS."""
    from scipy.sparse import csr_matrix, diags, hstack
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    texts = [one.sentence.read_as for one in labelled]
    words = CountVectorizer(analyzer=list_grams, min_df=FEWEST_WORDS, binary=True)
    runs = CountVectorizer(analyzer=list_runs, min_df=FEWEST_RUNS, binary=True)
    of_words, of_runs = words.fit_transform(texts), runs.fit_transform(texts)
    weighed = diags([weigh_runs(len(list_runs(text))) for text in texts]) @ of_runs
    numbers = np.array([describe_statement(one.sentence) for one in labelled], float)
    means, scales = numbers.mean(axis=0), numbers.std(axis=0)
    scales[scales == 0] = 1.0
    z = np.clip((numbers - means) / scales, -FARTHEST, FARTHEST)
    known = hstack([of_words, weighed, csr_matrix(z)], format="csr")
    fitted = []
    for head in zip(*(one.heads for one in labelled), strict=True):
        rows = [row for row, is_so in enumerate(head) if is_so is not None]
        regression = LogisticRegression(C=STRENGTH, max_iter=1000, solver="liblinear")
        fitted.append(regression.fit(known[rows], [head[row] for row in rows]))
    weights = np.column_stack([one.coef_[0] for one in fitted])
    first = len(words.vocabulary_)
    count = first + len(runs.vocabulary_)
    return StatementReader(
        words={str(word): int(row) for word, row in words.vocabulary_.items()},
        runs={str(run): first + int(row) for run, row in runs.vocabulary_.items()},
        weights=weights[:count],
        numbers=weights[count:],
        means=means,
        scales=scales,
        bias=np.array([one.intercept_[0] for one in fitted]),
    )


def judge(
    writer: str, reader: StatementReader, labelled: Sequence[LabelledSentence]
) -> list[Row]:
    """Return a row for each of HEADS: how well the reader tells it in a writer's sentences."""
    readings = reader.read([one.sentence for one in labelled])
    return judge_readings(writer, readings, labelled)


def judge_readings(
    writer: str, readings: Sequence[Reading], labelled: Sequence[LabelledSentence]
) -> list[Row]:
    """Return a row for each of HEADS: how well readings tell it of a writer's sentences."""
    from sklearn.metrics import average_precision_score

    rows: list[Row] = []
    for at, head in enumerate(HEADS):
        is_so = np.array([one.heads[at] for one in labelled])
        likely = np.array([reading.by_head[head] for reading in readings])
        called = likely >= 0.5
        right = float((is_so & called).sum())
        rows.append(
            {
                "kind": head,
                "writer": writer,
                "labelled": int(is_so.sum()),
                "AP": float(average_precision_score(is_so, likely))
                if is_so.any()
                else None,
                "precision": right / max(called.sum(), 1),
                "recall": right / max(is_so.sum(), 1),
            }
        )
    return rows


if __name__ == "__main__":
    run(measure)
