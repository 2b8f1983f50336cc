"""Looks for canaries in every file of some folders: in its bytes, and in what Lance's compressed files hold when read.

Each file of Lance is read by itself, and not by way of a version that names it: so rows marked as deleted and files
that no version names any more are looked at too. The words of a full-text index are packed into automata that no scan
reads: these are built anew from what is left.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slowwave.store.trouble import READ_TROUBLE
from slowwave.tasks.forget.canaries import STEP, WIDTH, Canaries

ROWS = 4_096


@dataclass
class Scan:
    """What was looked at, and where a canary was found."""

    files: int = 0
    bytes: int = 0
    decoded: int = 0
    """Files of Lance that were read as tables too."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read, or of Lance's not as tables."""
    found: dict[str, int] = field(default_factory=dict)
    """File -> canaries in it."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(vars(self))


def scan_files(paths: Iterable[Path], canaries: Canaries) -> Scan:
    """Look for canaries in the files, and in all files below the folders, that are there."""
    result = Scan()
    for path in (file for one in paths for file in _iter_files(one)):
        try:
            found = _scan_raw(path, canaries, result)
        except FileNotFoundError:  # a reader's, gone since it was listed
            continue
        except OSError as trouble:
            result.unread.append(f"{path}: {trouble.strerror}")
            continue
        if path.suffix == ".lance":
            try:
                if path.stat().st_size:  # of an empty one, which a power cut leaves, Lance panics
                    found |= _scan_decoded(path, canaries)
                    result.decoded += 1
            except READ_TROUBLE as trouble:
                result.unread.append(f"{path}: {type(trouble).__name__}")
        if found:
            result.found[str(path)] = len(found)
    return result


def _iter_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (one for name in sorted(names) if (one := Path(folder, name)).is_file())


def _scan_raw(path: Path, canaries: Canaries, result: Scan) -> set[str]:
    found: set[str] = set()
    tail = b""
    with path.open("rb") as stream:
        result.files += 1
        while chunk := stream.read(STEP):
            result.bytes += len(chunk)
            found |= canaries.find(tail + chunk)
            tail = (tail + chunk)[1 - WIDTH :]
    return found


def _scan_decoded(path: Path, canaries: Canaries) -> set[str]:
    from lance.file import LanceFileReader

    found: set[str] = set()
    for batch in LanceFileReader(str(path)).read_all(batch_size=ROWS).to_batches():
        for column in batch.columns:
            for buffer in column.buffers():  # a column of lists or structs has its children's too
                if buffer is not None and buffer.size >= WIDTH:
                    found |= canaries.find(memoryview(buffer))
    return found
