"""How fast transcripts are read: each reader against `orjson.loads` of the same file's lines, in one run.

    python -m bench.readers PATH… [--rounds 3] [--json]

Prints MB/s of file for both and their ratio: the share of bare JSON parsing's speed that is left after sniffing,
typing, cleaning and checking. A file that is one JSON document is parsed by orjson as a whole; one that is no JSON
(SQLite, Parquet, Arrow) has no such figure. Processor time is taken, the best of the rounds, after one that warms up.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from slowwave.tasks.ingest.formats.registry import detect_reader, find_files
from slowwave.tasks.ingest.parsing.errors import UnknownFormat
from slowwave.tasks.ingest.parsing.lines import open_binary
from slowwave.tasks.ingest.parsing.records import Limits, Message, Reader, Rejected


@dataclass(frozen=True)
class Speed:
    """One file's figures; speeds in MB/s of decompressed file."""

    path: str
    reader: str
    megabytes: float
    messages: int
    rejected: int
    read: float
    orjson: float | None
    ratio: float | None


def measure_best_seconds(work: Callable[[], object], rounds: int) -> float:
    """Return processor seconds of the fastest of so many runs, after one that does not count."""
    work()
    return min(_measure_seconds(work) for _ in range(rounds))


def _measure_seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return max(time.process_time() - begun, 1e-9)


def parse_with_orjson(path: Path) -> int:
    """Return how many values orjson finds: in the lines, or in the document as a whole; 0 where it is no JSON."""
    with open_binary(path) as stream:
        data = stream.read()
    if data[:1] not in b"[{":
        return 0
    parsed = 0
    for line in data.split(b"\n"):
        try:
            orjson.loads(line)
            parsed += 1
        except orjson.JSONDecodeError:
            if not parsed:
                return _parse_whole(data)
    return parsed


def _parse_whole(data: bytes) -> int:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return 0
    return 1


def measure_reader(path: Path, reader: Reader, rounds: int) -> Speed:
    """Return one file's speed under its reader and under orjson."""
    with open_binary(path) as stream:
        size = sum(map(len, iter(lambda: stream.read(1 << 20), b""))) / 1e6
    records = list(reader.read(path, Limits()))
    seconds = measure_best_seconds(lambda: sum(1 for _ in reader.read(path, Limits())), rounds)
    bare = measure_best_seconds(lambda: parse_with_orjson(path), rounds) if parse_with_orjson(path) else None
    return Speed(
        path=str(path),
        reader=reader.name,
        megabytes=size,
        messages=sum(isinstance(record, Message) for record in records),
        rejected=sum(isinstance(record, Rejected) for record in records),
        read=size / seconds,
        orjson=size / bare if bare else None,
        ratio=bare / seconds if bare else None,
    )


def print_speeds(speeds: Iterable[Speed]) -> None:
    """Print the figures as a table."""
    table = Table("file", "reader", "MB", "messages", "rejected", "MB/s", "orjson MB/s", "ratio")
    for speed in speeds:
        bare = ("–", "–") if speed.orjson is None else (f"{speed.orjson:.0f}", f"{speed.ratio:.2f}")
        counts = (f"{speed.megabytes:.2f}", str(speed.messages), str(speed.rejected), f"{speed.read:.1f}")
        table.add_row(Path(speed.path).name, speed.reader, *counts, *bare)
    Console().print(table)


def main() -> None:
    """Measure the files that are named, and those below the folders that are named."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the fastest counts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    speeds = []
    for path in find_files(args.paths):
        try:
            speeds.append(measure_reader(path, detect_reader(path), args.rounds))
        except UnknownFormat as error:
            print(f"skipped: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps([asdict(speed) for speed in speeds], indent=2))
    else:
        print_speeds(speeds)


if __name__ == "__main__":
    main()
