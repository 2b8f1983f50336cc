"""Where a word stands in a store: raw bytes, every version of every table, and Lance's files one by one."""

from pathlib import Path

import lance
from lance.file import LanceFileReader

from slowwave.schemas.tables import TABLES

SECRET = "quixelbrandt"


def find_word(folder: Path, word: str = SECRET) -> list[str]:
    """Every place that holds the word."""
    places = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if word.encode() in path.read_bytes().lower():
            places.append(f"bytes of {path}")
        if (
            path.suffix == ".lance"
            and word in str(LanceFileReader(str(path)).read_all().to_table().to_pylist()).lower()
        ):
            places.append(f"file {path}")
    for table in TABLES.values():
        for path in folder.rglob(f"{table.name}.lance"):
            for version in lance.dataset(str(path)).versions():
                rows = lance.dataset(str(path), version=version["version"]).to_table()
                if word in str(rows.to_pylist()).lower():
                    places.append(f"{table.name} version {version['version']}")
    return places
