"""What a night would read: the tools' transcripts on this machine, or what lies below the paths given."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES
from slowwave.store.notes import find_journals
from slowwave.store.store import Store
from slowwave.tasks.ingest.formats.registry import detect_reader, find_files, find_installed
from slowwave.tasks.ingest.parsing.records import UnknownFormat
from slowwave.tasks.ingest.transcripts import detect_change, name_path


@dataclass
class Source:
    """One tool's transcripts in one place; or, with a problem, one file that can't be read."""

    tool: str
    where: str
    files: int = 0
    bytes: int = 0
    new: int = 0
    """Files that are new or have changed since they were last read."""
    problem: str | None = None


def list_sources(paths: list[Path], settings: Settings) -> list[Source]:
    """Return transcripts by tool and place with how many are news, and the files that no reader knows, with the reason.

    With no path, the transcripts of the tools installed for this user, by the folder the tool keeps them in.
    """
    known = _read_file_rows(settings)
    found: dict[tuple[str, str], Source] = {}
    trouble: list[Source] = []
    places = chain(
        _find_files_below(paths) if paths else _find_installed_files(Path.home()),
        _find_files_below(find_journals(settings.store / settings.space)),
    )
    for place, path in places:
        try:
            tool, size = detect_reader(path).name, path.stat().st_size
        except (UnknownFormat, OSError) as error:
            trouble.append(Source("?", str(path), files=1, new=1, problem=str(error)))
            continue
        one = found.setdefault((tool, str(place)), Source(tool, str(place)))
        held = known.get(name_path(path, settings))
        news = held is None or detect_change(path, held, settings) is not None
        one.files, one.bytes, one.new = one.files + 1, one.bytes + size, one.new + news
    return [*found.values(), *trouble]


def _find_files_below(paths: list[Path]) -> Iterator[tuple[Path, Path]]:
    for place in paths:
        yield from ((place, path) for path in find_files([place]))


def _find_installed_files(home: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each transcript with the folder its tool keeps it in."""
    for reader, path in find_installed(home):
        roots = [place.root for place in reader.locations(home) if path.is_relative_to(place.root)]
        yield (roots[0] if roots else path.parent), path


def _read_file_rows(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return rows of FILES by path."""
    if not (settings.store / settings.space / f"{FILES.name}.lance").is_dir():
        return {}
    rows = Store.open(settings.store, settings.space).read(FILES).to_pylist()
    return {row["path"]: row for row in rows}
