"""Read which branches a checkout has, and which it certainly had, from git's own small files alone.

Only names are read of references: no reference is resolved, nothing is run, and no link is followed. A branch that is
gone leaves no file. The log of HEAD, which names the branch that was left or renamed, and the findings of an earlier
night show that it was there. Subjects of merges don't count: their branch may be another repository's.
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
    find_checkout,
    read_packed,
    read_small,
)

MOST_LOG = 4 << 20
"""Bytes at the end of a log of HEAD that are read."""
MOST_TREES = 100
"""Work trees whose logs are read."""
HEADS = "refs/heads/"
REMOTES = "refs/remotes/"
TAGS = "refs/tags/"
LOG_LINE = re.compile(r"([0-9a-f]{40,64}) [0-9a-f]+ .*> (\d+) [+-]\d{4}\t(.*)")
LEFT = re.compile(
    r"checkout: moving from (\S+) to \S+"
    r"|rebase (?:-i )?\(finish\): returning to refs/heads/(\S+)"
    r"|Branch: renamed refs/heads/(\S+) to refs/heads/(\S+)"
)
"""What git writes into the log of HEAD: the branch that was there, and of a renamed one its new name."""
SECTION = re.compile(
    r'^[ \t]*\[remote "(.+)"\](.*(?:\n[ \t]*[^\[\s].*|\n[ \t]*)*)', re.M
)
FETCHED = re.compile(r"^[ \t]*fetch[ \t]*=[ \t]*(\S+)", re.M)


class Seen(NamedTuple):
    """When a branch was there for certain, and what it is called now if it was renamed."""

    last: Commit
    reference: str
    """What it was seen by: `refs/heads/x`, or `refs/remotes/origin/x`."""
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
    remotes: set[str] = field(default_factory=set)
    """The remotes of the configuration."""

    def find(
        self,
        name: str,
    ) -> str:
        """Return the reference of a branch, a remote's first; empty if there is none.

        If it goes together with its remote, that tells that it may still be there.
        """
        if name in self.remote:
            return REMOTES + name
        for remote in sorted({one.partition("/")[0] for one in self.remote}):
            if f"{remote}/{name}" in self.remote:
                return f"{REMOTES}{remote}/{name}"
        return HEADS + name if name in self.local else ""

    def is_reachable(
        self,
        reference: str,
    ) -> bool:
        """Return False for the reference of a remote that is not in the configuration."""
        places = (f"{REMOTES}{remote}/" for remote in self.remotes)
        return not reference.startswith(REMOTES) or reference.startswith(tuple(places))

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
    """Return the commit of HEAD of the checkout at a folder, and a hash of the names of its branches and tags.

    Raises:
        CheckoutRefused: as `find_checkout`.
    """
    checkout = find_checkout(root, with_objects=False)
    branches = Branches()
    _read_names(checkout, branches)
    names = [sorted(branches.local), sorted(branches.remote), sorted(branches.tags)]
    names.append([str(branches.is_whole)])
    return f"{checkout.head} {compute_content_id('branches', repr(names))}"


def read_branches(checkout: Checkout) -> Branches:
    """Return the branches of a checkout, and those that it had by the logs of HEAD."""
    branches = Branches()
    _read_names(checkout, branches)
    for path in _list_logs(checkout, branches):
        for old, at, message in _read_log(path):
            if match := LEFT.fullmatch(message):
                name = match[1] or match[2] or match[3]
                if not HASH.fullmatch(name):
                    seen = Seen(Commit(old, at), HEADS + name, match[4] or "")
                    branches.note(name, seen)
    _read_remotes(checkout, branches)
    return branches


def read_tags(checkout: Checkout) -> set[str] | None:
    """Return the tags of a checkout; None if these may not be all."""
    branches = Branches()
    _read_names(checkout, branches)
    return branches.tags if branches.is_whole else None


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
) -> None:
    """Note the remotes.

    Nothing is gone where a remote is not in the configuration, or not all of its branches are asked for.
    """
    try:
        config = read_small(checkout.common / "config")
    except (OSError, ValueError):
        branches.is_whole = False
        return
    for name, lines in SECTION.findall(config):
        branches.remotes.add(name)
        all_of_it = f"refs/heads/*:refs/remotes/{name}/*"
        fetched = [one.lstrip("+") for one in FETCHED.findall(lines)]
        # `^refs/heads/bot/*` leaves some out
        is_cut = any(one.startswith("^") for one in fetched)
        branches.is_whole &= all_of_it in fetched and not is_cut
    tracked = {one.partition("/")[0] for one in branches.remote}
    branches.is_whole &= tracked <= branches.remotes


def judge_branches(
    checkout: Checkout,
    names: Iterable[str],
    earlier: Mapping[str, Seen],
) -> dict[str, str | Seen]:
    """Return of each branch its reference, or when it was there last; nothing of what was never a branch for certain.

    What was seen on a remote that is not configured any more may still be there, so nothing is said of it.

    Args:
        checkout: whose branches are meant.
        names: what may be branches.
        earlier: branches that earlier nights saw.
    """
    branches = read_branches(checkout)
    for name, seen in earlier.items():
        branches.note(name, seen)
    if not branches.is_whole:
        branches.once.clear()
    found: dict[str, str | Seen] = {}
    for name in names:
        before = earlier.get(name)
        is_known = before is None or branches.is_reachable(before.reference)
        if reference := branches.find(name):
            found[name] = reference
        elif name in branches.once and name not in branches.tags and is_known:
            found[name] = branches.once[name]
    return found
