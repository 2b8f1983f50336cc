"""Whether what a table names lies on the disk whole.

Of a small file that a full disk takes but in part Lance says nothing: it commits a version that can't be read. So each
write is looked at, and a writer takes back what an earlier one could not finish.
"""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import lance

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.tables import COMPLETIONS, RELEASES, Table
from slowwave.store.integrity.durable import SYNCED_FILE
from slowwave.store.integrity.manifests import list_manifests
from slowwave.store.trouble import READ_TROUBLE

STANDING = (RELEASES.name, COMPLETIONS.name)
"""Tables of which the newest whole version stands: releases are synced one by one, answers depend on nothing else."""
ARROW_END = b"ARROW1"
"""Ends each file of Arrow's."""
STEPS_BACK = 8
"""Versions that one write and the upkeep after it may have made."""


def check_not_torn(folder: Path, table: Table) -> None:
    """Look at the newest version of a table.

    Raises:
        OSError: a file of it is not as long as it was meant to be.
    """
    if torn := find_torn_file(lance.dataset(_build_path(folder, table))):
        raise OSError(f"only a part of {torn} is there")


def find_torn_file(dataset: lance.LanceDataset) -> str | None:
    """Return a file of a version that is shorter than it was meant to be, or gone; None when all are whole."""
    data = Path(dataset.uri) / "data"
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            path = data / file.path
            if file.file_size_bytes and not (path.is_file() and path.stat().st_size == file.file_size_bytes):
                return path.name
        deleted = fragment.deletion_file()
        if deleted and not _is_whole_deletion(path := Path(dataset.uri) / deleted):
            return path.name
    return None


def _is_whole_deletion(path: Path) -> bool:
    """Return whether a file of deleted rows is there to its end; of its length a version says nothing."""
    found = path.read_bytes() if path.is_file() else b""
    return found.endswith(ARROW_END) if path.suffix == ".arrow" else bool(found)


def is_whole(path: Path, version: int) -> bool:
    """Return whether a version of a table can be read; all of it is."""
    try:
        found = lance.dataset(str(path), version=version)
        return find_torn_file(found) is None and found.to_table().num_rows >= 0
    except READ_TROUBLE:
        return False


def load_last_whole(path: Path) -> lance.LanceDataset:
    """Return a table as it is, or as it was before a last write, and the upkeep after it, that were not finished."""
    with suppress(*READ_TROUBLE):
        newest = lance.dataset(str(path))
        if find_torn_file(newest) is None:
            return newest
    for version in sorted(list_manifests(path), reverse=True)[1 : 1 + STEPS_BACK]:
        if is_whole(path, version):
            return lance.dataset(str(path), version=version)
    return lance.dataset(str(path))


def restore_last_whole(folder: Path, table: Table, released: int) -> None:
    """Make the newest whole version of a table the newest one; whoever wrote more was told, and marked nothing done.

    Args:
        folder: the space's.
        table: one that is there.
        released: its version in the newest release, which is never gone behind.

    Raises:
        StoreUnreadable: what was released is torn.
    """
    path = _build_path(folder, table)
    newest = lance.dataset(path)
    torn = find_torn_file(newest)
    if torn is None:
        return
    older = sorted((v["version"] for v in newest.versions() if released <= v["version"] < newest.version), reverse=True)
    for version in older[:STEPS_BACK]:
        try:
            found = lance.dataset(path, version=version)
        except READ_TROUBLE:
            continue
        if find_torn_file(found) is None:
            found.restore()  # type: ignore[no-untyped-call]
            return
    raise StoreUnreadable(
        folder, f"{torn} of table {table.name!r} is torn or gone: `slowwave repair` mends what it can"
    )


def _build_path(folder: Path, table: Table) -> str:
    return str(folder / f"{table.name}.lance")


def go_back_to_synced(folder: Path) -> None:
    """Take the tables back to what they were when they were last synced.

    Raises:
        OSError: the disk can't.
    """
    try:
        found = json.loads((folder / SYNCED_FILE).read_bytes())
        synced = {str(table): int(version) for table, version in found.items()}
    except (OSError, AttributeError, TypeError, ValueError):  # never synced, or altered: nothing to go back to
        return
    for table in sorted(folder.glob("*.lance")):
        manifests, kept = list_manifests(table), synced.get(table.stem, 0)
        later = sorted((version for version in manifests if version > kept), reverse=True)
        if table.stem not in synced:
            shutil.rmtree(table)
            continue
        for version in later:
            if table.stem in STANDING and is_whole(table, version):
                continue  # one below it may be torn all the same, and a clean-up reads every one
            manifests[version].unlink()
        for hint in (table / "_versions").glob("*.json"):
            hint.unlink()
        for tag in (table / "_refs" / "tags").glob("*"):
            if not _is_json(tag):
                tag.unlink()


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
