"""A year of small nights over one store: nothing may grow but what was said.

    python -m bench.soak                                  365 nights of a few messages each, about ten minutes
    python -m bench.soak --nights 30 --messages 4 --json

Each night reads a session more. Meanwhile one reader asks on and on, through every release, and must see each whole and
never an older one after a newer. What clean-up spares for a day is spared for one night here, since a night takes a
second.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.errors import NoRelease, StoreMissing
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RELEASED
from slowwave.store import upkeep
from slowwave.store.snapshot import Snapshot

SAID = (
    "On day {0} the gauge at Hoy reads {0} cm too high.",
    "We decided to poll station {0} every {1} minutes.",
    "Ann paid {0} euros for cabin {1}.",
    "The ferry of day {0} leaves from pier {1}.",
)


class Reader(threading.Thread):
    """Asks the live release, and reads all its tables, until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self.settings, self.done, self.seen, self.asked = settings, threading.Event(), 0, 0
        self.memory: Memory | None = None
        self.wrong: list[str] = []

    def run(self) -> None:
        """Read on and on; what is wrong is noted."""
        while not self.done.is_set():
            try:
                self._read_once()
            except (StoreMissing, NoRelease):
                time.sleep(0.05)  # the first night is under way
            except Exception as error:  # whatever a reader meets is what is looked for
                self.wrong.append(f"{type(error).__name__}: {error}"[:300])

    def _read_once(self) -> None:
        live = Snapshot(self.settings.store)
        if live.release.number < self.seen:
            self.wrong.append(f"r{live.release.number} after r{self.seen}")
        self.seen = max(self.seen, live.release.number)
        counts = {table.name: live.open_dataset(table).count_rows() for table in RELEASED}
        if counts != {name: live.release.counts[name] for name in counts}:
            self.wrong.append(f"{live.release.name} has other rows than it says")
        self.memory = self.memory or Memory.open(self.settings.store, encoder=HashEncoder())
        hits = self.memory.recall("Which pier does the ferry leave from?")
        if hits.stale or self.memory.notes:
            self.wrong.append(f"{self.memory.release.name}: {self.memory.notes}")
        self.asked += 1
        time.sleep(0.05)


def write_day(folder: Path, day: int, messages: int) -> None:
    """Write a session of a day."""
    at = datetime(2026, 1, 1, 9, tzinfo=UTC) + timedelta(days=day)
    lines = [
        {"session_id": f"d{day}", "message_id": f"d{day}-{n}", "role": "user", "speaker": "Ben"}
        | {"content": SAID[n % len(SAID)].format(day, n + 4), "ts": (at + timedelta(minutes=n)).isoformat()}
        for n in range(messages)
    ]
    (folder / f"{day:04}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def live_through(settings: Settings, talk: Path, nights: int, messages: int) -> Iterator[dict[str, Any]]:
    """Yield of each night its seconds, and the files and bytes of the store."""
    for night in range(1, nights + 1):
        write_day(talk, night, messages)
        begun = time.thread_time()
        with patch.object(upkeep, "GRACE", timedelta(0)):
            report = run_night([talk], settings).check_complete()
        took = time.thread_time() - begun
        sizes = [path.stat().st_size for path in settings.store.rglob("*") if path.is_file()]
        slowest = sorted(report.steps, key=lambda step: -step.seconds)[:3]
        told = {step.step: round(step.seconds, 3) for step in slowest}
        yield {"night": night, "seconds": took, "files": len(sizes), "bytes": sum(sizes), "slowest": told}


def main() -> int:
    """Live through it and print; the exit status is 1 where the reader met anything wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--messages", type=int, default=3)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slowwave-soak-") as folder:
        talk = Path(folder, "talk")
        talk.mkdir()
        settings = Settings(store=Path(folder, "store"), encoder="hash-384", keywords={"top": 0})
        reader = Reader(settings)
        reader.start()
        for row in live_through(settings, talk, given.nights, given.messages):
            if given.as_json:
                print(json.dumps(row), flush=True)
            elif row["night"] % max(1, given.nights // 24) == 0:
                slow = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["slowest"].items())
                print(
                    f"night {row['night']:>3}: {row['seconds']:5.2f} s, {row['files']:>5} files, "
                    f"{row['bytes'] / 1e6:6.2f} MB; slowest {slow}",
                    flush=True,
                )
        reader.done.set()
        reader.join()
    print(
        f"{reader.asked} readings through {reader.seen} releases, {len(reader.wrong)} wrong",
        *reader.wrong[:5],
        sep="\n",
    )
    return bool(reader.wrong)


if __name__ == "__main__":
    sys.exit(main())
