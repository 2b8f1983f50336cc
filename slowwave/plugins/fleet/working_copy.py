"""The copy on this disk in which a store in a bucket is worked on: what is live comes down, what a run made goes up.

A writer holds a lease and renews it; one that has ended without a word loses it after `LEASE`. Whoever takes it raises
the epoch, and only a writer whose pointer still stands makes anything live. What another wrote stays unnamed, and goes
after `SPARED`.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import orjson
from filelock import FileLock, Timeout

from slowwave.plugins.fleet.objects import FILES, Bucket, Fenced, Pointer, do_for_each, fetch_objects
from slowwave.schemas.errors import StoreError, StoreLocked, StoreUnreadable, StoreUnwritable
from slowwave.schemas.tables import RELEASES
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
"""Beside the tables: the list of files that the copy was last equal to."""
LEFT_OUT = (RECORD, "writer.json")
"""Parts of a space's folder that are this machine's alone, with locks and unfinished files."""
LEASE, SPARED, EVERY = timedelta(minutes=2), timedelta(hours=1), timedelta(seconds=10)
"""How long a lease is not renewed, a file that nothing ever named is kept, a reader does not look again."""
TAKEN_OVER = "another machine took over, and nothing of this run is live: the next run goes on from what is"
_looked: dict[Path, float] = {}
_held: set[Path] = set()
"""Spaces that this process writes."""


class Lease:
    """The right to write a space, renewed by a thread until it is given back."""

    def __init__(self, bucket: Bucket, pointer: Pointer, version: "UpdateVersion") -> None:
        self.bucket, self.pointer, self._version = bucket, pointer, version
        self._ended, self._lock = Event(), Lock()
        self.put(epoch=pointer.epoch + 1)
        Thread(target=self._renew, daemon=True).start()

    def put(self, **changes: Any) -> None:
        """Say that it still holds, and what else is so from now on.

        Raises:
            Fenced: somebody else took it.
        """
        with self._lock:
            fresh = self.pointer._replace(renewed=time.time(), nonce=secrets.token_hex(8), **changes)
            self._version = self.bucket.replace_pointer(fresh, self._version)
            self.pointer = fresh

    def end(self, **changes: Any) -> None:
        """Give it back."""
        self._ended.set()
        self.put(holder=None, **changes)

    def _renew(self) -> None:
        while not self._ended.wait(LEASE.total_seconds() / 4):
            with suppress(Fenced, *self.bucket.trouble):  # whoever ends it is told
                self.put()


class BucketPlace:
    """A store in a bucket, by the folder of its copies and its address."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.url = root, url

    def pull(self, space: str | None = None) -> None:
        """Bring a space's copy up to what is live in its bucket, unless it is written here just now; of no space, all.

        Raises:
            StoreUnreadable: the bucket can't be reached, and there is no copy: else the copy answers.
        """
        if space is not None:
            return _refresh(self.root / space)
        bucket = Bucket(self.root, self.url)
        with bucket.translate_errors():
            prefixes = bucket.obs.list_with_delimiter(bucket.objects)["common_prefixes"]
        for name in prefixes:
            _refresh(self.root / Path(name).name)

    @contextmanager
    def lease(self, space: str, run_id: str, kind: str, wait: float = 0) -> Iterator[None]:
        """Hold the lease of a space, begin with what is live, and make live what stands here at the end. A run of
        the kind `forget` also deletes what the bucket has that no release refers to; one of the kind `note` does not
        wait.

        Raises:
            StoreLocked: another machine writes it.
            StoreUnwritable: the bucket can't be reached; or another took over meanwhile.
        """
        # the lease: a note waits for nobody
        folder, is_note = self.root / space, kind == "note"
        bucket = Bucket(folder, retries=2 if is_note else 10)
        with _lock_copy(folder, 0 if is_note else 600):
            _held.add(folder)
            try:
                with bucket.translate_errors(StoreUnwritable):
                    lease = _take_lease(bucket, f"run {run_id} on {socket.gethostname()}", wait)
                try:
                    with bucket.translate_errors(StoreUnwritable):
                        _pull(bucket, lease.pointer)
                    yield
                    with bucket.translate_errors(StoreUnwritable):
                        _publish(bucket, lease, everything=kind == "forget")
                except Fenced:
                    raise StoreUnwritable(folder, TAKEN_OVER) from None
                except BaseException:
                    with suppress(Fenced, *bucket.trouble):
                        lease.end()
                    raise
            finally:
                _held.discard(folder)

    def push(self, space: str) -> None:
        """Bring up what was noted here, unless a run is in progress: the next run here, or note, does it then."""
        if not (self.root / space / "writer.json").exists():
            with suppress(StoreError, Timeout), self.lease(space, "that takes a note", "note"):
                pass

    def find_damage(self, space: str) -> list[Damage]:
        """Return the files of a space that the bucket lacks, or has with another length."""
        folder = self.root / space
        bucket = Bucket(folder)
        with bucket.translate_errors():
            there = {name.removeprefix(FILES): entry["size"] for name, entry in bucket.list_objects(FILES).items()}
        files = _read_record(folder)[1].items()
        return [
            Damage("the bucket", name, "is gone or cut") for name, (size, digest) in files if there.get(digest) != size
        ]

    def fetch(self) -> Path:
        """Return the folder with what lies below the address. What is gone there is gone from the folder.

        Raises:
            UsageError: nothing lies there.
            StoreUnreadable: the bucket can't be reached.
        """
        return fetch_objects(self.root, self.url)


def _refresh(folder: Path) -> None:
    """Bring a space's copy up to what is live in its bucket, unless it is written here just now.

    If the bucket can't be reached, the copy answers.

    Raises:
        StoreUnreadable: it can't be reached, and there is no copy.
    """
    now, last = time.monotonic(), _looked.get(folder)
    if folder in _held or (last and now - last < EVERY.total_seconds()):
        return
    has_copy = has_table(folder, RELEASES.name)
    bucket = Bucket(folder, retries=2 if has_copy else 5)
    try:
        with _lock_copy(folder, 0 if has_copy else 600), bucket.translate_errors():
            _pull_newest(bucket)
    except Timeout:  # a run at work here, or another reader that does the same
        pass
    except StoreUnreadable as trouble:
        if not has_copy:
            raise
        LOG.warning("%s: answered from the copy on this machine", trouble)
    _looked[folder] = now


@contextmanager
def _lock_copy(folder: Path, wait: float) -> Iterator[None]:
    """Hold the copy alone, against others of this machine who would bring it up to date or write it."""
    make_private_folder(folder.parent)
    with FileLock(folder.with_name(f"{folder.name}.lock"), timeout=wait):
        yield


def _take_lease(bucket: Bucket, who: str, wait: float) -> Lease:
    own_name = f"{read_boot()} {socket.gethostname()} {bucket.folder}"
    copy, until = sha256(own_name.encode()).hexdigest(), time.monotonic() + wait
    while True:
        pointer, version = bucket.read_pointer()
        left = pointer.renewed + LEASE.total_seconds() - time.time()
        if pointer.holder in (None, copy) or left < 0:
            with suppress(Fenced):  # another was quicker
                return Lease(bucket, pointer._replace(holder=copy, who=who), version)
        elif time.monotonic() > until:
            raise StoreLocked(bucket.folder, f"{pointer.who} (unless renewed, its lease ends in {left:.0f} s)")
        time.sleep(1)


def _pull_newest(bucket: Bucket) -> None:
    for _ in range(5):
        with suppress(FileNotFoundError):  # a newer one took its place meanwhile
            return _pull(bucket, bucket.read_pointer()[0])
    why = "files of it are gone from the bucket: `slowwave check --repair` on a machine that has them puts them back"
    raise StoreUnreadable(bucket.folder, why)


def _pull(bucket: Bucket, pointer: Pointer) -> None:
    """Make the copy what the pointer names. Where that did not change since, what a killed run left here stays; lines
    that were added here to what readers write go below those that came.

    Raises:
        FileNotFoundError: a file of it is gone by now.
        StoreUnreadable: the bucket has lost the space that this copy is of.
    """
    folder, (listing, before) = bucket.folder, _read_record(bucket.folder)
    if pointer.listing == listing:
        return
    if not pointer.listing:
        raise StoreUnreadable(folder, "the bucket is empty, and was not: this machine's copy is left as it is")
    bucket.fetch(FILES + pointer.listing, part := folder.with_name(f"{folder.name}.part"))
    newest: Files = orjson.loads(part.read_bytes())
    if outside := next((name for name in newest if name.startswith("/") or ".." in Path(name).parts), None):
        raise StoreUnreadable(folder, f"the bucket names {outside!r}, which is no file of a space")
    there, files = _list_files(folder), Files()
    with suppress(StoreUnreadable):
        files = read_manifest(folder).files
    added = {name: lines for name in there if (lines := _find_added_lines(folder / name, before.get(name)))}
    lacking = [
        name
        for name, facts in newest.items()
        if name not in there or (files.get(name) or _digest((folder / name).read_bytes())) != facts
    ]
    do_for_each(lambda name: bucket.fetch(FILES + newest[name][1], _name_part(folder / name)), lacking)
    for name in sorted(lacking, key=_rank):
        with _name_part(folder / name).open("ab") as fresh:
            fresh.write(added.get(name, b""))
        _name_part(folder / name).replace(folder / name)
    for name in there - newest.keys():
        if name in added:
            (folder / name).write_bytes(added[name])
        else:
            (folder / name).unlink()
    os.sync()
    make_private_folder(folder)  # of one that is there no more
    part.replace(folder / RECORD)


def _publish(bucket: Bucket, lease: Lease, *, everything: bool) -> None:
    """Upload new files, make them live, return the lease, and delete obsolete files; with `everything` all unnamed."""
    folder, (listing, before) = bucket.folder, _read_record(bucket.folder)
    listed, files, contents = read_manifest(folder).files, Files(), dict[str, Path | bytes]()
    for name in sorted(_list_files(folder)):
        content = b"" if name in listed else (folder / name).read_bytes()  # what is no table's may grow
        files[name] = listed.get(name) or _digest(content)
        contents[files[name][1]] = folder / name if name in listed else content
    size, digest = _digest(packed := orjson.dumps(files))
    contents[digest] = packed
    sizes = {FILES + key: size for size, key in [(size, digest), *files.values()]}
    there = bucket.list_objects(FILES)
    lacking = [name for name, size in sizes.items() if name not in there or there[name]["size"] != size]
    do_for_each(lambda name: bucket.upload(name, contents[name.removeprefix(FILES)]), lacking)
    newest = find_last_known(folder)
    lease.end(listing=digest, release=f"r{newest}" if newest else None)
    if files:
        os.sync()
        replace_file(folder / RECORD, packed)
    named, due = {listing, *(key for _, key in before.values())}, datetime.now(UTC) - SPARED
    old = [
        name
        for name, entry in there.items()
        if name not in sizes and (everything or name.removeprefix(FILES) in named or entry["last_modified"] < due)
    ]
    bucket.obs.delete(bucket.objects, old)


def _list_files(folder: Path) -> set[str]:
    """Return the files that make up a space, as paths inside its folder."""
    names = {path.relative_to(folder).as_posix(): path.name for path in folder.rglob("*") if path.is_file()}
    own = {name: last for name, last in names.items() if name.partition("/")[0] not in LEFT_OUT}
    return {name for name, last in own.items() if not last.startswith(".") and not last.endswith(".lock")}


def _rank(name: str) -> int:
    """Return a file's place in the order of a commit, by which a reader sees a release whole or not at all."""
    if name.startswith(f"{RELEASES.name}.lance/"):
        return 2
    return 3 if name.startswith(f"{FOLDER}/") or name == MANIFEST_FILE else int(name.endswith(".manifest"))


def _name_part(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _find_added_lines(path: Path, before: list[Any] | None) -> bytes:
    """Return the lines that were added here to a readers' log since the copy was equal to the bucket."""
    if path.suffix != ".jsonl":
        return b""
    content, size = path.read_bytes(), before[0] if before else 0
    return content[size:] if not before or _digest(content[:size]) == before else b""


def _digest(content: bytes) -> list[Any]:
    return [len(content), sha256(content).hexdigest()]


def _read_record(folder: Path) -> tuple[str | None, Files]:
    """Return the list of files that the copy was last equal to, and its SHA-256; None of one that was made just now."""
    if not (folder / RECORD).exists():
        return None, {}
    content = (folder / RECORD).read_bytes()
    return _digest(content)[1], orjson.loads(content)
