"""Questions over the samples: are they answered, by the right session, with a source?

    python -m bench.questions data/questions.toml [--demo] [--store DIR] [--space NAME] [--json]

Each question in the file names a text that a right hit must show and the session it stands in; *rank* is the place of
the first such hit among five. `--demo` asks the three that the README shows, and prints their answers as a person would
read them.
"""

import tomllib
from pathlib import Path
from typing import Any

from bench.harness import Figures, run
from slowwave import Memory
from slowwave.cli.ask import format_hit
from slowwave.recall.hits import Hits

K = 5


def measure(file: Path, *, demo: bool = False, store: Path | None = None, space: str = "default") -> Figures:
    """Return the rank of each question's answer, or the answers as `slowwave recall` prints them."""
    memory, rows, told = Memory.open(store, space), [], list[str]()
    for question in tomllib.loads(file.read_text(encoding="utf-8"))["question"]:
        if demo and not question.get("demo"):
            continue
        hits = memory.recall(question["question"], k=K)
        rows.append({"question": question["question"], "rank": find_rank(question, hits)})
        told += [f"\n? {question['question']}", *(format_hit(number, hit) for number, hit in enumerate(hits[:3], 1))]
    if demo:
        return Figures([], notes=told)
    ranks = [row["rank"] for row in rows]
    return Figures(rows, notes=[f"{ranks.count(1)} first, {len(ranks) - ranks.count(None)} in {K}"])


def find_rank(question: dict[str, Any], hits: Hits) -> int | None:
    """Return place, from 1, of the first hit that shows the expected text and cites the expected session."""
    for rank, hit in enumerate(hits, 1):
        shown = " ".join([hit.text, *(source.quote for source in hit.sources)])
        if question["expect"] in shown and any(source.session == question["session"] for source in hit.sources):
            return rank
    return None


if __name__ == "__main__":
    run(measure)
