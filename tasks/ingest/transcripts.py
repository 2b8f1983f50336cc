"""Find new and changed transcripts by fingerprints in FILES, originals before resumed copies; and redact messages."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path

from slowwave.schemas.counters import Count
from slowwave.schemas.rows import FileRow
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
from slowwave.text.workspaces import dash_folder

BAD_NAME = "its name, or that of a folder above it, is not UTF-8: rename it, and the next night reads it"
FOREIGN = "it lies among a tool's transcripts, and is of the format {}: name it, as in `slowwave run FILE`, to read it"


@dataclass(frozen=True)
class Transcript:
    """A file to read, with its fingerprint and reader."""

    path: Path
    name: str
    """The path in the store, with secrets replaced."""
    reader: Reader
    size: int
    mtime_ns: int
    digest: str
    read_key: str
    kept_words: frozenset[str] = NONE
    """Words that redaction leaves as they are."""


@dataclass
class TranscriptScan:
    """The files below the paths: transcripts to read, files that can't be read, and counts of the others."""

    pending: list[Transcript] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    counts: Counter[Count] = field(default_factory=Counter)
    left_out: LeftOut = field(default_factory=LeftOut)


def _sort_by_time(transcripts: list[Transcript]) -> None:
    """Sort transcripts in the order in which their files are read (`sort_paths`)."""
    in_time = sort_paths(transcript.path for transcript in transcripts)
    order = {path: position for position, path in enumerate(in_time)}
    transcripts.sort(key=lambda transcript: order[transcript.path])


def find_pending(
    stored: dict[str, FileRow],
    settings: Settings,
    paths: Iterable[Path],
    named: Iterable[Path] | None = (),
) -> TranscriptScan:
    """Return the transcripts that are new or changed since they were last read.

    Args:
        stored: rows of FILES by path.
        settings: `read.exclude`, and the settings that change how a file is read.
        paths: files and folders.
        named: the paths that a person named; None for all. A file in another path is left out if it lies where a
            tool keeps its transcripts, is of another format than that tool's, and was not read before.

    A file with the recorded size and time of change counts as unchanged, even if a newer reader would accept it.
    Otherwise its bytes decide.
    The transcripts are sorted by time. Messages that two sessions share belong to the one that began first, or else
    ended first: the other is a resumed or forked copy.
    """
    scan = TranscriptScan()
    paths = list(paths)
    readers = {compute_read_key(reader, settings): reader for reader in load_readers()}
    unasked = set[Path]() if named is None else set(paths).difference(named)
    for path in find_files(paths, scan.left_out):
        if is_excluded(path, settings.read.exclude):
            scan.counts[Count.FILES_EXCLUDED] += 1
            continue
        if not is_utf8(str(path)):
            scan.unreadable.append((path, BAD_NAME))
            continue
        row = stored.get(str(path)) or stored.get(name_path(path, settings))
        same = readers.get(row["read_key"]) if row else None
        try:
            transcript = detect_change(path=path, row=row, same=same, settings=settings)
        except (UnknownFormat, OSError) as error:
            scan.unreadable.append((path, str(error)))
            continue
        if transcript is None:
            scan.counts[Count.FILES_UNCHANGED] += 1
        elif path in unasked and _is_unexpected(transcript, row):
            scan.unreadable.append((path, FOREIGN.format(transcript.reader.name)))
        else:
            scan.pending.append(transcript)
    scan.unreadable += scan.left_out.unreadable
    _sort_by_time(scan.pending)
    return scan


def _is_unexpected(transcript: Transcript, row: FileRow | None) -> bool:
    """Return True if a file is in a tool's folder, is not of that tool's format, and was not read before."""
    is_known = row is not None and row.get("source") == transcript.reader.source
    return not is_known and is_foreign(transcript.path, transcript.reader)


def is_excluded(path: Path, globs: Sequence[str]) -> bool:
    """Return True if one of the globs matches a file's path, as given or absolute. `a/../b` counts as `b`."""
    names = {os.path.normpath(path), os.path.normpath(path.absolute())} if globs else ()
    return any(fnmatch(name, glob) for name in names for glob in globs)


def detect_change(
    path: Path,
    row: FileRow | None,
    same: Reader | None,
    settings: Settings,
) -> Transcript | None:
    """Return the transcript if it differs from its row in FILES; None if it is unchanged.

    `same` is the reader of that row, if it would read the file in the same way now.

    Raises:
        UnknownFormat, OSError: the file can't be read.
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
        path=path,
        name=name_path(path, settings),
        reader=reader,
        size=size,
        mtime_ns=mtime,
        digest=digest,
        read_key=key,
        kept_words=frozenset(settings.redact_except),
    )


def measure_file(path: Path, reader: Reader) -> tuple[list[Path], int, int]:
    """Return a transcript's existing files with its companions, their bytes in all, and their latest change (ns)."""
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
    """Return a file's name in the store: its path, redacted unless `redact` is off."""
    return redact_path(path) if settings.redact else show_path(path)


def is_at_home(path: Path, home: str) -> bool:
    """Return True if a file may change a session that was first read from the file `home`, which need not exist any
    more.

    It may if it is in the same folder or below, or if its tool moved it from one of its places to another, as Codex
    does.
    """
    there = Path(home).resolve()
    here = path.resolve()
    if not home or there.parent in here.parents:
        return True
    return there.name == here.name and not there.exists() and _is_moved(there, here)


def _is_moved(there: Path, here: Path) -> bool:
    """Return True if two paths are in different places of the same tool."""
    for reader in load_readers():
        roots = {place.root.resolve() for place in reader.locations(Path.home())}
        pair = [
            {root for root in roots if root in path.parents} for path in (there, here)
        ]
        if all(pair) and pair[0].isdisjoint(pair[1]):
            return True
    return False


def is_foreign(path: Path, reader: Reader) -> bool:
    """Return True if a file is in a tool's folder, and its reader is not that tool's."""
    owners = {
        other.source
        for other in load_readers()
        for place in other.locations(Path.home())
        if place.root in path.absolute().parents
    }
    return bool(owners) and reader.source not in owners


def lies_in_own_folder(path: Path, reader: Reader, workspace: str | None) -> bool:
    """Return True if a file lies among its tool's transcripts, in a folder that is named after the workspace."""
    if not workspace:
        return False
    places = {place.root for place in reader.locations(Path.home())}
    folders = list(path.absolute().parents)
    dashed = dash_folder(workspace)
    return not places.isdisjoint(folders) and any(
        dash_folder(folder.name) == dashed for folder in folders
    )


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
    """Return a path. Parts with a secret are replaced by hashes; if that leaves a secret, the whole path is."""
    whole = show_path(path)
    if redact_text(whole) == whole:
        return whole
    parts = "/".join(map(redact_id, whole.split("/")))
    return parts if redact_text(parts) == parts else redact_id(whole)


def redact_message(message: Message, keep: frozenset[str] = NONE) -> Counter[str]:
    """Replace the secrets in a message's text, blocks, ids and speaker in place; return the number of each kind.

    Only the text and the blocks are counted. A secret in both a block and the text counts once. A word in `keep` is
    left as it is.
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
