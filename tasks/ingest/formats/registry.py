"""Which readers there are, which one reads a file, and where transcripts lie.

A reader is chosen by what a file holds, never by its name alone; the most particular is asked first. Formats that
say what they are at the start of the file come before those that are known by any line of it: a history in Markdown
may quote lines of every other format. Packages add readers as entry points of the group `slowwave.readers`, which are
asked before our own.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from slowwave.tasks.ingest.formats import chatgpt, chats, pmm
from slowwave.tasks.ingest.formats.agents import claude_code, codex, markdown, opencode
from slowwave.tasks.ingest.formats.agents.openclaw import reader as openclaw
from slowwave.tasks.ingest.formats.agents.openclaw import sqlite as openclaw_sqlite
from slowwave.tasks.ingest.formats.own import export, generic
from slowwave.tasks.ingest.parsing.lines import DAMAGE, get_inner_suffix, read_head
from slowwave.tasks.ingest.parsing.records import NoSuchPath, Reader, UnknownFormat

LOG = logging.getLogger(__name__)
GROUP = "slowwave.readers"
OWN: tuple[Reader, ...] = (
    markdown.SPECSTORY,
    markdown.AIDER,
    openclaw_sqlite.READER,
    opencode.READER,
    pmm.READER,
    export.READER,
    export.LEARNINGS_READER,
    generic.COLUMNS_READER,
    claude_code.READER,
    codex.READER,
    openclaw.READER,
    openclaw.PI_READER,
    chatgpt.READER,
    *chats.READERS,
    generic.READER,
)

SUFFIXES = frozenset(
    {*(".jsonl", ".ndjson", ".json"), *(".parquet", ".arrow", ".feather", ".ipc"), *(".sqlite", ".sqlite3", ".db")}
)
JUNK_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", ".cache", "node_modules", "__pycache__"})
JUNK_FILES = frozenset({"sessions.json", "sessions-index.json", "package.json", "package-lock.json", "tsconfig.json"})
COMPANIONS = ("-wal", "-shm", "-journal", ".meta.json", ".lock", ".tmp")


@cache
def load_readers() -> tuple[Reader, ...]:
    """Return all readers: those of installed packages, then our own. What is no reader is left out, with a warning."""
    added: list[Reader] = []
    for entry in entry_points(group=GROUP):
        try:
            reader = entry.load()
        except Exception as error:  # deliberately broad: importing a package can raise anything
            LOG.warning(
                "the reader %r can't be loaded, and is left out: %s: %s", entry.name, type(error).__name__, error
            )
            continue
        names = {other.name for other in (*added, *OWN)}
        if isinstance(reader, Reader) and callable(reader.sniff) and reader.name not in names:
            added.append(reader)
        else:
            got = f"another called {reader.name!r}" if isinstance(reader, Reader) else repr(reader)
            LOG.warning("%s is no new Reader, and is left out: got %s", entry.value, got)
    return (*added, *OWN)


def detect_reader(path: Path) -> Reader:
    """Return the reader that recognises the file.

    Raises:
        UnknownFormat: the file is empty, can't be opened, or no reader knows it.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # whoever opens a pipe waits for one who writes
        raise UnknownFormat(path, "it is neither a file nor a folder")
    try:
        head = read_head(path)
    except DAMAGE as error:
        raise UnknownFormat(path, f"the compressed file is damaged: {error}") from error
    except OSError as error:
        raise UnknownFormat(path, error.strerror or str(error)) from error
    if not head.data.strip():
        raise UnknownFormat(path, "the file is empty")
    for reader in load_readers():
        try:
            if reader.sniff(head):
                return reader
        except Exception as error:  # deliberately broad: one reader must not keep a file from all others
            LOG.warning("reader %s can't look at %r: %r", reader.name, str(path), error)
    raise UnknownFormat(path, "no reader recognises it")


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every file given, and below every folder given the files that may be transcripts; sorted, each once.

    Symbolic links below a folder are not followed. A file that was named is taken whatever it is called.

    Raises:
        NoSuchPath: as `check_paths`.
    """
    files: set[Path] = set()
    for path in check_paths(paths):
        files.update(_walk_folder(path) if path.is_dir() else [path])
    yield from sorted(files, key=lambda path: path.parts)


def check_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths with `~` replaced by the home folder.

    Raises:
        NoSuchPath: one does not exist, or is neither a file nor a folder: whoever opens a pipe waits for a writer.
    """
    expanded = [path.expanduser() for path in paths]
    for path in expanded:
        if not path.exists():
            raise NoSuchPath(path)
        if not (path.is_file() or path.is_dir()):
            raise NoSuchPath(path, "expected a file or a folder, got a pipe or a device")
    return expanded


def _walk_folder(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, followlinks=False):
        if export.MANIFEST in files and export.is_export(Path(root)):
            folders.clear()
            yield Path(root, export.MANIFEST)  # of which its tables are parts
            continue
        if any(name.endswith(".lance") for name in folders):
            folders.clear()  # a store among the transcripts: its tables are none
            continue
        folders[:] = [name for name in folders if name not in JUNK_FOLDERS]
        for path in map(Path(root).joinpath, files):
            if is_candidate(path) and not path.is_symlink():
                yield path


def is_candidate(path: Path) -> bool:
    """Return whether a file's name is one transcripts have; archives such as `x.jsonl.deleted.<time>` count."""
    name = path.name.lower()
    if name.endswith(COMPANIONS) or name in JUNK_FILES:
        return False
    if not name.startswith(".") and (get_inner_suffix(path) in SUFFIXES or ".jsonl." in name):
        return True
    return any(path.match(pattern) for reader in load_readers() for pattern in reader.files)


def find_installed(home: Path) -> list[tuple[Reader, Path]]:
    """Return the transcripts of the tools installed on this machine, by tool and path; a folder that isn't there has
    none.

    The reader is the tool's own: whether a file really is of its format is seen when it is read.
    """
    readers: dict[Path, Reader] = {}
    for reader in load_readers():
        for place in filter(lambda place: place.root.is_dir(), reader.locations(home)):
            for path in place.root.glob(place.pattern):  # of a link that leads out of the folder nothing is taken
                is_own = (
                    path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(place.root.resolve())
                )
                if is_own and is_candidate(path):
                    readers.setdefault(path, reader)
    return sorted(((reader, path) for path, reader in readers.items()), key=lambda pair: (pair[0].name, pair[1]))


def list_searched(home: Path) -> list[str]:
    """Return a line for each place where the tools keep transcripts: the tool, the place, and whether it is there."""
    lines = []
    for reader in load_readers():
        for place in reader.locations(home):
            state = "no transcript in it" if place.root.is_dir() else "not there"
            lines.append(f"{reader.name}: {place.root / place.pattern} ({state})")
    return sorted(lines)
