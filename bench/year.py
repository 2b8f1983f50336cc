"""A year of nights: what a night costs, and what the store grows by, as the memory of a person or a team gets older.

    python -m bench.year [--nights 365] [--people 1] [--svg FILE] [--encoder NAME] [--each] [--json]

What is said are the sessions of `data/labelled`, which people and models wrote: amended, repeated, of several projects,
in an order drawn by chance. A person has up to four on a working day and ten in each fourth week's burst, and is away
for two weeks twice a year. After all sessions have been used once they come again with other figures, in projects of
their own. A night keeps no version that no release pins, as nights a day apart do. A night reads what is
new, and three readers' questions are put to each release. Columns, every thirtieth night and on the mean of the thirty:
*messages* so far; *new*; *CPU s*, and *for 100*, those of the nights with news by a hundred new messages; *idle s*, a
night without news; *peak MB*; *claims*; *files*; *MB* of the store and *bytes* for a message. The last line compares
the last thirty nights with nights 2 to 31. `--svg` draws the curves, `--each` tells of each night by
itself.
"""

import random
import re
import resource
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from unittest import mock

import orjson
import polars as pl

from bench.harness import LABELLED, SCRATCH, Figures, Row, run
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.store import upkeep

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
MOST, BURST, AWAY = 4, 10, (range(100, 114), range(210, 224))
"""Sessions on a working day, and in each fourth week; the days of the year on which nobody says anything."""
FIGURE = re.compile(r"\d+")
QUESTIONS = (
    "What did we decide about the database?",
    "When is the next release?",
    "Who likes tea?",
)
MONTH = 30

Session = list[dict[str, str]]

CURVES = {
    "CPU seconds a night": "CPU s", "messages a night": "new", "peak memory, MB": "peak MB", "claims": "claims",
    "files": "files", "store, MB": "MB",
}  # fmt: skip
"""Columns that `--svg` draws, each under its name and unit."""
WIDTH, HEIGHT, LEFT, GAP = 720, 110, 90, 34
"""Of one picture in pixels; where it begins, for the figures beside it; and what lies between two."""
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#555}path{fill:none;stroke:#2a6f97;stroke-width:1.5}line{stroke:#ccc}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}path{stroke:#7cc4f0}line{stroke:#444}}"
)


def measure(
    *,
    nights: int = 365,
    people: int = 1,
    encoder: str = "hash-384",
    each: bool = False,
    svg: Path | None = None,
    folder: Path = SCRATCH,
) -> Figures:
    """Live through it; return a row every thirtieth night, or with `each` one a night."""
    (talk := folder / "talk").mkdir()
    with mock.patch.object(upkeep, "GRACE", timedelta(0)):
        # Hours, which these nights do not last.
        lived = pl.DataFrame(
            live_through(
                Settings(store=folder / "store", encoder=encoder), talk, nights, people
            )
        )
    rows = [
        summarise(lived[max(0, end - MONTH) : end])
        for end in sorted({*range(MONTH, nights, MONTH), nights})
    ]
    first, last = (
        summarise(lived[1 : MONTH + 1] if nights > 1 else lived)["for 100"],
        rows[-1]["for 100"],
    )
    if svg:
        draw_curves(svg, lived)
    note = f"a new message costs {last / (first or 1):.2f} times as much CPU in the last month as in the first"
    return Figures(
        lived.to_dicts() if each else rows,
        f"{nights} nights of {people} people",
        [note],
    )


def read_sessions() -> list[Session]:
    """Return the sessions of the labelled conversations, each in order."""
    sessions: dict[str, Session] = defaultdict(list)
    for path in sorted(LABELLED.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            row = orjson.loads(line)
            if "role" in row and "session_id" in row:
                sessions[f"{path.stem}/{row['session_id']}"].append(row)
    return list(sessions.values())


def count_sessions(day: int, chance: random.Random) -> int:
    """Return the number of sessions that a person has on a day."""
    if day % 7 > 4 or any(day % 365 in away for away in AWAY):
        return 0
    return BURST if day // 7 % 4 == 3 else chance.randint(1, MOST)


def write_session(
    folder: Path, session: Session, number: int, day: int, cycle: int
) -> int:
    """Write a session as if it was of that day; return its messages. Told again, its figures are others."""
    lines = []
    for n, row in enumerate(session):
        text = (
            FIGURE.sub(lambda found: str(int(found[0]) + cycle), row["content"])
            if cycle
            else row["content"]
        )
        at = START + timedelta(days=day, minutes=20 * (number % 20) + n)
        place = f"{row.get('workspace') or 'home'}{f'-{cycle}' if cycle else ''}"
        told = {
            "session_id": f"s{number}",
            "message_id": f"s{number}-{n}",
            "ts": at.isoformat(),
            "workspace": place,
        }
        lines.append(
            orjson.dumps(
                {
                    "role": row["role"],
                    "speaker": row.get("speaker"),
                    **told,
                    "content": text,
                }
            )
        )
    (folder / f"{number:06}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return len(lines)


def live_through(
    settings: Settings, folder: Path, nights: int, people: int
) -> Iterator[Row]:
    """Yield each night. In a release that a reader can't ask, or that holds nothing, the question raises."""
    chance, told, messages, memory = random.Random(1), 0, 0, None
    pool = read_sessions()
    chance.shuffle(pool)
    for day in range(nights):
        new = 0
        for _ in range(sum(count_sessions(day, chance) for _ in range(people))):
            new += write_session(
                folder, pool[told % len(pool)], told, day, told // len(pool)
            )
            told += 1
        begun = process_time()
        report = run_night([folder], settings).check_complete()
        took, messages = process_time() - begun, messages + new
        memory = memory or Memory.open(settings.store)
        for question in QUESTIONS:
            memory.recall(question)
            if memory.warnings:
                raise SystemExit(f"night {day + 1}: {memory.warnings}")
        sizes = [
            path.stat().st_size for path in settings.store.rglob("*") if path.is_file()
        ]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        claims = (
            report.release.counts["claims"]
            if report.release
            else memory.release.counts["claims"]
        )
        yield {
            **{
                "night": day + 1,
                "messages": messages,
                "new": new,
                "CPU s": took,
                "peak MB": peak,
                "claims": claims,
            },
            **{"files": len(sizes), "MB": sum(sizes) / 1e6},
        }


def summarise(nights: pl.DataFrame) -> Row:
    """Return the line of some nights in a row."""
    last, busy, idle = (
        nights.row(-1, named=True),
        nights.filter(pl.col("new") > 0),
        nights.filter(pl.col("new") == 0),
    )
    return {
        **last,
        "new": nights["new"].sum(),
        "CPU s": nights["CPU s"].sum(),
        "for 100": 100 * busy["CPU s"].sum() / max(1, busy["new"].sum()),
        "idle s": idle["CPU s"].mean(),
        "bytes": int(1e6 * last["MB"]) // max(1, last["messages"]),
    }


def draw_curves(path: Path, lived: pl.DataFrame) -> None:
    """Write an SVG of the curves of two nights or more, one small picture above the other."""
    at, parts = lived["night"].to_list(), list[str]()
    across = (at[-1] - at[0]) or 1
    for number, (name, column) in enumerate(CURVES.items()):
        figures = lived[column].to_list()
        top, most = number * (HEIGHT + GAP) + GAP, max(figures) or 1
        points = (
            f"{LEFT + (x - at[0]) / across * WIDTH:.1f} {top + HEIGHT * (1 - y / most):.1f}"
            for x, y in zip(at, figures, strict=True)
        )
        parts += [
            f'<text x="{LEFT}" y="{top - 8}">{name}</text>',
            f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{most:,.4g}</text>',
            f'<text x="{LEFT - 8}" y="{top + HEIGHT}" text-anchor="end">0</text>',
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{top + HEIGHT}" y2="{top + HEIGHT}"/>',
            f'<path d="M{" L".join(points)}"/>',
        ]
    end = len(CURVES) * (HEIGHT + GAP) + GAP
    ends = (f'<text x="{LEFT}" y="{end - 14}">{at[0]:,g}</text>', f'<text x="{LEFT + WIDTH}" y="{end - 14}" '
            f'text-anchor="end">night {at[-1]:,g}</text>')  # fmt: skip
    size = f'viewBox="0 0 {LEFT + WIDTH + 20} {end}" width="{LEFT + WIDTH + 20}" height="{end}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><style>{STYLE}</style>'
    path.write_text("\n".join([head, *parts, *ends, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    run(measure)
