"""Upkeep at the end of a run: full-text indexes over what is new, small files compacted, old versions dropped."""

from collections.abc import Iterable
from datetime import timedelta

import lance

from slowwave.schemas.tables import RELEASED, TABLES, Table
from slowwave.store.durable import mark_synced, sync_changes
from slowwave.store.releases import read_releases, unpin
from slowwave.store.seals import drop_seals
from slowwave.store.store import Store
from slowwave.store.trouble import translate_write_errors
from slowwave.store.whole import check_not_torn

SMALL_ROWS = 100_000
"""Rows of a file that is not worth another rewriting."""


def index_text(store: Store, table: Table) -> bool:
    """Make the table's full-text index cover every row; True when something was done.

    An index built over an empty table covers nothing until it is optimised, so it is built with the first rows.
    """
    if table.full_text is None or store.count(table) == 0:
        return False
    dataset = store.open_dataset(table)
    names = [index.name for index in dataset.describe_indices() if index.field_names == [table.full_text]]
    if not names:
        from lancedb.index import FTS  # a second, that a night without news has no use for

        config = FTS(with_position=False, stem=True, remove_stop_words=True, ascii_folding=True)
        store.open_table(table).create_index(table.full_text, config=config)
        return True
    if dataset.stats.index_stats(names[0])["num_unindexed_rows"] == 0:
        return False
    store.open_table(table).optimize()
    return True


def compact_table(store: Store, table: Table, fragments: int) -> bool:
    """Rewrite a table of many small files into few; True when it was done."""
    if store.open_dataset(table).stats.dataset_stats(SMALL_ROWS)["num_small_files"] <= fragments:
        return False
    store.open_table(table).optimize()
    return True


def compact_store(store: Store, fragments: int) -> list[str]:
    """Compact and index what this run made; names the tables that were touched. Runs before a release.

    Raises:
        StoreUnwritable: no room, no right, or a table that is broken.
    """
    with translate_write_errors(store.dir):
        mark_synced(store.dir)  # what is compacted may be cleaned up, and there must be something to go back to
        touched = [t.name for t in TABLES.values() if compact_table(store, t, fragments)]
        touched += [t.name for t in RELEASED if index_text(store, t)]
        for table in TABLES.values():
            check_not_torn(store.dir, table)
        return touched


def drop_old_versions(store: Store, keep: int) -> int:
    """Unpin all but the newest releases and delete the versions that none pins; returns the bytes freed.

    `lancedb`'s own clean-up stops at the first tagged version, so this goes through `lance`.

    Raises:
        StoreUnwritable: no right, or a table that is broken.
    """
    found = read_releases(store)
    old = found[:-keep]
    if not old:
        return 0
    with translate_write_errors(store.dir):
        drop_seals(store.dir, first=found[len(old)].number)
        for table in RELEASED:
            for release in old:
                unpin(store.open_table(table), release)
        return sum(_delete_old_versions(store, table) for table in TABLES.values())


def _delete_old_versions(store: Store, table: Table) -> int:
    dataset = lance.dataset(str(store.dir / f"{table.name}.lance"))
    # A day of grace: a reader that opened a version an hour ago still finds its files.
    return int(dataset.cleanup_old_versions(timedelta(days=1), error_if_tagged_old_versions=False).bytes_removed)


def rewrite_tables(store: Store, tables: Iterable[Table] = TABLES.values()) -> None:
    """Rewrite every file that holds a row which is gone, and build the full-text indexes anew.

    What is deleted in Lance is only marked so, and an index keeps the words of rows that went.

    Raises:
        StoreUnwritable: no room, no right, or a table that is broken.
    """
    with translate_write_errors(store.dir):
        for table in tables:
            if table.full_text:
                opened = store.open_table(table)
                for index in opened.list_indices():
                    opened.drop_index(index.name)
            dataset = store.open_dataset(table)
            dataset.optimize.compact_files(materialize_deletions=True, materialize_deletions_threshold=0.0)
            index_text(store, table)
            check_not_torn(store.dir, table)


def drop_all_but_live(store: Store) -> int:
    """Unpin every release but the live one, and delete all that no pinned version names, at once; returns bytes freed.

    Raises:
        StoreUnwritable: no right, or a table that is broken.
    """
    kept = read_releases(store)[-1:]
    live = {release.name for release in kept}
    with translate_write_errors(store.dir):
        mark_synced(store.dir)
        drop_seals(store.dir, first=kept[0].number if kept else 0)
        for table in TABLES.values():
            tags = store.open_table(table).tags
            for name in set(tags.list()) - live:
                tags.delete(name)
    freed = sum(drop_versions_at_once(store, table) for table in TABLES.values())
    with translate_write_errors(store.dir):
        sync_changes(store.dir)  # what is gone does not come back
    return freed


def drop_versions_at_once(store: Store, table: Table) -> int:
    """Delete all that no pinned version of a table names, without a day of grace; returns bytes freed.

    A reader that has one open finds its files gone. The writer's lock is held, so what no version names is nobody's.

    Raises:
        StoreUnwritable: no right, or a table that is broken.
    """
    with translate_write_errors(store.dir):
        done = store.open_dataset(table).cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    return int(done.bytes_removed)
