"""A workspace is one thing however it is written: which of the stored names are the one that is asked for.

The tables keep a workspace as its transcript names it. Two names are one workspace where they are the same folder (a
slash at the end, `.`, `..`, `~`, a symbolic link), where they lie in the same checkout of git, or in two checkouts of
the same remote, by what `.git/config` says; git itself is not run. A folder that is gone is compared by its normalised
path, and a name that is no path by itself alone.

Answers show the last part of a path. So if no stored name is the one that is asked for, the last parts are compared:
"tidepool" is "/home/ada/tidepool", unless another workspace ends so too. What is deleted by a setting goes by
`match_workspaces`, which does not do that.
"""

import configparser
import ntpath
import os
import re
from collections.abc import Iterable
from pathlib import Path
from unicodedata import normalize

from rapidfuzz import fuzz, process

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import name_last_part

MOST_LISTED = 5
"""Workspaces that a message lists."""
DRIVE = re.compile(r"[A-Za-z]:[/\\]|\\\\")
SCP_URL = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(.+)")
"""`git@host:owner/name`; one letter before the colon is a drive."""
WEB_URL = re.compile(r"[a-z+]+://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


def find_workspaces(workspace: str, workspaces: Iterable[str | None]) -> tuple[str, ...]:
    """Return the known names that are the workspace asked for, sorted; none if it is not known, or if it is the last
    part of several.

    Args:
        workspace: as a person writes it: a name, a path that may begin at the current folder or at home, or the last
            parts of a path.
        workspaces: as the tables have them.
    """
    names = {name for name in workspaces if name}
    if matches := match_workspaces(workspace, names):
        return matches
    groups = find_by_last_parts(workspace, names)
    return groups[0] if len(groups) == 1 else ()


def match_workspaces(workspace: str, workspaces: Iterable[str | None]) -> tuple[str, ...]:
    """Return the known names that are the workspace asked for by its whole name or path, sorted."""
    names = sorted({name for name in workspaces if name})
    exact = {name for name in names if _compose(name) == _compose(workspace)}
    keys = _compute_composed_keys(_make_absolute(workspace)) if not exact or _is_path(workspace) else set()
    alike = (other for other in names if _is_path(other) and not keys.isdisjoint(_compute_composed_keys(other)))
    return tuple(sorted(exact.union(alike)))


def find_by_last_parts(workspace: str, workspaces: Iterable[str | None]) -> list[tuple[str, ...]]:
    """Return the workspaces whose path ends in these parts, each with all its names; if none does, those that end so in
    another case. None for what is a whole path.
    """
    if _is_path(anchor_workspace(workspace)):
        return []
    names = sorted({name for name in workspaces if name})
    wanted = _split(workspace)
    ends = [name for name in names if wanted and _split(name)[-len(wanted) :] == wanted]
    if not ends:
        wanted = [part.casefold() for part in wanted]
        ends = [name for name in names if wanted and [p.casefold() for p in _split(name)][-len(wanted) :] == wanted]
    groups: list[tuple[str, ...]] = []
    for name in ends:
        if not any(name in group for group in groups):
            groups.append(match_workspaces(name, names))
    return groups


def anchor_workspace(name: str) -> str:
    """Return a path that begins at the current folder or at home as an absolute one; any other name as it is."""
    return _make_absolute(_expand_home(name)) if re.split(r"[/\\]", name)[0] in (".", "..", "~") else name


def settle_workspace(workspace: str, workspaces: Iterable[str | None]) -> str:
    """Return the name by which something new of a workspace is stored: a known one if it is one, also by the last part
    of its path; else as it is written.

    Raises:
        UsageError: several known ones end so.
    """
    anchored = anchor_workspace(workspace)
    names = {name for name in workspaces if name}
    if _is_path(anchored) or anchored in names:
        return anchored
    if len(find_by_last_parts(anchored, names)) > 1 and not match_workspaces(anchored, names):
        raise UsageError(explain_unknown_workspace(anchored, names))
    return next(iter(find_workspaces(anchored, names)), anchored)


def require_workspaces(workspace: str, workspaces: Iterable[str | None]) -> tuple[str, ...]:
    """Return `find_workspaces`.

    Raises:
        UsageError: it is not known, and the message names the nearest; or it may be several, and the message lists
            them.
    """
    names = {name for name in workspaces if name}
    if matches := find_workspaces(workspace, names):
        return matches
    raise UsageError(explain_unknown_workspace(workspace, names))


def explain_unknown_workspace(workspace: str, workspaces: Iterable[str | None]) -> str:
    """Return a message that a workspace is not known, with the most similar known ones; or that it may be several,
    with these.
    """
    names = sorted({name for name in workspaces if name})
    if groups := find_by_last_parts(workspace, names):
        listed = ", ".join(repr(group[0]) for group in groups[:MOST_LISTED])
        more = f" and {len(groups) - MOST_LISTED} more" if len(groups) > MOST_LISTED else ""
        return f"{len(groups)} workspaces are called {workspace!r}: {listed}{more}; write more of the path"
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


def _compose(name: str) -> str:
    """Return a name with its letters composed: a Mac's folders are written apart."""
    return normalize("NFC", name)


def _compute_composed_keys(path: str) -> set[str]:
    return set(map(_compose, _compute_keys(path)))


def _split(name: str) -> list[str]:
    """Return the parts of a path or name, composed, without empty ones."""
    return [part for part in re.split(r"[/\\]", _compose(name)) if part]


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
    return name_last_part(name).casefold()
