"""Find the exports of a space that still exist and that contain forgotten rows, and remove them.

An export that a person moved since is not found.
"""

import re
import shutil
from collections.abc import Iterable, Set
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from slowwave.schemas.errors import READ_TROUBLE
from slowwave.store.logs import Export, read
from slowwave.store.private import place_fresh
from slowwave.tasks.publish.export import MANIFEST, place_part

ID = re.compile(rb"\b[0-9a-f]{32}\b")


def list_exports(space_dir: Path) -> list[Export]:
    """Return the exports that still exist, the last one of each path, and what killed ones left beside their path."""
    exports = {export.path: export for export in read(space_dir, Export)}
    left = [
        export._replace(path=str(path))
        for export in exports.values()
        for path in _place_leftovers(Path(export.path))
        if path.exists() and not path.is_symlink()
    ]
    return [export for export in exports.values() if _is_there(export)] + left


def _place_leftovers(path: Path) -> tuple[Path, ...]:
    """Return the folder and the file that a killed export to `path` may leave."""
    return (place_part(path), place_fresh(path)) if path.name else ()


def _is_leftover(path: Path) -> bool:
    """Return True if a path has the name of what a killed export leaves."""
    name = path.name.removeprefix(".").removesuffix(path.suffix)
    return bool(name) and path in _place_leftovers(path.with_name(name))


def _is_there(export: Export) -> bool:
    """Return True if an export still exists, and nothing else was written in its place."""
    path = Path(export.path)
    if path.is_file():  # a file that was written since is not this export
        return path.stat().st_mtime <= datetime.fromisoformat(export.at).timestamp() + 1
    return bool(_read_manifest(path).get("exported_at") == export.at)


def holds_any(export: Export, ids: Set[str]) -> bool:
    """Return True if an export contains one of these row ids, or if that can't be determined."""
    path = Path(export.path)
    if export.form == "md" or _is_leftover(path):  # no ids of rows, or half of them
        return True
    if path.is_file():
        return _names_any(path, ids)
    id_array = pa.array(sorted(ids), pa.string())
    try:
        return any(
            _holds_row(
                path=path / facts["file"],
                columns=facts["columns"],
                ids=ids,
                values=id_array,
            )
            for facts in _list_tables(path)
        )
    except (*READ_TROUBLE, KeyError):
        return True


def remove_export(export: Export) -> None:
    """Delete an export's files. Other files in its folder stay.

    Raises:
        OSError: a file can't be deleted.
    """
    path = Path(export.path)
    if path.is_file():
        path.unlink()
        return
    if _is_leftover(path) and not (path / MANIFEST).exists():
        shutil.rmtree(path)
        return
    for name in {str(facts["file"]) for facts in _list_tables(path)}:
        if Path(name).name == name:  # an altered manifest could name any path
            part = path / name
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    (path / MANIFEST).unlink()
    with suppress(OSError):
        path.rmdir()


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _list_tables(folder: Path) -> list[dict[str, Any]]:
    """Return the manifest's entry of each table, and that of an increment's removed rows."""
    manifest = _read_manifest(folder)
    tables = manifest.get("tables")
    removed = manifest.get("removed")
    found = list(tables.values()) if isinstance(tables, dict) else []
    return [*found, removed] if isinstance(removed, dict) else found


def _holds_row(
    path: Path,
    columns: Iterable[str],
    ids: Set[str],
    values: pa.Array,
) -> bool:
    if path.suffix not in (".parquet", ".lance"):
        return _names_any(path, ids)
    named = [name for name in columns if name.endswith(("_id", "_ids"))]
    table = (
        lance.dataset(str(path))
        if path.suffix == ".lance"
        else pyarrow.dataset.dataset(path)
    )
    columns_of = (
        column for batch in table.to_batches(columns=named) for column in batch.columns
    )
    flat = (
        pc.list_flatten(column) if pa.types.is_list(column.type) else column
        for column in columns_of
    )
    return any(
        pc.any(pc.is_in(column, values)).as_py()
        for column in flat
        if pa.types.is_string(column.type)
    )


def _names_any(path: Path, ids: Set[str]) -> bool:
    with path.open("rb") as lines:
        return any(
            match.decode() in ids for line in lines for match in ID.findall(line)
        )
