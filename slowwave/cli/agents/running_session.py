"""The end of the running session's transcript: what hooks told there, and what its commands did and showed."""

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from slowwave.context.projects.intentions import Done, Intention
from slowwave.tasks.dead_ends.moves import Move, MoveKind, read_moves
from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import Limits, Message

DOING = (MoveKind.EDIT, MoveKind.RUN, MoveKind.COMMIT)
"""Calls that tell what was done."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes at the end of a transcript that are searched for earlier texts."""
READ_BYTES = 128 * 1024
"""Bytes at its end of which the tool calls are read: a hook runs before each call, and so sees the last ones."""


def read_told(transcript: str | None, marks: Sequence[str]) -> set[str]:
    """Return the marks that occur in the last MOST_BYTES of a transcript; none if it can't be read."""
    if not transcript or not marks:
        return set()
    with suppress(OSError, ValueError):  # a name with a NUL
        content = _read_end(Path(transcript), MOST_BYTES)
        return {mark for mark in marks if mark.encode() in content}
    return set()


def find_shown(
    waiting: Sequence[Intention],
    transcript: str | None,
    workspace: str | None,
) -> list[Intention]:
    """Return the intentions that wait for what the last calls of a session did, or for a version that they showed."""
    if not transcript or not _may_show(waiting, Path(transcript)):
        return []
    done = list_done_by_moves(read_last_moves(Path(transcript), workspace))
    return [one for one in waiting if any(map(one.is_met_by, done))]


def _may_show(waiting: Sequence[Intention], transcript: Path) -> bool:
    """Return True if the end of a transcript has the number of a version, or the name of a file, of an intention.

    This is much cheaper than to read its calls.
    """
    names = [PurePosixPath(file).name for one in waiting for file in one.files]
    numbers = [number for one in waiting for _, number in one.versions]
    looked_for = [
        *(re.escape(name) for name in names),
        *(rf"(?<![\d.]){re.escape(number)}(?!\d)" for number in numbers),
    ]
    with suppress(OSError, ValueError):  # a name with a NUL
        end = _read_end(transcript, READ_BYTES)
        return any(re.search(pattern.encode(), end) for pattern in looked_for)
    return False


def list_done_by_moves(moves: Sequence[Move]) -> list[Done]:
    """Return the effects of the calls among some moves. Reading a file, or printing one in a test, has no effect."""
    done: list[Done] = []
    for move in moves:
        if move.kind in DOING:
            is_edit = move.kind is MoveKind.EDIT
            done.append(
                Done(
                    (move.path,) if move.path else (),
                    run="" if is_edit else move.line,
                    written=move.text if is_edit else "",
                    shown=move.output if move.ok else "",
                )
            )
    return done


def read_last_moves(transcript: Path, workspace: str | None) -> list[Move]:
    """Return the moves of the last READ_BYTES of a transcript; none if no reader knows it.

    A part of a line at the beginning is left out, as a record that can't be read.
    """
    with suppress(Exception):  # deliberately broad: a hook tells what it can
        reader = detect_reader(transcript)
        with _cut_to_end(transcript) as path:
            records = [*reader.read(path, Limits())]
        rows = [_make_row(one) for one in records if isinstance(one, Message)]
        return read_moves(rows, workspace)
    return []


@contextmanager
def _cut_to_end(transcript: Path) -> Iterator[Path]:
    """Yield a file with the last READ_BYTES of a transcript, which only this user can read: of a short one itself."""
    if transcript.stat().st_size <= READ_BYTES:
        yield transcript
        return
    with tempfile.TemporaryDirectory(prefix="slowwave-") as folder:
        path = Path(folder) / transcript.name
        path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        path.write_bytes(_read_end(transcript, READ_BYTES))
        yield path


def _make_row(message: Message) -> Mapping[str, Any]:
    """Return a message as `read_moves` takes it."""
    return {
        "message_id": message.native_id,
        "origin": message.origin,
        "text": message.text,
        "blocks": [asdict(block) for block in message.blocks],
        "ts": message.ts,
    }


def _read_end(path: Path, most: int) -> bytes:
    """Return the last bytes of a regular file: a pipe would never end.

    Raises:
        OSError: it can't be read.
        ValueError: its name can't be one.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - most))
        return stream.read()
