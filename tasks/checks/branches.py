"""Read which branches a checkout has, and which it certainly had, from git's own small files alone.

Only names are read of references: no reference is resolved, nothing is run, and no link is followed. A branch that is
gone leaves no file. That it was there is told by the log of HEAD, which names the branch that was left or renamed, by
the subjects that git and its hosts give to merges, and by what an earlier night found.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.checks.checkout import (
    HASH,
    MOST_ENTRIES,
    MOST_PACKED,
    Checkout,
    Commit,
    Git,
    find_checkout,
    read_packed,
    read_small,
)

MOST_LOG = 4 << 20
"""Bytes at the end of a log of HEAD that are read."""
MOST_TREES = 100
"""Work trees whose logs are read."""
HEADS, REMOTES, TAGS = "refs/heads/", "refs/remotes/", "refs/tags/"
LOG_LINE = re.compile(r"([0-9a-f]{40,64}) [0-9a-f]+ .*> (\d+) [+-]\d{4}\t(.*)")
LEFT = re.compile(
    r"checkout: moving from (\S+) to \S+"
    r"|rebase (?:-i )?\(finish\): returning to refs/heads/(\S+)"
    r"|Branch: renamed refs/heads/(\S+) to refs/heads/(\S+)"
)
"""What git writes into the log of HEAD: the branch that was there, and of a renamed one its new name."""
MERGED = re.compile(
    r"Merge (?:remote-tracking )?branch(?:es)? (?P<names>'.*)"
    r"|Merge pull request #\d+ from (?P<owner>[^/\s]+)/(?P<name>\S+)"
)
"""The subjects that git and GitHub give to merges."""
QUOTED = re.compile(r"'([^']+)'")
SECTION = re.compile(
    r'^[ \t]*\[remote "(.+)"\](.*(?:\n[ \t]*[^\[\s].*|\n[ \t]*)*)', re.M
)
FETCHED = re.compile(r"^[ \t]*fetch[ \t]*=[ \t]*(\S+)", re.M)
ADDRESS = re.compile(r"^[ \t]*url[ \t]*=[ \t]*(\S+)", re.M)


class Seen(NamedTuple):
    """When a branch was there for certain, and what it is called now if it was renamed."""

    last: Commit
    renamed: str = ""


@dataclass
class Branches:
    """The branches of a checkout, local ones by name and those of remotes as `origin/name`."""

    local: set[str] = field(default_factory=set)
    remote: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    """Tags: a branch that ended in one of its name can still be checked out by it."""
    once: dict[str, Seen] = field(default_factory=dict)
    """Branches that were there once, by the log of HEAD."""
    is_whole: bool = True
    """False if there may be more branches than were read: nothing is gone then."""
    remotes: dict[str, str] = field(default_factory=dict)
    """Addresses of the remotes by name."""
    known_at: float = float("inf")
    """Seconds since 1970 when all branches of the remotes were last asked for."""

    def find(
        self,
        name: str,
    ) -> str:
        """Return the reference of a branch; empty if there is none."""
        if name in self.local:
            return HEADS + name
        if name in self.remote:
            return REMOTES + name
        for remote in sorted({one.partition("/")[0] for one in self.remote}):
            if f"{remote}/{name}" in self.remote:
                return f"{REMOTES}{remote}/{name}"
        return ""

    def note(
        self,
        name: str,
        seen: Seen,
    ) -> None:
        """Note that a branch was there, if nothing later is known of it."""
        known = self.once.get(name)
        if known is None or known.last.at < seen.last.at:
            self.once[name] = seen


def read_state(root: Path) -> str:
    """Return the commit of HEAD of the checkout at a folder, and a hash of the names of its branches.

    Raises:
        CheckoutRefused: as `find_checkout`.
    """
    checkout = find_checkout(root, with_objects=False)
    branches = Branches()
    _read_names(checkout, branches)
    names = sorted(branches.local), sorted(branches.remote), branches.is_whole
    return f"{checkout.head} {compute_content_id('branches', repr(names))}"


def read_branches(checkout: Checkout) -> Branches:
    """Return the branches of a checkout, and those that it had by the logs of HEAD."""
    branches = Branches()
    _read_names(checkout, branches)
    cloned_at = 0.0
    for path in _list_logs(checkout, branches):
        for old, at, message in _read_log(path):
            if message.startswith("clone: from "):
                cloned_at = max(cloned_at, at)
            if match := LEFT.fullmatch(message):
                name = match[1] or match[2] or match[3]
                if not HASH.fullmatch(name):
                    branches.note(name, Seen(Commit(old, at), match[4] or ""))
    _read_remotes(checkout, branches, cloned_at)
    return branches


def add_merged(
    branches: Branches,
    git: Git,
    since: float,
) -> None:
    """Note the branches that merges of HEAD's history name, from a time on."""
    for commit, subject in git.list_merges(since):
        if commit.at > branches.known_at:  # it may be there, where it was not asked for
            continue
        for name in _list_merged(subject, branches.remotes):
            branches.note(name, Seen(commit))


def _list_merged(
    subject: str,
    remotes: Mapping[str, str],
) -> Iterator[str]:
    """Yield the names of branches in a merge's subject, but for those of other repositories."""
    match = MERGED.match(subject)
    if match is None:
        return
    if match["owner"]:
        for remote, address in remotes.items():
            if match["owner"] in re.split(r"[/:]", address):
                yield match["name"]
                yield f"{remote}/{match['name']}"
    elif "' of " not in match["names"]:
        for name in QUOTED.findall(match["names"]):
            remote, slash, rest = name.partition("/")
            if slash and remote in remotes:
                yield rest
            if subject.startswith("Merge branch") or remote in remotes:
                yield name


def _read_names(
    checkout: Checkout,
    branches: Branches,
) -> None:
    """Read the names of the branches that there are, and of the tags."""
    common = checkout.common
    names = {HEADS: branches.local, REMOTES: branches.remote, TAGS: branches.tags}
    for prefix, some in names.items():
        some.update(_walk(common / prefix, branches))
    packed = common / "packed-refs"
    try:
        if os.path.lexists(packed):
            branches.is_whole &= os.lstat(packed).st_size <= MOST_PACKED
            for _, name in read_packed(packed):
                for prefix, some in names.items():
                    if name.startswith(prefix):
                        some.add(name.removeprefix(prefix))
    except (OSError, ValueError):
        branches.is_whole = False


def _walk(
    folder: Path,
    branches: Branches,
) -> Iterator[str]:
    """Yield the files below a folder by their path in it. No file is opened and no link followed."""
    waiting = [folder] if os.path.lexists(folder) else []
    seen = 0
    branches.is_whole &= _is_inside(folder)
    while waiting and branches.is_whole:
        for entry in _list_folder(waiting.pop(), branches):
            seen += 1
            name = os.path.relpath(entry.path, folder)
            branches.is_whole &= seen <= MOST_ENTRIES and not entry.is_symlink()
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not name.endswith(".lock"):
                yield name


def _list_folder(
    folder: Path,
    branches: Branches,
) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, up to a bound; none of one that can't be read."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, MOST_ENTRIES + 1))
    except FileNotFoundError:  # git has just taken it away
        return []
    except OSError:
        branches.is_whole = False
        return []


def _is_inside(path: Path) -> bool:
    """Return True if neither a path nor a folder above it is a link."""
    return os.path.realpath(path) == str(path.absolute())


def _list_logs(
    checkout: Checkout,
    branches: Branches,
) -> Iterator[Path]:
    """Yield the logs of HEAD, those of other work trees too."""
    yield checkout.common / "logs" / "HEAD"
    trees = checkout.common / "worktrees"
    if os.path.lexists(trees) and _is_inside(trees):
        for entry in _list_folder(trees, branches)[:MOST_TREES]:
            yield Path(entry.path) / "logs" / "HEAD"


def _read_log(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield of each line at the end of a log the commit before it, its time and its message."""
    if not _is_inside(path):
        return
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as log:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                return
            log.seek(max(0, about.st_size - MOST_LOG))
            content = log.read(MOST_LOG)
    except OSError:
        return
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        if (match := LOG_LINE.fullmatch(line)) and len(match[2]) < 12:
            yield match[1], int(match[2]), match[3]


def _read_remotes(
    checkout: Checkout,
    branches: Branches,
    cloned_at: float,
) -> None:
    """Note the remotes, and until when all of their branches are known here.

    Nothing is gone where a remote is not in the configuration, or not all of its branches are asked for.
    """
    try:
        config = read_small(checkout.common / "config")
    except (OSError, ValueError):
        branches.is_whole = False
        return
    for name, lines in SECTION.findall(config):
        address = ADDRESS.search(lines)
        branches.remotes[name] = address[1] if address else ""
        all_of_it = f"refs/heads/*:refs/remotes/{name}/*"
        fetched = [one.lstrip("+") for one in FETCHED.findall(lines)]
        # `^refs/heads/bot/*` leaves some out
        is_cut = any(one.startswith("^") for one in fetched)
        branches.is_whole &= all_of_it in fetched and not is_cut
    tracked = {one.partition("/")[0] for one in branches.remote}
    branches.is_whole &= tracked <= branches.remotes.keys()
    if branches.remotes:
        is_one = len(branches.remotes) == 1
        fetched_at = max(
            _read_fetch_time(folder) for folder in (checkout.git, checkout.common)
        )
        branches.known_at = max(cloned_at, fetched_at) if is_one else 0.0


def _read_fetch_time(git: Path) -> float:
    """Return when all branches of a remote were fetched last; 0.0 if the last fetch was for one alone."""
    path = git / "FETCH_HEAD"
    try:
        is_all = "\tnot-for-merge\tbranch " in read_small(path)
        return os.lstat(path).st_mtime if is_all else 0.0
    except (OSError, ValueError):
        return 0.0


def judge_branches(
    git: Git,
    names: Iterable[str],
    since: float,
    earlier: Mapping[str, Commit],
) -> dict[str, str | Seen]:
    """Return of each branch its reference, or when it was there last; nothing of what was never a branch for certain.

    Args:
        git: over the checkout.
        names: what may be branches.
        since: seconds since 1970 from which merges are looked at.
        earlier: branches that were found before, each with HEAD and the time of then.
    """
    branches = read_branches(git.checkout)
    found: dict[str, str | Seen] = {}
    missing = []
    for name in names:
        if reference := branches.find(name):
            found[name] = reference
        elif name not in branches.tags:
            missing.append(name)
    if not missing or not branches.is_whole:
        return found
    add_merged(branches, git, since)
    for name, commit in earlier.items():
        branches.note(name, Seen(commit))
    return found | {
        name: branches.once[name] for name in missing if name in branches.once
    }
