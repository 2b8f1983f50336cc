"""Nights on other days: moves what Lance reads as the age of a version, so that no test waits or fakes a clock."""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

STAMP = re.compile(rb"\x3a[\x06-\x0c]\x08([\x80-\xff]{4}[\x01-\x7f])")
"""The time of a commit in a manifest of Lance's: field 7, a message whose field 1 is the seconds since 1970."""


def make_older(folder: Path, by: timedelta) -> None:
    """Make every version of a space's tables, and every file, so much older.

    slowwave's own manifests would report the changed bytes as damage, so they are removed.
    """
    for path in (*folder.glob("manifest.json"), *folder.glob("manifests/*")):
        path.unlink()
    for path in folder.glob("*.lance/_versions/*.manifest"):
        content = path.read_bytes()
        (found,) = STAMP.finditer(content)
        seconds = sum(
            (byte & 127) << 7 * place for place, byte in enumerate(found[1])
        ) - int(by.total_seconds())
        path.write_bytes(
            content[: found.start(1)]
            + bytes(_encode(seconds))
            + content[found.end(1) :]
        )
    for path in folder.rglob("*"):
        at = path.stat().st_mtime - by.total_seconds()
        os.utime(path, (at, at))


def _encode(seconds: int) -> Iterator[int]:
    """Yield a number of 29 to 35 bits in five bytes, seven bits each, as protobuf has it."""
    for place in range(5):
        yield (seconds >> 7 * place) & 127 | (128 if place < 4 else 0)
