"""The registry of readers: it chooses the reader of a file, and finds transcripts.

A reader is chosen by a file's content, never by its name alone. The most specific reader is tried first. Formats that
are recognised at the start of the file come before those that any line shows, since a history in Markdown may quote
lines of every other format. Plugins add readers as entry points of the group `slowwave.readers`, which are tried before
our own (docs/plugins.md).
"""

import logging
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

from slowwave.schemas.counters import Count
from slowwave.schemas.plugins import find_plugins
from slowwave.tasks.ingest.formats import zipped
from slowwave.tasks.ingest.formats.agents import claude_code, codex
from slowwave.tasks.ingest.formats.agents.openclaw import reader as openclaw
from slowwave.tasks.ingest.formats.agents.openclaw import sqlite as openclaw_sqlite
from slowwave.tasks.ingest.formats.left_out import LeftOut
from slowwave.tasks.ingest.formats.nearest import explain_unknown
from slowwave.tasks.ingest.formats.own import export, generic
from slowwave.tasks.ingest.formats.own.store_folder import (
    SUFFIX,
    is_lance_table,
    is_store,
)
from slowwave.tasks.ingest.parsing.lines import DAMAGE, get_inner_suffix, read_head
from slowwave.tasks.ingest.parsing.records import (
    Head,
    Location,
    NoSuchPath,
    Reader,
    ToolFolder,
    UnknownFormat,
)

LOG = logging.getLogger(__name__)
GROUP = "slowwave.readers"
OWN: tuple[Reader, ...] = (
    openclaw_sqlite.READER,
    export.READER,
    export.LEARNINGS_READER,
    generic.COLUMNS_READER,
    claude_code.READER,
    codex.READER,
    openclaw.READER,
    openclaw.PI_READER,
    generic.READER,
)

SUFFIXES = frozenset(
    {
        *(".jsonl", ".ndjson", ".json", zipped.SUFFIX),
        *(".parquet", ".arrow", ".feather", ".ipc"),
        *(".sqlite", ".sqlite3", ".db"),
    }
)
JUNK_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", ".cache", "node_modules", "__pycache__"}
)
JUNK_FILES = frozenset(
    {
        "sessions.json",
        "sessions-index.json",
        "package.json",
        "package-lock.json",
        "tsconfig.json",
    }
)
COMPANIONS = ("-wal", "-shm", "-journal", ".meta.json", ".lock", ".tmp")


@cache
def load_readers() -> tuple[Reader, ...]:
    """Return all readers: those of plugins, then our own.

    An entry that can't be loaded, isn't a reader, or has another reader's name is left out with a warning.
    """
    added: list[Reader] = []
    for name, entry in find_plugins(GROUP).items():
        try:
            loaded = entry.load()
        except Exception as error:
            # Deliberately broad: importing a package can raise anything.
            LOG.warning(
                "the reader %r can't be loaded, and is left out: %s: %s",
                name,
                type(error).__name__,
                error,
            )
            continue
        for reader in loaded if isinstance(loaded, tuple) else (loaded,):
            names = {other.name for other in (*added, *OWN)}
            if (
                isinstance(reader, Reader)
                and callable(reader.sniff)
                and reader.name not in names
            ):
                added.append(reader)
            else:
                got = (
                    f"another called {reader.name!r}"
                    if isinstance(reader, Reader)
                    else repr(reader)
                )
                LOG.warning(
                    "%s is not a Reader, and is left out: got %s", entry.value, got
                )
    return (*added, *OWN)


def detect_reader(path: Path) -> Reader:
    """Return the reader that recognises the file.

    Raises:
        UnknownFormat: the file is empty, can't be opened, or no reader knows it.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        # opening a pipe would wait for a writer
        raise UnknownFormat(path, "it is neither a file nor a folder")
    try:
        head = read_head(path)
    except DAMAGE as error:
        raise UnknownFormat(path, f"the compressed file is damaged: {error}") from error
    except OSError as error:
        raise UnknownFormat(path, error.strerror or str(error)) from error
    if not head.data.strip():
        raise UnknownFormat(path, "the file is empty")
    if head.data.startswith(zipped.MAGIC) and path.suffix.lower() == zipped.SUFFIX:
        return zipped.find_inner_reader(path, _detect_unpacked)
    return _find_reader(path, head)


def _detect_unpacked(path: Path) -> Reader:
    head = read_head(path)
    if not head.data.strip():
        raise UnknownFormat(path, "the file is empty")
    return _find_reader(path, head)


def _find_reader(path: Path, head: Head) -> Reader:
    for reader in load_readers():
        if _recognises(reader, head):
            return reader
    raise UnknownFormat(path, f"no reader recognises it; {explain_unknown(head)}")


def find_other_readers(path: Path, reader: Reader) -> list[Reader]:
    """Return the other readers that recognise the file, in the order of the registry."""
    head = read_head(path)
    return [
        other
        for other in load_readers()
        if other is not reader and _recognises(other, head)
    ]


def _recognises(reader: Reader, head: Head) -> bool:
    try:
        return reader.sniff(head)
    except Exception as error:
        # deliberately broad: an error of one reader must not stop the others
        LOG.warning(
            "reader %s can't look at %r: %r", reader.name, str(head.path), error
        )
        return False


def find_files(
    paths: Iterable[Path], left_out: LeftOut | None = None
) -> Iterator[Path]:
    """Yield the given files, and the files below the given folders that may be transcripts; sorted, each once.

    Symbolic links below a folder are not followed. A given file is yielded whatever its name is. All files and folders
    that are left out are added to `left_out`.

    Raises:
        NoSuchPath: as `check_paths`.
    """
    files: set[Path] = set()
    left_out = LeftOut() if left_out is None else left_out
    for path in check_paths(paths):
        files.update(_walk_folder(path, left_out) if path.is_dir() else [path])
    yield from sorted(files, key=lambda path: path.parts)


def check_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths with `~` replaced by the home folder.

    Raises:
        NoSuchPath: a path does not exist, or is neither a file nor a folder. Opening a pipe would wait for a writer.
    """
    expanded = [path.expanduser() for path in paths]
    for path in expanded:
        if not path.exists():
            raise NoSuchPath(path)
        if not (path.is_file() or path.is_dir()):
            raise NoSuchPath(
                path, "expected a file or a folder, got a pipe or a device"
            )
    return expanded


def _walk_folder(folder: Path, left_out: LeftOut) -> Iterator[Path]:
    def note_unlisted(error: OSError) -> None:
        left_out.unreadable.append(
            (Path(error.filename), f"the folder can't be listed: {error.strerror}")
        )

    for root, folders, files in os.walk(
        folder, onerror=note_unlisted, followlinks=False
    ):
        here = Path(root)
        if is_store(here):
            left_out.add(Count.STORES, here)
            folders.clear()
            continue
        exported = export.list_exported(here) if export.MANIFEST in files else set()
        reasons = {name: _explain_folder(here / name, exported) for name in folders}
        folders[:] = [name for name in folders if not reasons[name]]
        for path in map(here.joinpath, files):
            if _is_companion(path.name, files):
                continue
            reasons[path.name] = (
                Count.EXPORTED_TABLES if path.name in exported else _explain_file(path)
            )
            if not reasons[path.name]:
                yield path
        for name, reason in reasons.items():
            if reason:
                left_out.add(reason, here / name)


def _explain_folder(folder: Path, exported: Collection[str]) -> Count | None:
    """Return why a folder is left out; None if it is searched."""
    if folder.is_symlink():
        return Count.LINKS
    if folder.name in JUNK_FOLDERS:
        return Count.JUNK_FOLDERS
    if folder.name in exported:
        return Count.EXPORTED_TABLES
    return (
        Count.LANCE_TABLES
        if folder.suffix == SUFFIX and is_lance_table(folder)
        else None
    )


def _is_companion(name: str, beside: Collection[str]) -> bool:
    """Return True if a file belongs to another file of its folder, for example a database's log."""
    stems = (
        name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)
    )
    return any(stem in beside or f"{stem}.jsonl" in beside for stem in stems)


def _explain_file(path: Path) -> Count | None:
    """Return why a file below a folder is left out; None if it may be a transcript."""
    if not is_candidate(path):
        return Count.JUNK_FILES if _has_suffix(path) else Count.OTHER_FILES
    return Count.LINKS if path.is_symlink() else None


def is_candidate(path: Path) -> bool:
    """Return True if a file may be a transcript by its name. Archives such as `x.jsonl.deleted.<time>` count."""
    name = path.name.lower()
    if name.endswith(COMPANIONS) or name in JUNK_FILES:
        return False
    if not name.startswith(".") and _has_suffix(path):
        return True
    return any(
        path.match(pattern) for reader in load_readers() for pattern in reader.files
    )


def _has_suffix(path: Path) -> bool:
    return get_inner_suffix(path) in SUFFIXES or ".jsonl." in path.name.lower()


def find_installed(home: Path) -> list[tuple[Reader, Path]]:
    """Return the transcripts in the places of the tools on this machine, each with its tool's reader; by tool and path.

    The files are not opened here, so another reader may recognise one when it is read.
    """
    readers: dict[Path, Reader] = {}
    for reader in load_readers():
        for place in filter(lambda place: place.root.is_dir(), reader.locations(home)):
            for path in place.root.glob(place.pattern):
                # a link to a file outside of the folder is ignored
                is_own = (
                    path.is_file()
                    and not path.is_symlink()
                    and path.resolve().is_relative_to(place.root.resolve())
                )
                if is_own and is_candidate(path):
                    readers.setdefault(path, reader)
    return sorted(
        ((reader, path) for path, reader in readers.items()),
        key=lambda pair: (pair[0].name, pair[1]),
    )


def list_read_folders(home: Path) -> list[str]:
    """Return the folders of tools on this machine that have transcripts, each with its tools' names; below the home
    folder as a shell has them.
    """
    tools = defaultdict[Path, set[str]](set)
    for reader, path in find_installed(home):
        roots = [place.root for place in reader.locations(home)]
        holders = [root for root in roots if path.is_relative_to(root)]
        tools[max(holders, key=lambda root: len(root.parts))].add(reader.name)
    return [
        f"{_shorten_home(folder, home)} ({', '.join(sorted(names))})"
        for folder, names in sorted(tools.items())
    ]


def _shorten_home(folder: Path, home: Path) -> str:
    return (
        f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)
    )


def list_variables() -> list[str]:
    """Return the names of the environment variables with which tools move their transcripts, sorted."""
    names: set[str] = set()
    for reader in load_readers():
        if isinstance(reader.locations, ToolFolder):
            names.update(reader.locations.variables)
    return sorted(names)


def list_searched(home: Path) -> list[str]:
    """Return a line for each folder in which a tool keeps transcripts, and for each tool without one a line with the
    first place, and how many more there would be.
    """
    lines = []
    for reader in load_readers():
        places = dict[Path, Location]()
        for place in reader.locations(home):
            places.setdefault(place.root, place)
        there = [place for root, place in places.items() if root.is_dir()]
        state = "no transcript in it"
        if not there:
            there = list(places.values())[:1]
            state = "not there"
            if len(places) > 1:
                state = f"{state}, nor {len(places) - 1:,} more"
        for place in there:
            where = place.root / place.pattern
            lines.append(f"{reader.name}: {where} ({state})")
    return sorted(lines)
