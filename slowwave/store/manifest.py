"""Manifests of a space's files: `manifest.json` as of the last sync, `manifests/r7.json` as of release 7.

Each names the versions of the tables, and the size and SHA-256 of each file.

Lance does not check bytes: with an altered byte in a data file, about half the time it returns other rows without an
error. It does not sync either: after a power failure, a file may be complete, empty or missing. So a writer syncs and
records new files before a release and before it releases the lock. Files are compared before Lance reads them. After a
power failure, tables are reset to the recorded versions.

Manifests find damage, not forgery: a process that can write the store can write manifests too.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import lance
import orjson
import pyarrow as pa

from slowwave.schemas.errors import READ_TROUBLE, StoreUnreadable
from slowwave.schemas.tables import COMPLETIONS, RELEASES, TABLES, Table
from slowwave.store.private import replace_file, sync_path

MANIFEST_FILE = "manifest.json"
FOLDER = "manifests"
PART = ".part"
REPAIR_FILE = "repair.json"
"""The remaining work of an unfinished repair."""
OWN = (MANIFEST_FILE, "writer.json", "writer.lock")
"""Files that are not part of the tables."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first."""
DIGESTED = 128 << 20
"""A reader hashes the files of a release up to this size (a tenth of a second); of larger ones it compares sizes."""
PIECE = 1 << 20
"""Bytes read from a file at a time."""
LASTING = (RELEASES.name, COMPLETIONS.name)
"""Tables that keep their newest readable version: releases are synced one by one, answers depend on nothing else."""
INDEXES = "/_indices/"
"""Part of the path of each file of an index. Indexes are derived, so damage to one does not stop a night."""
GONE = "is gone"
NEWEST = "newest"
"""Name of the newest tables, with which the next night continues, in damage reports."""

Files = dict[str, list[Any]]
"""Path inside the space's folder -> its size in bytes and its SHA-256 in hex."""
_states: dict[Path, dict[str, tuple[int, ...]]] = {}
"""The files of each space that this process writes, as last synced: see `list_state`."""


class Manifest(NamedTuple):
    """Versions of tables with the sizes and hashes of their files; of a release also its row in the ledger."""

    versions: dict[str, int]
    files: Files
    row: dict[str, Any] | None = None


class Damage(NamedTuple):
    """A file or table that differs from its manifest."""

    release: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.release}: {self.where}: {self.what}"


def compute_table_digest(table: Table, rows: pa.Table) -> str:
    """Return a SHA-256 over the sorted hashes of the rows without volatile columns: equal for equal rows."""
    names = [name for name in table.schema.names if name not in table.volatile]
    hashes = sorted(
        hashlib.sha256(repr(row).encode()).digest()
        for row in rows.select(names).to_pylist()
    )
    return hashlib.sha256(b"".join(hashes)).hexdigest()


# Files and versions of Lance's


def list_versions(path: Path) -> dict[int, Path]:
    """Return Lance's manifest of each existing version of a table."""
    folder = path / "_versions"
    return {version: folder / name for version, name in _scan_versions(folder)}


def _scan_versions(folder: Path) -> Iterator[tuple[int, str]]:
    """Yield the versions that a table's folder of manifests has, each with the name of its file.

    Names are strings: a night asks some 400 times, and `Path` would take longer than the disk.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, ending = entry.name.rpartition(".")
            if dot and ending == "manifest" and stem.isdigit():
                yield LAST_VERSION - int(stem), entry.name


def find_newest_version(folder: Path, table: str) -> int:
    """Return the number of a table's newest version; 0 if it has none."""
    there = _scan_versions(folder / f"{table}.lance" / "_versions")
    return max((version for version, _ in there), default=0)


def has_table(folder: Path, name: str) -> bool:
    """Return True if a space has this table, with at least one version."""
    return find_newest_version(folder, name) > 0


def identify_newest_version(path: Path) -> tuple[str, int, int] | None:
    """Return an identity of a table's newest version; opening a table costs ten times as much."""
    folder = f"{path}/_versions"
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        newest = min(name for name in names if name.endswith(".manifest"))
        status = os.stat(f"{folder}/{newest}")  # noqa: PTH116 - asked 600 times a night
    except (
        OSError,
        ValueError,
    ):
        # Missing, or with another name: Lance reports what is wrong.
        return None
    return newest, status.st_ino, status.st_mtime_ns


def list_pinned_files(folder: Path, versions: dict[str, int]) -> list[str]:
    """Return the files of versions of tables, as sorted paths inside the space's folder.

    Raises:
        OSError, ValueError: a version can't be read.
    """
    paths: list[Path] = []
    for name, version in versions.items():
        files = list_version_files(folder / f"{name}.lance", version)
        paths += files.lasting
        paths += [
            path
            for index in files.indexes
            for path in index.rglob("*")
            if path.is_file()
        ]
    return sorted(path.relative_to(folder).as_posix() for path in paths)


class VersionFiles(NamedTuple):
    """What a version of a table consists of."""

    lasting: tuple[Path, ...]
    """Its own manifest, and the files of its rows."""
    indexes: tuple[Path, ...]
    """A folder for each segment of an index."""


def list_version_files(path: Path, version: int) -> VersionFiles:
    """Return the files of a version of a table. A version never changes, so it is opened once by a process.

    Raises:
        OSError, ValueError: the version can't be read.
    """
    manifest = list_versions(path).get(version)
    if manifest is None:
        raise ValueError(f"{path.name} has no version {version}")
    status = manifest.stat()
    return _open_version_files(path, version, status.st_ino, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _open_version_files(path: Path, version: int, *_manifest: int) -> VersionFiles:
    """Open a version to list its files. `_manifest` identifies the file that names them."""
    dataset = lance.dataset(str(path), version=version)
    lasting = [list_versions(path)[version]]
    for fragment in dataset.get_fragments():
        lasting += list_fragment_files(path, fragment)
    segments = [
        segment for index in dataset.describe_indices() for segment in index.segments
    ]
    indexes = [path / "_indices" / segment.uuid for segment in segments]
    return VersionFiles(tuple(lasting), tuple(indexes))


def list_fragment_files(root: Path, fragment: lance.LanceFragment) -> list[Path]:
    """Return the files of a table's fragment, including the file of deleted rows."""
    deleted = fragment.deletion_file()
    return [root / "data" / file.path for file in fragment.metadata.files] + (
        [root / deleted] if deleted else []
    )


# Syncing, and writes that were not finished


def read_boot() -> str | None:
    """Return the id of the machine's current boot; None if the system has none."""
    with suppress(OSError):
        return BOOT.read_text(encoding="ascii").strip()
    return None


def begin_sync(folder: Path, *, synced: bool) -> None:
    """Begin to record changes; `synced` says that no writer died, so that all existing files are synced."""
    _states.pop(folder, None)
    if synced and (folder / MANIFEST_FILE).exists():
        _states[folder] = list_state(folder)
    elif synced:
        mark_synced(folder)


def mark_synced(folder: Path) -> None:
    """Sync new files and record them in the manifest. Lance never rewrites its files, so recorded hashes are kept.

    Raises:
        OSError: the disk failed.
        StoreUnreadable: the manifest is broken.
    """
    last = read_manifest(folder)
    within = len(str(folder)) + 1
    lasting = [
        path[within:]
        for path, state in sync_changes(folder).items()
        if len(state) > 1 and _is_lasting(path[within:])
    ]
    files = {
        name: last.files.get(name) or measure_file(folder / name) for name in lasting
    }
    # a lost version stays recorded, so that it is reported as missing
    there = {
        table.stem: find_newest_version(folder, table.stem)
        for table in folder.glob("*.lance")
    }
    versions = last.versions | {
        name: max(version, last.versions.get(name, 0))
        for name, version in there.items()
    }
    if Manifest(versions, files) != last or not (folder / MANIFEST_FILE).exists():
        replace_file(
            folder / MANIFEST_FILE, orjson.dumps({"versions": versions, "files": files})
        )


def sync_changes(folder: Path) -> Mapping[str, tuple[int, ...]]:
    """Sync each file that is new or changed since the last sync, and each folder with new or deleted entries.

    Return the state of all files and folders, as `list_state` does.

    Raises:
        OSError: the disk failed.
    """
    before = _states.get(folder, {})
    now = list_state(folder)
    changed = {path for path, state in now.items() if before.get(path) != state}
    folders = {
        path.rpartition("/")[0] for path in changed | (before.keys() - now.keys())
    }
    if not before:
        folders |= {str(folder.parent), str(folder.parent.parent)}
    fresh = {path for path in changed if len(now[path]) == 1}
    for path in (*sorted(changed - fresh), *sorted(folders | fresh, reverse=True)):
        with suppress(FileNotFoundError):
            sync_path(Path(path))
    _states[folder] = now
    return now


def list_state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return each file and folder below a folder, with figures that show a change: one for a folder, three for a file.

    Paths are strings: with thousands of files, `Path` would take longer than the disk.
    """
    states: dict[str, tuple[int, ...]] = {}
    for above, folders, names in os.walk(folder):
        for path in (f"{above}/{name}" for name in folders):
            with suppress(FileNotFoundError):
                states[path] = (os.lstat(path).st_ino,)
        for path in (f"{above}/{name}" for name in names if name not in OWN):
            with suppress(FileNotFoundError):  # a reader's file, just deleted
                stat = os.lstat(path)
                states[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return states


def _is_lasting(name: str) -> bool:
    """Return True if a file is never rewritten; Lance rewrites its tags and its hint at the newest version."""
    if name.startswith(f"{FOLDER}/"):
        return name.endswith(".json")
    return ".lance/" in name and "/_refs/" not in name and not name.endswith(".json")


def go_back_to_synced(folder: Path) -> None:
    """Reset the tables to their last synced state.

    Raises:
        OSError: the disk failed.
    """
    if not (folder / MANIFEST_FILE).exists() or not (
        synced := _parse_manifest((folder / MANIFEST_FILE).read_bytes())
    ):
        return  # nothing to go back to
    for table in sorted(folder.glob("*.lance")):
        if table.stem not in synced.versions:
            shutil.rmtree(table)
            continue
        for version, path in sorted(list_versions(table).items(), reverse=True):
            if version > synced.versions[table.stem] and not (
                table.stem in LASTING and _is_readable(table, version)
            ):
                # Also if a newer one is intact: Lance's clean-up reads all of them.
                path.unlink()
        for hint in (table / "_versions").glob("*.json"):
            hint.unlink()
        for tag in (table / "_refs" / "tags").glob("*"):
            if read_tag(tag) is None:
                tag.unlink()


def _is_readable(path: Path, version: int) -> bool:
    with suppress(*READ_TROUBLE):
        dataset = lance.dataset(str(path), version=version)
        return find_torn_file(dataset) is None and dataset.to_table().num_rows >= 0
    return False


def read_tag(path: Path) -> int | None:
    """Return the version that a tag of Lance names; None if the tag is missing or broken."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        version = orjson.loads(path.read_bytes())["version"]
        return version if isinstance(version, int) else None
    return None


def check_not_torn(dataset: lance.LanceDataset) -> None:
    """Check that the files of a version are complete. On a full disk, Lance can write only a part of a small file
    without an error.

    Raises:
        OSError: a file is shorter than it should be.
    """
    if torn := find_torn_file(dataset):
        raise OSError(f"only a part of {torn} is there")


def find_torn_file(dataset: lance.LanceDataset) -> str | None:
    """Return a file of a version that is missing or shorter than it should be; None if all are complete."""
    root = Path(dataset.uri)
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            path = root / "data" / file.path
            size = file.file_size_bytes
            if size and not (path.is_file() and path.stat().st_size == size):
                return path.name
        if deleted := fragment.deletion_file():  # a version does not record its length
            content = (
                (root / deleted).read_bytes() if (root / deleted).is_file() else b""
            )
            if not content or (
                deleted.endswith(".arrow") and not content.endswith(b"ARROW1")
            ):
                return Path(deleted).name
    return None


def find_last_whole(path: Path, released: int = 0) -> lance.LanceDataset | None:
    """Return the newest version of a table with complete files, not older than `released`; None if there is none.

    An older version than the newest is returned after an unfinished write.
    """
    there = sorted(
        (version for version in list_versions(path) if version >= released),
        reverse=True,
    )
    for version in there:
        with suppress(*READ_TROUBLE):
            dataset = lance.dataset(str(path), version=version)
            if find_torn_file(dataset) is None:
                return dataset
    return None


def restore_last_whole(folder: Path, table: Table, released: int) -> None:
    """Restore the newest version of a table with complete files. The writer of later ones got an error.

    Raises:
        StoreUnreadable: no version since `released` is complete.
    """
    path = folder / f"{table.name}.lance"
    if (whole := find_last_whole(path, released)) is None:
        # A dataset without rows is falsy.
        torn = find_torn_file(lance.dataset(str(path)))
        why = f"{torn} of table {table.name!r} is torn or gone: `slowwave check --repair` mends what it can"
        raise StoreUnreadable(folder, why)
    if whole.version < max(list_versions(path)):
        whole.restore()  # type: ignore[no-untyped-call]


# What the last writer noted, compared with what is there


def read_manifest(folder: Path) -> Manifest:
    """Return the last manifest of a space; an empty one if there is none.

    Raises:
        StoreUnreadable: the manifest itself is broken.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        return Manifest({}, {})
    if manifest := _parse_manifest(path.read_bytes()):
        return manifest
    why = f"{MANIFEST_FILE} is altered: `slowwave check --repair` rebuilds it, or put it back from a backup"
    raise StoreUnreadable(folder, why)


def check_newest_whole(folder: Path, tables: Collection[str] = TABLES.keys()) -> None:
    """Check the files that a night and its clean-up read, before Lance reads them: damage can crash the process.

    Files of older releases alone and indexes are not checked: neither stops a night. Of tables that are not in
    `tables`, only sizes are compared.

    Raises:
        StoreUnreadable: a file differs from the manifest, or a repair is unfinished.
    """
    if (folder / REPAIR_FILE).exists():
        raise StoreUnreadable(
            folder, "a repair is unfinished: `slowwave check --repair` continues it"
        )
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, find_last_known(folder))
    for damage in find_newest_damage(folder, tables):
        if INDEXES not in damage.where:
            raise StoreUnreadable(
                folder,
                f"{damage.where}: {damage.what}: `slowwave check --repair` repairs what it can",
            )


def find_newest_damage(
    folder: Path, tables: Collection[str] = TABLES.keys(), *, read: bool = True
) -> Iterator[Damage]:
    """Yield the files of each table's newest version that differ from the manifest.

    Args:
        folder: the space's folder.
        tables: tables whose hashes are compared; of others only sizes are.
        read: False compares only sizes, of all tables.
    """
    try:
        listed = read_manifest(folder).files
        altered = find_altered(folder, within="/_versions/", read=read)
    except StoreUnreadable as broken:
        yield Damage(NEWEST, MANIFEST_FILE, broken.why)
        return
    for table in TABLES:
        below = f"{table}.lance/"
        newest = find_newest_version(folder, table)
        files = None
        look = read and table in tables
        found = {name: what for name, what in altered.items() if name.startswith(below)}
        if newest and not found:
            with suppress(*READ_TROUBLE):
                # Written last by a killed run: the next run removes it.
                pinned = list_pinned_files(folder, {table: newest})
                files = {
                    name: listed[name]
                    for name in pinned
                    if name in listed and INDEXES not in name
                }
                if list_version_files(
                    path := folder / f"{table}.lance", newest
                ).indexes:
                    dataset = lance.dataset(str(path), version=newest)
                    damaged = find_index_damage(folder, dataset, listed, read=look)
                    for of_index in damaged.values():
                        found |= of_index
        found |= (
            find_altered(folder, below, read=look)
            if files is None
            else describe_changes(folder, files, read=look)
        )
        yield from (Damage(NEWEST, name, what) for name, what in found.items())


def find_altered(
    folder: Path,
    below: str = "",
    *,
    within: str = "",
    read: bool = True,
) -> dict[str, str]:
    """Return the files of a space that differ from its manifest, each with the difference.

    Of missing files, only the manifests of tables' newest versions are returned: a clean-up deletes older files.

    Args:
        folder: the space's folder.
        below: prefix of the paths to compare.
        within: text that the paths to compare contain.
        read: False compares only sizes.

    Raises:
        StoreUnreadable: the manifest is broken.
    """
    manifest = read_manifest(folder)
    inside = {
        name: facts
        for name, facts in manifest.files.items()
        if name.startswith(below) and within in name
    }
    altered = {
        name: what
        for name, what in describe_changes(folder, inside, read=read).items()
        if what != GONE
    }
    for name, version in manifest.versions.items():
        if (
            f"{name}.lance/".startswith(below)
            and find_newest_version(folder, name) < version
        ):
            altered[f"{name}.lance/_versions/{LAST_VERSION - version:020}.manifest"] = (
                GONE
            )
    return altered


def describe_changes(folder: Path, files: Files, *, read: bool) -> dict[str, str]:
    """Return the files that differ from their recorded size or hash, with the difference; without `read`, by size."""
    changes: dict[str, str] = {}
    for name, (size, digest) in files.items():
        path = f"{folder}/{name}"
        if not os.path.isfile(path):  # noqa: PTH113 - of thousands of files
            changes[name] = GONE
        elif (now := os.stat(path).st_size) != size:  # noqa: PTH116
            changes[name] = f"has {now:,} bytes, was {size:,}"
        elif read and measure_file(Path(path))[1] != digest:
            changes[name] = "its bytes were altered"
    return changes


@lru_cache(maxsize=2)
def _parse_manifest(content: bytes) -> Manifest | None:
    """Parse a manifest; return None if it is broken. The result is cached and must not be changed."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        parsed = orjson.loads(content)
        row = parsed.get("row")
        files = parsed["files"]
        versions = {
            str(name): int(version)
            for name, version in (row or parsed)["versions"].items()
        }
        return Manifest(
            versions,
            {name: [int(size), str(digest)] for name, (size, digest) in files.items()},
            row,
        )
    return None


def find_index_damage(
    folder: Path,
    dataset: lance.LanceDataset,
    files: Files,
    *,
    read: bool = True,
) -> dict[str, dict[str, str]]:
    """Return the damaged indexes of a table's version, each with its altered files or folder and the difference.

    Files are compared with `files`, and each folder's size with the size that Lance records.
    """
    damage: dict[str, dict[str, str]] = {}
    for index in dataset.describe_indices():
        for segment in index.segments:
            place = Path(dataset.uri) / "_indices" / segment.uuid
            below = f"{place.relative_to(folder).as_posix()}/"
            of_segment = {
                name: facts for name, facts in files.items() if name.startswith(below)
            }
            found = describe_changes(folder, of_segment, read=read)
            now = sum(
                path.stat().st_size for path in place.rglob("*") if path.is_file()
            )
            if (
                not found
                and segment.size_bytes is not None
                and segment.size_bytes != now
            ):
                found = {
                    below: f"has {now:,} bytes, was {segment.size_bytes:,}"
                    if now
                    else GONE
                }
            if found:
                damage.setdefault(index.name, {}).update(found)
    return damage


def measure_file(path: Path) -> list[Any]:
    """Return a file's size and its SHA-256 in hex; bytes appended during the call are in neither."""
    size = left = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
    return [size, digest.hexdigest()]


# Manifests of releases


def write_release_manifest(folder: Path, row: dict[str, Any]) -> None:
    """Write the manifest of the next release as a part file; `settle_release_manifests` makes it valid.

    A valid manifest without a row in the ledger then means that the row was lost.
    """
    listed = read_manifest(folder).files
    files = {
        name: listed.get(name) or measure_file(folder / name)
        for name in list_pinned_files(folder, row["versions"])
    }
    path = get_release_manifest(folder, row["number"]).with_suffix(PART)
    path.parent.mkdir(exist_ok=True)
    content = orjson.dumps(
        {"row": row, "files": files},
        option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS,
    )
    replace_file(path, content)


def settle_release_manifests(folder: Path, numbers: Container[int]) -> None:
    """Make part files of manifests valid if their release has a row; delete others, which a killed writer left."""
    for part in (folder / FOLDER).glob(f"r*{PART}"):
        if int(part.stem[1:]) in numbers:
            part.replace(part.with_suffix(".json"))
        else:
            part.unlink()


def drop_release_manifests(folder: Path, numbers: Container[int]) -> None:
    """Delete the manifests of all releases except `numbers`, since the files of the others were deleted."""
    for number in list_release_manifests(folder):
        if number not in numbers:
            get_release_manifest(folder, number).unlink()


def list_release_manifests(folder: Path) -> list[int]:
    """Return the numbers of the releases with a manifest, in order."""
    return sorted(
        int(path.stem[1:])
        for path in (folder / FOLDER).glob("r*.json")
        if path.stem[1:].isdigit()
    )


def read_release_manifest(folder: Path, number: int) -> Manifest | None:
    """Return a release's manifest; None if it has none.

    Raises:
        StoreUnreadable: the manifest itself is broken.
    """
    path = get_release_manifest(folder, number)
    if not path.exists():
        return None
    if (manifest := _parse_manifest(path.read_bytes())) and manifest.row:
        return manifest
    raise StoreUnreadable(
        folder,
        f"{FOLDER}/{path.name} is not a manifest: `slowwave check --repair` rebuilds it",
    )


def get_release_manifest(folder: Path, number: int) -> Path:
    """Return the path of a release's manifest."""
    return folder / FOLDER / f"r{number}.json"


def find_last_known(folder: Path) -> int:
    """Return the number of the newest release with a manifest; 0 if there is none.

    Call it before reading the ledger: a release made in between has its row before its manifest.
    """
    return max(list_release_manifests(folder), default=0)


def check_ledger_whole(folder: Path, newest: int, noted: int) -> None:
    """Check that the newest row of the ledger of releases is the newest one known (`noted`).

    Raises:
        StoreUnreadable: it was lost. Without this check an older release would be served, or a number used twice.
    """
    if noted > newest:
        raise StoreUnreadable(
            folder,
            f"the ledger of releases has lost r{noted}: `slowwave check --repair` puts its row back",
        )


def list_release_files(folder: Path, number: int) -> tuple[Files, bool]:
    """Return the files of a release by its manifest, and True if they are few enough to be read rather than measured.

    Raises:
        StoreUnreadable: the release's manifest is broken.
    """
    manifest = read_release_manifest(folder, number)
    files = manifest.files if manifest else {}
    return files, sum(size for size, _ in files.values()) <= DIGESTED


def check_release_files(folder: Path, number: int, table: str) -> None:
    """Check the files of a table of a release, except its indexes: a reader works without a broken index.

    Raises:
        StoreUnreadable: a file differs from the manifest.
    """
    files, read = list_release_files(folder, number)
    of_rows = {
        name: files[name]
        for name in files
        if name.startswith(f"{table}.lance/") and INDEXES not in name
    }
    for name, what in describe_changes(folder, of_rows, read=read).items():
        raise StoreUnreadable(
            folder,
            f"r{number}: {name}: {what}: `slowwave check --repair`, or `slowwave rollback`",
        )
