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
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, NamedTuple

import lance
import orjson

from slowwave.schemas.errors import StoreUnreadable
from slowwave.store.integrity.manifests import list_manifests

FOLDER = "seals"
PART = ".part"

Files = dict[str, list[Any]]
"""Path inside the space's folder -> its bytes, its SHA-256 in hex."""


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
    seal = {"row": row, "previous": _hash_file(_build_path(folder, number - 1)) if before else None, "files": files}
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
    return sorted(int(path.stem[1:]) for path in (folder / FOLDER).glob("r*.json"))


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
    raise StoreUnreadable(folder, f"{FOLDER}/{path.name} is no seal: put it back from a backup, or delete it")


@lru_cache(maxsize=2)
def _parse_seal(path: Path, mtime_ns: int, size: int) -> dict[str, Any] | None:
    """Return a seal, parsed once for all tables that a reader opens; None where it is none. Nobody changes it."""
    with suppress(orjson.JSONDecodeError, AttributeError):
        seal: dict[str, Any] = orjson.loads(path.read_bytes())
        if seal.keys() >= {"row", "previous", "files"}:
            return seal
    return None


def check_ledger_whole(folder: Path, newest: int) -> None:
    """Check that the ledger of releases still has the newest row that was sealed.

    Raises:
        StoreUnreadable: it was lost; without this an older release would be served, or numbers given twice.
    """
    sealed = list_sealed(folder)
    if sealed and sealed[-1] > newest:
        raise StoreUnreadable(
            folder, f"the ledger of releases has lost r{sealed[-1]}: `slowwave check --repair` puts its row back"
        )


def check_files_there(folder: Path, number: int, table: str) -> None:
    """Check that each file of a table of a release is there and as long as it was; no file is read.

    Those of indexes are left out: a reader does without a broken one, and says so.

    Raises:
        StoreUnreadable: one is not.
    """
    files = (read_seal(folder, number) or {"files": {}})["files"]
    mine = {name: facts for name, facts in files.items() if name.startswith(f"{table}.lance/")}
    for damage in _compare_files(folder, number, mine, read=False):
        if "/_indices/" in damage.where:
            continue
        raise StoreUnreadable(
            folder, f"{damage}: put it back from a backup, or `slowwave rollback`; `slowwave check` lists all"
        )


def find_damage(folder: Path, rows: dict[int, dict[str, Any]], *, read: bool = True) -> Iterator[Damage]:
    """Yield what is not as the seals say: files, the rows of the ledger, and the chain from seal to seal.

    Args:
        folder: the space's.
        rows: the ledger's row of each release, as `write_seal` was given it.
        read: also read every file and compare its SHA-256; else sizes alone.
    """
    for number in list_sealed(folder):
        try:
            seal = read_seal(folder, number)
        except StoreUnreadable as broken:
            yield Damage(f"r{number}", f"{FOLDER}/r{number}.json", broken.why)
            continue
        if seal is None:  # dropped since it was listed
            continue
        before = _build_path(folder, number - 1)
        if seal["previous"] and before.is_file() and seal["previous"] != _hash_file(before):
            yield Damage(f"r{number - 1}", f"{FOLDER}/{before.name}", "is not the seal that the next one follows")
        if number not in rows:
            yield Damage(f"r{number}", "releases", "its row is lost: `slowwave check --repair` puts it back")
        elif orjson.loads(orjson.dumps(rows[number])) != seal["row"]:
            yield Damage(f"r{number}", "releases", "its row is not the one that was sealed")
        yield from _compare_files(folder, number, seal["files"], read=read)


def _compare_files(folder: Path, number: int, files: Files, *, read: bool) -> Iterator[Damage]:
    for name, (size, digest) in files.items():
        path = folder / name
        if not path.is_file():
            yield Damage(f"r{number}", name, "is gone")
        elif (found := path.stat().st_size) != size:
            yield Damage(f"r{number}", name, f"has {found:,} bytes, was {size:,}")
        elif read and _hash_file(path) != digest:
            yield Damage(f"r{number}", name, "its bytes were altered")


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
    return path.stat().st_size, _hash_file(path)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def _build_path(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"r{number}.json"
