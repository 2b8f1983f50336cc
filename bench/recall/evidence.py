"""How much of a question's evidence recall finds in conversations with an assistant, beside BM25.

    python -m bench.recall.evidence FILE… [--together] [--run-on] [--store DIR] [--encoder NAME] [--json]

FILEs are conversations with what is asked of them (`bench/recall/talks.py`). A real night makes a memory of each, or of
all of them with `--together`; no question names its conversation. Figures are the mean share of a question's messages
(`gold`) among the first 5, 10 and 25 messages that hits cite (of *all kinds* those that lead a hit), in percent, over
all questions and of each category. *BM25, persons first* gives a person's message 30% more. With `--run-on` a person's
message that ends in a question is one sentence, its clauses parted by commas, as many people type. A night over 64
messages takes about 5 seconds, a question .03.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson

from bench.harness import ENCODER, SCRATCH, Figures, Row, average, run
from bench.recall.talks import (
    Talk,
    list_persons_messages,
    load_messages,
    rank_down,
    read_talks,
    score_bm25,
)
from slowwave import Memory

CUTS = (5, 10, 25)
BONUS = 1.3
"""Factor of a person's message in *BM25, persons first*."""
STOPS = re.compile(r"[.!?:;]+(?=\s\S)")
"""What ends a sentence or a clause within a text."""


def measure(
    files: Sequence[Path],
    *,
    together: bool = False,
    run_on: bool = False,
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return a row a way to rank and a category."""
    talks = [talk for path in files for talk in read_talks(path)]
    store.mkdir(parents=True, exist_ok=True)
    if run_on:
        talks = [
            replace(talk, paths=[write_run_on(path, store) for path in talk.paths])
            for talk in talks
        ]
    if together:
        asked = [one for talk in talks for one in talk.asked]
        talks = [
            Talk("together", asked, [path for talk in talks for path in talk.paths])
        ]
    found = [
        row for talk in talks for row in ask_evidence(talk, talk.open(store, encoder))
    ]
    rows = [*({**row, "category": "all"} for row in found), *found]
    shares = average(rows, "ranking", "category", count="questions")
    percent = [
        {
            name: round(100 * value, 1) if name[0] == "@" else value
            for name, value in row.items()
        }
        for row in shares
    ]
    return Figures(percent, "evidence among the first, %")


def write_run_on(path: Path, folder: Path) -> Path:
    """Return a copy of a transcript in which each person's message that ends in a question is one sentence."""
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        if line["role"] == "user" and line["content"].rstrip().endswith("?"):
            line["content"] = STOPS.sub(",", " ".join(line["content"].split()))
    copy = folder / path.name
    copy.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    return copy


def ask_evidence(talk: Talk, memory: Memory) -> Iterator[Row]:
    """Yield for each question that some messages answer the share of them that each ranking has among its first."""
    messages = load_messages(memory)
    asked, ids = [one for one in talk.asked if one.gold], list(messages)
    words = score_bm25(
        [text for _, text in messages.values()], [one.text for one in asked]
    )
    persons = list_persons_messages(memory)
    raised = words * np.array([BONUS if name in persons else 1.0 for name in ids])
    for one, ranked, bonus in zip(
        asked, rank_down(words), rank_down(raised), strict=True
    ):
        rankings = {
            "BM25": [ids[at] for at in ranked[: max(CUTS)]],
            "BM25, persons first": [ids[at] for at in bonus[: max(CUTS)]],
            "messages": [
                source.message
                for hit in memory.recall(
                    one.text, max(CUTS), "message", everything=True
                )
                for source in hit.sources
            ],
            "all kinds": [
                hit.sources[0].message
                for hit in memory.recall(one.text, max(CUTS), everything=True)
                if hit.sources
            ],
        }
        for name, ranking in rankings.items():
            shares = {
                f"@{cut}": len(one.gold.intersection(ranking[:cut])) / len(one.gold)
                for cut in CUTS
            }
            yield {"ranking": name, "category": one.kind, **shares}


if __name__ == "__main__":
    run(measure)
