"""How well the readers that ship read what persons of whom nothing was learnt said.

    python -m bench.fit.sealed [FILE…] [--json]

FILEs are labelled as those of `bench.fit.reader`; by default those whose name has SEALED. Columns, a row of all, of
each language and of each writer: *sentences*; those that *hold*; *AP*, the average precision of what holds; of what
reaches SURE, as skills need, *precision* and *recall*; rules and decisions that hold (*settled*), and the share of them
that reaches it (*told*); of what is rightly told the share that has a heading of its kind (*named*), and of these those
whose kind is *right*. The rows behind are those of `bench.fit.reader`, a row a kind.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.fit.reader import (
    SEALED,
    LabelledSentence,
    judge_readings,
    read_labelled,
)
from bench.harness import LABELLED, Figures, Row, run
from slowwave.context.projects.standing import SURE
from slowwave.tasks.observe.layers import read_sentences
from slowwave.tasks.observe.reader import HEADS, SETTLING, Reading
from slowwave.tasks.observe.statements import NAMED, compute_told

Read = tuple[LabelledSentence, Reading]


def measure(files: Sequence[Path] = ()) -> Figures:
    """Return a row of each group of sentences, and a row a kind."""
    paths = files or sorted(LABELLED.glob(f"statements_*{SEALED}*.jsonl"))
    labelled = read_labelled(paths)
    sentences = [one.sentence for one in labelled]
    readings = read_sentences(sentences, in_layers=True)
    read = list(zip(labelled, readings, strict=True))
    groups = {"all": read}
    groups |= {
        name: [pair for pair in read if name in (pair[0].language, pair[0].writer)]
        for name in (
            *sorted({one.language for one in labelled}),
            *sorted({one.writer for one in labelled}),
        )
    }
    rows = [judge_told(name, some) for name, some in groups.items()]
    return Figures([*rows, *judge_readings("all", readings, labelled)])


def judge_told(name: str, read: Sequence[Read]) -> Row:
    """Return the figures of how well readings recognise the sentences that hold."""
    from sklearn.metrics import average_precision_score

    holds = np.array([has_label(one, "told") for one, _ in read])
    settled = holds & [
        has_label(one, "rule") or has_label(one, "decision") for one, _ in read
    ]
    told = np.array([compute_told(reading) >= SURE for _, reading in read])
    likely = [reading.told for _, reading in read]
    rightly = [pair for pair, is_so in zip(read, told & holds, strict=True) if is_so]
    kinds = [
        (one, reading.find_likeliest(SETTLING), reading) for one, reading in rightly
    ]
    named = [(one, kind) for one, kind, by in kinds if by.by_head[kind] >= NAMED]
    return {
        "of": name,
        "sentences": len(read),
        "hold": int(holds.sum()),
        "AP": float(average_precision_score(holds, likely)) if holds.any() else None,
        "precision": float((told & holds).sum() / max(told.sum(), 1)),
        "recall": float((told & holds).sum() / max(holds.sum(), 1)),
        "settled": int(settled.sum()),
        "told": float((told & settled).sum() / max(settled.sum(), 1)),
        "named": len(named) / max(len(kinds), 1),
        "right": sum(has_label(one, kind) for one, kind in named) / max(len(named), 1),
    }


def has_label(one: LabelledSentence, head: str) -> bool:
    """Return True if the writer labelled a sentence so."""
    return bool(one.heads[HEADS.index(head)])


if __name__ == "__main__":
    run(measure)
