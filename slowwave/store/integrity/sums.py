"""What every file of the tables was when the last writer let go, so that Lance is never given one that was altered.

Lance checks no bytes: of one altered byte in a data file about half the time other rows come, without a word. Seals say
what a release's files were; this says it of every table, also of those that no release pins. Files of Lance's are never
written again, so what is known of one stays.
"""

from collections.abc import Iterable
from pathlib import Path

import orjson

from slowwave.schemas.errors import StoreUnreadable
from slowwave.store.integrity.manifests import (
    Files,
    describe_changes,
    hash_file,
    list_manifests,
    parse_files,
    parse_version,
)
from slowwave.store.private import replace_file

SUMS_FILE = "sums.json"


def write_sums(folder: Path) -> None:
    """Note what is new among the files of the tables, and forget what clean-up removed: no table's newest manifest.

    Raises:
        OSError: the disk can't.
    """
    known = read_sums(folder)
    there = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("*.lance/**/*")) if _is_lasting(path)]
    sums = {name: known.get(name) or [(folder / name).stat().st_size, hash_file(folder / name)] for name in there}
    sums |= {
        name: known[name] for name in _find_last_manifests(known) if name not in sums and not _has_newer(folder, name)
    }
    if sums != known:
        replace_file(folder / SUMS_FILE, orjson.dumps(sums))


def read_sums(folder: Path, table: str | None = None) -> Files:
    """Return what is known of the files of all tables, or of one; nothing where no writer noted any.

    Raises:
        StoreUnreadable: it is broken itself.
    """
    path = folder / SUMS_FILE
    try:
        sums = orjson.loads(path.read_bytes()) if path.is_file() else {}
        mine = "" if table is None else f"{table}.lance/"
        return parse_files({name: facts for name, facts in sums.items() if name.startswith(mine)})
    except (AttributeError, TypeError, ValueError):
        raise StoreUnreadable(
            folder, f"{SUMS_FILE} is altered: `slowwave repair` makes it anew, or put it back from a backup"
        ) from None


def drop_sums(folder: Path, tables: Iterable[str]) -> None:
    """Forget what is known of the files of some tables."""
    gone = tuple(f"{name}.lance/" for name in tables)
    kept = {name: facts for name, facts in read_sums(folder).items() if not name.startswith(gone)}
    replace_file(folder / SUMS_FILE, orjson.dumps(kept))


def find_altered(folder: Path, table: str | None = None, *, read: bool = True) -> dict[str, str]:
    """Return the files of all tables, or of one, that are others than they were, with how.

    One that is gone is among them only where it was the newest manifest of its table: clean-up removes older files.

    Raises:
        StoreUnreadable: what is known of them is broken.
    """
    sums = read_sums(folder, table)
    last = _find_last_manifests(sums)
    found: dict[str, str] = {}
    for name, what in describe_changes(folder, sums, read=read).items():
        if what != "is gone" or (name in last and not _has_newer(folder, name)):
            found[name] = what
    return found


def check_files_unaltered(folder: Path, table: str) -> None:
    """Check a table's files before Lance reads them.

    Raises:
        StoreUnreadable: one was altered, or is gone.
    """
    for name, what in find_altered(folder, table).items():
        raise StoreUnreadable(
            folder, f"{name}: {what}: `slowwave repair` mends what can be, `slowwave check` lists all"
        )


def _is_lasting(path: Path) -> bool:
    """Return whether a file is never written again: not Lance's tags, nor its hint at which version is the newest."""
    return path.is_file() and "_refs" not in path.parts and path.suffix != ".json"


def _find_last_manifests(sums: Files) -> set[str]:
    """Return each table's newest manifest."""
    last: dict[str, tuple[int, str]] = {}
    for name in sums:
        path = Path(name)
        if path.suffix == ".manifest":
            number = parse_version(path)
            last[path.parts[0]] = max(last.get(path.parts[0], (0, "")), (number, name))
    return {name for _, name in last.values()}


def _has_newer(folder: Path, name: str) -> bool:
    """Return whether a table has a version above one, whose manifest is gone: of a run that was killed."""
    table, number = folder / Path(name).parts[0], parse_version(Path(name))
    return max(list_manifests(table), default=0) > number
