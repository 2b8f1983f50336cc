"""Stores that another version of slowwave wrote.

What is younger than a store is made by its next writer, and stands empty for readers until then (`stand_ins.py`). What
a store has too much of was written by a newer slowwave, which alone knows what it means: such a store is refused. A
table that is gone though a release names it is neither: that store is damaged.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from slowwave.schemas.errors import NewerStore, SchemaMismatch, StoreMissing, StoreUnreadable
from slowwave.schemas.tables import MESSAGES, RELEASES, SESSIONS, TABLES, VECTOR, Table
from slowwave.store.integrity.manifests import list_manifests
from slowwave.store.integrity.seals import check_ledger_whole, find_last_known
from slowwave.store.integrity.sums import check_files_unaltered
from slowwave.store.integrity.whole import load_last_whole
from slowwave.store.releases import Release, parse_releases
from slowwave.store.trouble import translate_read_errors


def has_table(folder: Path, name: str) -> bool:
    """Return whether a space's folder holds this table; one that was killed before its first version is none."""
    return bool(list_manifests(folder / f"{name}.lance"))


def find_missing_columns(table: Table, found: pa.Schema) -> list[pa.Field]:
    """Return the columns that a stored table is too old to have; all may be null.

    Raises:
        NewerStore: it has columns that this version does not know.
        SchemaMismatch: it lacks columns that may not be null, or has them in another type.
    """
    unknown = [name for name in found.names if name not in table.schema.names]
    missing = [field for field in table.schema if field.name not in found.names]
    held = [field for field in table.schema if field.name in found.names]
    wrong = [f"{f.name} as {found.field(f.name).type}" for f in held if not _has_type(found.field(f.name), f)]
    needed = [field.name for field in missing if not field.nullable]
    if needed or wrong:
        raise SchemaMismatch(table.name, needed, [*wrong, *unknown])
    if unknown:
        raise NewerStore(table.name, f"table {table.name!r} has {', '.join(unknown)}")
    return missing


def _has_type(found: pa.Field, wanted: pa.Field) -> bool:
    """Return whether a stored column has its type; vectors may be of any length."""
    if wanted.type == VECTOR and pa.types.is_fixed_size_list(found.type):
        return bool(found.type.value_type == wanted.type.value_type)
    return bool(found.type == wanted.type)


def load_releases(folder: Path) -> list[Release]:
    """Return the releases of a space, oldest first.

    Raises:
        StoreMissing: there is no such store or space.
        StoreUnreadable: what is there is broken.
        SchemaMismatch, NewerStore: another version of slowwave released what this one can't use.
    """
    known = find_last_known(folder)
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, known)
    found = read_ledger(folder)
    check_ledger_whole(folder, found[-1].number if found else 0, known)
    for release in found[-1:]:
        for name in sorted(release.versions.keys() - TABLES.keys()):
            raise NewerStore(name, f"release {release.name} names a table {name!r}")
    return found


def read_ledger(folder: Path) -> list[Release]:
    """Return the rows of the ledger of releases as they are, oldest first.

    Raises:
        StoreMissing, StoreUnreadable, SchemaMismatch, NewerStore: as `load_releases`.
    """
    if not has_table(folder, RELEASES.name):
        raise StoreMissing(folder)
    check_files_unaltered(folder, RELEASES.name)
    with translate_read_errors(folder):
        rows = load_last_whole(folder / f"{RELEASES.name}.lance")
        find_missing_columns(RELEASES, rows.schema)
        return parse_releases(rows.to_table())


def check_tables_exist(folder: Path, releases: Iterable[Release], tables: Iterable[Table] = TABLES.values()) -> None:
    """Check that the tables which releases name are there.

    Raises:
        StoreUnreadable: one is gone.
    """
    named = {name: release.name for release in releases for name in release.versions}
    for table in tables:
        if table.name in named and not has_table(folder, table.name):
            raise StoreUnreadable(folder, _explain_missing_table(table.name, named[table.name]))


def _explain_missing_table(name: str, release: str) -> str:
    """Return what is gone, and how to go on."""
    tables = " ".join(f"--table {one.name}" for one in (MESSAGES, SESSIONS) if one.name != name)
    save = f"save the rest by `slowwave export OUT {tables}` and `slowwave run OUT --store NEW`"
    anew = "begin a new store with `slowwave run --store NEW`"
    return (
        f"table {name!r}, which release {release} names, is gone: `slowwave repair`, put {name}.lance back "
        f"from a backup, or {anew if name == MESSAGES.name else save}"
    )
