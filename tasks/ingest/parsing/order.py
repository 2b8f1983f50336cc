"""Times as transcripts write them (ISO 8601, seconds since 1970 or thousandths), and files in order of time."""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson

from slowwave.tasks.ingest.parsing.lines import DAMAGE, HEAD, PACKED, get_inner_suffix, read_head
from slowwave.tasks.ingest.parsing.values import coerce_time


def parse_time(value: object) -> datetime | None:
    """Return aware UTC time as `coerce_time` does; None too for 0 and less, which stand for "unknown"."""
    return None if isinstance(value, int | float) and value <= 0 else coerce_time(value)


_TIME_KEYS = ("timestamp", "ts", "created_at", "time")
_LAST = datetime.max.replace(tzinfo=UTC)


def sort_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths by first time, then last time, then path; those without a time come last."""

    def key(path: Path) -> tuple[datetime, datetime, Path]:
        return read_first_timestamp(path) or _LAST, read_last_timestamp(path) or _LAST, path

    return sorted(paths, key=key)


def read_first_timestamp(path: Path) -> datetime | None:
    """Return the first time a JSON lines file names; None for other files and where its head names none."""
    return next(_parse_times(_read_head_lines(path)), None) if _is_jsonl_path(path) else None


def read_last_timestamp(path: Path) -> datetime | None:
    """Return the latest time in the head and the tail of a JSON lines file; None for other files and where they name
    none.

    The tail of a compressed file can't be reached without reading it whole: its head has to do.
    """
    if not _is_jsonl_path(path):
        return None
    packed = path.suffix.lower() in PACKED
    return max(_parse_times([*_read_head_lines(path), *([] if packed else _read_tail_lines(path))]), default=None)


def _is_jsonl_path(path: Path) -> bool:
    return get_inner_suffix(path) in (".jsonl", ".ndjson") or ".jsonl." in path.name.lower()


def _read_head_lines(path: Path) -> list[object]:
    try:
        return read_head(path).lines
    except (OSError, *DAMAGE):
        return []


def _read_tail_lines(path: Path) -> list[object]:
    try:
        with path.open("rb") as stream:
            stream.seek(-min(HEAD, stream.seek(0, os.SEEK_END)), os.SEEK_END)
            data = stream.read(HEAD)
    except OSError:
        return []
    lines: list[object] = []
    for raw in data.split(b"\n"):
        try:
            lines.append(orjson.loads(raw))
        except orjson.JSONDecodeError:
            continue  # the first is cut, the last may be torn
    return lines


def _parse_times(lines: Iterable[object]) -> Iterator[datetime]:
    for line in lines:
        if isinstance(line, dict):
            yield from (time for key in _TIME_KEYS if (time := parse_time(line.get(key))) is not None)
