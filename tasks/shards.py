"""Shards of a step's input, and where they are computed: in this process, or where a plugin does it, as on Ray.

The costly parts of a night (sentences to claims, texts to vectors, claims to keywords, pairs of claims to scores) are
pure functions of Arrow tables. Rows are dealt into shards by a hash of their session (text, claim), and the number of
shards depends on the rows alone; so every executor gets the same shards, and the result is the same table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil, log2
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import pyarrow as pa

from slowwave.schemas.errors import SlowwaveError

if TYPE_CHECKING:
    from slowwave.engines.llm.protocol import LLM

SHARD_ROWS = 256
"""Rows that take an encoder about two seconds."""


@dataclass(frozen=True)
class ShardStep:
    """A pure function of rows: for equal name, settings and rows the result is equal."""

    name: str
    settings: str
    schema: pa.Schema
    """The schema of the result, also for a shard without rows."""
    do: Callable[[pa.Table], pa.Table]
    """A function of a module, or a `partial` of one, so that it can be sent to another machine."""
    uses: Literal["cpu", "encoder"] = "cpu"
    """The resources that a worker needs for it."""
    shard_rows: int = SHARD_ROWS
    """Rows of a shard, at most on average: some tenths of a second of work at least."""

    def run(self, shard: pa.Table) -> pa.Table:
        """Return the result of a shard.

        Raises:
            TypeError: it has another schema than the step's.
        """
        made = self.do(shard)
        if not made.schema.equals(self.schema):
            raise TypeError(f"{self.name} made {made.schema}, expected {self.schema}")
        return made


class Executor(Protocol):
    """Computes shards."""

    at_once: int
    """How many batches of a plain night are computed together."""

    def map(
        self, step: ShardStep, shards: Sequence[pa.Table]
    ) -> Sequence[pa.Table | Exception]:
        """Return the result of each shard, in order: a table, or what was raised."""
        ...

    def place(self, engine: "LLM") -> "LLM":
        """Return a language model's engine where it is to run."""
        ...


class InProcess:
    """Computes one shard after the other, in this process; the first error is raised as it is."""

    at_once = 1

    def map(self, step: ShardStep, shards: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the result of each shard, in order."""
        return [step.run(shard) for shard in shards]

    def place(self, engine: "LLM") -> "LLM":
        """Return the engine: it runs here."""
        return engine


HERE = InProcess()


class ShardsFailed(Exception):
    """Some shards could not be computed: `units` are what these hold, `first` is the first failure."""

    def __init__(self, units: frozenset[str], first: Exception) -> None:
        self.units = units
        self.first = first
        super().__init__(f"{type(first).__name__}: {first}")


def spread(
    executor: Executor,
    step: ShardStep,
    rows: pa.Table,
    by: str,
) -> pa.Table:
    """Return the step's result for the rows, computed in shards and sorted by column `by`, which the result has too.

    Raises:
        SlowwaveError: a shard raised it, as it is.
        ShardsFailed: an executor could not compute all shards.
    """
    shards = split_shards(rows, by, step.shard_rows)
    made = executor.map(step, shards)
    if first := next(
        (result for result in made if isinstance(result, Exception)), None
    ):
        if isinstance(first, SlowwaveError):
            raise first
        failed = [
            shard
            for shard, result in zip(shards, made, strict=True)
            if isinstance(result, Exception)
        ]
        raise ShardsFailed(
            frozenset(pa.concat_tables(failed)[by].to_pylist()), first
        ) from first
    return pa.concat_tables(made).sort_by(by)


def split_shards(
    rows: pa.Table, by: str, shard_rows: int = SHARD_ROWS
) -> list[pa.Table]:
    """Return the rows in shards, those of one value of `by` together, each sorted by the rows' first column.

    There are 1, 2, 4, 8 … of them: with a few rows less, most shards stay the same.
    """
    count = 2 ** ceil(log2(max(rows.num_rows / shard_rows, 1)))
    hashes = {
        unit: int(blake2b(unit.encode(), digest_size=8).hexdigest(), 16)
        for unit in set(rows[by].to_pylist())
    }
    places = np.array(
        [hashes[unit] % count for unit in rows[by].to_pylist()], dtype=np.int64
    )
    return [
        rows.filter(pa.array(places == n)).sort_by(rows.column_names[0])
        for n in range(count)
    ]
