"""slowwave's own stores, and other tables of Lance's, among the transcripts: recognised by what the files hold."""

from collections.abc import Iterable
from pathlib import Path

from slowwave.schemas.tables import RELEASES, Table

SUFFIX = ".lance"
_MAGIC = b"LANC"
"""The last bytes of a version's manifest."""
_BIGGEST = 64 * 1024 * 1024


def is_store(folder: Path) -> bool:
    """Return True if the folder is a space of a store: its ledger of releases has the columns of that table."""
    return is_lance_table(folder / f"{RELEASES.name}{SUFFIX}", RELEASES)


def is_lance_table(folder: Path, table: Table | None = None) -> bool:
    """Return True if a folder is a table of Lance's: of the given one, if its newest version names all its columns.

    The manifest's bytes are compared and Lance does not open it, which panics at some damaged files.
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
