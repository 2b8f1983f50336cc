"""Paths as tools and people write them: whole, from a workspace on, or by their last parts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowwave.recall.query import one_path

BEFORE, AFTER = r"(?<![\w.-])", r"(?![\w/\\]|[.-]\w)"
"""Where a path begins and ends within a text: `db.py` stands in "src/db.py." and not in "mydb.py" or "db.pyc"."""
ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


@dataclass(frozen=True)
class Written:
    """Some paths, as rows may write them."""

    paths: tuple[str, ...]
    workspace: str | None = None
    """Whose rows may, beside those of no workspace: in another project it is another file. None for all rows."""

    def in_rows_of(self, workspace: object) -> bool:
        """Whether the rows of a workspace may write them so."""
        return self.workspace is None or workspace in (None, self.workspace)

    def means(self, path: str) -> bool:
        """Whether a path is one of them, or ends in one."""
        whole = one_path(path)
        return any(whole == one or whole.endswith(f"/{one}") for one in self.paths)

    @property
    def pattern(self) -> re.Pattern[str]:
        """One of them within a text, with slashes of either kind."""
        each = (r"[/\\]".join(map(re.escape, one.split("/"))) for one in self.paths)
        return re.compile(f"{BEFORE}(?:{'|'.join(each)}){AFTER}")


def ways_written(files: Sequence[str], workspaces: Iterable[str]) -> list[Written]:
    """The paths as they are; and in the rows of each workspace what is left of absolute ones that lie in it."""
    absolute = [one for one in files if ABSOLUTE.match(one)]
    ways = [Written(tuple(files))]
    for workspace in sorted(set(workspaces)) if absolute else ():
        root = one_path(workspace).rstrip("/")
        inside = (one.removeprefix(f"{root}/") for one in absolute if root and one.startswith(f"{root}/"))
        paths = tuple(one for one in inside if one)
        ways += [Written(paths, workspace)] if paths else []
    return ways


def lasts(files: Iterable[str]) -> set[str]:
    """The last part of each path: a text that names one holds it."""
    return {one.rpartition("/")[2] or one for one in files}
