"""Where a word stands in a store: raw bytes, every version of every table, and Lance's files one by one."""

from pathlib import Path

import lance
from lance.file import LanceFileReader

from slowwave.schemas.tables import TABLES

SECRET = "quixelbrandt"


def find_word(folder: Path, *words: str) -> list[str]:
    """Every place that holds one of the words, SECRET where none is named."""
    places, wanted = [], words or (SECRET,)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = path.read_bytes().lower()
        if any(word.encode() in content for word in wanted):
            places.append(f"bytes of {path}")
        if path.suffix == ".lance":
            rows = str(
                LanceFileReader(str(path)).read_all().to_table().to_pylist()
            ).lower()
            if any(word in rows for word in wanted):
                places.append(f"file {path}")
    for table in TABLES.values():
        for path in folder.rglob(f"{table.name}.lance"):
            for version in lance.dataset(str(path)).versions():
                rows = str(
                    lance.dataset(str(path), version=version["version"])
                    .to_table()
                    .to_pylist()
                ).lower()
                if any(word in rows for word in wanted):
                    places.append(f"{table.name} version {version['version']}")
    return places
