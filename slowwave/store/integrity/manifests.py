"""The files by which Lance knows the versions of a table."""

from pathlib import Path

LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first; older stores by 3."""


def list_manifests(path: Path) -> dict[int, Path]:
    """Return the file that names what a version of a table consists of, for each version that is there."""
    numbers = {one: int(one.stem) for one in (path / "_versions").glob("*.manifest") if one.stem.isdigit()}
    return {LAST_VERSION - n if n > LAST_VERSION // 2 else n: one for one, n in numbers.items()}


def identify_newest_manifest(path: Path) -> tuple[str, int, int] | None:
    """Return what tells the newest version of a table from any other, also of a table made anew; None for older stores.

    Opening a table costs ten times as much, and a night asks for each some ten times.
    """
    try:
        newest = min((path / "_versions").glob("*.manifest"))
        if int(newest.stem) <= LAST_VERSION // 2:
            return None
        found = newest.stat()
    except (OSError, ValueError):  # gone, or named otherwise: Lance says what is wrong
        return None
    return newest.name, found.st_ino, found.st_mtime_ns
