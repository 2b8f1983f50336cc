"""Read what a person's sentence to an agent means: a rule, a decision, a question, a joke …

`python -m bench.fit.reader` trains one logistic regression a kind on sentences that independent writers labelled
(`data/labelled/statements_*.jsonl`). The features are the sentence's words and word pairs, its runs of letters, its
form and place (`worth.NUMBERS`), and how it stands to the turn before. There is no list of words. A sentence may have
several kinds: a fact may stand in a question. A reading depends on one sentence, its message and the message before.
See `docs/decisions/026-claims-reader.md` for its quality on writers that it did not learn from.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slowwave.tasks.observe.worth import (
    FIGURE,
    NUMBERS,
    compute_log_odds,
    extract_feature_words,
    list_grams,
)

if TYPE_CHECKING:
    from slowwave.tasks.observe.units import SpokenSentence

LEARNT_FROM = frozenset(
    ("English", "German", "Spanish", "French", "Chinese", "Japanese")
)
"""Languages of the labelled sentences."""
UNNAMED = frozenset(("Chinese", "Japanese"))
"""Languages of these in which a rule is kept as often as in the others, but not called one: it is a fact."""
READER_FILE = "observe/reader.npz"
KINDS = (
    "rule",
    "decision",
    "preference",
    "fact",
    "plan",
    "correction",
    "retraction",
    "question",
    "order",
    "report",
    "courtesy",
    "hypothetical",
    "joke",
    "refused",
    "quoted",
)
"""Kinds of statements, as the labels name them."""
SETTLING = ("rule", "decision", "preference", "fact", "correction", "refused")
"""Kinds that say what holds: who refuses a proposal settles what is not done. A statement of these that holds beyond
its session may be shown unasked."""
HEADS = (*KINDS, "told")
"""The probabilities of a reading: of each kind, and that the sentence says what holds beyond its session."""
RUNS = (2, 3, 4, 5)
"""Lengths of the runs of letters."""
RUNS_WEIGHT = 8.0
"""Weight of all runs of a sentence together, divided by the root of their number."""
FARTHEST = 1.5
"""Most standard deviations from the mean that a number counts for: a message may have 60,000 lines."""

UNUSED = (
    "by a person",
    "calls a tool",
    "turn",
    "share of the session",
    "a person before",
    "a person after",
)
"""Of `worth.NUMBERS`: what is the same for all persons, and the place in the session, which is the writer's habit."""
USED = tuple(at for at, name in enumerate(NUMBERS) if name not in UNUSED)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """The probabilities of a sentence, by the names in HEADS."""

    by_head: dict[str, float]

    @property
    def told(self) -> float:
        """Probability that the sentence says what holds beyond its session."""
        return self.by_head["told"]

    def find_likeliest(self, kinds: Sequence[str] = KINDS) -> str:
        """Return the likeliest of some kinds."""
        return max(kinds, key=lambda kind: self.by_head[kind])


def join_readings(one: Reading, other: Reading) -> Reading:
    """Join two readings of a sentence: the log-odds of each head are added.

    Neither may be sure beyond `compute_log_odds`, so that the other one always counts.
    """
    odds = {
        head: compute_log_odds(one.by_head[head])
        + compute_log_odds(other.by_head[head])
        for head in HEADS
    }
    return Reading({head: 1 / (1 + exp(-total)) for head, total in odds.items()})


def list_runs(text: str) -> set[str]:
    """Return the runs of letters of a lower-cased text. Every number is one figure."""
    line = FIGURE.sub("0", f" {' '.join(text.lower().split())} ")
    return {line[at : at + n] for n in RUNS for at in range(len(line) - n + 1)}


def describe_statement(one: "SpokenSentence") -> tuple[float, ...]:
    """Return the numbers of a sentence: those of `worth.NUMBERS` in USED, and how it stands to its message and to the
    turn before.
    """
    before = one.last.text if one.last else ""
    message = one.turn.text
    sentence = one.turn.sentences[one.at]
    words = extract_feature_words(one.text)
    shared = len(words & extract_feature_words(before)) / max(len(words), 1)
    return (
        *(one.numbers[at] for at in USED),
        before.rstrip().endswith("?"),
        "?" in before,
        shared,
        "!" in message[sentence.end - 1 : sentence.end + 2],
        '"' in one.text,
        sentence.end >= len(message) - 2,
        one.text.count(","),
    )


@dataclass(frozen=True)
class StatementReader:
    """Weights of the heads."""

    words: dict[str, int]
    """Row of each word and word pair in `weights`."""
    runs: dict[str, int]
    """Row of each run of letters in `weights`."""
    weights: Floats
    """Shape (rows, heads)."""
    numbers: Floats
    """Shape (numbers, heads)."""
    means: Floats
    scales: Floats
    bias: Floats

    def read(self, sentences: Sequence["SpokenSentence"]) -> list[Reading]:
        """Return a reading of each sentence. It does not depend on the sentences that it is read with."""
        return [self._read_one(one) for one in sentences]

    def _read_one(self, one: "SpokenSentence") -> Reading:
        """Return the reading of a sentence."""
        said = one.read_as
        runs = list_runs(said)
        known = find_rows(self.words, list_grams(said))
        letters = find_rows(self.runs, runs)
        z = self._standardise(one)
        # sums of rows, not matrix products: their order must not depend on the machine
        logits = (
            self.bias
            + self.weights[known].sum(axis=0)
            + self.weights[letters].sum(axis=0) * weigh_runs(len(runs))
            + (z[:, None] * self.numbers).sum(axis=0)
        )
        likely = 1 / (1 + np.exp(-logits))
        return Reading(dict(zip(HEADS, likely.tolist(), strict=True)))

    def _standardise(self, one: "SpokenSentence") -> Floats:
        """Return the numbers of a sentence as standard deviations from the mean, FARTHEST at most."""
        numbers = np.array(describe_statement(one), dtype=np.float64)
        z: Floats = np.clip((numbers - self.means) / self.scales, -FARTHEST, FARTHEST)
        return z

    def save(self, path: Path) -> None:
        """Write the reader to a file for `load_reader`."""
        np.savez_compressed(
            path,
            words=np.array(sorted(self.words, key=self.words.__getitem__)),
            runs=np.array(sorted(self.runs, key=self.runs.__getitem__)),
            weights=self.weights.astype(np.float16),
            numbers=self.numbers,
            means=self.means,
            scales=self.scales,
            bias=self.bias,
        )


def find_rows(rows: Mapping[str, int], names: Collection[str]) -> list[int]:
    """Return the rows of the names that have one, in order."""
    return sorted(rows[name] for name in names if name in rows)


def weigh_runs(count: int) -> float:
    """Return the weight of each of `count` runs of letters."""
    return RUNS_WEIGHT / float(np.sqrt(max(count, 1)))


@cache
def load_reader() -> StatementReader:
    """Return the shipped reader."""
    data = files("slowwave.tasks").joinpath(READER_FILE).read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as kept:
        words = kept["words"].tolist()
        runs = kept["runs"].tolist()
        return StatementReader(
            words={word: row for row, word in enumerate(words)},
            runs={run: len(words) + row for row, run in enumerate(runs)},
            weights=kept["weights"].astype(np.float64),
            numbers=kept["numbers"],
            means=kept["means"],
            scales=kept["scales"],
            bias=kept["bias"],
        )
