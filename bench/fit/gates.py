"""Learns from labels by hand what makes a claim over code reusable, non-trivial and specific, and where that is sure.

    python -m bench.fit.gates PATH… [--labels data/labelled/worth.tsv] [--write] [--json]

PATHs as of `bench.fit.worth`. Each is judged by models of the others. Of the sentences that a claim can be made of (as
likely worth it as MIN_CODING_STATED) the STEP likeliest are looked at, then the next, as long as the share SURE of them
is open: from the last probability on the gate is *open*. In the same manner from the other end it is *shut*. Columns:
*AUC*, the two bounds, how many sentences lie beyond either, and the share of those rightly so. `--write` fits all and
writes the gates that ship.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.fit.worth import Labelled, collect_labelled, fit_worth_model
from bench.nights.worth import LABELS, read_labels
from slowwave.tasks.observe import gates
from slowwave.tasks.observe.gates import Gate
from slowwave.tasks.observe.observe import MIN_CODING_STATED
from slowwave.tasks.observe.worth import Floats

SURE, STEP = 0.85, 25
SHUT = {
    "reusable": ("narration", "trace", "order", "status", "question"),
    "non_trivial": ("filler", "question", "code", "trace"),
    "specific": ("context", "narration", "trace", "order", "status", "question", "filler", "code"),
}
"""Labels of sentences for which a gate is shut."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Result:
    """A gate, judged on transcripts that it was not learnt from."""

    gate: str
    sentences: int
    open: float
    auc: float
    shut_below: float
    shut: int
    rightly_shut: float
    open_from: float
    opened: int
    rightly_opened: float


def judge_gates(parts: Sequence[Sequence[Labelled]]) -> list[Result]:
    """Return of each gate how well models of the other parts tell it."""
    likely: dict[str, list[float]] = {name: [] for name in ("worth", *SHUT)}
    for at, mine in enumerate(parts):
        others = [one for part in (*parts[:at], *parts[at + 1 :]) for one in part]
        for name, some in likely.items():
            labels = [one.is_worth if name == "worth" else one.label not in SHUT[name] for one in others]
            said = fit_worth_model(others, labels).compute_worth(
                [one.text for one in mine], [one.numbers for one in mine]
            )
            some += (1 / (1 + np.exp(-np.array(said)))).tolist()
    judged = list(chain.from_iterable(parts))
    claims = np.array(likely["worth"]) >= MIN_CODING_STATED
    return [
        _measure_gate(
            name,
            np.array([one.label not in labels for one in judged])[claims],
            np.array(likely[name])[claims],
        )
        for name, labels in SHUT.items()
    ]


def _measure_gate(name: str, is_open: Flags, likely: Floats) -> Result:
    from sklearn.metrics import roc_auc_score

    order = np.argsort(likely, kind="stable")
    likely, told = likely[order], is_open[order]
    shut, opened = _count_sure(~told), _count_sure(told[::-1])
    return Result(
        name,
        len(told),
        float(told.mean()),
        float(roc_auc_score(told, likely)),
        float(likely[shut]) if shut else 0.0,
        shut,
        float((~told[:shut]).mean()) if shut else float("nan"),
        float(likely[len(told) - opened]) if opened else 2.0,
        opened,
        float(told[len(told) - opened :].mean()) if opened else float("nan"),
    )


def _count_sure(right: Flags) -> int:
    """Return how many of the first are sure: as long as enough of every STEP are right."""
    steps = range(0, len(right) - STEP, STEP)
    return next((at for at in steps if right[at : at + STEP].mean() < SURE), len(right) // STEP * STEP - STEP)


def fit_gates(sentences: Sequence[Labelled], results: Sequence[Result]) -> dict[str, Gate]:
    """Return the gates of all sentences, with the bounds that held on parts not learnt from."""
    return {
        one.gate: Gate(
            fit_worth_model(sentences, [each.label not in SHUT[one.gate] for each in sentences]),
            one.shut_below,
            one.open_from,
        )
        for one in results
    }


def main() -> None:
    """Fit, judge and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--labels", type=Path, default=LABELS, help="labelled sentences, by hash")
    parser.add_argument("--write", action="store_true", help="write the gates that ship")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    if len(args.paths) < 2:
        parser.error("one path alone: each is judged by models of the others")
    labels = read_labels(args.labels)
    parts = [collect_labelled([path], labels) for path in args.paths]
    results = judge_gates(parts)
    if args.write:
        gates.save_gates(
            fit_gates(list(chain.from_iterable(parts)), results), Path(gates.__file__).parents[1] / gates.GATES_FILE
        )
    if args.json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
    else:
        shown = Table(*(field.name for field in fields(Result)))
        for one in results:
            shown.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in astuple(one)))
        Console(width=150).print(shown)


if __name__ == "__main__":
    main()
