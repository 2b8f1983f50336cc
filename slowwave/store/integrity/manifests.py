"""The files of a table: manifests, by which Lance knows its versions, and whether a file is what it was."""

from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first."""
DIGESTED = 128 << 20
"""Bytes of a release that a reader digests before it opens it: a tenth of a second. Of more it looks at sizes alone."""

Files = dict[str, list[Any]]
"""Path inside the space's folder -> its bytes, its SHA-256 in hex."""


def parse_version(path: Path) -> int:
    """Return the version whose manifest this is, by its name."""
    return LAST_VERSION - int(path.stem)


def list_manifests(path: Path) -> dict[int, Path]:
    """Return the file that names what a version of a table consists of, for each version that is there."""
    return {parse_version(one): one for one in (path / "_versions").glob("*.manifest") if one.stem.isdigit()}


def has_table(folder: Path, name: str) -> bool:
    """Return whether a space's folder holds this table; one that was killed before its first version is none."""
    return bool(list_manifests(folder / f"{name}.lance"))


def parse_files(found: dict[str, Any]) -> Files:
    """Return what was written down of files, once it is seen to be that: a disk, or a hand, may have altered it.

    Raises:
        AttributeError, TypeError, ValueError: it is something else.
    """
    if any(name.endswith(".manifest") and not Path(name).stem.isdigit() for name in found):
        raise ValueError("a manifest is named by no number")
    return {name: [int(size), str(digest)] for name, (size, digest) in found.items()}


def hash_file(path: Path) -> str:
    """Return SHA-256 in hex."""
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def describe_change(path: Path, size: int, digest: str | None) -> str | None:
    """Return how a file is another than it was, in words; None where it is the same. Without `digest` sizes alone."""
    if not path.is_file():
        return "is gone"
    if (found := path.stat().st_size) != size:
        return f"has {found:,} bytes, was {size:,}"
    return "its bytes were altered" if digest and hash_file(path) != digest else None


def describe_changes(folder: Path, files: Files, *, read: bool) -> dict[str, str]:
    """Return the files that are others than they were, with how; without `read` by sizes alone."""
    found = {
        name: describe_change(folder / name, size, digest if read else None) for name, (size, digest) in files.items()
    }
    return {name: what for name, what in found.items() if what}


def identify_newest_manifest(path: Path) -> tuple[str, int, int] | None:
    """Return what tells the newest version of a table from any other, also of a table made anew.

    Opening a table costs ten times as much, and a night asks for each some ten times.
    """
    try:
        newest = min((path / "_versions").glob("*.manifest"))
        found = newest.stat()
    except (OSError, ValueError):  # gone, or named otherwise: Lance says what is wrong
        return None
    return newest.name, found.st_ino, found.st_mtime_ns
