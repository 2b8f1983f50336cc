"""Recognise slowwave's own stores and other Lance tables among transcripts, by the content of their files."""

from collections.abc import Iterable
from pathlib import Path

from slowwave.schemas.tables import RELEASES, Table

SUFFIX = ".lance"
_MAGIC = b"LANC"
"""The last bytes of a version's manifest."""
_BIGGEST = 64 * 1024 * 1024


def is_store(folder: Path) -> bool:
    """Return True if the folder is a space of a store: it has a ledger of releases with the right columns."""
    return is_lance_table(folder / f"{RELEASES.name}{SUFFIX}", RELEASES)


def is_lance_table(folder: Path, table: Table | None = None) -> bool:
    """Return True if a folder is a Lance table; with `table`, if its newest version also has all columns of that table.

    Only the bytes of the version's manifest are searched, since Lance panics on some damaged files.
    """
    try:
        versions = [
            path
            for path in (folder / "_versions").glob("*.manifest")
            if path.stat().st_size <= _BIGGEST
        ]
        newest = sorted(versions)[:1]  # numbers count down
        return any(
            _is_manifest(path.read_bytes(), table.schema.names if table else ())
            for path in newest
        )
    except OSError:
        return False


def _is_manifest(raw: bytes, columns: Iterable[str]) -> bool:
    return raw.endswith(_MAGIC) and all(name.encode() in raw for name in columns)
