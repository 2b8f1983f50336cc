"""What a language model makes of a week: transcripts cut by day into nights, and what stands in the store after each.

    python -m bench.nights.model_nights PATH… --llm SPEC [--nights 7] [--messages N] [--encoder NAME] [--json]

Told are how many summaries the model wrote and how many nobody did, how large the groups of topics and sessions are by
tier, the share of the largest base topic, and how the summaries of each night stand on their members. With `--messages`
the first N alone are read. Other settings are those of the environment.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.compute as pc

from bench.harness import ENCODER, SCRATCH, Figures, run
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import SPOKEN, Status
from slowwave.store import Store
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from slowwave.tasks.pending import is_made_by_model

SAID = ["session_id", "message_id", "role", "speaker", "workspace", "ts"]


def measure(
    paths: Sequence[Path],
    *,
    llm: str,
    nights: int = 7,
    messages: int | None = None,
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return a row a night, and what its steps report."""
    settings, rows, notes = Settings(store=store / "store", llm=llm, encoder=encoder), [], []
    for night in do_nights(list(paths), settings, store / "said", nights, messages):
        steps, failures = night.pop("report"), night.pop("failures")
        told = [f"{name}: {count}" for counts in steps.values() for name, count in counts.items()]
        notes += [f"night {night['night']}: {'; '.join([*told, *failures])}"]
        rows.append({name: str(value) if isinstance(value, dict) else value for name, value in night.items()})
    return Figures(rows, notes=notes)


def split_by_day(paths: list[Path], folder: Path, nights: int, messages: int | None = None) -> Iterator[Path]:
    """Yield a folder of transcripts for each night, a file a session: all that was said up to then, in generic JSONL.

    A night reads the next days, of as many as there are each about the same number.
    """
    with tempfile.TemporaryDirectory() as vault:
        job = Job(Settings(store=Path(vault), embeddings=False), "read")
        read_transcripts(job, paths)
        spoken = job.store.read(MESSAGES, [*SAID, "text", "seq"], pc.field("origin").isin([*map(str, SPOKEN)]))
    rows = spoken.sort_by([("ts", "ascending"), ("seq", "ascending")]).to_pylist()
    rows = [row for row in rows if row["text"] and row["ts"]][:messages]
    days = sorted({row["ts"].date() for row in rows})
    for some in map(set, (part.tolist() for part in np.array_split(np.array(days), min(nights, len(days))))):
        for session in {row["session_id"] for row in rows if row["ts"].date() in some}:
            said = [row for row in rows if row["session_id"] == session and row["ts"].date() <= max(some)]
            lines = (
                {name: row[name] for name in SAID if row[name] is not None} | {"content": row["text"]} for row in said
            )
            (folder / f"{session[:16]}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        yield folder


def describe_store(store: Store) -> dict[str, Any]:
    """Return what stands in a store: claims, summaries by who wrote them, sizes of groups by tier, topics."""
    summaries = store.read(SUMMARIES, ["scope", "tier", "member_ids", "step_key", "stale"]).to_pylist()
    topics = [row for row in store.read(TOPICS, ["size", "base"]).to_pylist() if row["size"]]
    claims = store.count(OBSERVATIONS, pc.field("status") == Status.ACTIVE)
    sizes: dict[str, Counter[int]] = {}
    for row in summaries:
        if row["tier"] >= 0:
            sizes.setdefault(f"{row['scope']}/{row['tier']}", Counter())[len(row["member_ids"])] += 1
    return {
        "claims": claims,
        "summaries": len(summaries),
        "by_model": sum(is_made_by_model(row["step_key"]) for row in summaries),
        "stale": sum(bool(row["stale"]) for row in summaries),
        "sizes": {name: dict(sorted(found.items(), reverse=True)) for name, found in sorted(sizes.items())},
        "topics": sum(not row["base"] for row in topics),
        "base_share": max((row["size"] for row in topics if row["base"]), default=0) / max(1, claims),
    }


def do_nights(
    paths: list[Path], settings: Settings, folder: Path, nights: int, messages: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield figures of each night: what stands, what the report says of topics and summaries, and what it took."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, said in enumerate(split_by_day(paths, folder, nights, messages), 1):
        start = time.perf_counter()
        report = run_night([said], settings)
        yield {
            "night": number,
            "seconds": round(time.perf_counter() - start),
            "released": report.release is not None,
            "failures": report.failures + report.held,
            **describe_store(Store.open(settings.store, settings.space)),
            "report": {step.step: dict(step.counts) for step in report.steps if step.step in ("assign", "rollup")},
        }


if __name__ == "__main__":
    run(measure)
