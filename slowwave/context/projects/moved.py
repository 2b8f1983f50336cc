"""Find the name under which a project was known before its folder was moved.

Agents' edits and reads are stored with paths from the project's folder on. So a known folder that is gone, whose files
are in another folder now, was most likely moved there.
"""

import shlex
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow.compute as pc

from slowwave.schemas.tables import ACTIONS
from slowwave.store.store import Store
from slowwave.text.workspaces import find_project_root


def find_former_name(
    store: Store,
    known: Collection[str],
    places: Collection[str],
) -> tuple[str, Path] | None:
    """Return the gone project with the most files in the folder of a project here, and that folder; None if there is
    none.

    Args:
        store: its newest tables are read, since a release has no actions.
        known: the names of all projects.
        places: names of the project here.
    """
    here = next(filter(Path.is_dir, map(Path, places)), None)
    gone = [
        name
        for name in sorted(set(known) - set(places))
        if Path(name).is_absolute() and not Path(name).exists()
    ]
    if here is None or not gone:
        return None
    folder = find_project_root(here) or here
    has_path = pc.is_valid(pc.field("path")) & pc.field("workspace").isin(gone)
    rows = store.read(ACTIONS, ["workspace", "path"], has_path).to_pylist()
    files = {(row["workspace"], row["path"]) for row in rows if row["path"]}
    moved = Counter(
        name for name, path in sorted(files) if _is_file_below(folder, path)
    )
    former = moved.most_common(1)
    return (former[0][0], folder) if former else None


def describe_moved(
    store: Store,
    known: Collection[str],
    places: Collection[str],
) -> str:
    """Return in a sentence which project was moved here and the command that joins the two; see `find_former_name`.

    Return "" if there is none.
    """
    former = find_former_name(
        store,
        known,
        places,
    )
    if former is None:
        return ""
    old, here = former
    command = shlex.join(["slowwave", "config", "alias", old, str(here)])
    return f"{old} is gone, and files of it are in {here}: `{command}` joins the two"


def _is_file_below(
    folder: Path,
    path: str,
) -> bool:
    """Return True if a file is in a folder of this folder: one at the top, as README.md, is in every project."""
    try:
        return len(Path(path).parts) > 1 and (folder / path).is_file()
    except (OSError, ValueError):
        return False
