"""`ratings.jsonl`: what somebody said of a memory that was handed out, good or bad, and why.

It lies beside `recalls.jsonl`, is only ever added to, a line a rating, and belongs to no release; the last word on an
id counts. Recall does not go by it: `slowwave stats` shows it.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from slowwave.schemas.errors import StoreUnwritable, UsageError
from slowwave.store.journals.recalls import append_line

FILE = "ratings.jsonl"
MOST_WHY = 500
"""Characters of a reason."""
Verdict = Literal["good", "bad"]


@dataclass(frozen=True)
class Rating:
    """One word on one memory."""

    at: datetime
    id: str
    kind: str
    """What was rated: observation, message, summary, topic or session."""
    verdict: str
    why: str


def write_rating(space_dir: Path, id: str, kind: str, verdict: str, why: str = "") -> None:
    """Note a rating.

    Raises:
        UsageError: a verdict that is neither good nor bad.
        StoreUnwritable: the folder takes no more.
    """
    if verdict not in ("good", "bad"):
        raise UsageError(f"a memory is good or bad, not {verdict!r}")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    line = {"at": at, "id": id, "kind": kind, "verdict": verdict, "why": " ".join(why.split())[:MOST_WHY]}
    if not append_line(space_dir / FILE, line):
        raise StoreUnwritable(space_dir, f"{FILE} takes no line")


def read_ratings(space_dir: Path) -> dict[str, Rating]:
    """Return the last rating of each id; lines that can't be read are passed over."""
    found: dict[str, Rating] = {}
    path = space_dir / FILE
    for raw in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            line = json.loads(raw)
            said = (str(line[name]) for name in ("id", "kind", "verdict", "why"))
            one = Rating(datetime.fromisoformat(line["at"]), *said)
        except (ValueError, KeyError, TypeError, RecursionError):  # cut by a crash, or written by hand
            continue
        found[one.id] = one
    return found
