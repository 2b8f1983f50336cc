"""Whether what a table names lies on the disk whole.

Of a small file that a full disk takes but in part Lance says nothing: it commits a version that can't be read. So each
write is looked at, and a writer takes back what an earlier one could not finish.
"""

from contextlib import suppress
from pathlib import Path

import lance

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.tables import Table
from slowwave.store.trouble import READ_TROUBLE

LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first; older stores by 3."""
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
    """Return a data file of a version that is shorter than it was meant to be, or gone; None when all are whole."""
    data = Path(dataset.uri) / "data"
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            path = data / file.path
            if file.file_size_bytes and not (path.is_file() and path.stat().st_size == file.file_size_bytes):
                return path.name
    return None


def list_manifests(path: Path) -> dict[int, Path]:
    """Return the file that names what a version of a table consists of, for each version that is there."""
    numbers = {one: int(one.stem) for one in (path / "_versions").glob("*.manifest") if one.stem.isdigit()}
    return {LAST_VERSION - n if n > LAST_VERSION // 2 else n: one for one, n in numbers.items()}


def is_whole(path: Path, version: int) -> bool:
    """Return whether a version of a table can be read; all of it is."""
    try:
        found = lance.dataset(str(path), version=version)
        return find_torn_file(found) is None and found.to_table().num_rows >= 0
    except READ_TROUBLE:
        return False


def load_last_whole(path: Path) -> lance.LanceDataset:
    """Return a table as it is, or as it was before a last write that was not finished."""
    with suppress(*READ_TROUBLE):
        newest = lance.dataset(str(path))
        if find_torn_file(newest) is None:
            return newest
    for version in sorted(list_manifests(path), reverse=True)[1:2]:
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
    raise StoreUnreadable(folder, f"{torn} of table {table.name!r} is torn or gone: put it back from a backup")


def _build_path(folder: Path, table: Table) -> str:
    return str(folder / f"{table.name}.lance")
