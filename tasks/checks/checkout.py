"""Read a checkout of git that nobody vouches for: the tree of HEAD, its files and its history, and nothing else.

Git runs on a folder of its own, with no configuration but ours, and reads the repository's objects alone. So nothing
that the repository says is carried out: no hook, filter, text conversion, external diff, pager, alias, include, monitor
or helper, and no missing object is fetched. Attributes and replacements count for nothing either. What leads out of the
repository is refused before git starts: links, pipes and devices among its files, other object stores, and a `.git`
file, unless it is that of a work tree which the repository names too.

Every call has a deadline and a bound on what it may print; what is over it is left unread, and counted as a cut. The
files of the work tree are never opened.
"""

import os
import re
import select
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import NamedTuple

MOST_SMALL = 1 << 20
"""Bytes of a file of git's own that is read whole."""
MOST_PACKED = 64 << 20
"""Bytes of the list of packed references that are read."""
MOST_OUTPUT = 1 << 30
"""Bytes that one call of git may print."""
MOST_MEMORY = 1 << 30
"""Bytes of memory that git may take."""
BIG_FILE = 512 << 10
"""Bytes from which a file of the tree is not looked into."""
ENDING = 1.0
"""Seconds that git may take to end once it has printed all."""
MOST_ENTRIES = 200_000
"""Files of a tree, and of a store of objects, that are looked at."""
HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
REF = re.compile(r"refs/(?:(?!\.\.)[^\x00-\x20\x7f~^:?*\[\\])+")
CHUNK = 1 << 16
CONFIG = f"""[core]
\trepositoryformatversion = 1
\tbare = true
\tbigFileThreshold = {BIG_FILE}
\tquotePath = false
\tpackedGitWindowSize = 16m
\tpackedGitLimit = 128m
[diff]
\trenameLimit = 400
[extensions]
\tobjectFormat = """


class CheckoutRefused(Exception):
    """The checkout is not read; the message says why."""


@dataclass
class Deadline:
    """The time until which a checkout may be read."""

    seconds: float
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds left; 0 if there are none."""
        return max(0.0, self.start + self.seconds - time.monotonic())


class Commit(NamedTuple):
    """A commit, and its time in seconds since 1970."""

    id: str
    at: int


class Entry(NamedTuple):
    """A file of a tree."""

    path: str
    blob: str
    size: int
    """Bytes; 0 for a link or another repository, which are not looked into."""


@dataclass(frozen=True)
class Checkout:
    """A checkout whose objects may be read."""

    root: Path
    head: str
    """The commit of HEAD."""
    git: Path
    """The folder of git's files for this work tree."""
    common: Path
    """The one that all work trees share."""
    shallow: str = ""
    """Commits whose parents are not there, a line each."""

    @property
    def objects(self) -> Path:
        """The store of objects."""
        return self.common / "objects"


def find_checkout(
    root: Path,
    *,
    with_objects: bool = True,
) -> Checkout:
    """Return the checkout at a folder that has a `.git`.

    Args:
        root: the folder.
        with_objects: whether its objects are to be read, so that they are looked over first.

    Raises:
        CheckoutRefused: it is not the user's own, leads elsewhere, or has no commit.
    """
    head, git, common = _find_head(root)
    shallow = ""
    if not with_objects:
        return Checkout(root=root, head=head, git=git, common=common)
    try:
        _check_objects(common / "objects")
        if os.path.lexists(common / "shallow"):
            lines = read_small(common / "shallow").split()
            shallow = "".join(f"{line}\n" for line in lines if HASH.fullmatch(line))
    except (OSError, ValueError) as error:
        raise CheckoutRefused(f"it can't be read, {type(error).__name__}") from None
    return Checkout(root=root, head=head, git=git, common=common, shallow=shallow)


def _find_head(root: Path) -> tuple[str, Path, Path]:
    """Return the commit of HEAD, the folder of git's files, and the one that all work trees share.

    Raises:
        CheckoutRefused: as `find_checkout`.
    """
    if not hasattr(os, "getuid"):
        raise CheckoutRefused("this system does not say whose it is")
    try:
        git, common = _find_git_folders(root)
        for folder in (root, git, common):
            if os.lstat(folder).st_uid != os.getuid():
                raise CheckoutRefused("it belongs to another user")
        head = _resolve(git, common, read_small(git / "HEAD").strip())
    except (OSError, ValueError) as error:
        raise CheckoutRefused(f"it can't be read, {type(error).__name__}") from None
    return head, git, common


def _find_git_folders(root: Path) -> tuple[Path, Path]:
    """Return the folder of git's files for this work tree, and the one that all work trees share.

    Raises:
        CheckoutRefused: `.git` leads elsewhere.
    """
    git = root / ".git"
    mode = os.lstat(git).st_mode
    if stat.S_ISDIR(mode):
        if os.path.lexists(git / "commondir"):
            raise CheckoutRefused("its .git leads elsewhere")
        return git, git
    if not stat.S_ISREG(mode):
        raise CheckoutRefused("its .git is a link")
    target = root / read_small(git).removeprefix("gitdir:").strip()
    own = Path(os.path.realpath(target))
    # a work tree: the repository names it too
    common = own.parent.parent
    is_known = own.parent.name == "worktrees" and os.path.lexists(own / "gitdir")
    if not is_known or not git.samefile(read_small(own / "gitdir").strip()):
        raise CheckoutRefused("its .git leads elsewhere")
    return own, common


def _check_objects(objects: Path) -> None:
    """Check that a store of objects consists of files and folders, and names no other store.

    Raises:
        CheckoutRefused: it does not.
    """
    if not stat.S_ISDIR(os.lstat(objects).st_mode):
        raise CheckoutRefused("its objects lie elsewhere")
    if os.path.lexists(objects / "info" / "alternates"):
        raise CheckoutRefused("its objects lie elsewhere too")
    folders = [objects]
    seen = 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                seen += 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    folders.append(Path(entry.path))
                elif not stat.S_ISREG(mode):
                    raise CheckoutRefused(
                        "there is a link or a device among its objects"
                    )
                if seen > MOST_ENTRIES:
                    raise CheckoutRefused("it has too many loose objects")


def read_small(path: Path) -> str:
    """Return the text of a small plain file; a link is not followed, a pipe is not waited for.

    Raises:
        OSError, ValueError: it is another kind of file, or a larger one.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_SMALL:
            raise ValueError("no small file")
        return os.read(handle, MOST_SMALL).decode("utf-8", "surrogateescape")
    finally:
        os.close(handle)


def _resolve(
    git: Path,
    common: Path,
    value: str,
    steps: int = 5,
) -> str:
    """Return the commit that HEAD, or a reference, names.

    Raises:
        CheckoutRefused: it names none.
    """
    if HASH.fullmatch(value):
        return value
    name = value.removeprefix("ref:").strip()
    if not value.startswith("ref:") or not REF.fullmatch(name) or not steps:
        raise CheckoutRefused("its HEAD names no commit")
    for folder in (git, common):
        path = folder / name
        if os.path.lexists(path):
            if os.path.realpath(path.parent) != str(path.parent.absolute()):
                raise CheckoutRefused("a link stands among its references")
            return _resolve(
                git=git, common=common, value=read_small(path).strip(), steps=steps - 1
            )
    packed = common / "packed-refs"
    lines = read_packed(packed) if os.path.lexists(packed) else ()
    found = next((line[0] for line in lines if line[1] == name), "")
    if not HASH.fullmatch(found):
        raise CheckoutRefused("its HEAD names no commit")
    return found


def read_packed(path: Path) -> Iterator[tuple[str, str]]:
    """Yield hash and name of each packed reference."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, encoding="utf-8", errors="surrogateescape") as lines:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no plain file")
        for line in lines.read(MOST_PACKED).splitlines():
            commit, space, name = line.partition(" ")
            if space and not line.startswith(("#", "^")):
                yield commit, name.strip()


class Git:
    """Git over the objects of a checkout. Every method gives what it could read until the deadline."""

    def __init__(
        self,
        checkout: Checkout,
        folder: Path,
        deadline: Deadline,
    ) -> None:
        self.checkout = checkout
        self.deadline = deadline
        self.cuts = 0
        """Calls that did not give all: at the deadline, at a bound, or since git failed."""
        self._folder = folder
        (folder / "refs").mkdir()
        (folder / "objects").mkdir()
        (folder / "HEAD").write_text(f"{checkout.head}\n")
        kind = "sha1" if len(checkout.head) == 40 else "sha256"
        (folder / "config").write_text(f"{CONFIG}{kind}\n")
        if checkout.shallow:
            (folder / "shallow").write_text(checkout.shallow)
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_OBJECT_DIRECTORY": str(checkout.objects.absolute()),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def list_tree(self) -> list[Entry]:
        """Return the files of HEAD's tree."""
        with self._run("ls-tree", "-r", "-l", "-z", "--full-tree", "HEAD") as output:
            records = list(islice(output.read_records(b"\0"), MOST_ENTRIES + 1))
        self.cuts += len(records) > MOST_ENTRIES
        return [_parse_entry(record) for record in records[:MOST_ENTRIES]]

    def read_blobs(
        self,
        names: Iterable[str],
    ) -> Iterator[bytes | None]:
        """Yield the content of objects, each a hash or COMMIT:PATH; None for what is missing or no file."""
        with self._ask("--batch", names) as (count, output):
            for _ in range(count):
                head = output.read_line()
                if head is None:
                    return
                kind, size = _parse_object(head)
                content = output.read_exactly(size + 1) if kind else b""
                if content is None:
                    return
                yield content[:-1] if kind == b"blob" else None

    def read_sizes(
        self,
        names: Iterable[str],
    ) -> Iterator[int | None]:
        """Yield the size of objects, named as in `read_blobs`; None for what is missing or no file."""
        with self._ask("--batch-check", names) as (count, output):
            for _ in range(count):
                head = output.read_line()
                if head is None:
                    return
                kind, size = _parse_object(head)
                yield size if kind == b"blob" else None

    def log(
        self, *options: str, since: float = 0.0, paths: Iterable[str] = ()
    ) -> Iterator[tuple[Commit, bytes]]:
        """Yield the commits along the first parents, newest first, each with what the options print of it."""
        command = ["log", "--first-parent", "--diff-merges=first-parent", "--no-color"]
        command += ["--no-textconv", "--no-ext-diff", "--no-show-signature"]
        command += ["--no-renames", "--format=%x01%x01%H %ct%x01", *options]
        command += [f"--since=@{int(since)}"] if since > 0 else []
        with self._run(*command, "HEAD", "--", *paths) as output:
            for record in output.read_records(b"\1\1"):
                head, _, rest = record.partition(b"\1")
                words = head.decode("utf-8", "replace").split()
                # a diff may hold the marks too, and what follows them
                if len(words) == 2 and HASH.fullmatch(words[0]) and words[1].isdigit():
                    yield Commit(words[0], int(words[1])), rest

    def find_renames(
        self,
        commit: str,
    ) -> dict[str, str]:
        """Return the files that a commit renamed, old path to new."""
        command = ["diff-tree", "-r", "-M", "-z", "--no-commit-id", "--name-status"]
        command += ["--diff-filter=R", f"{commit}^", commit]
        # the parent of a shallow history's first commit is missing
        with self._run(*command, may_fail=True) as output:
            fields = [decode(record) for record in output.read_records(b"\0")]
        return dict(zip(fields[1::3], fields[2::3], strict=False))

    @contextmanager
    def _ask(
        self,
        mode: str,
        names: Iterable[str],
    ) -> Iterator[tuple[int, "GitOutput"]]:
        """Ask for objects by name, and yield their number and what git prints."""
        lines = [encode(name) for name in names]
        if any(b"\n" in line for line in lines):
            lines = [line.replace(b"\n", b"?") for line in lines]
        with tempfile.TemporaryFile(dir=self._folder) as asked:
            asked.write(b"".join(line + b"\n" for line in lines))
            asked.seek(0)
            with self._run("cat-file", mode, given=asked.fileno()) as output:
                yield len(lines), output

    @contextmanager
    def _run(
        self,
        *command: str,
        given: int = DEVNULL,
        may_fail: bool = False,
    ) -> Iterator["GitOutput"]:
        """Run git, and yield what it prints; it is ended when the block is."""
        words = [encode(word) for word in ("git", "--no-pager", *command)]
        with subprocess.Popen(
            words,
            stdin=given,
            stdout=PIPE,
            stderr=DEVNULL,
            env=self._environment,
            cwd=self._folder,
        ) as process:
            try:
                _limit_memory(process.pid)
                assert process.stdout is not None
                output = GitOutput(process.stdout.fileno(), self.deadline)
                yield output
                failed = output.is_ended and not may_fail and _has_failed(process)
                self.cuts += output.is_cut or failed
            finally:
                process.kill()


@contextmanager
def open_git(
    checkout: Checkout,
    seconds: float,
) -> Iterator[Git]:
    """Yield git over a checkout, for so many seconds.

    Raises:
        CheckoutRefused: there is no git on this machine.
    """
    if shutil.which("git") is None:
        raise CheckoutRefused("git is not installed")
    with tempfile.TemporaryDirectory(prefix="slowwave-git-") as folder:
        yield Git(checkout, Path(folder), Deadline(seconds))


def encode(name: str) -> bytes:
    """Return a path of git's as its bytes."""
    return name.encode("utf-8", "surrogateescape")


def decode(name: bytes) -> str:
    """Return a path of git's as text; its bytes are kept."""
    return name.decode("utf-8", "surrogateescape")


def _parse_entry(record: bytes) -> Entry:
    """Return a line of `ls-tree -l`."""
    head, _, path = record.partition(b"\t")
    mode, _, blob, size = head.split()
    is_file = mode.startswith(b"100") and size.isdigit()
    return Entry(decode(path), blob.decode(), int(size) if is_file else 0)


def _parse_object(head: bytes) -> tuple[bytes, int]:
    """Return kind and size of an object, from a line of `cat-file`; an empty kind for one that is missing."""
    words = head.rsplit(b" ", 2)
    is_there = len(words) == 3 and words[2].isdigit()
    return (words[1], int(words[2])) if is_there else (b"", 0)


def _has_failed(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a process that has printed all did not end well."""
    try:
        return process.wait(ENDING) != 0
    except subprocess.TimeoutExpired:
        return True


def _limit_memory(pid: int) -> None:
    """Bound the memory of a process, where the system can."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


class GitOutput:
    """What a process prints, up to a bound and a deadline."""

    def __init__(
        self,
        handle: int,
        deadline: Deadline,
    ) -> None:
        self._handle = handle
        self._deadline = deadline
        self._poll = select.poll()
        self._poll.register(handle, select.POLLIN)
        self._buffer = bytearray()
        self._taken = 0
        self.is_cut = False
        """Whether the bound or the deadline ended it."""
        self.is_ended = False
        """Whether all was read."""

    def _fill(self) -> bool:
        """Read more; return False at the end, the bound or the deadline."""
        left = self._deadline.left
        if not left or self._taken > MOST_OUTPUT or not self._poll.poll(left * 1_000):
            self.is_cut = True
            return False
        more = os.read(self._handle, CHUNK)
        self._taken += len(more)
        self._buffer += more
        self.is_ended = not more
        return bool(more)

    def read_line(self) -> bytes | None:
        """Return the next line without its end; None if there is no whole one."""
        while (at := self._buffer.find(b"\n")) < 0:
            if not self._fill():
                return None
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    def read_exactly(
        self,
        size: int,
    ) -> bytes | None:
        """Return so many bytes; None if there are fewer."""
        while len(self._buffer) < size:
            if not self._fill():
                return None
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content

    def read_records(
        self,
        end: bytes,
    ) -> Iterator[bytes]:
        """Yield the records between marks; none for a record that the bound or the deadline cuts."""
        seen = 0
        while True:
            if (at := self._buffer.find(end, max(0, seen - len(end)))) >= 0:
                record = bytes(self._buffer[:at])
                del self._buffer[: at + len(end)]
                seen = 0
                if record:
                    yield record
                continue
            seen = len(self._buffer)
            if not self._fill():
                break
        if self._buffer and self._deadline.left and self._taken <= MOST_OUTPUT:
            yield bytes(self._buffer)
