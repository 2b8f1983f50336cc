"""What a language model makes of a week: transcripts cut by day into nights, and what stands in the store after each.

    python -m bench.nights.model_nights PATH… --llm SPEC [--nights 7] [--messages N] [--encoder NAME] [--json]

Told are how many summaries the model wrote and how many nobody did, how large the groups of topics and sessions are by
tier, the share of the largest base topic, and how the summaries of each night stand on their members. With `--messages`
the first N alone are read. Other settings are those of the environment.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.compute as pc

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import SPOKEN, Status
from slowwave.store import Store
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from slowwave.tasks.pending import is_made_by_model

SAID = ["session_id", "message_id", "role", "speaker", "workspace", "ts", "text", "seq", "origin"]


@dataclass(frozen=True)
class Standing:
    """What stands in a store after a night."""

    claims: int
    summaries: int
    by_model: int
    """Summaries that a language model wrote."""
    stale: int
    sizes: dict[str, dict[int, int]]
    """`topic/0` and so on: members of a group -> groups of that size; masters left out."""
    topics: int
    """With a claim, the base ones left out."""
    base_share: float
    """Of the largest base topic, of all claims."""


def split_by_day(paths: list[Path], folder: Path, nights: int, messages: int | None = None) -> Iterator[Path]:
    """Yield a folder of transcripts for each night, a file a session: all that was said up to then, in generic JSONL.

    A night reads the next days, of as many as there are each about the same number.
    """
    with tempfile.TemporaryDirectory() as vault:
        job = Job(Settings(store=Path(vault), embeddings=False), "read")
        read_transcripts(job, paths)
        spoken = job.store.read(MESSAGES, SAID, pc.field("origin").isin([*map(str, SPOKEN)]))
    rows = [row for row in spoken.sort_by([("ts", "ascending"), ("seq", "ascending")]).to_pylist() if row["text"]]
    rows = [row for row in rows if row["ts"]][:messages]
    days = sorted({row["ts"].date() for row in rows})
    for some in np.array_split(np.array(days), min(nights, len(days))):
        last = some[-1]
        for session in sorted({row["session_id"] for row in rows if row["ts"].date() in set(some.tolist())}):
            said = [row for row in rows if row["session_id"] == session and row["ts"].date() <= last]
            (folder / f"{session[:16]}.jsonl").write_bytes(b"".join(orjson.dumps(_make_line(r)) + b"\n" for r in said))
        yield folder


def _make_line(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("session_id", "message_id", "role", "speaker", "workspace", "ts")
    return {name: row[name] for name in kept if row[name] is not None} | {"content": row["text"]}


def measure_standing(store: Store) -> Standing:
    """Return what stands in a store."""
    summaries = store.read(SUMMARIES, ["scope", "tier", "member_ids", "step_key", "stale"]).to_pylist()
    topics = [row for row in store.read(TOPICS, ["size", "base"]).to_pylist() if row["size"]]
    sizes: dict[str, Counter[int]] = {}
    for row in summaries:
        if row["tier"] >= 0:
            sizes.setdefault(f"{row['scope']}/{row['tier']}", Counter())[len(row["member_ids"])] += 1
    claims = store.count(OBSERVATIONS, pc.field("status") == Status.ACTIVE)
    return Standing(
        claims,
        len(summaries),
        sum(is_made_by_model(row["step_key"]) for row in summaries),
        sum(bool(row["stale"]) for row in summaries),
        {name: dict(sorted(found.items(), reverse=True)) for name, found in sorted(sizes.items())},
        sum(not row["base"] for row in topics),
        max((row["size"] for row in topics if row["base"]), default=0) / max(1, claims),
    )


def do_nights(
    paths: list[Path], settings: Settings, folder: Path, nights: int, messages: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield figures of each night: what stands, what the report says of topics and summaries, and what it took."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, said in enumerate(split_by_day(paths, folder, nights, messages), 1):
        start = time.perf_counter()
        report = run_night([said], settings)
        counts = {step.step: dict(step.counts) for step in report.steps if step.step in ("assign", "rollup")}
        yield {
            "night": number,
            "seconds": round(time.perf_counter() - start),
            "released": report.release is not None,
            "failures": report.failures + report.held,
            **asdict(measure_standing(Store.open(settings.store, settings.space))),
            "report": counts,
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--llm", required=True)
    parser.add_argument("--nights", type=int, default=7)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--store", type=Path, help="a folder that is kept")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = given.store or Path(scratch) / "store"
        settings = Settings(store=store, llm=given.llm, encoder=given.encoder)
        paths = [path.absolute() for path in given.paths]
        for night in do_nights(paths, settings, Path(scratch) / "said", given.nights, given.messages):
            if given.as_json:
                print(json.dumps(night), flush=True)
                continue
            print(
                f"night {night['night']}: {night['seconds']} s, {night['claims']} claims, {night['topics']} topics, "
                f"base {night['base_share']:.0%}, {night['by_model']} of {night['summaries']} summaries by the model, "
                f"{night['stale']} stale; sizes {night['sizes']}",
                *(f"  {name}: {n}" for step in night["report"].values() for name, n in step.items()),
                *(f"  failed: {line}" for line in night["failures"]),
                sep="\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
