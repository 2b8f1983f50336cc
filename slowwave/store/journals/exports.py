"""`exports.jsonl`: which exports were made of a space, and where they are, so that a forgetting can look into them.

A line an export; who exports holds no lock, so each is one append. What a person moved or removed since is not told.
"""

import json
import logging
import re
import shutil
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slowwave.store.journals.recalls import append_line
from slowwave.store.trouble import READ_TROUBLE

LOG = logging.getLogger(__name__)
FILE = "exports.jsonl"
MANIFEST = "manifest.json"
"""In a folder of tables; written last."""
ID = re.compile(rb"\b[0-9a-f]{32}\b")
WITHOUT_IDS = ("md",)
"""Forms that don't name the rows that they tell."""


@dataclass(frozen=True)
class Export:
    """An export: a folder of tables, or a file of learnings."""

    path: str
    form: str
    release: str
    at: str
    """ISO, UTC; a folder's manifest has it too."""

    def is_there(self) -> bool:
        """Return whether it is where it was made, and no other stands in its place."""
        path = Path(self.path)
        if path.is_file():  # what was written since is somebody's own
            return path.stat().st_mtime <= datetime.fromisoformat(self.at).timestamp() + 1
        return _read_manifest(path).get("exported_at") == self.at


def note_export(space_dir: Path, export: Export) -> None:
    """Note that an export was made; a store that takes no line is told of on the log."""
    if not append_line(space_dir / FILE, asdict(export)):
        LOG.warning("%s takes no line: no forgetting will know of the export %s", space_dir / FILE, export.path)


def read_exports(space_dir: Path) -> list[Export]:
    """Return the exports that are still there, each once; lines that can't be read are passed over."""
    found: dict[str, Export] = {}
    path = space_dir / FILE
    for raw in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError, RecursionError):  # cut by a crash, or written by hand
            one = Export(**json.loads(raw))
            datetime.fromisoformat(one.at)
            found[str(Path(one.path))] = one
    return [one for one in found.values() if one.is_there()]


def holds_any(export: Export, ids: Set[str]) -> bool:
    """Return whether an export names any of some rows; True also where that can't be told."""
    path = Path(export.path)
    if export.form in WITHOUT_IDS:
        return True
    if path.is_file():
        return _names_any(path, ids)
    wanted = pa.array(sorted(ids), pa.string())
    try:
        return any(_holds_row(path / facts["file"], facts["columns"], ids, wanted) for facts in _list_tables(path))
    except (*READ_TROUBLE, KeyError):
        return True


def remove_export(export: Export) -> None:
    """Remove what an export wrote; what else lies in its folder stays.

    Raises:
        OSError: it can't be removed.
    """
    path = Path(export.path)
    if path.is_file():
        path.unlink()
        return
    for name in {str(facts["file"]) for facts in _list_tables(path)}:
        if Path(name).name == name:  # a manifest that was altered names any place
            one = path / name
            shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)
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
    tables = _read_manifest(folder).get("tables")
    return list(tables.values()) if isinstance(tables, dict) else []


def _holds_row(path: Path, columns: Iterable[str], ids: Set[str], wanted: pa.Array) -> bool:
    named = [name for name in columns if name.endswith(("_id", "_ids"))]
    if path.suffix == ".parquet":
        batches = pq.ParquetFile(path).iter_batches(columns=named)
    elif path.suffix == ".lance":
        batches = lance.dataset(str(path)).to_batches(columns=named)
    else:
        return _names_any(path, ids)
    columns_of = (column for batch in batches for column in batch.columns)
    flat = (pc.list_flatten(one) if pa.types.is_list(one.type) else one for one in columns_of)
    return any(pc.any(pc.is_in(one, wanted)).as_py() for one in flat if pa.types.is_string(one.type))


def _names_any(path: Path, ids: Set[str]) -> bool:
    with path.open("rb") as lines:
        return any(found.decode() in ids for line in lines for found in ID.findall(line))
