"""Recall and context as the store grows: p50, p95, p99 at 1,000 and 10,000 sessions, beside bare LanceDB vector search.

    python -m bench.recall.scale SCRATCH_FOLDER [--rows 10000 100000] [--queries 50] [--encoder NAME] [--svg FILE]
        [--json]

Rows are synthetic: sentences of the samples that ship with two words changed, their vectors real ones with noise; ten
are a session. Queries are ten words long, reports four queries; a block of context has 500 tokens. Bare search is one
flat vector search of the same table with the query's encoding, by the same encoder; *overhead* is recall's p50 over
its. The ways take turns, so that what else the machine does hits all alike; beside the clock's time stands the
processor's, which a busy machine disturbs less. Below the table (`bench/recall/checks.py`): the share of the ten
nearest by brute force that recall's own vectors bring, and what eight readers meet while three releases are published.
Stores stay in the folder and are used again. About 3 minutes for the two sizes, half of it writing rows.
"""

import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from bench.harness import build_parser, print_rows
from bench.plot import draw_curves
from bench.recall.checks import measure_nearest_recall, recall_while_swapping
from slowwave.engines.encoders.load import load_encoder, load_query_encoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.memory import Memory
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES, PASSAGES, VECTOR_DIM
from slowwave.store import Store
from slowwave.store.releases import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import Limits, Message
from slowwave.tasks.vector_columns import build_vector_array

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
BATCH = 20_000
TURNS = 10
"""Messages a session."""
WORDS = 10
"""Words of a query."""
REPORT = 4
"""Queries that make a report, whose block of context is built another way."""
BUDGET = 500
START = datetime(2024, 1, 1, tzinfo=UTC)


def load_sample_texts() -> list[str]:
    """Return what was said in the samples, in pieces of a sentence or two."""
    files = sorted((SAMPLES / "generic").glob("*.jsonl")) + sorted((SAMPLES / "claude-code").rglob("*.jsonl"))
    records = (record for path in files for record in detect_reader(path).read(path, Limits()))
    said = [record.text for record in records if isinstance(record, Message) and record.text.strip()]
    return [line.strip() for text in said for line in text.split("\n") if len(line.split()) > 4]


def vary_texts(texts: Sequence[str], rows: int, rng: random.Random) -> Iterator[tuple[int, str]]:
    """Yield which text, and the text with two words exchanged for others of the samples."""
    words = [word for text in texts for word in text.split()]
    for _ in range(rows):
        which = rng.randrange(len(texts))
        line = texts[which].split()
        for _ in range(2):
            line[rng.randrange(len(line))] = rng.choice(words)
        yield which, " ".join(line)


def build_scaled_store(root: Path, rows: int, texts: Sequence[str], vectors: Vectors, encoder: str) -> None:
    """Make a released store of so many messages, one passage each."""
    rng, noise = random.Random(rows), np.random.default_rng(rows)
    store = Store.open(root, create=True)
    for start in track(range(0, rows, BATCH), f"{rows:,} rows", console=Console(stderr=True)):
        which, said = zip(*vary_texts(texts, min(BATCH, rows - start), rng), strict=True)
        near = vectors[list(which)] + noise.normal(0, 0.02, (len(said), VECTOR_DIM)).astype(np.float32)
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        _append_rows(store, start, said, near)
    compact_store(store)
    publish(store, "bench", encoder)


def _append_rows(store: Store, start: int, said: Sequence[str], vectors: Vectors) -> None:
    places = range(start, start + len(said))
    common = {
        "message_id": [compute_content_id(str(n)) for n in places],
        "session_id": [compute_content_id("session", str(n // TURNS)) for n in places],
        "seq": [n % TURNS for n in places],
        "role": [("user", "assistant")[n % 2] for n in places],
        "text": list(said),
        "ts": [START + timedelta(minutes=n) for n in places],
        "workspace": [f"project-{n // 4_000}" for n in places],
    }
    passage = {
        "passage_id": common["message_id"],
        "part": [0] * len(said),
        "speaker": [None] * len(said),
        "step_key": ["bench"] * len(said),
        "vector": build_vector_array(vectors),
    }
    store.append(PASSAGES, _build_table({**common, **passage}, PASSAGES.schema))
    blank = [""] * len(said)
    message = {
        "native_id": [str(n) for n in places],
        "origin": [("human", "model")[n % 2] for n in places],
        "blocks": [[] for _ in places],
        "source": ["bench"] * len(said),
        "tokens": [len(text) // 4 for text in said],
        **dict.fromkeys(("identity", "prev_hash", "hash"), blank),
    }
    store.append(MESSAGES, _build_table({**common, **message}, MESSAGES.schema))


def _build_table(columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    filled = [columns.get(field.name, [None] * len(columns["seq"])) for field in schema]  # type: ignore[arg-type]
    arrays = [
        some if isinstance(some, pa.Array) else pa.array(some, f.type) for some, f in zip(filled, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def measure_timings(asks: Mapping[str, Callable[[str], object]], queries: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return milliseconds of each way to ask, which take turns: the first query (cold), then quantiles of the rest."""
    clock: dict[str, list[float]] = {name: [] for name in asks}
    spent: dict[str, list[float]] = {name: [] for name in asks}
    for query in queries:
        for name, ask in asks.items():
            start, worked = time.perf_counter(), time.process_time()
            ask(query)
            spent[name].append((time.process_time() - worked) * 1000)
            clock[name].append((time.perf_counter() - start) * 1000)
    return {name: _compute_quantiles(clock[name], spent[name]) for name in asks}


def _compute_quantiles(clock: Sequence[float], spent: Sequence[float]) -> dict[str, float]:
    p50, p95, p99 = np.percentile(clock[1:], [50, 95, 99])
    found = {"first": clock[0], "p50": p50, "p95": p95, "p99": p99, "cpu": np.median(spent[1:])}
    return {name: round(float(value), 1) for name, value in found.items()}


def measure_recall(root: Path, encoder: Encoder, queries: Sequence[str]) -> dict[str, Any]:
    """Time bare vector search, recall over messages, the encoder's part in both, and blocks of context.

    And what must hold.
    """
    memory = Memory.open(root, encoder=encoder)
    table = Store.open(root).open_table(PASSAGES)

    def bare(query: str) -> object:
        search = table.search(encoder.encode([query])[0], vector_column_name="vector").distance_type("dot")
        return search.bypass_vector_index().limit(10).select(["message_id", "text", "_distance"]).to_arrow()

    asks: dict[str, Callable[[str], object]] = {
        "encoding alone": lambda query: encoder.encode([query]),
        "bare LanceDB, flat": bare,
        "slowwave": lambda query: memory.recall(query, kinds=("message",)),
        "context of a question": lambda query: memory.context(query, BUDGET),
        "context of a report": lambda query: memory.context(reports[query], BUDGET),
    }
    reports = {query: ". ".join((*queries, *queries)[n : n + REPORT]) for n, query in enumerate(queries)}
    took = measure_timings(asks, queries)
    return {
        "milliseconds": took,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "overhead": round(took["slowwave"]["p50"] / took["bare LanceDB, flat"]["p50"], 2),
        "nearest_found": measure_nearest_recall(memory, encoder, queries),
        "while_releases_change": recall_while_swapping(root, encoder, queries).as_dict(),
    }


def main() -> None:
    """Build what is missing, measure, print."""
    parser = build_parser(__doc__, "folder")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--svg", type=Path, help="where to draw the times by rows; two sizes at least")
    given = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = str(given.folder / "cache")  # recall keeps its last answers: that is timed too
    encoder, texts = load_query_encoder(given.encoder), load_sample_texts()
    queries = [" ".join(text.split()[:WORDS]) for _, text in vary_texts(texts, given.queries + 1, random.Random(7))]
    missing = [rows for rows in given.rows if not (given.folder / str(rows) / "default" / "releases.lance").is_dir()]
    vectors = load_encoder(given.encoder).encode(texts) if missing else np.zeros((0, VECTOR_DIM), dtype=np.float32)
    for rows in missing:
        build_scaled_store(given.folder / str(rows), rows, texts, vectors, encoder.name)
    found = {rows: measure_recall(given.folder / str(rows), encoder, queries) for rows in given.rows}
    rows = [
        {"rows": size, "search": name, **took}
        for size, one in found.items()
        for name, took in one["milliseconds"].items()
    ]
    if given.svg:
        took = {size: one["milliseconds"] for size, one in sorted(found.items())}
        curves = {
            f"{name}, p95 in ms": [one[name]["p95"] for one in took.values()] for name in next(iter(took.values()))
        }
        draw_curves(given.svg, "rows", [*took], curves)
    notes = []
    for size, one in found.items():
        met = one["while_releases_change"]
        asked = f"{met['queries']} queries over {len(met['releases'])} releases, {len(met['errors'])} errors"
        near = f"of the ten nearest {one['nearest_found']:.1%} found"
        notes.append(f"{size:,} rows: overhead {one['overhead']}, {one['peak_mb']:,} MB; {near}; {asked}")
    if given.as_json:
        rows += [{"rows": size, **{name: one[name] for name in list(one)[1:]}} for size, one in found.items()]
    print_rows(rows, given.as_json, "milliseconds a query, k = 10", notes)


if __name__ == "__main__":
    main()
