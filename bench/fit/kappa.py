"""Compares two readings of the same labelled statements of persons: how far two readers agree.

    python -m bench.fit.kappa [data/labelled/second_readings.tsv] [--labels data/labelled] [--json]

The first reading is the writer's own, in `statements_*.jsonl`; the second that of a reader who saw one session at a
time, without its labels. Columns, a row a kind: statements that the *first* and the *second* reading call so, and
Cohen's *kappa* of that kind against the rest. The last rows are of whether a statement *stands* beyond its session, of
all kinds together, and of *for whom* a statement holds, if both readings say so. The notes name the pairs of kinds that
are confused most.
"""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.harness import LABELLED, Figures, Row, run
from slowwave.schemas.errors import UsageError
from slowwave.tasks.observe.reader import KINDS

SECOND = LABELLED / "second_readings.tsv"
MOST = 8
"""Pairs of kinds that are named."""


class Label(NamedTuple):
    """One reading of a statement."""

    kind: str
    stands: bool
    whom: str
    """For whom a standing statement holds: `all`, `speaker` or `other`; empty if the reading does not say."""


Place = tuple[str, int, int, int]
"""The writer, the session among the writer's, the turn and the statement, each counted from 0."""


def measure(second: Path = SECOND, *, labels: Path = LABELLED) -> Figures:
    """Return a row a kind.

    Raises:
        UsageError: a second reading is of a statement that has no label.
    """
    first, again = read_first(labels), read_second(second)
    missing = sorted(again.keys() - first.keys())
    if missing:
        raise UsageError(f"no statement {missing[0]} in {labels}/statements_*.jsonl")
    pairs = [(first[place], label) for place, label in again.items()]
    kinds = [(one.kind, other.kind) for one, other in pairs]
    rows = [
        compare(kind, [(one == kind, other == kind) for one, other in kinds])
        for kind in KINDS
    ]
    stand = [(one.stands, other.stands) for one, other in pairs]
    whom = [(one.whom, other.whom) for one, other in pairs if one.whom and other.whom]
    rows += [compare("stands", stand), compare("all kinds", kinds)]
    rows += [compare("for whom", whom)] if whom else []
    confused = Counter(frozenset(pair) for pair in kinds if len(set(pair)) > 1)
    notes = [
        f"{' / '.join(sorted(pair))}: {count}"
        for pair, count in confused.most_common(MOST)
    ]
    return Figures(rows, notes=notes)


def read_first(labels: Path) -> dict[Place, Label]:
    """Return the writers' labels."""
    found: dict[Place, Label] = {}
    sessions = Counter[str]()
    for path in sorted(labels.glob("statements_*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            session = json.loads(line)
            writer = session["writer"]
            for turn, said in enumerate(session["turns"]):
                for at, one in enumerate(said.get("statements") or ()):
                    place = (writer, sessions[writer], turn, at)
                    found[place] = Label(
                        one["kind"], one["standing"], one.get("whom", "")
                    )
            sessions[writer] += 1
    return found


def read_second(path: Path) -> dict[Place, Label]:
    """Return the second readers' labels."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    return {
        (
            row["writer"],
            int(row["session"]),
            int(row["turn"]),
            int(row["statement"]),
        ): Label(row["kind"], row["standing"] == "true", row.get("whom") or "")
        for row in rows
    }


def compare(name: str, pairs: Sequence[tuple[str | bool, str | bool]]) -> Row:
    """Compare two readings: their counts, the share of equal labels, and Cohen's kappa."""
    return {
        "kind": name,
        "first": sum(bool(one) for one, _ in pairs),
        "second": sum(bool(other) for _, other in pairs),
        "agree": sum(one == other for one, other in pairs) / len(pairs),
        "kappa": compute_kappa(pairs),
    }


def compute_kappa(pairs: Sequence[tuple[str | bool, str | bool]]) -> float | None:
    """Return Cohen's kappa of two readings; None if both say one thing of all."""
    count = len(pairs)
    first = Counter(one for one, _ in pairs)
    second = Counter(other for _, other in pairs)
    agreed = sum(one == other for one, other in pairs) / count
    by_chance = sum(first[label] * second[label] for label in first) / count**2
    return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)


if __name__ == "__main__":
    run(measure)
