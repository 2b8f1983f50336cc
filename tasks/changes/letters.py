"""Read from the letters of two statements how the later stands to the earlier, in scripts without spaces.

The encoder that ships reads no Chinese and no Japanese, so such claims have no vector. A linear model gives log-odds
for each kind of pair from the letters and figures, and the twos of them, that the later statement has and the earlier
has not. Signs are not read: with a full stop or without, a statement says the same. It was fitted to labelled pairs
(`python -m bench.fit.changes`), and says nothing of a pair in a script that it did not learn.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise

import numpy as np

from slowwave.engines.encoders.pair_reader import DECIMALS, READS, Odds
from slowwave.text.languages import name_script
from slowwave.text.words import UNSPACED

LETTERS_FILE = "changes/letters.npz"
"""The fitted model."""
MOST_LETTERS = 300
"""Letters of a statement that are read."""


@dataclass(frozen=True)
class LetterReader:
    """A fitted linear model from the letters of two statements to log-odds, one for each kind of pair."""

    kinds: list[str]
    runs: list[str]
    """The runs of one or two letters that have weights."""
    weights: Odds
    """Shape (runs, kinds)."""
    offsets: Odds

    @classmethod
    def from_bytes(cls, content: bytes) -> "LetterReader":
        """Read a saved model."""
        with np.load(io.BytesIO(content)) as saved:
            return cls(
                kinds=saved["kinds"].tolist(),
                runs=saved["runs"].tolist(),
                weights=saved["weights"],
                offsets=saved["offsets"],
            )

    def to_bytes(self) -> bytes:
        """Return the model as a compressed archive."""
        saved = io.BytesIO()
        np.savez_compressed(
            saved,
            kinds=np.array(self.kinds),
            runs=np.array(self.runs),
            weights=self.weights,
            offsets=self.offsets,
        )
        return saved.getvalue()

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts without spaces that it learnt, as Unicode's names of their letters begin."""
        letters = UNSPACED.findall("".join(self.runs))
        return frozenset(map(name_script, letters))

    def _knows(self, text: str) -> bool:
        """Return True if most letters of a text in scripts without spaces are in those that it learnt."""
        letters = UNSPACED.findall(text)
        known = [letter for letter in letters if name_script(letter) in self.scripts]
        return 2 * len(known) > len(letters)

    def read(self, earlier: str, later: str) -> dict[str, float]:
        """Return the log-odds of each kind by the name of its feature; nothing for a script that it did not learn."""
        if not (self._knows(earlier) and self._knows(later)):
            return {}
        new = list_new_runs(earlier, later)
        places = [at for at, run in enumerate(self.runs) if run in new]
        sums = self.weights[places].sum(axis=0, dtype=np.float64) + self.offsets
        odds = sums.round(DECIMALS).tolist()
        return {
            READS + kind: value for kind, value in zip(self.kinds, odds, strict=True)
        }


def is_unspaced(*texts: str) -> bool:
    """Return True if each text has a letter of a script without spaces between words."""
    return all(UNSPACED.search(text) for text in texts)


def list_new_runs(earlier: str, later: str) -> set[str]:
    """Return the letters and figures, and each two in a row, that the later text has and the earlier has not."""
    return _list_runs(later) - _list_runs(earlier)


def _list_runs(text: str) -> set[str]:
    letters = text[:MOST_LETTERS].casefold()
    runs = (*letters, *map("".join, pairwise(letters)))
    return {run for run in runs if run.isalnum()}


def read_letters(
    features: Sequence[dict[str, float]],
    texts: Sequence[tuple[str, str]],
    reader: LetterReader,
) -> list[dict[str, float]]:
    """Return the features of pairs, with what the letters say of those that no model of vectors has read."""
    return [
        found
        if any(name.startswith(READS) for name in found)
        else found | reader.read(earlier, later)
        for found, (earlier, later) in zip(features, texts, strict=True)
    ]


@cache
def load_letter_reader() -> LetterReader:
    """Return the model that ships with the package."""
    return LetterReader.from_bytes(
        files("slowwave.tasks").joinpath(LETTERS_FILE).read_bytes()
    )
