"""What is left of damaged tables: their whole rows, in place of the table; and the ledger of releases, by whoever knows
of it.

A fragment of a table counts when each of its files is what it was. Of a table of which nothing is left an empty one is
made. Which rows can be made anew, and by what, is the flow's to know (`flows/parts/repair.py`).
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import StoreError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES, RELEASED, RELEASES, TABLES, VECTOR, VECTOR_DIM, VECTORS, Table
from slowwave.store.integrity.check import NEWEST, find_broken_tags
from slowwave.store.integrity.manifests import has_table, list_manifests, parse_version
from slowwave.store.integrity.seals import (
    FOLDER,
    Damage,
    find_damage,
    get_tag_path,
    list_sealed,
    list_tagged,
    read_lost_rows,
    read_seal,
    read_tag,
)
from slowwave.store.integrity.sums import SUMS_FILE, drop_sums, find_altered, read_sums
from slowwave.store.integrity.whole import restore_last_whole
from slowwave.store.releases import is_dropped, make_ledger_rows, read_ledger, read_releases
from slowwave.store.store import Store
from slowwave.store.trouble import READ_TROUBLE


class Salvaged(NamedTuple):
    """What became of a damaged table."""

    table: str
    kept: int
    lost: int | None
    """Rows; None where nothing tells how many there were."""


def find_broken_tables(folder: Path, damage: list[Damage]) -> list[str]:
    """Return the tables whose newest version, or the name of it, is not whole, by what `check_store` found."""
    gone = {one.name for one in RELEASED if not has_table(folder, one.name) and _is_pinned(folder, one.name)}
    broken = gone | {_name_table(one.where) for one in damage if one.release == NEWEST}
    return [name for name in TABLES if name in broken]


def salvage(folder: Path, damage: list[Damage], broken: list[str]) -> tuple[list[Salvaged], list[str]]:
    """Put the whole rows of each damaged table in its place, and the ledger of releases back; say what was done.

    The writer's lock is held. What older releases alone pin stays as it is: `drop_unreadable` takes these.
    """
    told: list[str] = []
    _drop_broken_seals(folder, damage, told)
    if any(one.where == SUMS_FILE for one in damage):
        (folder / SUMS_FILE).unlink()
        told.append(f"{SUMS_FILE} was altered and is made anew: files that no release pins were not compared")
    altered = find_altered(folder)
    done = [_salvage_table(folder, TABLES[name], altered, broken) for name in broken]
    drop_sums(folder, broken)
    told += _put_rows_back(folder)
    rows = {one.number: vars(one) for one in read_ledger(folder)}
    _drop_broken_seals(folder, list(find_damage(folder, rows, read=False)), told)
    return done, told


def _drop_broken_seals(folder: Path, damage: list[Damage], told: list[str]) -> None:
    """Remove seals that are none, that another one followed, or whose row is not the ledger's: nothing proves them."""
    broken = {Path(one.where).stem for one in damage if one.where.startswith(f"{FOLDER}/")}
    broken |= {one.release for one in damage if one.where == RELEASES.name and "was sealed" in one.what}
    for name in sorted(broken):
        (folder / FOLDER / f"{name}.json").unlink(missing_ok=True)
        told.append(f"{FOLDER}/{name}.json was altered and is removed: the files of {name} are no longer compared")


def drop_unreadable(store: Store) -> list[str]:
    """Keep no longer the releases whose files are not what they were, but for the live one; returns their names.

    Their rows stay in the ledger. The versions that can't be read go, by which they are known for dropped.
    """
    known = read_releases(store)
    damage = [one for one in find_damage(store.dir, {one.number: vars(one) for one in known}) if ".lance/" in one.where]
    broken = {
        one.release: {_name_table(each.where) for each in damage if each.release == one.release} for one in damage
    }
    gone = [one for one in known[:-1] if one.name in broken]
    for one in gone:
        (store.dir / FOLDER / f"{one.name}.json").unlink(missing_ok=True)
        for tag in store.dir.glob(f"*.lance/_refs/tags/{one.name}.json"):
            tag.unlink()
        for table in broken[one.name]:
            if one.versions[table] != known[-1].versions.get(table):
                for version, manifest in list_manifests(store.dir / f"{table}.lance").items():
                    if version == one.versions[table]:
                        manifest.unlink()
    return [one.name for one in gone]


def mend_tags(store: Store) -> None:
    """Make the tags of the kept releases name their versions, by which they are kept from clean-up."""
    for release in read_releases(store):
        for broken in [] if is_dropped(store.dir, release) else list(find_broken_tags(store.dir, release)):
            (store.dir / broken.where).unlink()
            name = _name_table(broken.where)
            with suppress(*READ_TROUBLE):  # a version that is gone has no tag
                store.open_table(TABLES[name]).tags.create(release.name, release.versions[name])


def _salvage_table(folder: Path, table: Table, altered: Collection[str], broken: Collection[str]) -> Salvaged:
    """Write the whole rows of a table as its newest version; manifests that were altered are removed first."""
    from lancedb import connect

    path = folder / f"{table.name}.lance"
    counted = _count_released(folder, table.name)
    cut = [name for name in altered if name.startswith(f"{path.name}/_versions/")]
    for name in cut:
        (folder / name).unlink(missing_ok=True)
    bad = {folder / name for name in altered}
    rows, lost = table.build_disk_schema(_find_dim(folder, broken)).empty_table(), None
    manifests = list_manifests(path)
    if manifests:
        newest = lance.dataset(str(path), version=max(manifests))
        parts, lost = _read_whole(newest, path, bad)
        disk = table.build_disk_schema(_get_dim(newest.schema) or VECTOR_DIM)
        schema = pa.schema([disk.field(name) for name in newest.schema.names if name in disk.names])
        rows = pa.concat_tables([schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)])
        if table == MESSAGES:  # is only ever added to: an older version has of it what it had
            rows = _add_older(rows, path, bad, sorted(manifests)[:-1])
    else:
        shutil.rmtree(path, ignore_errors=True)
    last = max(_find_last_number(folder, table.name), *manifests, *(parse_version(folder / name) for name in cut), 0)
    if cut or not manifests:
        lost = None  # what its newest version had otherwise is not known
    if counted is not None and (table == MESSAGES or lost is not None):
        lost = max(counted - rows.num_rows, 0)
    mode = "overwrite" if manifests else "create"
    connect(folder).create_table(table.name, rows, mode=mode, on_bad_vectors="null")
    _count_on(path, last, manifests)
    return Salvaged(table.name, rows.num_rows, lost)


def _count_on(path: Path, last: int, before: Collection[int]) -> None:
    """Make the newest version of a table one above all that there ever were: what releases name is nothing else."""
    while (dataset := lance.dataset(str(path))).version <= last:
        dataset.restore()  # type: ignore[no-untyped-call]
    for version, manifest in list_manifests(path).items():
        if version not in before and version < dataset.version:
            manifest.unlink()


def _find_last_number(folder: Path, table: str) -> int:
    """Return the highest version that the last writer, or a release, knew of a table."""
    known = [parse_version(Path(name)) for name in read_sums(folder, table) if name.endswith(".manifest")]
    with suppress(StoreError, *READ_TROUBLE):
        known += [one.versions.get(table, 0) for one in read_ledger(folder)]
    seals = [read_seal(folder, number) for number in list_sealed(folder)]
    return max([0, *known, *(int(seal["row"]["versions"].get(table, 0)) for seal in seals if seal)])


def _read_whole(dataset: lance.LanceDataset, path: Path, bad: Collection[Path]) -> tuple[list[pa.Table], int]:
    """Return the rows of each fragment whose files are whole, and how many rows the others have."""
    parts, lost = [], 0
    for fragment in dataset.get_fragments():
        deleted = fragment.deletion_file()
        files = [path / "data" / one.path for one in fragment.metadata.files] + ([path / deleted] if deleted else [])
        if not any(one in bad or not one.is_file() for one in files):
            with suppress(*READ_TROUBLE):
                parts.append(dataset.scanner(fragments=[fragment]).to_table())
                continue
        lost += fragment.metadata.physical_rows - (fragment.metadata.num_deletions or 0)
    return parts, lost


def _add_older(rows: pa.Table, path: Path, bad: Collection[Path], versions: list[int]) -> pa.Table:
    """Return rows with those that older versions have besides, the newest version first."""
    for version in reversed(versions):
        with suppress(*READ_TROUBLE):
            for part in _read_whole(lance.dataset(str(path), version=version), path, bad)[0]:
                new = pc.invert(pc.is_in(part[MESSAGES.key], rows[MESSAGES.key].combine_chunks()))
                rows = pa.concat_tables([rows, part.filter(new).select(rows.schema.names).cast(rows.schema)])
    return rows


def _put_rows_back(folder: Path) -> list[str]:
    """Put the rows that the ledger of releases has lost back, from seals and, where these are gone too, from tags."""
    known = {release.number for release in read_ledger(folder)} if has_table(folder, RELEASES.name) else set()
    sealed = read_lost_rows(folder, known)
    known |= {row["number"] for row in sealed}
    tagged = list(_read_tagged_rows(folder, known))
    if rows := sealed + tagged:
        if has_table(folder, RELEASES.name):
            restore_last_whole(folder, RELEASES, 1)
        lance.write_dataset(make_ledger_rows(rows), str(folder / f"{RELEASES.name}.lance"), mode="append")
    return [
        *(f"r{row['number']}: its row in the ledger was put back from its seal" for row in sealed),
        *(f"r{row['number']}: its row in the ledger was put back from Lance's tags: when it was made is "
          "the time of its messages, by which run, and the scale of relevance, are lost" for row in tagged),
    ]  # fmt: skip


def _read_tagged_rows(folder: Path, known: Collection[int]) -> Iterator[dict[str, Any]]:
    """Yield a row of the ledger for each number that all tables' tags have, and no row: a killed run tags but some."""
    last = RELEASED[-1].name
    for number in list_tagged(folder):
        versions = {table.name: read_tag(get_tag_path(folder, table.name, f"r{number}")) for table in RELEASED}
        there = {name: version for name, version in versions.items() if version is not None}
        if number in known or last not in there or number < max(known, default=0):
            continue
        with suppress(*READ_TROUBLE):
            found = {name: lance.dataset(str(folder / f"{name}.lance"), version=n) for name, n in there.items()}
            made = get_tag_path(folder, MESSAGES.name, f"r{number}").stat().st_mtime
            pinned = sorted(f"{name}={version}" for name, version in there.items())
            yield {
                "release_id": compute_content_id(folder.name, str(number), *pinned),
                "number": number,
                "created_at": datetime.fromtimestamp(made, UTC),
                "run_id": None,
                "versions": there,
                "counts": {name: dataset.count_rows() for name, dataset in found.items()},
                "encoder": _find_encoder(folder),
                "restores": None,
                "calibration": None,
            }


def _find_encoder(folder: Path) -> str | None:
    """Return the one model that all vectors were made with; None where there are none, or several."""
    with suppress(*READ_TROUBLE):
        models = lance.dataset(str(folder / f"{VECTORS.name}.lance")).to_table(columns=["model"])["model"].unique()
        return str(models[0].as_py()) if len(models) == 1 else None
    return None


def _find_dim(folder: Path, broken: Collection[str]) -> int:
    """Return the dimensions of the store's vectors, by a table that is whole."""
    for table in TABLES.values():
        if VECTOR in table.schema.types and table.name not in broken and has_table(folder, table.name):
            return _get_dim(lance.dataset(str(folder / f"{table.name}.lance")).schema) or VECTOR_DIM
    return VECTOR_DIM


def _get_dim(schema: pa.Schema) -> int | None:
    return next((int(one.type.list_size) for one in schema if pa.types.is_fixed_size_list(one.type)), None)


def _count_released(folder: Path, table: str) -> int | None:
    """Return how many rows the newest release counted; None where the ledger, or it, does not know the table."""
    with suppress(StoreError, *READ_TROUBLE):
        return read_ledger(folder)[-1].counts.get(table)
    return None


def _is_pinned(folder: Path, table: str) -> bool:
    with suppress(StoreError, *READ_TROUBLE):
        return any(table in one.versions for one in read_ledger(folder)[-1:])
    return False


def _name_table(where: str) -> str:
    return Path(where).parts[0].removesuffix(".lance")
