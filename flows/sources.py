"""What a night would read: the tools' transcripts on this machine, or what lies below the paths given."""

from dataclasses import dataclass
from pathlib import Path

from schemas.sessions import FILES
from schemas.settings import Settings
from slowwave.store.store import Store
from tasks.read.errors import UnknownFormat
from tasks.read.registry import detect, find_files, installed


@dataclass
class Source:
    """One tool's transcripts in one place."""

    tool: str
    where: str
    files: int
    bytes: int
    state: str


def list_sources(paths: list[Path], settings: Settings) -> list[Source]:
    """Transcripts by tool and place with how many are news, and the files that no reader knows, with the reason."""
    known = _known(settings)
    places = [(None, path) for path in paths] or [(reader.name, path) for reader, path in installed(Path.home())]
    found: dict[tuple[str, str], Source] = {}
    trouble: list[Source] = []
    for _, place in places:
        for path in find_files([place]):
            try:
                tool, size = detect(path).name, path.stat().st_size
            except (UnknownFormat, OSError) as error:
                trouble.append(Source("?", str(path), 1, 0, f"can't be read: {error}"))
                continue
            one = found.setdefault((tool, str(place)), Source(tool, str(place), 0, 0, "0"))
            one.files, one.bytes = one.files + 1, one.bytes + size
            one.state = str(int(one.state) + (known.get(str(path)) == size))
    for one in found.values():
        one.state = f"{one.files - int(one.state):,} new or changed"
    return [*found.values(), *trouble]


def _known(settings: Settings) -> dict[str, int]:
    """Size of each file when it was last read."""
    if not (settings.store / settings.space / f"{FILES.name}.lance").is_dir():
        return {}
    rows = Store.open(settings.store, settings.space).read(FILES, ["path", "size"]).to_pylist()
    return {row["path"]: row["size"] for row in rows}
