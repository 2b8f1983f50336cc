"""A workspace is one thing however it is written: which of the stored names are the one that is asked for.

The tables keep a workspace as its transcript names it. Two names are one workspace where they are the same folder (a
slash at the end, `.`, `..`, `~`, a symbolic link), where they lie in the same checkout of git, or in two checkouts of
the same remote, by what `.git/config` says; git itself is not run. A folder that is gone is compared by its normalised
path, and a name that is no path by itself alone.
"""

import configparser
import ntpath
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from unicodedata import normalize

from rapidfuzz import fuzz, process

from slowwave.schemas.errors import UsageError

DRIVE = re.compile(r"[A-Za-z]:[/\\]|\\\\")
SCP_URL = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(.+)")
"""`git@host:owner/name`; one letter before the colon is a drive."""
WEB_URL = re.compile(r"[a-z+]+://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


def find_workspaces(workspace: str, workspaces: Iterable[str | None]) -> tuple[str, ...]:
    """Return the known names that are the workspace asked for, sorted; none for one that is not known.

    Args:
        workspace: as a person writes it: a name, or a path that may begin at the current folder or at home.
        workspaces: as the tables have them.
    """
    names = sorted({name for name in workspaces if name})
    compose = partial(normalize, "NFC")  # a Mac's folders are written apart
    exact = {name for name in names if compose(name) == compose(workspace)}
    keys = {*map(compose, _compute_keys(_make_absolute(workspace)))} if not exact or _is_path(workspace) else set()
    alike = (other for other in names if _is_path(other) and not keys.isdisjoint(map(compose, _compute_keys(other))))
    return tuple(sorted(exact.union(alike)))


def anchor_workspace(name: str) -> str:
    """Return a path that begins at the current folder or at home as an absolute one; any other name as it is."""
    return _make_absolute(_expand_home(name)) if re.split(r"[/\\]", name)[0] in (".", "..", "~") else name


def require_workspaces(workspace: str, workspaces: Iterable[str | None]) -> tuple[str, ...]:
    """Return `find_workspaces`.

    Raises:
        UsageError: it is not known; the message names the nearest.
    """
    names = {name for name in workspaces if name}
    if matches := find_workspaces(workspace, names):
        return matches
    raise UsageError(explain_unknown_workspace(workspace, names))


def explain_unknown_workspace(workspace: str, workspaces: Iterable[str | None]) -> str:
    """Return a message that a workspace is not known, with the most similar known ones."""
    names = sorted({name for name in workspaces if name})
    alike = process.extract(workspace, names, scorer=fuzz.ratio, processor=_take_last_part, limit=3, score_cutoff=60.0)
    hint = f"; the nearest: {', '.join(repr(name) for name, *_ in alike)}" if alike else ""
    return f"no workspace {workspace!r} is known here{hint}"


def find_project_root(folder: Path) -> Path | None:
    """Return the top of the git checkout that a folder lies in; None outside one.

    A checkout that is the home folder itself, as those keep who version their settings, is not the project of all
    that lies in it.
    """
    home = Path(os.path.realpath(Path.home()))
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent if parent != home or parent == folder else None
    return None


def _compute_keys(path: str) -> frozenset[str]:
    """Return the keys of a workspace, of which two names for it share one: the path, the checkout, the remote."""
    plain = "/" + os.path.normpath(_expand_home(path)).lstrip("/")
    if DRIVE.match(path):
        plain = ntpath.normcase(ntpath.normpath(path))
    try:
        if not Path(plain).is_dir():
            return frozenset([plain])
        folder = Path(os.path.realpath(plain))
        root = find_project_root(folder)
    except (OSError, ValueError):  # no folder of ours to look into
        return frozenset([plain])
    if root is None:
        return frozenset([plain, str(folder)])
    common = _find_common_git_folder(root)
    remote = _read_remote(common)
    return frozenset([plain, str(folder), str(root), str(common), *([remote] if remote else [])])


def _is_path(name: str) -> bool:
    """Return whether a stored name is a folder's path rather than a name somebody gave."""
    return name.startswith(("/", "~")) or bool(DRIVE.match(name))


def _make_absolute(name: str) -> str:
    try:
        return name if _is_path(name) else str(Path.cwd() / name)
    except OSError:  # the current folder is gone
        return name


def _expand_home(path: str) -> str:
    return f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _find_common_git_folder(root: Path) -> Path:
    """Return the folder of git's own files, which all work trees of a checkout share."""
    git = root / ".git"
    try:
        if git.is_file():  # a further work tree, or a submodule
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            common = git / "commondir"
            git = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
    except (OSError, ValueError):
        return root / ".git"
    return Path(os.path.realpath(git))


def _read_remote(git: Path) -> str | None:
    """Return the normalised address of `origin`, or of the only remote; None where there is none."""
    config = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    if not (git / "config").is_file():  # whoever opens a pipe waits for one who writes
        return None
    try:
        config.read_string((git / "config").read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error):
        return None
    urls = {name: config[name].get("url") for name in config.sections() if name.startswith("remote ")}
    url = urls.get('remote "origin"') or (next(iter(urls.values())) if len(urls) == 1 else None)
    if not url:
        return None
    # Host and path of its address, or the real path of one on this machine.
    url = url.strip('"')
    if (match := WEB_URL.match(url)) or (not DRIVE.match(url) and (match := SCP_URL.fullmatch(url))):
        return f"{match[1].casefold()}:{match[2].strip('/').removesuffix('.git')}"
    return os.path.realpath(git.parent / url.removeprefix("file://")).removesuffix("/.git").removesuffix(".git")


def _take_last_part(name: str) -> str:
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1].casefold()
