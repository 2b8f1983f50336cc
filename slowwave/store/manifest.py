"""Manifests of a space's files: `manifest.json` as of the last sync, `manifests/r7.json` as of release 7.

Each names the versions of tables and, of each file, bytes and SHA-256. Lance checks no bytes (of one altered in a data
file about half the time other rows come, without a word) and syncs nothing (after a loss of power each file that was
not synced is there, empty or gone). So a writer syncs and notes what is new before a release and before it lets go of
the lock; files are compared before Lance reads them; and tables go back to the versions noted where power was lost.
That finds damage: whoever may write the store may write manifests too.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Container, Iterator
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

MANIFEST_FILE, FOLDER, PART = "manifest.json", "manifests", ".part"
REPAIR_FILE = "repair.json"
"""The remaining work of a repair, until it is done."""
OWN = (MANIFEST_FILE, "writer.json", "writer.lock")
"""Files that say nothing about the tables."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first."""
DIGESTED = 128 << 20
"""Bytes of a release that a reader digests before it opens it: a tenth of a second. Of more it looks at sizes alone."""
PIECE = 1 << 20
"""Bytes of a file that are read at once."""
LASTING = (RELEASES.name, COMPLETIONS.name)
"""Tables of which the newest whole version stays: releases are synced one by one, answers depend on nothing else."""
INDEXES = "/_indices/"
"""Part of the path of each file of an index: derived, so that damage to one stops no night."""
GONE = "is gone"
NEWEST = "newest"
"""Name of damage in the newest tables, with which the next night continues."""

Files = dict[str, list[Any]]
"""Path inside the space's folder -> its bytes, its SHA-256 in hex."""
_states: dict[Path, dict[str, tuple[int, ...]]] = {}
"""Of each space that this process writes, its files as they were last synced: by what they are, not by any clock."""


class Manifest(NamedTuple):
    """Versions of tables and what their files were; of a release also its row in the ledger."""

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
    """Return SHA-256 over the sorted hashes of the rows, volatile columns left out: equal for equal rows."""
    names = [name for name in table.schema.names if name not in table.volatile]
    hashes = sorted(hashlib.sha256(repr(row).encode()).digest() for row in rows.select(names).to_pylist())
    return hashlib.sha256(b"".join(hashes)).hexdigest()


# Files and versions of Lance's


def list_versions(path: Path) -> dict[int, Path]:
    """Return the manifest of each version of a table that is there."""
    files = (path / "_versions").glob("*.manifest")
    return {LAST_VERSION - int(file.stem): file for file in files if file.stem.isdigit()}


def find_newest_version(folder: Path, table: str) -> int:
    """Return the number of a table's newest version; 0 where it has none."""
    return max(list_versions(folder / f"{table}.lance"), default=0)


def has_table(folder: Path, name: str) -> bool:
    """Return whether a space's folder holds this table; one that was killed before its first version is none."""
    return bool(list_versions(folder / f"{name}.lance"))


def identify_newest_version(path: Path) -> tuple[str, int, int] | None:
    """Return an identity of a table's newest version; opening a table costs ten times as much."""
    try:
        newest = min(entry.name for entry in os.scandir(path / "_versions") if entry.name.endswith(".manifest"))
        status = (path / "_versions" / newest).stat()
    except (OSError, ValueError):  # gone, or named otherwise: Lance says what is wrong
        return None
    return newest, status.st_ino, status.st_mtime_ns


def list_pinned_files(folder: Path, versions: dict[str, int]) -> list[str]:
    """Return the files that versions of tables consist of, as paths inside the space's folder, in order.

    Raises:
        OSError, ValueError: a version can't be read.
    """
    paths: list[Path] = []
    for name, version in versions.items():
        root = folder / f"{name}.lance"
        dataset = lance.dataset(str(root), version=version)
        paths.append(list_versions(root)[version])
        for fragment in dataset.get_fragments():
            paths += list_fragment_files(root, fragment)
        for segment in (segment for index in dataset.describe_indices() for segment in index.segments):
            paths += [path for path in (root / "_indices" / segment.uuid).rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def list_fragment_files(root: Path, fragment: lance.LanceFragment) -> list[Path]:
    """Return the files of a table's fragment, with that of its deleted rows."""
    deleted = fragment.deletion_file()
    return [root / "data" / file.path for file in fragment.metadata.files] + ([root / deleted] if deleted else [])


# Syncing, and writes that were not finished


def read_boot() -> str | None:
    """Return the id of the machine's current boot; None where there is none."""
    with suppress(OSError):
        return BOOT.read_text(encoding="ascii").strip()
    return None


def begin_sync(folder: Path, *, synced: bool) -> None:
    """Begin to look at what is written; what is there is synced already where it is `synced` that no writer died."""
    _states.pop(folder, None)
    if synced and (folder / MANIFEST_FILE).exists():
        _states[folder] = list_state(folder)
    elif synced:
        mark_synced(folder)


def mark_synced(folder: Path) -> None:
    """Sync what is new, and note it; of Lance's files, which are never written again, what is known of one stays.

    Raises:
        OSError: the disk can't.
        StoreUnreadable: the manifest is broken.
    """
    last, names = read_manifest(folder), [path[len(str(folder)) + 1 :] for path in sync_changes(folder)]
    lasting = [name for name in names if _is_lasting(name) and (folder / name).is_file()]
    files = {name: last.files.get(name) or measure_file(folder / name) for name in lasting}
    # A version that was lost is still missed.
    there = {table.stem: find_newest_version(folder, table.stem) for table in folder.glob("*.lance")}
    versions = last.versions | {name: max(version, last.versions.get(name, 0)) for name, version in there.items()}
    if Manifest(versions, files) != last or not (folder / MANIFEST_FILE).exists():
        replace_file(folder / MANIFEST_FILE, orjson.dumps({"versions": versions, "files": files}))


def sync_changes(folder: Path) -> Collection[str]:
    """Sync each file that is new or another than at the last sync, and each folder in which a name came or went.

    Return all files and folders.

    Raises:
        OSError: the disk can't.
    """
    before, now = _states.get(folder, {}), list_state(folder)
    changed = {path for path, state in now.items() if before.get(path) != state}
    folders = {path.rpartition("/")[0] for path in changed | (before.keys() - now.keys())}
    if not before:
        folders |= {str(folder.parent), str(folder.parent.parent)}
    fresh = {path for path in changed if len(now[path]) == 1}
    for path in (*sorted(changed - fresh), *sorted(folders | fresh, reverse=True)):
        with suppress(FileNotFoundError):
            sync_path(Path(path))
    _states[folder] = now
    return now.keys()


def list_state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return each file and folder below one, with what tells that it changed: of a folder one figure, of a file three.

    In strings: a store may have thousands of files, and `Path` costs more than the disk.
    """
    states: dict[str, tuple[int, ...]] = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *(name for name in names if name not in OWN)):
            with suppress(FileNotFoundError):  # a reader's
                stat = os.lstat(f"{above}/{name}")
                facts = (stat.st_ino,) if name in folders else (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                states[f"{above}/{name}"] = facts
    return states


def _is_lasting(name: str) -> bool:
    """Return whether a file is never written again: not Lance's tags, nor its hint at which version is the newest."""
    if name.startswith(f"{FOLDER}/"):
        return name.endswith(".json")
    return ".lance/" in name and "/_refs/" not in name and not name.endswith(".json")


def go_back_to_synced(folder: Path) -> None:
    """Take the tables back to what they were when they were last synced.

    Raises:
        OSError: the disk can't.
    """
    if not (folder / MANIFEST_FILE).exists() or not (synced := _parse_manifest((folder / MANIFEST_FILE).read_bytes())):
        return  # nothing to go back to
    for table in sorted(folder.glob("*.lance")):
        if table.stem not in synced.versions:
            shutil.rmtree(table)
            continue
        for version, path in sorted(list_versions(table).items(), reverse=True):
            if version > synced.versions[table.stem] and not (table.stem in LASTING and _is_readable(table, version)):
                path.unlink()  # also below one that is whole: a clean-up reads every one
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
    """Return the version that one of Lance's tags names; None where it is not there, or none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        version = orjson.loads(path.read_bytes())["version"]
        return version if isinstance(version, int) else None
    return None


def check_not_torn(folder: Path, table: Table) -> None:
    """Look at the newest version of a table: of a small file that a full disk takes but in part Lance says nothing.

    Raises:
        OSError: a file of it is not as long as it was meant to be.
    """
    if torn := find_torn_file(lance.dataset(str(folder / f"{table.name}.lance"))):
        raise OSError(f"only a part of {torn} is there")


def find_torn_file(dataset: lance.LanceDataset) -> str | None:
    """Return a file of a version that is shorter than it was meant to be, or gone; None when all are whole."""
    root = Path(dataset.uri)
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            path, size = root / "data" / file.path, file.file_size_bytes
            if size and not (path.is_file() and path.stat().st_size == size):
                return path.name
        if deleted := fragment.deletion_file():  # of its length a version says nothing
            content = (root / deleted).read_bytes() if (root / deleted).is_file() else b""
            if not content or (deleted.endswith(".arrow") and not content.endswith(b"ARROW1")):
                return Path(deleted).name
    return None


def find_last_whole(path: Path, released: int = 0) -> lance.LanceDataset | None:
    """Return a table as it is, or as it was before a last write, and the upkeep after it, that were not finished.

    None where neither is whole; what was `released` is never gone behind.
    """
    there = sorted((version for version in list_versions(path) if version >= released), reverse=True)
    for version in there:
        with suppress(*READ_TROUBLE):
            dataset = lance.dataset(str(path), version=version)
            if find_torn_file(dataset) is None:
                return dataset
    return None


def restore_last_whole(folder: Path, table: Table, released: int) -> None:
    """Make the newest whole version of a table the newest one; whoever wrote more was told, and marked nothing done.

    Raises:
        StoreUnreadable: what was released is torn.
    """
    path = folder / f"{table.name}.lance"
    if (whole := find_last_whole(path, released)) is None:  # one without rows is falsy
        torn = find_torn_file(lance.dataset(str(path)))
        why = f"{torn} of table {table.name!r} is torn or gone: `slowwave check --repair` mends what it can"
        raise StoreUnreadable(folder, why)
    if whole.version < max(list_versions(path)):
        whole.restore()  # type: ignore[no-untyped-call]


# What the last writer noted, compared with what is there


def read_manifest(folder: Path) -> Manifest:
    """Return the last manifest of a space; an empty one if no writer left any.

    Raises:
        StoreUnreadable: the manifest is broken itself.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        return Manifest({}, {})
    if manifest := _parse_manifest(path.read_bytes()):
        return manifest
    why = f"{MANIFEST_FILE} is altered: `slowwave check --repair` makes it anew, or put it back from a backup"
    raise StoreUnreadable(folder, why)


def check_newest_whole(folder: Path, tables: Collection[str] = TABLES.keys()) -> None:
    """Check what a night goes on with, and what its clean-up reads, before Lance does: it may end the process.

    What is altered in files that older releases alone pin stops no night, nor does an index, which a night builds anew.
    Rows of other `tables` are not compared.

    Raises:
        StoreUnreadable: a file is not what it was when the last writer let go, or a repair is not done.
    """
    if (folder / REPAIR_FILE).exists():
        raise StoreUnreadable(folder, "a repair is unfinished: `slowwave check --repair` continues it")
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, find_last_known(folder))
    for damage in find_newest_damage(folder, tables):
        if INDEXES not in damage.where:
            raise StoreUnreadable(
                folder, f"{damage.where}: {damage.what}: `slowwave check --repair` repairs what it can"
            )


def find_newest_damage(folder: Path, tables: Collection[str] = TABLES.keys(), *, read: bool = True) -> Iterator[Damage]:
    """Yield differences from the last writer's notes in each table's newest version; unread, or of others, by sizes."""
    try:
        listed, altered = read_manifest(folder).files, find_altered(folder, within="/_versions/", read=read)
    except StoreUnreadable as broken:
        yield Damage(NEWEST, MANIFEST_FILE, broken.why)
        return
    for table in TABLES:
        below, newest, files = f"{table}.lance/", find_newest_version(folder, table), None
        look = read and table in tables
        found = {name: what for name, what in altered.items() if name.startswith(below)}
        if newest and not found:
            with suppress(*READ_TROUBLE):  # what a killed run wrote last: the next takes it back
                pinned = list_pinned_files(folder, {table: newest})
                files = {name: listed[name] for name in pinned if name in listed and INDEXES not in name}
                dataset = lance.dataset(str(folder / f"{table}.lance"), version=newest)
                for of_index in find_index_damage(folder, dataset, listed, read=look).values():
                    found |= of_index
        found |= find_altered(folder, below, read=look) if files is None else describe_changes(folder, files, read=look)
        yield from (Damage(NEWEST, name, what) for name, what in found.items())


def find_altered(folder: Path, below: str = "", *, within: str = "", read: bool = True) -> dict[str, str]:
    """Return a space's files, `below` a folder and `within` one, that are not as they were, with how; unread by sizes.

    Of files that are gone it has the manifests of tables' newest versions alone: clean-up removes older files.

    Raises:
        StoreUnreadable: what is known of them is broken.
    """
    manifest = read_manifest(folder)
    inside = {name: facts for name, facts in manifest.files.items() if name.startswith(below) and within in name}
    altered = {name: what for name, what in describe_changes(folder, inside, read=read).items() if what != GONE}
    for name, version in manifest.versions.items():
        if f"{name}.lance/".startswith(below) and find_newest_version(folder, name) < version:
            altered[f"{name}.lance/_versions/{LAST_VERSION - version:020}.manifest"] = GONE
    return altered


def describe_changes(folder: Path, files: Files, *, read: bool) -> dict[str, str]:
    """Return the files that are others than they were, with how; without `read` by sizes alone."""
    changes: dict[str, str] = {}
    for name, (size, digest) in files.items():
        path = folder / name
        if not path.is_file():
            changes[name] = GONE
        elif (now := path.stat().st_size) != size:
            changes[name] = f"has {now:,} bytes, was {size:,}"
        elif read and measure_file(path)[1] != digest:
            changes[name] = "its bytes were altered"
    return changes


@lru_cache(maxsize=2)
def _parse_manifest(content: bytes) -> Manifest | None:
    """Return the parsed manifest, which nobody changes; None where a disk, or a hand, has altered it."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        parsed = orjson.loads(content)
        row, files = parsed.get("row"), parsed["files"]
        versions = {str(name): int(version) for name, version in (row or parsed)["versions"].items()}
        return Manifest(versions, {name: [int(size), str(digest)] for name, (size, digest) in files.items()}, row)
    return None


def find_index_damage(
    folder: Path, dataset: lance.LanceDataset, files: Files, *, read: bool = True
) -> dict[str, dict[str, str]]:
    """Return the indexes of a table's version that are not as they were, and of each the files or the folder, with how.

    Files are compared with those listed, and each folder with the bytes that Lance says it has.
    """
    damage: dict[str, dict[str, str]] = {}
    for index in dataset.describe_indices():
        for segment in index.segments:
            place = Path(dataset.uri) / "_indices" / segment.uuid
            below = f"{place.relative_to(folder).as_posix()}/"
            of_segment = {name: facts for name, facts in files.items() if name.startswith(below)}
            found = describe_changes(folder, of_segment, read=read)
            now = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
            if not found and segment.size_bytes is not None and segment.size_bytes != now:
                found = {below: f"has {now:,} bytes, was {segment.size_bytes:,}" if now else GONE}
            if found:
                damage.setdefault(index.name, {}).update(found)
    return damage


def measure_file(path: Path) -> list[Any]:
    """Return a file's bytes and SHA-256 in hex; what is appended meanwhile is in neither."""
    size = left = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
    return [size, digest.hexdigest()]


# Manifests of releases


def write_release_manifest(folder: Path, row: dict[str, Any]) -> None:
    """Write the manifest of a release that is about to be made; settled, it counts.

    A manifest without its row then means that the row was lost.
    """
    listed = read_manifest(folder).files
    files = {
        name: listed.get(name) or measure_file(folder / name) for name in list_pinned_files(folder, row["versions"])
    }
    path = get_release_manifest(folder, row["number"]).with_suffix(PART)
    path.parent.mkdir(exist_ok=True)
    content = orjson.dumps({"row": row, "files": files}, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    replace_file(path, content)


def settle_release_manifests(folder: Path, numbers: Container[int]) -> None:
    """Make written manifests count whose releases have a row; drop others, which a writer that was killed left."""
    for part in (folder / FOLDER).glob(f"r*{PART}"):
        if int(part.stem[1:]) in numbers:
            part.replace(part.with_suffix(".json"))
        else:
            part.unlink()


def drop_release_manifests(folder: Path, numbers: Container[int]) -> None:
    """Drop the manifests of all releases but some: the files of the others are gone."""
    for number in list_release_manifests(folder):
        if number not in numbers:
            get_release_manifest(folder, number).unlink()


def list_release_manifests(folder: Path) -> list[int]:
    """Return the numbers of the releases that have a manifest, in order."""
    return sorted(int(path.stem[1:]) for path in (folder / FOLDER).glob("r*.json") if path.stem[1:].isdigit())


def read_release_manifest(folder: Path, number: int) -> Manifest | None:
    """Return a release's manifest; None where it has none.

    Raises:
        StoreUnreadable: it is broken itself.
    """
    path = get_release_manifest(folder, number)
    if not path.exists():
        return None
    if (manifest := _parse_manifest(path.read_bytes())) and manifest.row:
        return manifest
    raise StoreUnreadable(folder, f"{FOLDER}/{path.name} is no manifest: `slowwave check --repair` rebuilds it")


def get_release_manifest(folder: Path, number: int) -> Path:
    """Return the path of a release's manifest."""
    return folder / FOLDER / f"r{number}.json"


def find_last_known(folder: Path) -> int:
    """Return the number of the newest release that a manifest tells of; 0 where none does.

    To be called before the ledger is read: of a release that is made meanwhile the row is there before its manifest.
    """
    return max(list_release_manifests(folder), default=0)


def check_ledger_whole(folder: Path, newest: int, noted: int) -> None:
    """Check that the ledger of releases still has the newest row that is known of.

    Raises:
        StoreUnreadable: it was lost; without this an older release would be served, or numbers given twice.
    """
    if noted > newest:
        raise StoreUnreadable(
            folder, f"the ledger of releases has lost r{noted}: `slowwave check --repair` puts its row back"
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
    """Check the files of a table of a release but for its indexes: a reader does without a broken one, and says so.

    Raises:
        StoreUnreadable: one is not as it was.
    """
    files, read = list_release_files(folder, number)
    of_rows = {name: files[name] for name in files if name.startswith(f"{table}.lance/") and INDEXES not in name}
    for name, what in describe_changes(folder, of_rows, read=read).items():
        raise StoreUnreadable(folder, f"r{number}: {name}: {what}: `slowwave check --repair`, or `slowwave rollback`")
