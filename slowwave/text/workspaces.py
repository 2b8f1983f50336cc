"""A workspace is one thing however it is written: which of the stored names are the one that is asked for.

The tables keep a workspace as its transcript names it. Two names are one workspace where they are the same folder (a
slash at the end, `.`, `..`, `~`, a symbolic link), where they lie in the same checkout of git, or in two checkouts of
the same remote, by what `.git/config` says; git itself is not run. A folder that is gone is compared by its normalised
path and, if it lay in a checkout (a work tree that was removed), belongs to that. A folder of Windows is one in all
its spellings, also as WSL, Cygwin and MSYS write it, and a client's own name for a folder is that folder: its remote,
its path with dashes for what is no letter or digit, its path's hash. Any other name goes by itself alone.
The user's `aliases` come before all that.

Answers show the last part of a path. So if no stored name is the one that is asked for, the last parts are compared:
"tidepool" is "/home/ada/tidepool", unless another workspace ends so too. What is deleted by a setting goes by
`match_workspaces`, which does not do that.
"""

import configparser
import hashlib
import ntpath
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from unicodedata import normalize

from rapidfuzz import fuzz, process

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import name_last_part
from slowwave.schemas.settings_files import load_aliases

_CLIENTS = "name by a client"
MOST_LISTED = 5
"""Workspaces that a message lists."""
DRIVE = re.compile(r"[A-Za-z]:[/\\]|\\\\")
WSL = re.compile(
    r"[/\\]{2}(?:wsl\$|wsl\.localhost)[/\\][^/\\]+(?=[/\\])", re.IGNORECASE
)
"""What Windows writes before a path of a Linux that runs in it."""
MOUNTED = re.compile(r"/(?:mnt/|cygdrive/)?([A-Za-z])(/.*)?")
"""A folder of Windows as WSL, Cygwin or MSYS mounts its drive."""
SCP_URL = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(.+)")
"""`git@host:owner/name`; one letter before the colon is a drive."""
WEB_URL = re.compile(r"[a-z+]+://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


def find_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
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


def match_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the known names that are the workspace asked for by its whole name or path, sorted."""
    names = sorted({name for name in workspaces if name})
    aliases = load_aliases()
    wanted = _follow_alias(workspace, aliases)
    known = {name: _follow_alias(name, aliases) for name in names}
    exact = {name for name in names if _compose(known[name]) == _compose(wanted)}
    keys = (
        _compute_composed_keys(_make_absolute(wanted))
        if not exact or _is_path(wanted)
        else set()
    )
    alike = (
        name for name in names if not keys.isdisjoint(_compute_name_keys(known[name]))
    )
    return tuple(sorted(exact.union(alike)))


def find_by_last_parts(
    workspace: str, workspaces: Iterable[str | None]
) -> list[tuple[str, ...]]:
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
        ends = [
            name
            for name in names
            if wanted and [p.casefold() for p in _split(name)][-len(wanted) :] == wanted
        ]
    groups: list[tuple[str, ...]] = []
    for name in ends:
        if not any(name in group for group in groups):
            groups.append(match_workspaces(name, names))
    # A repository that no checkout is left of belongs to the only folder that is called like it.
    bare = [group for group in groups if all(map(_read_address, group))]
    folders = [group for group in groups if group not in bare]
    return (
        [tuple(sorted({*folders[0], *bare[0]}))]
        if len(folders) == len(bare) == 1
        else groups
    )


def anchor_workspace(name: str) -> str:
    """Return a path that begins at the current folder or at home as an absolute one; any other name as it is."""
    return (
        _make_absolute(_expand_home(name))
        if re.split(r"[/\\]", name)[0] in (".", "..", "~")
        else name
    )


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
    if len(find_by_last_parts(anchored, names)) > 1 and not match_workspaces(
        anchored, names
    ):
        raise UsageError(explain_unknown_workspace(anchored, names))
    return next(iter(find_workspaces(anchored, names)), anchored)


def require_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
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
        more = (
            f" and {len(groups) - MOST_LISTED} more"
            if len(groups) > MOST_LISTED
            else ""
        )
        return f"{len(groups)} workspaces are called {workspace!r}: {listed}{more}; write more of the path"
    alike = process.extract(
        workspace,
        names,
        scorer=fuzz.ratio,
        processor=_take_last_part,
        limit=3,
        score_cutoff=60.0,
    )
    hint = (
        f"; the nearest: {', '.join(repr(name) for name, *_ in alike)}" if alike else ""
    )
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


def _follow_alias(name: str, aliases: Mapping[str, str]) -> str:
    """Return the name that the user's aliases have for a workspace, or for a folder that it lies below."""
    for old in sorted(aliases, key=len, reverse=True):
        rest = _compose(name)[len(_compose(old)) :]
        if _compose(name).startswith(_compose(old)) and (not rest or rest[0] in "/\\"):
            return aliases[old] + rest
    return name


def _compute_composed_keys(path: str) -> set[str]:
    return set(map(_compose, _compute_keys(path)))


def _compute_name_keys(name: str) -> set[str]:
    """Return the keys of a stored name: of a path those of the folder, of any other the one that a client gives it."""
    if _is_path(name):
        return _compute_composed_keys(name)
    return {_read_address(name) or f"{_CLIENTS} {name}"}


def _name_as_clients_do(folder: str) -> set[str]:
    """Return the keys of the names that clients have for a folder: Cursor's and Gemini CLI's."""
    dashed = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")
    digest = hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()
    return {f"{_CLIENTS} {name}" for name in (dashed, digest) if "-" in dashed}


def _split(name: str) -> list[str]:
    """Return the parts of a path or name, composed, without empty ones."""
    return [part for part in re.split(r"[/\\]", _compose(name)) if part]


def _compute_keys(path: str) -> frozenset[str]:
    """Return the keys of a workspace, of which two names for it share one: the path, the checkout, the remote, and what
    clients call it.
    """
    plain, drive = _normalise(path)
    own = frozenset([plain, *([drive] if drive else []), *_name_as_clients_do(plain)])
    try:
        near, is_there = _find_near(plain, drive)
        folder = Path(os.path.realpath(near))
        root = find_project_root(folder)
    except (OSError, ValueError):  # no folder of ours to look into
        return own
    return own.union(
        [str(folder)] if is_there else [], _compute_checkout_keys(root) if root else []
    )


def _compute_checkout_keys(root: Path) -> set[str]:
    common = _find_common_git_folder(root)
    remote = _read_remote(common)
    return {
        str(root),
        str(common),
        *([remote] if remote else []),
        *_name_as_clients_do(str(root)),
    }


def _normalise(path: str) -> tuple[str, str | None]:
    """Return a path in its plain spelling and, if it may be a folder of Windows, as that."""
    path = _expand_home(path)
    if linux := WSL.match(path):
        path = path[linux.end() :].replace("\\", "/")
    if DRIVE.match(path):
        drive = ntpath.normcase(ntpath.normpath(path))
        return drive, drive
    plain = "/" + os.path.normpath(path).lstrip("/")
    mounted = MOUNTED.fullmatch(plain)
    return plain, ntpath.normcase(
        f"{mounted[1]}:{mounted[2] or '/'}"
    ) if mounted else None


def _find_near(plain: str, drive: str | None) -> tuple[Path, bool]:
    """Return the folder, where Windows' drives are mounted if need be, or the nearest one above it; and whether it is
    the folder itself.
    """
    rest = drive[2:].replace("\\", "/") if drive and drive[1:2] == ":" else ""
    mounts = (
        [Path(f"{mount}{drive[0]}{rest}") for mount in ("/mnt/", "/")]
        if drive and rest
        else []
    )
    found = next((folder for folder in [Path(plain), *mounts] if folder.is_dir()), None)
    if found:
        return found, True
    above = Path(plain).parents if plain.startswith("/") else ()
    return next((folder for folder in above if folder.is_dir()), Path("/")), False


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
            git = (
                git / common.read_text(encoding="utf-8").strip()
                if common.is_file()
                else git
            )
    except (OSError, ValueError):
        return root / ".git"
    return Path(os.path.realpath(git))


def _read_remote(git: Path) -> str | None:
    """Return the normalised address of `origin`, or of the only remote; None where there is none."""
    config = configparser.ConfigParser(
        strict=False, interpolation=None, allow_no_value=True
    )
    if not (git / "config").is_file():  # whoever opens a pipe waits for one who writes
        return None
    try:
        config.read_string((git / "config").read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error):
        return None
    urls = {
        name: config[name].get("url")
        for name in config.sections()
        if name.startswith("remote ")
    }
    url = urls.get('remote "origin"') or (
        next(iter(urls.values())) if len(urls) == 1 else None
    )
    if not url:
        return None
    url = url.strip('"')
    own = (
        os.path.realpath(git.parent / url.removeprefix("file://"))
        .removesuffix("/.git")
        .removesuffix(".git")
    )
    return _read_address(url) or own


def _read_address(url: str) -> str | None:
    """Return host and path of a repository's address; None for what is no address."""
    if not _is_path(url) and (match := WEB_URL.match(url) or SCP_URL.fullmatch(url)):
        return f"{match[1].casefold()}:{match[2].strip('/').removesuffix('.git')}"
    return None


def _take_last_part(name: str) -> str:
    return name_last_part(name).casefold()
