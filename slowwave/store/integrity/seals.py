"""Seals: what the files of a release were when it was made, so that one altered, cut or lost later is found.

A release pins versions of tables, and the files of a version are never written again. `seals/r7.json` keeps the size
and the SHA-256 of each, the release's own row, and the hash of the seal before: a chain, as of the messages. It is
written as `r7.part` before the row and renamed after it, so a seal without its row means that the row was lost. Seals
find damage; whoever may write the store may write them too.
"""

import os
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import lance
import orjson

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.tables import MESSAGES, RELEASES
from slowwave.store.integrity.manifests import (
    DIGESTED,
    Files,
    describe_change,
    describe_changes,
    hash_file,
    list_manifests,
    parse_files,
)

FOLDER = "seals"
PART = ".part"


class Damage(NamedTuple):
    """What is not as its seal says."""

    release: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.release}: {self.where}: {self.what}"


def write_seal(folder: Path, number: int, row: dict[str, Any]) -> Path:
    """Write the seal of a release that is about to be made, and return its path; `settle_seal` makes it count.

    Files that the seal before knows are not read again: whoever altered one since is found by `find_damage`.
    """
    before = read_seal(folder, number - 1)
    known: Files = before["files"] if before else {}
    files = {path: known.get(path) or [*_measure(folder / path)] for path in list_pinned_files(folder, row["versions"])}
    seal = {"row": row, "previous": hash_file(_build_path(folder, number - 1)) if before else None, "files": files}
    path = _build_path(folder, number).with_suffix(PART)
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.write(orjson.dumps(seal, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
        file.flush()
        os.fsync(file.fileno())
    return path


def settle_seal(part: Path) -> None:
    """Make a written seal count: the row of its release is in the ledger."""
    part.replace(part.with_suffix(".json"))


def settle_left_seals(folder: Path, numbers: set[int]) -> None:
    """Settle, or drop, what a writer that was killed left between seal and row."""
    for part in (folder / FOLDER).glob(f"r*{PART}"):
        if int(part.stem[1:]) in numbers:
            settle_seal(part)
        else:
            part.unlink()


def drop_seals(folder: Path, kept: Container[int]) -> None:
    """Drop the seals of all releases but some: the files of the others are gone."""
    for number in list_sealed(folder):
        if number not in kept:
            _build_path(folder, number).unlink()


def list_sealed(folder: Path) -> list[int]:
    """Return the numbers of the releases that have a seal, in order."""
    return sorted(int(path.stem[1:]) for path in (folder / FOLDER).glob("r*.json") if path.stem[1:].isdigit())


def read_seal(folder: Path, number: int) -> dict[str, Any] | None:
    """Return `row`, `previous` and `files` of a release's seal; None where it has none.

    Raises:
        StoreUnreadable: the seal itself is broken.
    """
    path = _build_path(folder, number)
    if not path.exists():
        return None
    found = path.stat()
    if seal := _parse_seal(path, found.st_mtime_ns, found.st_size):
        return seal
    raise StoreUnreadable(folder, f"{FOLDER}/{path.name} is no seal: `slowwave repair` removes it")


@lru_cache(maxsize=2)
def _parse_seal(path: Path, mtime_ns: int, size: int) -> dict[str, Any] | None:
    """Return a seal, parsed once for all tables that a reader opens; None where it is none. Nobody changes it."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        seal: dict[str, Any] = orjson.loads(path.read_bytes())
        seal["files"] = parse_files(seal["files"])
        if isinstance(seal["row"]["versions"], dict) and "previous" in seal:
            return seal
    return None


def find_last_known(folder: Path) -> int:
    """Return the number of the newest release that a seal, or a tag of Lance's, tells of; 0 where none does.

    To be called before the ledger is read: of a release that is made meanwhile the row is there before its seal.
    """
    tagged = (number - 1 for number in list_tagged(folder))  # a night that was killed leaves a tag more than rows
    return max([0, *list_sealed(folder), *tagged])


def check_ledger_whole(folder: Path, newest: int, known: int) -> None:
    """Check that the ledger of releases still has the newest row that is known of.

    Raises:
        StoreUnreadable: it was lost; without this an older release would be served, or numbers given twice.
    """
    if known > newest:
        raise StoreUnreadable(folder, f"the ledger of releases has lost r{known}: `slowwave repair` puts its row back")


def list_tagged(folder: Path) -> list[int]:
    """Return the numbers of the releases that a version of the messages is tagged with, in order."""
    tags = (folder / f"{MESSAGES.name}.lance" / "_refs" / "tags").glob("r*.json")
    return sorted(int(path.stem[1:]) for path in tags if path.stem[1:].isdigit())


def read_tag(path: Path) -> int | None:
    """Return the version that one of Lance's tags names; None where it is not there, or none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        version = orjson.loads(path.read_bytes())["version"]
        return version if isinstance(version, int) else None
    return None


def get_tag_path(folder: Path, table: str, release: str) -> Path:
    """Return where Lance keeps the tag by which a release pins its version of a table."""
    return folder / f"{table}.lance" / "_refs" / "tags" / f"{release}.json"


def check_files_there(folder: Path, number: int, table: str) -> None:
    """Check that each file of a table of a release is there and as it was; of a large release sizes alone.

    Those of indexes are left out: a reader does without a broken one, and says so.

    Raises:
        StoreUnreadable: one is not.
    """
    for name, what in _find_altered(folder, number, table, indexes=False).items():
        raise StoreUnreadable(folder, f"r{number}: {name}: {what}: `slowwave repair`, or `slowwave rollback`")


def find_broken_index(folder: Path, number: int, table: str) -> str | None:
    """Return a file of a table's indexes that is not as it was, and how; None where all are."""
    altered = _find_altered(folder, number, table, indexes=True)
    return next((f"{name}: {what}" for name, what in altered.items()), None)


def _find_altered(folder: Path, number: int, table: str, *, indexes: bool) -> dict[str, str]:
    """Return the files of a table of a release, of its indexes or the others, that are not as they were, with how."""
    files: Files = (read_seal(folder, number) or {"files": {}})["files"]
    read = sum(size for size, _ in files.values()) <= DIGESTED
    mine = {
        name: facts
        for name, facts in files.items()
        if name.startswith(f"{table}.lance/") and ("/_indices/" in name) == indexes
    }
    return describe_changes(folder, mine, read=read)


def find_damage(folder: Path, rows: dict[int, dict[str, Any]], *, read: bool = True) -> Iterator[Damage]:
    """Yield what is not as the seals say: files, the rows of the ledger, and the chain from seal to seal.

    Args:
        folder: the space's.
        rows: the ledger's row of each release, as `write_seal` was given it.
        read: also read every file and compare its SHA-256; else sizes alone.
    """
    describe = lru_cache(maxsize=None)(describe_change)  # releases share most of their files
    for number in list_sealed(folder):
        try:
            seal = read_seal(folder, number)
        except StoreUnreadable as broken:
            yield Damage(f"r{number}", f"{FOLDER}/r{number}.json", broken.why)
            continue
        if seal is None:  # dropped since it was listed
            continue
        before = _build_path(folder, number - 1)
        if seal["previous"] and before.is_file() and seal["previous"] != hash_file(before):
            yield Damage(f"r{number - 1}", f"{FOLDER}/{before.name}", "is not the seal that the next one follows")
        if number not in rows:
            yield Damage(f"r{number}", RELEASES.name, "its row is lost: `slowwave repair` puts it back")
        elif orjson.loads(orjson.dumps(rows[number])) != seal["row"]:
            yield Damage(f"r{number}", RELEASES.name, "its row is not the one that was sealed")
        for name, (size, digest) in seal["files"].items():
            if what := describe(folder / name, size, digest if read else None):
                yield Damage(f"r{number}", name, what)


def read_lost_rows(folder: Path, numbers: set[int]) -> list[dict[str, Any]]:
    """Return the rows that seals have and the ledger has not, dates as dates."""
    seals = [read_seal(folder, number) for number in list_sealed(folder) if number not in numbers]
    rows = [seal["row"] for seal in seals if seal]
    return [{**row, "created_at": datetime.fromisoformat(row["created_at"])} for row in rows]


def list_pinned_files(folder: Path, versions: dict[str, int]) -> list[str]:
    """Return the files that versions of tables consist of, as paths inside the space's folder, in order.

    Raises:
        OSError, ValueError: a version can't be read.
    """
    return sorted(
        path.relative_to(folder).as_posix() for name in versions for path in _list_version(folder, name, versions[name])
    )


def _list_version(folder: Path, name: str, version: int) -> Iterator[Path]:
    root = folder / f"{name}.lance"
    dataset = lance.dataset(str(root), version=version)
    yield list_manifests(root)[version]
    for fragment in dataset.get_fragments():
        yield from (root / "data" / file.path for file in fragment.metadata.files)
        if deleted := fragment.deletion_file():
            yield root / deleted
    for segment in (one for index in dataset.describe_indices() for one in index.segments):
        yield from (path for path in (root / "_indices" / segment.uuid).rglob("*") if path.is_file())


def _measure(path: Path) -> tuple[int, str]:
    return path.stat().st_size, hash_file(path)


def _build_path(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"r{number}.json"
