"""The local working copy of a store in a bucket: the published state is downloaded, the result of a run uploaded.

A writer has a lease and renews it; without renewal it ends after `LEASE`. Taking the lease raises the epoch. A writer
can publish only if the bucket's pointer is still its own. Files of other writers are not named by the pointer, and are
deleted after `SPARED`.
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

from slowwave.plugins.fleet.objects import (
    FILES,
    Bucket,
    Fenced,
    Pointer,
    do_for_each,
    fetch_objects,
)
from slowwave.schemas.errors import (
    StoreError,
    StoreLocked,
    StoreUnreadable,
    StoreUnwritable,
)
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
"""File in the space's folder with the list of bucket files at the last synchronisation."""
LEFT_OUT = (RECORD, "writer.json")
"""Files of a space's folder that are never uploaded, besides locks and unfinished files."""
LEASE = timedelta(minutes=2)
SPARED = timedelta(hours=1)
EVERY = timedelta(seconds=10)
"""How long a lease lasts without renewal, how long an unnamed file is kept, and the least time between two updates of a
reader's copy."""
TAKEN_OVER = "another machine took over, and nothing of this run is live: the next run goes on from what is"
_looked: dict[Path, float] = {}
_held: set[Path] = set()
"""Folders of the spaces that this process has a lease of."""


class Lease:
    """The right to write a space, renewed by a thread until it ends."""

    def __init__(
        self,
        bucket: Bucket,
        pointer: Pointer,
        version: "UpdateVersion",
    ) -> None:
        self.bucket = bucket
        self.pointer = pointer
        self._version = version
        self._ended = Event()
        self._lock = Lock()
        self.put(epoch=pointer.epoch + 1)
        Thread(target=self._renew, daemon=True).start()

    def put(self, **changes: Any) -> None:
        """Renew the lease, and change fields of the pointer.

        Raises:
            Fenced: another writer took the lease.
        """
        with self._lock:
            fresh = self.pointer._replace(
                renewed=time.time(), nonce=secrets.token_hex(8), **changes
            )
            self._version = self.bucket.replace_pointer(fresh, self._version)
            self.pointer = fresh

    def end(self, **changes: Any) -> None:
        """Give the lease back, and change fields of the pointer.

        Raises:
            Fenced: another writer took the lease.
        """
        self._ended.set()
        self.put(holder=None, **changes)

    def _renew(self) -> None:
        while not self._ended.wait(LEASE.total_seconds() / 4):
            with suppress(Fenced, *self.bucket.trouble):  # `end` raises it
                self.put()


class BucketPlace:
    """A store in a bucket: `root` has the working copies of its spaces, `url` is its address."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url

    def pull(self, space: str | None = None) -> None:
        """Update the working copy of a space, or of all spaces, from the bucket.

        A copy that a run of this machine writes at the moment is left as it is. If the bucket can't be reached, the
        copy answers.

        Raises:
            StoreUnreadable: the bucket can't be reached, and there is no copy yet.
        """
        if space is not None:
            return _refresh(self.root / space)
        bucket = Bucket(self.root, self.url)
        with bucket.translate_errors():
            prefixes = bucket.obs.list_with_delimiter(bucket.objects)["common_prefixes"]
        for name in prefixes:
            _refresh(self.root / Path(name).name)

    @contextmanager
    def lease(
        self,
        space: str,
        run_id: str,
        kind: str,
        wait: float = 0,
    ) -> Iterator[None]:
        """Hold the lease of a space: update the copy at the start, and publish it at the end.

        A run of the kind `forget` also deletes all unnamed files of the bucket. One of the kind `note` does not wait
        for other processes.

        Raises:
            StoreLocked: another machine writes the space.
            StoreUnwritable: the bucket can't be reached, or another machine took over in the meantime.
        """
        folder = self.root / space
        is_note = kind == "note"
        bucket = Bucket(folder, retries=2 if is_note else 10)
        with _lock_copy(folder, 0 if is_note else 600):
            _held.add(folder)
            try:
                with bucket.translate_errors(StoreUnwritable):
                    lease = _take_lease(
                        bucket, f"run {run_id} on {socket.gethostname()}", wait
                    )
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
        """Publish notes of this machine; if a run is in progress, leave it to the next run or note."""
        if not (self.root / space / "writer.json").exists():
            with (
                suppress(StoreError, Timeout),
                self.lease(space, "that takes a note", "note"),
            ):
                pass

    def find_damage(self, space: str) -> list[Damage]:
        """Return the files of a space that the bucket lacks, or has with another length."""
        folder = self.root / space
        bucket = Bucket(folder)
        with bucket.translate_errors():
            sizes = {
                name.removeprefix(FILES): entry["size"]
                for name, entry in bucket.list_objects(FILES).items()
            }
        files = _read_record(folder)[1].items()
        return [
            Damage("the bucket", name, "is gone or cut")
            for name, (size, digest) in files
            if sizes.get(digest) != size
        ]

    def fetch(self) -> Path:
        """Make the folder equal to the objects below the address, and return it.

        Raises:
            UsageError: the address has no objects.
            StoreUnreadable: the bucket can't be reached.
        """
        return fetch_objects(self.root, self.url)


def _refresh(folder: Path) -> None:
    """Update a space's copy from its bucket, unless this process writes it or looked less than `EVERY` ago.

    If the bucket can't be reached, the copy answers.

    Raises:
        StoreUnreadable: the bucket can't be reached, and there is no copy yet.
    """
    now = time.monotonic()
    last = _looked.get(folder)
    if folder in _held or (last and now - last < EVERY.total_seconds()):
        return
    has_copy = has_table(folder, RELEASES.name)
    bucket = Bucket(folder, retries=2 if has_copy else 5)
    try:
        with _lock_copy(folder, 0 if has_copy else 600), bucket.translate_errors():
            _pull_newest(bucket)
    except Timeout:  # a run or another reader of this machine has the lock
        pass
    except StoreUnreadable as trouble:
        if not has_copy:
            raise
        LOG.warning("%s: answered from the copy on this machine", trouble)
    _looked[folder] = now


@contextmanager
def _lock_copy(folder: Path, wait: float) -> Iterator[None]:
    """Lock the copy: no other process of this machine can update or write it."""
    make_private_folder(folder.parent)
    with FileLock(folder.with_name(f"{folder.name}.lock"), timeout=wait):
        yield


def _take_lease(bucket: Bucket, who: str, wait: float) -> Lease:
    own_name = f"{read_boot()} {socket.gethostname()} {bucket.folder}"
    copy = sha256(own_name.encode()).hexdigest()
    until = time.monotonic() + wait
    while True:
        pointer, version = bucket.read_pointer()
        left = pointer.renewed + LEASE.total_seconds() - time.time()
        if pointer.holder in (None, copy) or left < 0:
            with suppress(Fenced):  # another writer was quicker
                return Lease(bucket, pointer._replace(holder=copy, who=who), version)
        elif time.monotonic() > until:
            raise StoreLocked(
                bucket.folder,
                f"{pointer.who} (unless renewed, its lease ends in {left:.0f} s)",
            )
        time.sleep(1)


def _pull_newest(bucket: Bucket) -> None:
    for _ in range(5):
        with suppress(FileNotFoundError):  # a newer state replaced it in the meantime
            return _pull(bucket, bucket.read_pointer()[0])
    why = "files of it are gone from the bucket: `slowwave check --repair` on a machine that has them puts them back"
    raise StoreUnreadable(bucket.folder, why)


def _pull(bucket: Bucket, pointer: Pointer) -> None:
    """Make the copy equal to the state that the pointer names.

    If that state did not change, files that a killed run left in the copy are kept. Lines that were added here to a
    log of readers are kept below the downloaded ones.

    Raises:
        FileNotFoundError: the bucket no longer has one of the files.
        StoreUnreadable: the bucket no longer has the space of this copy, or names a file outside the space.
    """
    folder = bucket.folder
    listing, before = _read_record(folder)
    if pointer.listing == listing:
        return
    if not pointer.listing:
        raise StoreUnreadable(
            folder,
            "the bucket is empty now, but had files before: this machine's copy is kept",
        )
    part = folder.with_name(f"{folder.name}.part")
    newest = _fetch_listing(bucket, pointer.listing, part)
    present = _list_files(folder)
    added = {
        name: lines
        for name in present
        if (lines := _find_added_lines(folder / name, before.get(name)))
    }
    changed = _find_changed(folder, present, newest)
    do_for_each(
        lambda name: bucket.fetch(FILES + newest[name][1], _name_part(folder / name)),
        changed,
    )
    for name in sorted(changed, key=_rank):
        with _name_part(folder / name).open("ab") as fetched:
            fetched.write(added.get(name, b""))
        _name_part(folder / name).replace(folder / name)
    for name in present - newest.keys():
        if name in added:
            (folder / name).write_bytes(added[name])
        else:
            (folder / name).unlink()
    os.sync()
    make_private_folder(folder)  # the listing may be empty
    part.replace(folder / RECORD)


def _fetch_listing(bucket: Bucket, digest: str, path: Path) -> Files:
    """Download the list of a space's files to a path, and return it.

    Raises:
        FileNotFoundError: the bucket no longer has the list.
        StoreUnreadable: it names a file outside the space.
    """
    bucket.fetch(FILES + digest, path)
    files: Files = orjson.loads(path.read_bytes())
    outside = next(
        (name for name in files if name.startswith("/") or ".." in Path(name).parts),
        None,
    )
    if outside:
        raise StoreUnreadable(
            bucket.folder,
            f"the bucket names {outside!r}, which is not a file of a space",
        )
    return files


def _find_changed(folder: Path, present: set[str], newest: Files) -> list[str]:
    """Return the names of `newest` that the copy lacks, or has with another content."""
    files = Files()
    with suppress(StoreUnreadable):
        files = read_manifest(folder).files
    return [
        name
        for name, facts in newest.items()
        if name not in present
        or (files.get(name) or _digest((folder / name).read_bytes())) != facts
    ]


def _publish(bucket: Bucket, lease: Lease, *, everything: bool) -> None:
    """Upload the changed files of the copy, make them current, and end the lease; then delete obsolete files.

    Args:
        bucket: the space's bucket.
        lease: the lease of the space.
        everything: delete all unnamed files, not only obsolete and old ones.

    Raises:
        Fenced: another writer took the lease.
    """
    folder = bucket.folder
    listing, before = _read_record(folder)
    files, contents = _collect_contents(folder)
    packed = orjson.dumps(files)
    size, digest = _digest(packed)
    contents[digest] = packed
    sizes = {FILES + key: size for size, key in [(size, digest), *files.values()]}
    stored = bucket.list_objects(FILES)
    lacking = [
        name
        for name, size in sizes.items()
        if name not in stored or stored[name]["size"] != size
    ]
    do_for_each(
        lambda name: bucket.upload(name, contents[name.removeprefix(FILES)]), lacking
    )
    newest = find_last_known(folder)
    lease.end(listing=digest, release=f"r{newest}" if newest else None)
    if files:
        os.sync()
        replace_file(folder / RECORD, packed)
    # files of the state before are obsolete, and other unnamed ones once they are old
    obsolete = {listing, *(key for _, key in before.values())}
    due = datetime.now(UTC) - SPARED
    deleted = [
        name
        for name, entry in stored.items()
        if name not in sizes
        and (
            everything
            or name.removeprefix(FILES) in obsolete
            or entry["last_modified"] < due
        )
    ]
    bucket.obs.delete(bucket.objects, deleted)


def _collect_contents(folder: Path) -> tuple[Files, dict[str, Path | bytes]]:
    """Return the list of a space's files, and the content of each by its SHA-256."""
    listed = read_manifest(folder).files
    files = Files()
    contents = dict[str, Path | bytes]()
    for name in sorted(_list_files(folder)):
        if name in listed:
            files[name] = listed[name]
            contents[files[name][1]] = folder / name
        else:
            content = (folder / name).read_bytes()  # it may grow during the upload
            files[name] = _digest(content)
            contents[files[name][1]] = content
    return files, contents


def _list_files(folder: Path) -> set[str]:
    """Return the paths of a space's files in its folder, without those of this machine alone."""
    names = {
        path.relative_to(folder).as_posix(): path.name
        for path in folder.rglob("*")
        if path.is_file()
    }
    own = {
        name: last
        for name, last in names.items()
        if name.partition("/")[0] not in LEFT_OUT
    }
    return {
        name
        for name, last in own.items()
        if not last.startswith(".") and not last.endswith(".lock")
    }


def _rank(name: str) -> int:
    """Return a file's place in the order of writing. In this order a reader sees a whole release or none of it."""
    if name.startswith(f"{RELEASES.name}.lance/"):
        return 2
    return (
        3
        if name.startswith(f"{FOLDER}/") or name == MANIFEST_FILE
        else int(name.endswith(".manifest"))
    )


def _name_part(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _find_added_lines(path: Path, before: list[Any] | None) -> bytes:
    """Return the lines that were added to a log of readers since the last synchronisation."""
    if path.suffix != ".jsonl":
        return b""
    content = path.read_bytes()
    size = before[0] if before else 0
    return content[size:] if not before or _digest(content[:size]) == before else b""


def _digest(content: bytes) -> list[Any]:
    return [len(content), sha256(content).hexdigest()]


def _read_record(folder: Path) -> tuple[str | None, Files]:
    """Return the list of files at the last synchronisation, and its SHA-256; for a new copy, None and an empty list."""
    if not (folder / RECORD).exists():
        return None, {}
    content = (folder / RECORD).read_bytes()
    return _digest(content)[1], orjson.loads(content)
