"""Recall and context as the store grows: p50, p95, p99 at 1,000 and 10,000 sessions, beside bare LanceDB vector search.

    python -m bench.recall.scale FOLDER [--rows 10000 100000] [--queries 50] [--swaps 3] [--encoder NAME] [--json]

Rows are synthetic: sentences of the samples that ship with two words changed, their vectors real ones with noise; ten
are a session. Queries are ten words long, reports four queries; a block of context has 500 tokens. Bare search is one
flat vector search of the same table with the query's encoding, by the same encoder; *overhead* is recall's p50 over
its. The ways take turns, so that what else the machine does hits all alike; beside the clock's time stands the
processor's, which a busy machine disturbs less. Below the table: the share of the ten nearest by brute force that
a search by vector brings, and what eight readers meet while `--swaps` releases are published (each holds its rows, so
a million take 15 GB; with 0 nobody reads meanwhile). Stores stay in the folder and are used again. About 3 minutes for
the two sizes, half of it writing rows.
"""

import random
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from bench.harness import ENCODER, SAMPLES, SCRATCH, Figures, Row, run
from slowwave.engines.encoders.load import load_encoder, load_query_encoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.memory import Memory
from slowwave.recall.probes import measure_nearest_found
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES, PASSAGES, VECTOR_DIM
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import Limits, Message
from slowwave.tasks.vector_columns import build_vector_array

BATCH = 20_000
TURNS = 10
"""Messages a session."""
WORDS, REPORT, BUDGET = 10, 4, 500
"""Words of a query; queries that make a report, whose block is built another way; tokens of a block."""
NEAREST, READERS = 10, 8
SWAPS, PAUSE = 3, 1.5
"""Releases that are published while readers ask, and seconds between two: more than between two looks for one."""
START = datetime(2024, 1, 1, tzinfo=UTC)


def measure(
    folder: Path = SCRATCH,
    *,
    rows: Sequence[int] = (10_000, 100_000),
    queries: int = 50,
    swaps: int = SWAPS,
    encoder: str = ENCODER,
) -> Figures:
    """Build the stores that are missing, and return milliseconds by size and way to ask."""
    model, texts = load_query_encoder(encoder), load_sample_texts()
    asked = [
        " ".join(text.split()[:WORDS])
        for _, text in vary_texts(texts, queries + 1, random.Random(7))
    ]
    found: list[Row] = []
    notes = []
    for size in rows:
        root = folder / str(size)
        if not (root / "default" / "releases.lance").is_dir():
            build_scaled_store(
                root, size, texts, load_encoder(encoder).encode(texts), model.name
            )
        memory = Memory.open(root, encoder=model)
        took = time_asks(memory, root, model, asked)
        found += [
            {"rows": size, "search": name, **quantiles}
            for name, quantiles in took.items()
        ]
        overhead = took["slowwave"]["p50"] / took["bare LanceDB, flat"]["p50"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        near = f"of the ten nearest {measure_nearest_found(memory.get_view(), PASSAGES):.1%} found"
        notes.append(f"{size:,} rows: overhead {overhead:.2f}, {peak:,} MB; {near}")
        if swaps:
            count, releases, errors = recall_while_swapping(root, model, asked, swaps)
            notes.append(
                f"{size:,} rows, meanwhile published: {count} queries over {releases} releases, "
                f"{len(errors)} errors {'; '.join(sorted(errors))}"
            )
    return Figures(found, "milliseconds a query, k = 10", notes)


def load_sample_texts() -> list[str]:
    """Return the texts of the samples, in pieces of a sentence or two."""
    files = sorted((SAMPLES / "generic").glob("*.jsonl")) + sorted(
        (SAMPLES / "claude-code").rglob("*.jsonl")
    )
    records = (
        record for path in files for record in detect_reader(path).read(path, Limits())
    )
    said = [
        record.text
        for record in records
        if isinstance(record, Message) and record.text.strip()
    ]
    return [
        line.strip()
        for text in said
        for line in text.split("\n")
        if len(line.split()) > 4
    ]


def vary_texts(
    texts: Sequence[str], rows: int, rng: random.Random
) -> Iterator[tuple[int, str]]:
    """Yield the number of a text, and the text with two words exchanged for others of the samples."""
    words = [word for text in texts for word in text.split()]
    for _ in range(rows):
        which = rng.randrange(len(texts))
        line = texts[which].split()
        for _ in range(2):
            line[rng.randrange(len(line))] = rng.choice(words)
        yield which, " ".join(line)


def build_scaled_store(
    root: Path, rows: int, texts: Sequence[str], vectors: Vectors, encoder: str
) -> None:
    """Make a released store of so many messages, one passage each."""
    rng, noise = random.Random(rows), np.random.default_rng(rows)
    store = Store.open(root, create=True)
    for start in track(
        range(0, rows, BATCH), f"{rows:,} rows", console=Console(stderr=True)
    ):
        which, said = zip(
            *vary_texts(texts, min(BATCH, rows - start), rng), strict=True
        )
        near = vectors[list(which)] + noise.normal(
            0, 0.02, (len(said), VECTOR_DIM)
        ).astype(np.float32)
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        columns = _build_columns(start, said) | {"vector": build_vector_array(near)}
        for table in (PASSAGES, MESSAGES):
            arrays = [
                columns.get(field.name, [None] * len(said)) for field in table.schema
            ]
            store.append(table, pa.Table.from_arrays(
                [some if isinstance(some, pa.Array) else pa.array(some, field.type)
                 for some, field in zip(arrays, table.schema, strict=True)], schema=table.schema))  # fmt: skip
    compact_store(store)
    publish(store, "bench", encoder)


def _build_columns(start: int, said: Sequence[str]) -> dict[str, Any]:
    """Return the columns of MESSAGES and PASSAGES; those that are absent hold nothing."""
    places = range(start, start + len(said))
    ids = [compute_content_id(str(n)) for n in places]
    fixed = {
        "part": 0,
        "step_key": "bench",
        "source": "bench",
        "identity": "",
        "prev_hash": "",
        "hash": "",
    }
    return {
        "message_id": ids,
        "passage_id": ids,
        "native_id": [str(n) for n in places],
        "session_id": [compute_content_id("session", str(n // TURNS)) for n in places],
        "seq": [n % TURNS for n in places],
        "role": [("user", "assistant")[n % 2] for n in places],
        "origin": [("human", "model")[n % 2] for n in places],
        "text": list(said),
        "tokens": [len(text) // 4 for text in said],
        "blocks": [[] for _ in places],
        "ts": [START + timedelta(minutes=n) for n in places],
        "workspace": [f"project-{n // 4_000}" for n in places],
        **{name: [value] * len(said) for name, value in fixed.items()},
    }


def time_asks(
    memory: Memory, root: Path, encoder: Encoder, queries: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return milliseconds of each way to ask, which take turns: the first query (cold), then quantiles of the rest."""
    table = lancedb.connect(root / "default").open_table(PASSAGES.name)
    reports = {
        query: ". ".join((*queries, *queries)[n : n + REPORT])
        for n, query in enumerate(queries)
    }

    def search_bare(query: str) -> object:
        search: Any = table.search(
            encoder.encode([query])[0], vector_column_name="vector"
        )
        return (
            search.distance_type("dot")
            .bypass_vector_index()
            .limit(10)
            .select(["message_id", "text", "_distance"])
            .to_arrow()
        )

    asks: Mapping[str, Callable[[str], object]] = {
        "encoding alone": lambda query: encoder.encode([query]),
        "bare LanceDB, flat": search_bare,
        "slowwave": lambda query: memory.recall(query, kinds=("message",)),
        "context of a question": lambda query: memory.context(query, BUDGET),
        "context of a report": lambda query: memory.context(reports[query], BUDGET),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in asks}
    for query in queries:
        for name, ask in asks.items():
            start, worked = time.perf_counter(), time.process_time()
            ask(query)
            took[name].append(
                (time.perf_counter() - start, time.process_time() - worked)
            )
    return {
        name: _compute_quantiles(1_000 * np.array(some)) for name, some in took.items()
    }


def _compute_quantiles(took: np.ndarray) -> dict[str, float]:
    quantiles = zip(
        ("p50", "p95", "p99"), np.percentile(took[1:, 0], [50, 95, 99]), strict=True
    )
    found = {"first": took[0, 0], **dict(quantiles), "cpu": np.median(took[1:, 1])}
    return {name: round(float(value), 1) for name, value in found.items()}


def recall_while_swapping(
    root: Path, encoder: Encoder, queries: Sequence[str], swaps: int
) -> tuple[int, int, set[str]]:
    """Ask from eight threads while so many releases are published: queries, releases seen, and every error."""
    memory, over = Memory.open(root, encoder=encoder), threading.Event()

    def read(at: int) -> tuple[int, set[str], set[str]]:
        count, releases, errors = 0, set[str](), set[str]()
        while not over.is_set():
            try:
                errors.update(
                    memory.recall(
                        queries[(at + count) % len(queries)], kinds=("message",)
                    ).warnings
                )
                releases.add(memory.release.name)
            except Exception as trouble:  # any: that is what is counted
                errors.add(f"{type(trouble).__name__}: {trouble}")
            count += 1
        return count, releases, errors

    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read, n) for n in range(READERS)]
        store = Store.open(root)
        some = store.open_dataset(PASSAGES).head(100).cast(PASSAGES.schema)
        for _ in range(swaps):
            # The same rows again: a new version of the table that says the same.
            store.merge(PASSAGES, some)
            compact_store(store)
            publish(store, "bench", encoder.name)
            over.wait(PAUSE)
        over.set()
        counts, releases, errors = zip(
            *(reader.result() for reader in readers), strict=True
        )
    return sum(counts), len(set().union(*releases)), set().union(*errors)


if __name__ == "__main__":
    run(measure)
