"""The copy on this disk in which a store in a bucket is worked on: what is live comes down, what a run made goes up.

A writer holds a lease and renews it; one that has ended without a word loses it after `LEASE`. Whoever takes it raises
the epoch, and only a writer whose pointer still stands makes anything live. What another wrote stays unnamed, and goes
after `SPARED`.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from filelock import FileLock, Timeout

from slowwave.schemas.errors import StoreLocked, StoreUnreadable, StoreUnwritable, UsageError
from slowwave.schemas.places import find_url
from slowwave.schemas.tables import RELEASES
from slowwave.store.bucket.objects import FILES, Bucket, Fenced, Pointer, make_nonce
from slowwave.store.manifest import (
    FOLDER,
    MANIFEST_FILE,
    Damage,
    Files,
    find_last_known,
    has_table,
    read_boot,
    read_manifest,
)
from slowwave.store.private import make_private_folder, replace_file

if TYPE_CHECKING:
    from obstore import UpdateVersion

LOG = logging.getLogger(__name__)
RECORD = "bucket.json"
"""Beside the tables: what of the bucket this copy was last equal to."""
LEFT_OUT = (RECORD, "writer.json", "experiments")
"""What of a space's folder is this machine's alone, with locks and files that are not finished."""
LEASE = timedelta(minutes=2)
SPARED = timedelta(hours=1)
"""Files that no pointer ever named are somebody's who is still writing, if they are younger."""
EVERY = 10.0
"""Seconds between two looks for a newer release by one process."""
AT_ONCE = 16
_looked: dict[Path, float] = {}
_held: set[Path] = set()
"""Spaces that this process writes."""


class Record(NamedTuple):
    """What a copy was last equal to."""

    listing: str | None
    files: Files
    stats: dict[str, list[int]] = {}  # noqa: RUF012
    """What tells of each file that it was not touched here since."""


class Lease:
    """The right to write a space, renewed by a thread until it is given back."""

    def __init__(self, bucket: Bucket, pointer: Pointer, version: "UpdateVersion") -> None:
        self.bucket, self.pointer, self._version = bucket, pointer, version
        self._lost, self._ended, self._lock = False, Event(), Lock()
        Thread(target=self._renew, daemon=True).start()

    def end(self, **changes: Any) -> None:
        """Give it back, and say what counts from now on.

        Raises:
            Fenced: somebody else took it.
        """
        self._ended.set()
        self._replace(holder=None, **changes)

    def _replace(self, **changes: Any) -> None:
        with self._lock:
            if self._lost:
                raise Fenced
            fresh = self.pointer._replace(nonce=make_nonce(), renewed=time.time(), **changes)
            self._version = self.bucket.replace_pointer(fresh, self._version)
            self.pointer = fresh

    def _renew(self) -> None:
        while not self._ended.wait(LEASE.total_seconds() / 4):
            try:
                self._replace()
            except Fenced:
                self._lost = True
                return
            except self.bucket.trouble as trouble:  # the next try, or the end of the run, may come through
                LOG.info("the lease of %s is not renewed: %s", self.bucket.url, trouble)


def refresh(folder: Path) -> None:
    """Bring a space's copy up to what is live in its bucket, unless it is written here just now; nothing for a store
    that is in no bucket. Where the bucket can't be reached, the copy answers.

    Raises:
        StoreUnreadable: it can't be reached, and there is no copy.
    """
    if find_url(folder.parent) is None or folder in _held:
        return
    if time.monotonic() - _looked.get(folder, -EVERY) < EVERY:
        return
    has_copy = has_table(folder, RELEASES.name)
    bucket = Bucket(folder, retries=2 if has_copy else 5)
    make_private_folder(folder.parent)
    try:
        with _lock_copy(folder, 0 if has_copy else 600), bucket.translate_errors():
            _pull_newest(bucket)
    except Timeout:  # a run at work here, or another reader that does the same
        pass
    except StoreUnreadable as trouble:
        if not has_copy:
            raise
        LOG.warning("%s: answered from the copy on this machine", trouble)
    _looked[folder] = time.monotonic()


def _pull_newest(bucket: Bucket) -> None:
    """Pull what is live; where files of it go meanwhile, what is live by then."""
    for _ in range(5):
        pointer, _version = bucket.read_pointer()
        try:
            return _pull(bucket, pointer)
        except FileNotFoundError as gone:
            if bucket.read_pointer()[0].listing == pointer.listing:
                why = f"{gone}: `slowwave check --repair` on a machine that has it puts it back"
                raise StoreUnreadable(bucket.folder, why) from None
    raise StoreUnreadable(bucket.folder, "it is written faster than it can be read")


@contextmanager
def share(folder: Path, run_id: str, kind: str, wait: float = 0) -> Iterator[None]:
    """Hold the lease of a space in a bucket, begin with what is live there, and make live what stands here at the end.
    Nothing is done for a store that is in no bucket. With the `kind` forget nothing is spared of what no longer counts.

    Raises:
        StoreLocked: another machine writes it.
        StoreUnwritable: the bucket can't be reached; or another took over meanwhile.
    """
    if find_url(folder.parent) is None:
        yield
        return
    bucket = Bucket(folder)
    with _lock_copy(folder, 600):
        _held.add(folder)
        try:
            with bucket.translate_errors(StoreUnwritable):
                lease = _take_lease(bucket, f"run {run_id}", wait)
            try:
                with bucket.translate_errors(StoreUnwritable):
                    _pull(bucket, lease.pointer)
                yield
                with bucket.translate_errors(StoreUnwritable):
                    _publish(bucket, lease, everything=kind == "forget")
            except Fenced:
                why = "another machine took over, and nothing of this run is live: the next run goes on from what is"
                raise StoreUnwritable(folder, why) from None
            except BaseException:
                with suppress(Fenced, *bucket.trouble):
                    lease.end()
                raise
        finally:
            _held.discard(folder)


def find_bucket_damage(folder: Path) -> list[Damage]:
    """Return which files of a space the bucket lacks, or has otherwise; none for a store that is in no bucket."""
    if find_url(folder.parent) is None:
        return []
    bucket, files = Bucket(folder), _read_record(folder).files
    with bucket.translate_errors():
        there = bucket.list_files()
    wrong = {
        name: "is gone" if facts[1] not in there else "is not as long as it was"
        for name, facts in files.items()
        if there.get(facts[1], (None,))[0] != facts[0]
    }
    return [Damage("the bucket", name, what) for name, what in wrong.items()]


def refresh_spaces(root: Path) -> None:
    """Bring the copies of all spaces of a store in a bucket up to what is live."""
    if url := find_url(root):
        bucket = Bucket(root, url)
        with bucket.translate_errors():
            found = bucket.obs.list_with_delimiter(bucket.objects)["common_prefixes"]
        for name in found:
            refresh(root / name.rpartition("/")[2])


def refuse_bucket(store: Path, what: str) -> None:
    """Refuse what can't be done with a store in a bucket.

    Raises:
        UsageError: it is in one.
    """
    if url := find_url(store):
        raise UsageError(f"{what}, and {url} is in a bucket: nothing was done")


# The lease


@contextmanager
def _lock_copy(folder: Path, wait: float) -> Iterator[None]:
    """Hold the copy alone, against others of this machine who would bring it up to date or write it."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    lock.acquire(timeout=wait)
    try:
        yield
    finally:
        lock.release()


def _take_lease(bucket: Bucket, who: str, wait: float) -> Lease:
    place = f"{read_boot()} {socket.gethostname()} {bucket.folder}"
    copy, until = sha256(place.encode()).hexdigest(), time.monotonic() + wait
    while True:
        pointer, version = bucket.read_pointer()
        left = pointer.renewed + LEASE.total_seconds() - time.time()
        if pointer.holder in (None, copy) or left < 0:
            named, now = f"{who} on {socket.gethostname()}", time.time()
            fresh = pointer._replace(epoch=pointer.epoch + 1, holder=copy, who=named, renewed=now, nonce=make_nonce())
            with suppress(Fenced):  # another was quicker
                return Lease(bucket, fresh, bucket.replace_pointer(fresh, version))
        elif time.monotonic() > until:
            raise StoreLocked(bucket.folder, f"{pointer.who} (unless renewed, its lease ends in {left:.0f} s)")
        time.sleep(1)


# What comes down, what goes up


def _pull(bucket: Bucket, pointer: Pointer) -> None:
    """Make the copy what the pointer names. Where that did not change since, what a killed run left here stays; lines
    that were added here to what readers write go below those that came.

    Raises:
        FileNotFoundError: a file of it is gone by now.
        StoreUnreadable: the bucket has lost the space that this copy is of.
    """
    folder, record = bucket.folder, _read_record(bucket.folder)
    if pointer.listing == record.listing:
        return
    if not pointer.epoch:
        raise StoreUnreadable(folder, "the bucket is empty, and was not: this machine's copy is left as it is")
    wanted: Files = orjson.loads(bucket.read_file(pointer.listing)) if pointer.listing else {}
    there = _list_files(folder)
    added = {name: lines for name in there if (lines := _find_added_lines(folder, name, record.files.get(name)))}
    lacking = [name for name, facts in wanted.items() if name not in there or _measure(folder, name, record) != facts]
    do_for_each(lambda name: bucket.fetch(FILES + wanted[name][1], _name_part(folder / name)), lacking)
    for name in sorted(lacking, key=_rank):
        if name in added:
            with _name_part(folder / name).open("ab") as log:
                log.write(added[name])
        _name_part(folder / name).replace(folder / name)
    for name in there - wanted.keys():
        if name in added:
            (folder / name).write_bytes(added[name])
        else:
            (folder / name).unlink()
    _write_record(folder, Record(pointer.listing, wanted))


def _publish(bucket: Bucket, lease: Lease, *, everything: bool) -> None:
    """Upload what the bucket lacks, make that live, give the lease back, and delete what counted until now
    and no longer does; with `everything` also what another may be writing.
    """
    folder, record = bucket.folder, _read_record(bucket.folder)
    known, files, contents = read_manifest(folder).files, Files(), dict[str, bytes | Path]()
    for name in sorted(_list_files(folder)):
        content: bytes | Path = folder / name
        content = content if name in known else (folder / name).read_bytes()  # what is no table's may grow
        files[name] = _measure(folder, name, record) if isinstance(content, Path) else _digest(content)
        contents[files[name][1]] = content
    listing = orjson.dumps(files)
    size, digest = _digest(listing)
    contents[digest] = listing
    sizes, there = {digest: size} | {one: size for size, one in files.values()}, bucket.list_files()
    lacking = [one for one, size in sizes.items() if there.get(one, (None,))[0] != size]
    do_for_each(lambda one: bucket.put_file(one, contents[one]), lacking)
    newest = find_last_known(folder)
    lease.end(listing=digest, release=f"r{newest}" if newest else None)
    if files:
        _write_record(folder, Record(digest, files))
    named = {record.listing, *(one for _, one in record.files.values())}
    due = datetime.now(UTC) - SPARED
    old = {one for one, (_, at) in there.items() if everything or one in named or at < due}
    bucket.delete_files(old - sizes.keys())


def do_for_each(call: Callable[[str], None], names: Iterable[str]) -> None:
    """Call a function for each of many names, several at once.

    Raises:
        Exception: what the first that failed raised.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(call, names):
            pass


def _list_files(folder: Path) -> set[str]:
    """Return the files that make up a space, as paths inside its folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path.name for path in paths}
    return {
        name
        for name, last in names.items()
        if name.partition("/")[0] not in LEFT_OUT and not last.startswith(".") and not last.endswith(".lock")
    }


def _rank(name: str) -> int:
    """Return which files come before others, so that a reader sees a release whole or not: the order of a commit."""
    if name.startswith(f"{RELEASES.name}.lance/"):
        return 2
    return 3 if name.startswith(f"{FOLDER}/") or name == MANIFEST_FILE else int(name.endswith(".manifest"))


def _name_part(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _find_added_lines(folder: Path, name: str, before: list[Any] | None) -> bytes:
    """Return what readers added here to one of their logs since the copy was equal to the bucket."""
    if not name.endswith(".jsonl"):
        return b""
    content, size = (folder / name).read_bytes(), before[0] if before else 0
    return content[size:] if not before or _digest(content[:size])[1] == before[1] else b""


def _digest(content: bytes) -> list[Any]:
    return [len(content), sha256(content).hexdigest()]


def _measure(folder: Path, name: str, record: Record) -> list[Any]:
    """Return bytes and SHA-256 of a file; what was not touched since they were noted is not read."""
    facts = record.stats.get(name)
    if facts and facts == _stat(folder / name):
        return record.files[name]
    with (folder / name).open("rb") as file:
        return [os.fstat(file.fileno()).st_size, file_digest(file, "sha256").hexdigest()]


def _stat(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def _read_record(folder: Path) -> Record:
    """Return what the copy was last equal to; nothing of one that was made just now."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Record(**orjson.loads((folder / RECORD).read_bytes()))
    return Record(None, {})


def _write_record(folder: Path, record: Record) -> None:
    """Note what the copy is equal to by now, once that is on the disk."""
    os.sync()
    stats = {name: _stat(folder / name) for name in record.files if (folder / name).exists()}
    replace_file(folder / RECORD, orjson.dumps(record._replace(stats=stats)._asdict()))
