"""Gates of a claim over code that no language model judged: open or shut where labelled sentences make that sure.

`python -m bench.fit.gates` learns a model a gate, in the manner of `worth`, from the same sentences; of projects that
it had not learnt from it found between which probabilities a gate stays null. docs/decisions/001 tells how often each
is right.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from slowwave.schemas.tables import GATES
from slowwave.tasks.job import read_shipped
from slowwave.tasks.observe.worth import WorthModel

GATES_FILE = "observe/gates.npz"
REASON = "so are most sentences of its words and place that were labelled by hand"


@dataclass(frozen=True)
class Gate:
    """How likely a gate is open, and from where on that is sure."""

    model: WorthModel
    shut_below: float
    """Probability; 0 where nothing makes sure that it is shut."""
    open_from: float
    """Over 1 where nothing makes sure that it is open."""

    def judge(self, texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> list[bool | None]:
        """Return of each sentence whether the gate is open, None where that is not sure; `numbers` as of `worth`."""
        likely = [1 / (1 + exp(-one)) for one in self.model.compute_worth(texts, numbers)]
        return [False if p < self.shut_below else True if p >= self.open_from else None for p in likely]


def judge_gates(texts: Sequence[str], numbers: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Return of each sentence its gates as columns of OBSERVATIONS, with the reasons of those that are shut."""
    judged = {name: gate.judge(texts, numbers) for name, gate in load_gates().items()}
    rows: list[dict[str, Any]] = [{name: some[at] for name, some in judged.items()} for at in range(len(texts))]
    return [{**row, "gate_reasons": [f"{name}: {REASON}" for name in GATES if row[name] is False]} for row in rows]


def save_gates(gates: Mapping[str, Gate], path: Path) -> None:
    """Write them, to be read by `load_gates`."""
    words = sorted({word for gate in gates.values() for word in gate.model.words})
    np.savez_compressed(
        path,
        words=np.array(words),
        weights=np.array([[gate.model.words.get(word, 0.0) for word in words] for gate in gates.values()], np.float32),
        numbers=np.array([gate.model.numbers for gate in gates.values()]),
        bias=np.array([gate.model.bias for gate in gates.values()]),
        bounds=np.array([(gate.shut_below, gate.open_from) for gate in gates.values()]),
        names=np.array(list(gates)),
    )


@cache
def load_gates() -> dict[str, Gate]:
    """Return those that ship."""
    with np.load(io.BytesIO(read_shipped(GATES_FILE)), allow_pickle=False) as told:
        words, weights = told["words"].tolist(), told["weights"].tolist()
        return {
            name: Gate(
                WorthModel(dict(zip(words, weights[at], strict=True)), told["numbers"][at], float(told["bias"][at])),
                *map(float, told["bounds"][at]),
            )
            for at, name in enumerate(told["names"].tolist())
        }
