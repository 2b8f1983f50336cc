"""Make a release, or make an earlier one live again: pin versions of all tables, and write the release's row last."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import lance

from slowwave.schemas.errors import (
    READ_TROUBLE,
    StoreUnreadable,
    UsageError,
    translate_write_errors,
)
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import FILES, QUARANTINE, RELEASED, RELEASES, TABLES, Table
from slowwave.store.indexes import has_current_settings
from slowwave.store.manifest import (
    check_release_files,
    compute_table_digest,
    find_index_damage,
    list_release_files,
    mark_synced,
    settle_release_manifests,
    sync_changes,
    write_release_manifest,
)
from slowwave.store.releases import (
    CANDIDATE,
    Release,
    Snapshot,
    is_dropped,
    make_ledger_rows,
    parse_releases,
    pick_release,
)
from slowwave.store.store import Store

UNREAD = (FILES, QUARANTINE)
"""Pinned tables that no reader queries: a change in these alone does not make a release."""


def read_releases(store: Store) -> list[Release]:
    """Return all releases, oldest first."""
    return parse_releases(store.read(RELEASES))


def list_kept_releases(store: Store) -> list[Release]:
    """Return the releases whose tables are kept, oldest first."""
    releases = read_releases(store)
    return [release for release in releases if not is_dropped(store.dir, release)]


def find_release_before(
    store: Store,
    release: Release,
) -> str | None:
    """Return the name of the last kept release before another; None if there is none."""
    kept = [
        one.name for one in list_kept_releases(store) if one.number < release.number
    ]
    return kept[-1] if kept else None


def find_writer(store: Store) -> str | None:
    """Return the writer of the last release that is not a roll-back; None if there is no such release."""
    return next(
        (
            release.writer
            for release in reversed(read_releases(store))
            if release.restores is None
        ),
        None,
    )


def publish(
    store: Store,
    run_id: str,
    encoder: str | None,
    calibrate: Callable[[Release], str | None] | None = None,
    writer: str | None = None,
) -> Release | None:
    """Make a release of every table's newest version; return None if neither rows nor writer changed.

    Changes are counted since the last release that is not a roll-back: after a roll-back, a night without changes
    keeps it live.

    Args:
        store: the store.
        run_id: the run that makes the release.
        encoder: the encoder of the vectors.
        calibrate: called with the new release, if there is one; returns the value of its column `calibration`. If it
            raises an error, no release is made.
        writer: the writer of the memory; default: that of the last release.
    """
    releases = read_releases(store)
    published = [r for r in releases if r.restores is None]
    writer = writer or (published[-1].writer if published else None)
    same_writer = bool(published) and published[-1].writer == writer
    if same_writer and not any(
        _has_changes(store, table, published[-1])
        for table in RELEASED
        if table not in UNREAD
    ):
        return None
    draft = replace(
        _draft_release(store=store, releases=releases, run_id=run_id, encoder=encoder),
        writer=writer,
    )
    if not published and not any(draft.counts.values()):
        return None  # a first run that found nothing to read
    return _add_release(
        store,
        releases,
        replace(draft, calibration=calibrate(draft)) if calibrate else draft,
    )


def open_candidate(store: Store) -> Snapshot:
    """Return the newest version of every table, released or not, as the release that they would be."""
    releases = read_releases(store)
    draft = _draft_release(
        store=store,
        releases=releases,
        run_id=CANDIDATE,
        encoder=releases[-1].encoder if releases else None,
    )
    return Snapshot.of_release(store.dir, draft)


def _has_changes(
    store: Store,
    table: Table,
    published: Release,
) -> bool:
    """Return True if a table has other rows or indexes than a release; the same rows in other files don't count.

    Rows are compared last, since that reads the whole table. Usually the number of rows has changed.
    """
    if table.name not in published.versions:  # the release is older than the table
        return store.count(table) > 0
    path = str(store.dir / f"{table.name}.lance")
    then = published.versions[table.name]
    if store.open_dataset(table).version == then:
        return False
    try:
        both = old, new = lance.dataset(path, version=then), lance.dataset(path)
        names = [
            sorted(index.name for index in dataset.describe_indices())
            for dataset in both
        ]
        if (
            names[0] != names[1]
            or not _are_indexes_usable(store, old, published)
            or old.count_rows() != new.count_rows()
        ):
            return True
        # changes were undone: the files are the same
        files = [
            [fragment.metadata.to_json() for fragment in dataset.get_fragments()]
            for dataset in both
        ]
        if files[0] == files[1]:
            return False
        check_release_files(store.dir, published.number, table.name)
        return compute_table_digest(table, old.to_table()) != compute_table_digest(
            table, new.to_table()
        )
    except (
        *READ_TROUBLE,
        StoreUnreadable,
    ):
        # Cleaned up or damaged: the release can't be read.
        return True


def _are_indexes_usable(
    store: Store,
    dataset: lance.LanceDataset,
    release: Release,
) -> bool:
    """Return True if a release's indexes of a table are intact and were built with the current settings."""
    files, is_read = list_release_files(store.dir, release.number)
    if find_index_damage(store.dir, dataset, files, read=is_read):
        return False
    return all(
        has_current_settings(dataset, index.name)
        for index in dataset.describe_indices()
    )


def roll_back(
    store: Store,
    name: str,
    run_id: str,
) -> Release:
    """Make an earlier release live again, as a new release; the tables keep their newer versions.

    Raises:
        NoRelease: no release has this name.
        ReleaseDropped: the release is no longer kept.
        UsageError: the release is live already.
    """
    releases = read_releases(store)
    old = pick_release(releases, name, store.dir)
    if old.release_id in (releases[-1].release_id, releases[-1].restores):
        raise UsageError(f"{name} is live already: nothing was done")
    draft = _draft_release(
        store=store,
        releases=releases,
        run_id=run_id,
        encoder=old.encoder,
        versions=old.versions,
    )
    again = replace(
        draft,
        counts=old.counts,
        restores=old.release_id,
        calibration=old.calibration,
        writer=old.writer,
    )
    return _add_release(store, releases, again)


def _draft_release(
    store: Store,
    releases: list[Release],
    run_id: str,
    encoder: str | None,
    versions: dict[str, int] | None = None,
) -> Release:
    """Return the next release, with the given versions of the tables or the newest ones."""
    versions = versions or store.read_versions(RELEASED)
    counts = {table.name: store.count(table) for table in RELEASED}
    number = releases[-1].number + 1 if releases else 1
    release_id = compute_content_id(
        store.space, str(number), *(f"{k}={v}" for k, v in sorted(versions.items()))
    )
    return Release(
        release_id=release_id,
        number=number,
        created_at=datetime.now(UTC),
        run_id=run_id,
        versions=versions,
        counts=counts,
        encoder=encoder,
        restores=None,
    )


def _add_release(
    store: Store,
    releases: list[Release],
    release: Release,
) -> Release:
    with translate_write_errors(store.dir):
        # a tag keeps each pinned version from the clean-up while the release is kept
        for name, version in release.versions.items():
            tags = store.open_dataset(TABLES[name]).tags
            if release.name in tags.list():  # a run that died between tag and row
                tags.update(release.name, version)
            else:
                tags.create(release.name, version)
        numbers = {earlier.number for earlier in releases}
        settle_release_manifests(store.dir, numbers)
        mark_synced(store.dir)
        write_release_manifest(store.dir, vars(release))
        store.append(RELEASES, make_ledger_rows([vars(release)]))
        sync_changes(store.dir)
        # after the row is synced: a valid manifest without a row would mean a lost row
        settle_release_manifests(store.dir, {*numbers, release.number})
    return release
