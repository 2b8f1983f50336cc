"""The files by which Lance knows the versions of a table."""

from pathlib import Path

LAST_VERSION = 2**64 - 1
"""Lance names the manifest of version 3 by this number less 3, so that the newest sorts first; older stores by 3."""


def list_manifests(path: Path) -> dict[int, Path]:
    """Return the file that names what a version of a table consists of, for each version that is there."""
    numbers = {one: int(one.stem) for one in (path / "_versions").glob("*.manifest") if one.stem.isdigit()}
    return {LAST_VERSION - n if n > LAST_VERSION // 2 else n: one for one, n in numbers.items()}
