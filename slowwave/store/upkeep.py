"""Upkeep at the end of a run: index new rows, compact small files, delete old versions.

Failures raise `StoreUnwritable`: the disk is full or read-only, or a table is broken.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from slowwave.schemas.errors import translate_write_errors
from slowwave.schemas.settings import StoreSettings
from slowwave.schemas.tables import INDEXED_ROWS, RELEASED, TABLES, Table
from slowwave.store.indexes import drop_unusable_indexes, index_table
from slowwave.store.manifest import (
    check_not_torn,
    drop_release_manifests,
    list_pinned_files,
    list_versions,
    mark_synced,
    sync_changes,
)
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release
from slowwave.store.store import Store

GRACE = timedelta(hours=2)
"""Age of the versions that are deleted: a reader that opened a version earlier still finds its files."""
MOST_GONE = 0.2
"""A table is rewritten above this share of replaced or deleted rows on disk."""
SMALL_ROWS = 100_000
MOST_FILES = 20
"""A file with fewer rows is small; a table with more small files is compacted."""


def compact_table(store: Store, table: Table) -> bool:
    """Rewrite a table with many small files or many deleted rows; return True if it was rewritten."""
    stats = store.open_dataset(table).stats.dataset_stats(SMALL_ROWS)
    gone = stats["num_deleted_rows"] > MOST_GONE * max(1_000, store.count(table))
    if due := gone or stats["num_small_files"] > MOST_FILES:
        store.open_dataset(table).optimize.compact_files()
    return bool(due)


def compact_store(store: Store, fewest: int = INDEXED_ROWS) -> list[str]:
    """Compact tables and index new rows before a release; return the names of the tables changed.

    Vectors are indexed in a table with at least `fewest` of them.
    """
    with translate_write_errors(store.dir):
        # Compacted files may be deleted: a power failure must find a synced state.
        mark_synced(store.dir)
        for table in RELEASED:
            drop_unusable_indexes(store, table)
        touched = [t.name for t in TABLES.values() if compact_table(store, t)]
        touched += [t.name for t in RELEASED if index_table(store, t, fewest)]
        for table in TABLES.values():
            check_not_torn(store.open_dataset(table))
        return touched


def pick_kept(releases: Sequence[Release], settings: StoreSettings) -> list[Release]:
    """Return the releases that the settings keep, oldest first: the newest ones, and the last of each recent day."""
    last = {release.created_at.date(): release.number for release in releases}
    days = sorted(last)[max(0, len(last) - settings.keep_daily) :]
    numbers = {
        *(release.number for release in releases[-settings.keep_releases :]),
        *(last[day] for day in days),
    }
    return [release for release in releases if release.number in numbers]


def drop_old_versions(store: Store, settings: StoreSettings) -> int:
    """Unpin the releases that the settings don't keep, and delete unpinned versions; return the bytes freed."""
    releases = read_releases(store)
    with translate_write_errors(store.dir):
        if len(chosen := pick_kept(releases, settings)) < len(releases):
            _unpin_all_but(store, chosen)
        done = [
            store.open_dataset(table).cleanup_old_versions(
                GRACE, error_if_tagged_old_versions=False
            )
            for table in TABLES.values()
            if _has_old_version(store, table)
        ]
        return sum(int(freed.bytes_removed) for freed in done)


def _has_old_version(store: Store, table: Table) -> bool:
    """Return True if a table has a version of which the grace period is over."""
    begun = (datetime.now(UTC) - GRACE).timestamp()
    versions = list_versions(store.dir / f"{table.name}.lance").values()
    return any(path.stat().st_mtime < begun for path in versions)


def _unpin_all_but(store: Store, releases: Sequence[Release]) -> None:
    """Delete the manifests and tags of all releases except these; their rows stay in the ledger."""
    drop_release_manifests(store.dir, {release.number for release in releases})
    names = {release.name for release in releases}
    for table in RELEASED:
        tags = store.open_dataset(table).tags
        for name in tags.list().keys() - names:
            tags.delete(name)


def rewrite_tables(store: Store, tables: Iterable[Table] = TABLES.values()) -> None:
    """Rewrite every file with deleted rows, and rebuild the indexes.

    Lance only marks rows as deleted, and an index keeps the words of deleted rows.
    """
    with translate_write_errors(store.dir):
        for table in tables:
            dataset = store.open_dataset(table)
            for index in dataset.describe_indices():
                dataset.drop_index(index.name)
            if any(
                len(fragment.metadata.files) > 1 for fragment in dataset.get_fragments()
            ):
                # Rewrites all columns: files of single columns keep old values.
                dataset.update({table.key: table.key})
            dataset.optimize.compact_files(
                materialize_deletions=True, materialize_deletions_threshold=0.0
            )
            # A new version: one made by a deletion contains the deleted ids.
            dataset.update_config({"rewritten": ""})
            index_table(store, table)
            check_not_torn(store.open_dataset(table))


def drop_all_but_live(store: Store) -> None:
    """Unpin all releases except the live one, and delete all unpinned versions and files at once."""
    with translate_write_errors(store.dir):
        mark_synced(store.dir)
        _unpin_all_but(store, read_releases(store)[-1:])
        for table in TABLES.values():
            drop_versions_at_once(store, table)
        # So that deleted files don't reappear after a power failure.
        sync_changes(store.dir)


def drop_versions_at_once(store: Store, table: Table) -> None:
    """Delete all files of a table that are in no pinned version, without a grace period.

    A reader of such a version loses its files. The caller holds the writer's lock, so no writer uses a file without a
    version.
    """
    with translate_write_errors(store.dir):
        store.open_dataset(table).cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
        dataset = store.open_dataset(table)
        versions = {
            int(dataset.version),
            *(int(tag["version"]) for tag in dataset.tags.list().values()),
        }
        # Lance skips files that it can't delete; of files in no kept version, only its own records are kept
        names = {
            name
            for version in versions
            for name in list_pinned_files(store.dir, {table.name: version})
        }
        left = [
            path
            for path in (store.dir / f"{table.name}.lance").rglob("*")
            if path.is_file()
        ]
        left = [
            path for path in left if path.relative_to(store.dir).as_posix() not in names
        ]
        left = [
            path for path in left if "_refs" not in path.parts and path.suffix != ".txn"
        ]
        for path in left:
            if not path.match("_versions/*.json"):
                path.unlink()
