"""What must hold beside recall's speed: nothing near is missed, and a release that changes is no error to anybody."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.memory import Memory
from slowwave.recall.query import build_query
from slowwave.recall.retrieve.messages import compute_stored_cosines, select_top
from slowwave.recall.retrieve.pools import POOLS, find_nearest_rows
from slowwave.schemas.tables import PASSAGES
from slowwave.store import Store
from slowwave.store.releases import publish
from slowwave.store.upkeep import compact_store

NEAREST = 10
READERS = 8
SWAPS = 3
"""Releases that are published while the readers ask."""
ROWS = 100
"""Rows that are written again for each."""
PAUSE = 1.5
"""Seconds between two releases: more than a memory waits between two looks for one."""


def measure_nearest_recall(memory: Memory, encoder: Encoder, queries: Sequence[str]) -> float:
    """Return share of each query's ten nearest passages, by brute force in double precision, that recall's vectors
    bring.
    """
    view, pool = memory.get_view(), POOLS["message"]
    vectors = encoder.encode(queries)
    keys = np.array(view.read(PASSAGES, ["passage_id"])["passage_id"].to_pylist())
    cosines = np.concatenate(
        [_compute_cosines(batch, vectors) for batch in view.open_dataset(PASSAGES).to_batches(["vector"])]
    )
    layout, shares = view.passages, []
    for at, (text, vector) in enumerate(zip(queries, vectors, strict=True)):
        wanted = set(keys[np.argsort(-cosines[:, at], kind="stable")[:NEAREST]])
        near = compute_stored_cosines(view, pool, layout.offsets, vector)
        if near is None:
            asked = build_query(text, NEAREST, "message")
            found = find_nearest_rows(view, pool, asked, NEAREST, vector, ["passage_id"])["passage_id"].to_pylist()
        else:
            best = select_top(np.where(np.isnan(near), -np.inf, near), NEAREST, -np.inf)
            found = keys[layout.offsets[best]].tolist()
        shares.append(len(wanted.intersection(found)) / NEAREST)
    return round(float(np.mean(shares)), 4)


def _compute_cosines(batch: pa.RecordBatch, vectors: Vectors) -> npt.NDArray[np.float64]:
    """Of a batch's rows with every query, in double precision; shape (rows, queries)."""
    rows = batch.column("vector").flatten().to_numpy().reshape(batch.num_rows, -1)
    return rows.astype(np.float64) @ vectors.T.astype(np.float64)


@dataclass
class SwapReport:
    """What readers met while releases changed under them."""

    queries: int = 0
    releases: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        return {"queries": self.queries, "releases": sorted(self.releases), "errors": self.errors}


def recall_while_swapping(root: Path, encoder: Encoder, queries: Sequence[str]) -> SwapReport:
    """Ask one memory from eight threads while releases are published: what they asked, and every error."""
    memory, met, lock, over = Memory.open(root, encoder=encoder), SwapReport(), threading.Lock(), threading.Event()

    def read(start: int) -> None:
        at = start
        while not over.is_set():
            try:
                hits = memory.recall(queries[at % len(queries)], kinds=("message",))
                with lock:
                    met.queries += 1
                    met.releases.add(memory.release.name)
                    met.errors += [note for note in hits.notes if note not in met.errors]
            except Exception as trouble:  # any: that is what is counted
                with lock:
                    met.errors.append(f"{type(trouble).__name__}: {trouble}")
            at += 1

    readers = [threading.Thread(target=read, args=(n,)) for n in range(READERS)]
    for reader in readers:
        reader.start()
    store = Store.open(root)
    some = store.open_dataset(PASSAGES).head(ROWS).cast(PASSAGES.schema)
    for _ in range(SWAPS):
        store.merge(PASSAGES, some)  # the same rows again: a new version of the table that says the same
        compact_store(store)
        publish(store, "bench", encoder.name)
        over.wait(PAUSE)
    over.set()
    for reader in readers:
        reader.join()
    return met
