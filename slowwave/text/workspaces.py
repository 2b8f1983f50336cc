"""Find the stored names of a workspace, whatever spelling of its name or path is given.

The tables keep a workspace as its transcript names it. Two names are the same workspace if they are the same folder (a
slash at the end, `.`, `..`, `~`, a symbolic link), or are in the same git checkout, or in two checkouts of the same
remote, by `.git/config`; git itself is not run. A folder that no longer exists is compared by its normalised path and,
if it was in a checkout (a removed work tree), belongs to that. A Windows folder is the same in all its spellings,
including those of WSL, Cygwin and MSYS. A client's own name of a folder is that folder: its remote, its path with
dashes for other characters than letters and digits, or its path's hash. Two folders that a client would name alike
(`/a/b-c`, `/a/b/c`) stay two. Any other name only equals itself. The user's `aliases` are applied first.

Answers show the last part of a path. So a name other than a whole one is compared with the last parts: "tidepool" is
"/home/ada/tidepool", unless another workspace ends so too. Only then it is a folder below the current one, and only if
that exists: else a mistyped name inside a checkout would be the checkout. Settings that delete use `match_workspaces`,
which does not compare last parts.
"""

import configparser
import hashlib
import ntpath
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from rapidfuzz import fuzz, process

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import name_last_part
from slowwave.schemas.settings_files import add_alias, load_aliases
from slowwave.text.marked import write_whole

_CLIENTS = "name by a client"
MOST_LISTED = 5
"""Workspaces that a message lists."""
DRIVE = re.compile(r"[A-Za-z]:[/\\]|\\\\")
WSL = re.compile(
    r"[/\\]{2}(?:wsl\$|wsl\.localhost)[/\\][^/\\]+(?=[/\\])", re.IGNORECASE
)
"""What Windows puts before a path in WSL."""
LONG = re.compile(r"[/\\]{2}[?.][/\\](?:(UNC)[/\\]|(?=[A-Za-z]:))", re.IGNORECASE)
"""What Windows puts before a long path: `\\\\?\\C:\\x`, `\\\\?\\UNC\\server\\x`."""
SHARE = re.compile(r"//[^/]+/[^/]")
"""A folder of another machine in Windows, with slashes."""
DASHED_DRIVE = re.compile(r"[A-Za-z]-.*")
"""A client's name of a Windows folder, whose case is of no account."""
MOUNTED = re.compile(r"/(?:mnt/|cygdrive/)?([A-Za-z])(/.*)?")
"""A Windows folder as WSL, Cygwin or MSYS mounts its drive."""
SCP_URL = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(.+)")
"""`git@host:owner/name`; one letter before the colon is a drive."""
WEB_URL = re.compile(r"[a-z+]+://(?:[^@/\s]*@)?([^:/\s]+)(?::\d+)?/(.+)", re.IGNORECASE)


class ProjectFolder(NamedTuple):
    """Where a workspace lies."""

    project: str
    """The first name of its project: of its checkout, whose work trees, clones and folders are one."""
    folder: str
    """Its folder below the top of the checkout; "" for the top, and for a work tree that is gone."""


def find_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the known names of a workspace, sorted; none if it is unknown, or the last part of several workspaces.

    A folder in no checkout is of the nearest known one above it.

    Args:
        workspace: as a person writes it: a name, a path that may begin at the current folder or at home, or the last
            parts of a path.
        workspaces: the known names, as in the tables.
    """
    names = {name for name in workspaces if name}
    return find_own_workspaces(workspace, names) or find_known_above(workspace, names)


def find_own_workspaces(
    workspace: str,
    workspaces: Iterable[str | None],
) -> tuple[str, ...]:
    """Return the known names of a workspace as `find_workspaces` does, but not those of a folder above."""
    names = {name for name in workspaces if name}
    groups = find_by_last_parts(workspace, names)
    if len(groups) == 1:
        return groups[0]
    return match_workspaces(workspace, names)


def match_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the known names of a workspace, given by its whole name or path, sorted.

    A relative path must be of a folder that exists.
    """
    names = sorted({name for name in workspaces if name})
    aliases = load_aliases()
    wanted = _follow_alias(workspace, aliases)
    known = {name: _follow_alias(name, aliases) for name in names}
    exact = {name for name in names if _compose(known[name]) == _compose(wanted)}
    folder = ""
    if _is_path(wanted):
        folder = wanted
    elif not exact:
        folder = _find_typed_folder(wanted)
    keys = _compute_composed_keys(folder) if folder else set()
    alike = (
        name for name in names if not keys.isdisjoint(_compute_name_keys(known[name]))
    )
    return tuple(sorted(exact.union(alike)))


def find_places(
    workspaces: Iterable[str | None],
) -> dict[str, ProjectFolder]:
    """Return where each workspace lies, by name: names with the same project are one, as in `match_workspaces`."""
    aliases = load_aliases()
    known = {name: _follow_alias(name, aliases) for name in workspaces if name}
    names = sorted(known)
    located = {name: _locate(known[name]) for name in names}
    first = dict[str, str]()
    for name in names:
        key, _ = located[name]
        first.setdefault(key, name)
    places = dict[str, ProjectFolder]()
    for name in names:
        key, below = located[name]
        places[name] = ProjectFolder(first[key], below)
    given = [name for name in names if not _is_path(known[name])]
    if not given:
        return places
    owners = defaultdict[str, set[str]](set)
    for name in sorted(known.keys() - given):
        for key in _compute_composed_keys(known[name]):
            owners[key].add(places[name].project)
    for name in given:
        keys = _compute_name_keys(known[name])
        found = set[str]().union(*(owners[key] for key in keys))
        if len(found) == 1:
            places[name] = ProjectFolder(found.pop(), "")
    return places


def tell_apart(workspaces: Iterable[str | None]) -> dict[str, str]:
    """Return the shown name of each workspace: as many of its path's last parts as no other project's path ends in.

    So `find_workspaces` takes each for that project alone. A folder below a known one of its project has that one's
    name before it, and a work tree there is shown by that one's.
    """
    names = sorted({name for name in workspaces if name})
    inside = _find_inside(names)
    by_end = defaultdict[str, list[str]](list)
    for name in names:
        by_end["/".join(_split(name)[-1:])].append(name)
    shown = dict[str, str]()
    for alike in by_end.values():
        places = find_places(alike) if len(alike) > 1 else {}
        for name in alike:
            _, folder = inside.get(name, ("", ""))
            others = [
                one
                for one in alike
                if one != name and places[one].project != places[name].project
            ]
            shown[name] = _tell_from(name, others, 1 + len(_split(folder)))
    trees = {name: above for name, (above, folder) in inside.items() if not folder}
    return shown | {name: shown[above] for name, above in trees.items()}


def _find_inside(
    names: Sequence[str],
) -> dict[str, tuple[str, str]]:
    """Return by name, of sorted ones, those that lie below another of the same project: that one, and the folder there.

    The folder is "" for a work tree.
    """
    known = set(names)
    above = {name: _list_above(name, known) for name in names}
    below = [name for name in names if above[name]]
    places = find_places([*below, *chain.from_iterable(above.values())])
    inside = dict[str, tuple[str, str]]()
    for name in below:
        top = next((one for one in above[name] if one not in inside), None)
        if top is None:
            continue
        if places[top].project == places[name].project and not places[top].folder:
            inside[name] = (top, places[name].folder)
    return inside


def _list_above(
    name: str,
    known: Collection[str],
) -> list[str]:
    """Return the known folders above a path, the nearest first."""
    parts = name.split("/")
    above = ("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return [one for one in above if one in known]


def _tell_from(
    name: str,
    others: Iterable[str],
    fewest: int,
) -> str:
    """Return the last parts of a name that no other ends in, at least `fewest`; the whole name if there are none."""
    parts = _split(name)
    ends = [_split(other) for other in others]
    if not ends and len(parts) >= fewest:
        return "/".join(parts[-fewest:])
    for count in range(fewest, len(parts)):
        if all(end[-count:] != parts[-count:] for end in ends):
            return "/".join(parts[-count:])
    return name


def _locate(name: str) -> tuple[str, str]:
    """Return the key of a workspace's project, and its folder there."""
    if not _is_path(name):
        return _read_address(name) or name, ""
    plain, drive = _normalise(_compose(name))
    try:
        folder, is_there, root = _find_checkout(plain, drive)
    except (OSError, ValueError):  # the folder can't be read
        root = None
    if root is None:
        return drive or plain, ""
    common = _find_common_git_folder(root)
    below = folder.relative_to(root)
    if not is_there:
        below = _find_gone(plain, root)
    return _find_origin(common), "" if below == Path() else below.as_posix()


def _find_gone(plain: str, root: Path) -> Path:
    """Return the folder of a checkout that a path led to which is gone.

    Clients make work trees below folders whose names begin with a dot: what is gone from there was the checkout itself.
    """
    gone = Path(os.path.relpath(plain, root))
    hidden = any(part.startswith(".") for part in gone.parts)
    return Path() if hidden else gone


def _find_origin(common: Path) -> str:
    """Return the address that a repository's clones have in common: of a clone of a folder here that folder's own."""
    remote = _read_remote(common)
    if remote is None:
        return str(common).removesuffix("/.git")
    return _read_remote(Path(remote) / ".git") or remote


def find_by_last_parts(
    workspace: str, workspaces: Iterable[str | None]
) -> list[tuple[str, ...]]:
    """Return the workspaces whose path ends in these parts, each with all its names.

    If there is none, compare without case. Return an empty list for a whole path.
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
    # a repository without a checkout belongs to the only folder with its name
    bare = [group for group in groups if all(map(_read_address, group))]
    folders = [group for group in groups if group not in bare]
    return (
        [tuple(sorted({*folders[0], *bare[0]}))]
        if len(folders) == len(bare) == 1
        else groups
    )


def anchor_workspace(name: str) -> str:
    """Return the absolute path if a path begins with `.`, `..` or `~`; any other name unchanged."""
    return (
        _make_absolute(_expand_home(name))
        if re.split(r"[/\\]", name)[0] in (".", "..", "~")
        else name
    )


def settle_workspace(
    workspace: str,
    workspaces: Iterable[str | None],
    *,
    own: bool = False,
) -> str:
    """Return the name under which new rows of a workspace are stored.

    This is a known path, the known one above a path (see `find_known_above`), or a path as it is; else a known name
    that matches, also by its last parts, else the folder that the name is here, else the name as given.

    Args:
        workspace: as a person writes it.
        workspaces: the known names.
        own: a folder is one of its own, whatever is known above it.

    Raises:
        UsageError: several known workspaces end so.
    """
    anchored = anchor_workspace(workspace)
    names = {name for name in workspaces if name}
    find = find_own_workspaces if own else find_workspaces
    if anchored in names:
        return anchored
    if _is_path(anchored):
        is_known = own or match_workspaces(anchored, names)
        return anchored if is_known else next(iter(find(anchored, names)), anchored)
    if len(find_by_last_parts(anchored, names)) > 1 and not match_workspaces(
        anchored, names
    ):
        raise UsageError(explain_unknown_workspace(anchored, names))
    known = next(iter(find(anchored, names)), None)
    return known or _find_typed_folder(anchored) or _find_own_folder(anchored)


def refuse_near_name(
    name: str,
    workspaces: Iterable[str | None],
) -> None:
    """Refuse a name for a new workspace that is nearly a known one's, which is a slip of the pen.

    Raises:
        UsageError: the message names the nearest.
    """
    names = {known for known in workspaces if known}
    if not _is_path(name) and name not in names and _list_nearest(name, names):
        why = explain_unknown_workspace(name, names)
        raise UsageError(f"{why}; if it is a new one, give the path of its folder")


def _find_typed_folder(name: str) -> str:
    """Return the absolute path of a folder that exists below the current one; empty if there is none."""
    folder = _make_absolute(name)
    try:
        return folder if name and Path(folder).is_dir() else ""
    except OSError:  # over-long
        return ""


def _find_own_folder(name: str) -> str:
    """Return the current folder, or its checkout's, if it has this name; else the name as given."""
    try:
        here = Path.cwd()
    except OSError:  # the current folder is gone
        return name
    folders = (here, find_project_root(here))
    return next(
        (str(one) for one in folders if one is not None and one.name == name), name
    )


def require_workspaces(
    workspace: str, workspaces: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the known names of a workspace, as `find_workspaces`.

    Raises:
        UsageError: the workspace is unknown, and the message names the most similar ones; or it may be several, and the
            message lists them.
    """
    names = {name for name in workspaces if name}
    if matches := find_workspaces(workspace, names):
        return matches
    raise UsageError(explain_unknown_workspace(workspace, names))


def explain_unknown_workspace(workspace: str, workspaces: Iterable[str | None]) -> str:
    """Return an error message: the workspace is unknown, with the most similar ones; or it may be one of several."""
    names = sorted({name for name in workspaces if name})
    if groups := find_by_last_parts(workspace, names):
        listed = ", ".join(repr(group[0]) for group in groups[:MOST_LISTED])
        more = (
            f" and {len(groups) - MOST_LISTED} more"
            if len(groups) > MOST_LISTED
            else ""
        )
        return f"{len(groups)} projects are called {workspace!r}: {listed}{more}; write more of the path"
    nearest = _list_nearest(workspace, names)
    hint = f"; the nearest: {', '.join(map(repr, nearest))}" if nearest else ""
    return f"no project {workspace!r} is known here{hint}"


def _list_nearest(
    workspace: str,
    names: Iterable[str],
) -> list[str]:
    """Return the names whose last part is most similar to a workspace's."""
    alike = process.extract(
        workspace,
        names,
        scorer=fuzz.ratio,
        processor=_take_last_part,
        limit=3,
        score_cutoff=60.0,
    )
    return [name for name, *_ in alike]


def find_known_above(
    workspace: str,
    workspaces: Collection[str],
) -> tuple[str, ...]:
    """Return the known names of the nearest known folder above one that exists and is in no checkout; else none.

    The home folder, and what is above it, holds the projects and is none of them. A name that several known paths end
    in names nothing here.
    """
    folder = _find_typed_folder(_expand_home(workspace))
    if not folder or find_by_last_parts(workspace, workspaces):
        return ()
    path = Path(os.path.realpath(folder))
    if find_project_root(path):
        return ()
    home = Path(os.path.realpath(Path.home()))
    aliases = load_aliases()
    # once for all folders above: each name is looked up on the disk
    keys = {
        name: _compute_name_keys(_follow_alias(name, aliases))
        for name in sorted(workspaces)
    }
    for one in path.parents:
        if one in (home, *home.parents):
            continue
        wanted = _compute_composed_keys(_follow_alias(str(one), aliases))
        if found := [name for name in keys if not wanted.isdisjoint(keys[name])]:
            return tuple(found)
    return ()


def find_project_root(folder: Path) -> Path | None:
    """Return the top folder of the git checkout that a folder is in; None outside of one.

    A checkout of the home folder itself (some people version their settings) is not the project of folders in it.
    """
    home = Path(os.path.realpath(Path.home()))
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent if parent != home or parent == folder else None
    return None


def _compose(name: str) -> str:
    """Return a name in Unicode's composed form, since a Mac's file names are decomposed."""
    return normalize("NFC", name)


def _follow_alias(name: str, aliases: Mapping[str, str]) -> str:
    """Return the name of a workspace after applying the user's aliases for it, or for a folder above it.

    An alias of an alias is followed, each alias once.
    """
    left = sorted(aliases, key=len, reverse=True)
    at = 0
    while at < len(left):
        old = left[at]
        rest = _cut_folder(name, old)
        at += 1
        if rest is not None:
            name = aliases[old].rstrip("/\\") + rest
            left.remove(old)
            at = 0
    return name


def _cut_folder(
    name: str,
    folder: str,
) -> str | None:
    """Return the rest of a name behind a folder, with slashes; "" for the folder itself. None if the name is another.

    A Windows folder is found in all its spellings.
    """
    for form in _list_forms(name):
        for above in _list_forms(folder):
            if form == above or form.startswith((f"{above}/", f"{above}\\")):
                return form[len(above) :].replace("\\", "/")
    return None


def _list_forms(name: str) -> list[str]:
    """Return a name without a slash at its end; of a path also the normalised forms."""
    plain = _compose(name)
    plain = plain.rstrip("/\\") or plain
    if not _is_path(name):
        return [plain]
    return [plain, *(form for form in _normalise(plain) if form)]


def _compute_composed_keys(path: str) -> set[str]:
    return set(map(_compose, _compute_keys(path)))


def _compute_name_keys(name: str) -> set[str]:
    """Return the keys of a stored name: for a path those of the folder, else its repository's address or its own
    key.

    A folder's keys are without the names that clients give it, since other folders may get the same name.
    """
    if _is_path(name):
        keys = _compute_composed_keys(name)
        return {key for key in keys if not key.startswith(_CLIENTS)}
    if DASHED_DRIVE.fullmatch(name):
        return {f"{_CLIENTS} {name}", f"{_CLIENTS} {name.lower()}"}
    return {_read_address(name) or f"{_CLIENTS} {name}"}


def dash_folder(folder: str) -> str:
    """Return a folder's path, or a part of one, as clients name their own folder for it, without dashes at the ends."""
    return re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")


def _name_as_clients_do(folder: str) -> set[str]:
    """Return the keys of the names that Cursor and Gemini CLI give to a folder.

    A folder of which a part has no letter or digit of ASCII gets no name with dashes: it would be that of another one.
    """
    parts = [dash_folder(part) for part in re.split(r"[/\\]", folder) if part]
    if len(parts) < 2:
        return set()
    digest = hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()
    names = {f"{_CLIENTS} {digest}"}
    if all(parts):
        dashed = "-".join(parts)
        names.add(f"{_CLIENTS} {dashed}")
    return names


def _split(name: str) -> list[str]:
    """Return the parts of a path or name, composed, without empty ones."""
    return [part for part in re.split(r"[/\\]", _compose(name)) if part]


def _compute_keys(path: str) -> frozenset[str]:
    """Return the keys of a path: its plain forms, its checkout, its remote, and clients' names for it.

    Two names are the same workspace if they share a key.
    """
    plain, drive = _normalise(path)
    plains = {plain, drive or plain}
    own = plains.union(*map(_name_as_clients_do, plains))
    try:
        folder, is_there, root = _find_checkout(plain, drive)
    except (OSError, ValueError):  # the folder can't be read
        return frozenset(own)
    if is_there:
        own.add(str(folder))
    if root:
        own |= _compute_checkout_keys(root)
    return frozenset(own)


def _find_checkout(
    plain: str,
    drive: str | None,
) -> tuple[Path, bool, Path | None]:
    """Return the existing folder of a path or the nearest above it, True if it is the folder itself, and its checkout.

    What is gone from a home folder that is a checkout was a project of its own.
    """
    near, is_there = _find_near(plain, drive)
    folder = Path(os.path.realpath(near))
    root = find_project_root(folder)
    home = Path(os.path.realpath(Path.home()))
    if root == home and not is_there:
        return folder, False, None
    return folder, is_there, root


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
    """Return a path in a normalised form and, if it may be a Windows folder, also in the form of Windows, else None."""
    path = _expand_home(path)
    if long := LONG.match(path):
        path = (r"\\" if long[1] else "") + path[long.end() :]
    if linux := WSL.match(path):
        path = path[linux.end() :].replace("\\", "/")
    if DRIVE.match(path):
        drive = ntpath.normcase(ntpath.normpath(path))
        return drive, drive
    plain = "/" + os.path.normpath(path).lstrip("/")
    if SHARE.match(path):
        return plain, ntpath.normcase(ntpath.normpath(path))
    mounted = MOUNTED.fullmatch(plain)
    if not mounted:
        return plain, None
    drive = f"{mounted[1]}:{mounted[2] or '/'}"
    return plain, ntpath.normcase(drive)


def _find_near(plain: str, drive: str | None) -> tuple[Path, bool]:
    """Return the existing folder of a path, or the nearest one above it, and True if it is the folder itself.

    A Windows folder is also searched below the mount of its drive.
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
    """Return True if a stored name is a folder's path, not a given name."""
    return name.startswith(("/", "~")) or bool(DRIVE.match(name))


def _make_absolute(name: str) -> str:
    try:
        return name if _is_path(name) else str(Path.cwd() / name)
    except OSError:  # the current folder is gone
        return name


def _expand_home(path: str) -> str:
    return f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _find_common_git_folder(root: Path) -> Path:
    """Return the folder of git's own files, which all work trees of a checkout share; `.git` itself if unreadable."""
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
    """Return the normalised address of `origin`, or of the only remote; None if there is none or it can't be read."""
    config = configparser.ConfigParser(
        strict=False, interpolation=None, allow_no_value=True
    )
    if not (git / "config").is_file():  # opening a pipe would wait for a writer
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
    """Return the host and path of a repository's address as one text; None if the text isn't an address."""
    if not _is_path(url) and (match := WEB_URL.match(url) or SCP_URL.fullmatch(url)):
        return f"{match[1].casefold()}:{match[2].strip('/').removesuffix('.git')}"
    return None


def _take_last_part(name: str) -> str:
    return name_last_part(name).casefold()


def write_alias(old: str, new: str) -> Path:
    """Write into the user's settings file that a workspace has another name now, and return the file's path.

    Raises:
        UsageError: as `add_alias`, or the file can't be written.
    """
    path, text = add_alias(old, new)
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
    return path
