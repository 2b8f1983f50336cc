"""New and changed transcripts, by fingerprints in the `files` table, originals before resumed copies; and redaction."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any

from slowwave.schemas.settings import Settings
from slowwave.tasks.ingest.formats.left_out import LeftOut
from slowwave.tasks.ingest.formats.registry import (
    detect_reader,
    find_files,
    load_readers,
)
from slowwave.tasks.ingest.parsing.lines import sort_paths
from slowwave.tasks.ingest.parsing.records import Message, Reader, UnknownFormat
from slowwave.tasks.ingest.parsing.redacted import redact_block, redact_id
from slowwave.tasks.ingest.storable import is_utf8, show_path
from slowwave.tasks.job import compute_step_key
from slowwave.text.redact import NONE, redact, redact_text

BAD_NAME = "its name, or that of a folder above it, is no UTF-8: rename it, and the next night reads it"
FOREIGN = "it lies among a tool's transcripts, and is of the format {}: name it, as in `slowwave run FILE`, to read it"


@dataclass(frozen=True)
class Transcript:
    """A file to be read, with what is known of it before it is opened."""

    path: Path
    name: str
    """The path as the store has it: without a secret."""
    reader: Reader
    size: int
    mtime_ns: int
    digest: str
    read_key: str
    kept_words: frozenset[str] = NONE
    """Words that redaction leaves as they are."""


@dataclass
class TranscriptScan:
    """What lies below the paths: transcripts to read, files that no reader knows, and counts of the rest."""

    pending: list[Transcript] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: LeftOut = field(default_factory=LeftOut)


def _sort_by_time(transcripts: list[Transcript]) -> None:
    """Sort transcripts in the order in which their files are read (`sort_paths`)."""
    in_time = sort_paths(transcript.path for transcript in transcripts)
    order = {path: position for position, path in enumerate(in_time)}
    transcripts.sort(key=lambda transcript: order[transcript.path])


def find_pending(
    stored: dict[str, dict[str, Any]],
    settings: Settings,
    paths: Iterable[Path],
    named: Iterable[Path] | None = (),
) -> TranscriptScan:
    """Return the transcripts that are new or changed since they were last read.

    Args:
        stored: rows of FILES by path.
        settings: `read.exclude` and what else changes how a file is read.
        paths: files and folders.
        named: those that a person named, None for all. Of the others a file that lies where a tool keeps its
            transcripts is left out if it is none of that tool's and was not read before.

    A file whose size and time of change are as recorded is taken as unchanged, also where a reader that came since
    would claim it; otherwise its bytes decide.
    Messages that two sessions share belong to the one that began first, or else ended first: the other is a
    resumed or forked copy.
    """
    scan = TranscriptScan()
    paths = list(paths)
    readers = {compute_read_key(reader, settings): reader for reader in load_readers()}
    unasked = set[Path]() if named is None else set(paths).difference(named)
    for path in find_files(paths, scan.left_out):
        if is_excluded(path, settings.read.exclude):
            scan.counts["files excluded"] += 1
            continue
        if not is_utf8(str(path)):
            scan.unreadable.append((path, BAD_NAME))
            continue
        row = stored.get(str(path)) or stored.get(name_path(path, settings))
        same = readers.get(row["read_key"]) if row else None
        try:
            transcript = detect_change(path, row, same, settings)
        except (UnknownFormat, OSError) as error:
            scan.unreadable.append((path, str(error)))
            continue
        if transcript is None:
            scan.counts["files unchanged"] += 1
        elif path in unasked and _is_unexpected(transcript, row):
            scan.unreadable.append((path, FOREIGN.format(transcript.reader.name)))
        else:
            scan.pending.append(transcript)
    scan.unreadable += scan.left_out.unreadable
    _sort_by_time(scan.pending)
    return scan


def _is_unexpected(transcript: Transcript, row: dict[str, Any] | None) -> bool:
    """Return True if a file is none of the tool's in whose folder it lies, and was not read before."""
    is_known = row is not None and row.get("source") == transcript.reader.source
    return not is_known and is_foreign(transcript.path, transcript.reader)


def is_excluded(path: Path, globs: Sequence[str]) -> bool:
    """Return whether one of the globs names a file, as it is given or from the root: `a/../b` lies in no folder `a`."""
    names = {os.path.normpath(path), os.path.normpath(path.absolute())} if globs else ()
    return any(fnmatch(name, glob) for name in names for glob in globs)


def detect_change(
    path: Path, row: dict[str, Any] | None, same: Reader | None, settings: Settings
) -> Transcript | None:
    """Return the transcript, when it is not as its row in FILES says; None when there is no news in it.

    `same` is its reader then, where that would read it the same way now.

    Raises:
        UnknownFormat, OSError: it can't be read.
    """
    if row and same and measure_file(path, same)[1:] == (row["size"], row["mtime_ns"]):
        return None  # not even opened: there may be thousands of them
    reader = detect_reader(path)
    parts, size, mtime = measure_file(path, reader)
    # SHA-256 over the files' bytes, one after the other.
    sha256 = hashlib.sha256()
    for part in parts:
        with part.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                sha256.update(chunk)
    key = compute_read_key(reader, settings)
    digest = sha256.hexdigest()
    if row and (key, digest) == (row["read_key"], row["digest"]):
        return None
    return Transcript(
        path,
        name_path(path, settings),
        reader,
        size,
        mtime,
        digest,
        key,
        frozenset(settings.redact_except),
    )


def measure_file(path: Path, reader: Reader) -> tuple[list[Path], int, int]:
    """Return a transcript's files, it and its companions that are there, their bytes, and the latest change (ns)."""
    files = (
        path.with_name(path.name + suffix) if suffix else path
        for suffix in reader.suffixes
    )
    parts = [part for part in files if part.is_file()]
    stats = [part.stat() for part in parts]
    return (
        parts,
        sum(status.st_size for status in stats),
        max((status.st_mtime_ns for status in stats), default=0),
    )


def name_path(path: Path, settings: Settings) -> str:
    """Return a file's name in the store: its path, redacted where settings say so."""
    return redact_path(path) if settings.redact else show_path(path)


def is_at_home(path: Path, home: str) -> bool:
    """Return True if a file may change a session that was first read from `home`, also if that file is gone by now.

    It lies in the same folder or below, or its tool has moved it from one of its places to another, as Codex does.
    """
    there = Path(home).resolve()
    here = path.resolve()
    if not home or there.parent in here.parents:
        return True
    return there.name == here.name and not there.exists() and _is_moved(there, here)


def _is_moved(there: Path, here: Path) -> bool:
    """Return True if two paths lie in different places of one tool's."""
    for reader in load_readers():
        roots = {place.root.resolve() for place in reader.locations(Path.home())}
        pair = [
            {root for root in roots if root in path.parents} for path in (there, here)
        ]
        if all(pair) and pair[0].isdisjoint(pair[1]):
            return True
    return False


def is_foreign(path: Path, reader: Reader) -> bool:
    """Return True if a file lies where a tool keeps its transcripts and is none of that tool's."""
    owners = {
        other.source
        for other in load_readers()
        for place in other.locations(Path.home())
        if place.root in path.absolute().parents
    }
    return bool(owners) and reader.source not in owners


def compute_read_key(reader: Reader, settings: Settings) -> str:
    """Return the key of a reading: the reader's version and the settings that change its records."""
    return _hash_read_key(
        reader.name,
        str(reader.version),
        str(settings.read.max_line_bytes),
        str(settings.redact),
        *sorted(settings.redact_except),
    )


_hash_read_key = cache(partial(compute_step_key, "read", 1))


# Secrets.


def redact_path(path: Path) -> str:
    """Return a path; where a secret stands in it with hashes for the parts that hold one, or else for all of it."""
    whole = show_path(path)
    if redact_text(whole) == whole:
        return whole
    parts = "/".join(map(redact_id, whole.split("/")))
    return parts if redact_text(parts) == parts else redact_id(whole)


def redact_message(message: Message, keep: frozenset[str] = NONE) -> Counter[str]:
    """Replace the secrets in a message's text, blocks and ids, in place; how many of each kind there were in what was
    said.

    A secret that stands in a block and again in `text` counts once. A word in `keep` is left as it is.
    """
    if message.speaker:
        message.speaker = redact_text(message.speaker, keep)
    message.native_id = redact_id(message.native_id)
    message.parent_id = message.parent_id and redact_id(message.parent_id)
    message.text, in_text = redact(message.text, keep)
    in_blocks: Counter[str] = Counter()
    for at, block in enumerate(message.blocks):
        message.blocks[at], in_block = redact_block(block, keep)
        in_blocks += in_block
    return in_text | in_blocks
