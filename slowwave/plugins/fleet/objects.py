"""A space in a bucket, and transcripts in a bucket.

A space is the objects `files/SHA256`, which are never overwritten, and `live.json`, which names the current files. Only
`live.json` is replaced, and only by a writer that names the version it read (If-Match). Each writer raises the epoch,
so a writer that was believed dead can't publish what it writes later.

New and changed transcripts are downloaded into a folder, which is read like any other.
"""

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from slowwave.schemas.errors import (
    StoreUnreadable,
    StoreUnwritable,
    UsageError,
    name_install,
)
from slowwave.schemas.places import find_url
from slowwave.store.private import make_private_folder, replace_file

if TYPE_CHECKING:
    from obstore import UpdateVersion

POINTER = "live.json"
FILES = "files/"
TRIES = 3
AT_ONCE = 8
Answer = TypeVar("Answer")


class Fenced(Exception):
    """Another writer replaced the pointer in the meantime."""


class Pointer(NamedTuple):
    """The current state of a space in a bucket, and its writer."""

    epoch: int = 0
    release: str | None = None
    listing: str | None = None
    """The SHA-256 of the list of its files."""
    holder: str | None = None
    """The working copy that has the lease; None if none has."""
    who: str = ""
    renewed: float = 0.0
    """When the holder last renewed the lease, in seconds since 1970 by its clock."""
    nonce: str = ""
    """Unique to each write: if the answer to a write was lost, it shows whether the write arrived."""


class Bucket:
    """The objects of one space, or those below an address."""

    def __init__(
        self,
        folder: Path,
        url: str = "",
        *,
        retries: int = 10,
    ) -> None:
        """Set up the connection; no request is sent yet.

        Raises:
            UsageError: obstore is not installed.
            StoreUnreadable: the address, or an environment variable about the connection, is invalid.
        """
        try:
            import obstore.exceptions
            import obstore.store
        except ModuleNotFoundError:
            raise UsageError(
                f"a store in a bucket needs obstore: {name_install('bucket')}"
            ) from None
        self.folder = folder
        self.obs = obstore
        self.trouble = (obstore.exceptions.BaseError, OSError)
        with self.translate_errors():
            # 1h: a whole large file.
            self.objects = obstore.store.from_url(
                url or f"{find_url(folder.parent)}/{folder.name}",
                client_options={
                    "read_timeout": "60s",
                    "timeout": "1h",
                    "allow_http": True,
                },
                retry_config={"max_retries": retries},
            )

    @contextmanager
    def translate_errors(
        self, raised: type[StoreUnreadable | StoreUnwritable] = StoreUnreadable
    ) -> Iterator[None]:
        """Raise an error of the bucket or the connection as `raised`, with its reason on one line."""
        try:
            yield
        except self.trouble as trouble:
            why = " ".join(str(trouble).partition("Debug source")[0].split())[:300]
            raise raised(self.folder, why) from trouble

    def read_pointer(self) -> tuple[Pointer, "UpdateVersion"]:
        """Return the pointer and its version; the version is empty if the bucket has no pointer."""
        try:
            return self._read_whole(
                lambda: self.obs.get(self.objects, POINTER),
                lambda answer: (
                    Pointer(**orjson.loads(bytes(answer.bytes()))),
                    _pick_version(answer.meta),
                ),
            )
        except FileNotFoundError:
            return Pointer(), {}

    def replace_pointer(
        self, new: Pointer, version: "UpdateVersion"
    ) -> "UpdateVersion":
        """Replace the version of the pointer that was read, and return the new version.

        Raises:
            Fenced: another writer replaced it.
        """
        for attempt in range(TRIES):
            try:
                made = self.obs.put(
                    self.objects,
                    POINTER,
                    orjson.dumps(new._asdict()),
                    mode=version or "create",
                )
                return _pick_version(made)
            except self.trouble:
                stored, now = self.read_pointer()
                if stored == new:
                    return now  # the answer was lost, or the request was sent twice
                if now != version:
                    raise Fenced from None
                if attempt == TRIES - 1:
                    raise
                time.sleep(1)
        raise Fenced

    def fetch(self, name: str, path: Path) -> None:
        """Download an object into a file.

        Raises:
            FileNotFoundError: the bucket has no such object.
            OSError: the name is a hash, and the content does not match it.
        """
        make_private_folder(path.parent)

        def save(answer: Any) -> None:
            with path.open("w+b") as out:
                for piece in answer:
                    out.write(piece)
                out.seek(0)
                if name.startswith(FILES) and file_digest(
                    out, "sha256"
                ).hexdigest() != name.removeprefix(FILES):
                    raise OSError(f"{name} does not match the hash in its name")

        self._read_whole(lambda: self.obs.get(self.objects, name), save)

    def _read_whole(
        self, ask: Callable[[], Any], read: Callable[[Any], Answer]
    ) -> Answer:
        """Send a request and read its answer; send it again if the answer breaks off.

        obstore repeats refused requests itself, but not every request whose answer ends early.
        """
        for _ in range(TRIES - 1):
            answer = ask()
            with suppress(*self.trouble):
                return read(answer)
        return read(ask())

    def upload(self, name: str, content: Path | bytes) -> None:
        """Upload an object; a large one in parts, few at a time, since they are in memory."""
        self.obs.put(self.objects, name, content, max_concurrency=4)

    def list_objects(self, below: str | None = None) -> dict[str, Any]:
        """Return the metadata of each object, by its name."""
        return self._read_whole(
            lambda: self.obs.list(self.objects, below),
            lambda pages: {entry["path"]: entry for page in pages for entry in page},
        )


def do_for_each(call: Callable[[str], object], names: Iterable[str]) -> None:
    """Call a function for each name, several at once; raise the error of the first call that failed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(call, names))


def _pick_version(meta: Any) -> "UpdateVersion":
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}  # type: ignore[return-value]


def fetch_objects(folder: Path, url: str) -> Path:
    """Make a folder equal to the objects below an address, and return it.

    Objects that are new or changed are downloaded; files whose object was deleted are deleted.

    Raises:
        UsageError: the address has no objects.
        StoreUnreadable: the bucket can't be reached.
    """
    bucket = Bucket(folder, url)
    tags_file = folder.with_name(f"{folder.name}.json")
    fetched = orjson.loads(tags_file.read_bytes()) if tags_file.exists() else {}
    with bucket.translate_errors():
        objects = {
            name: entry
            for name, entry in bucket.list_objects().items()
            if ".." not in Path(name).parts
        }
        if not objects:
            raise UsageError(
                f"nothing lies at {url}/: name a bucket, or a prefix in one"
            )

        def fetch(name: str) -> None:
            bucket.fetch(name, folder / name)
            at = objects[name]["last_modified"].timestamp()
            os.utime(folder / name, (at, at))

        tags = {name: entry["e_tag"] for name, entry in objects.items()}
        do_for_each(
            fetch,
            [
                name
                for name in tags
                if fetched.get(name) != tags[name] or not (folder / name).exists()
            ],
        )
    _delete_others(folder, objects)
    replace_file(tags_file, orjson.dumps(tags))
    return folder


def _delete_others(folder: Path, names: Container[str]) -> None:
    """Delete the files of a folder whose paths are not among the names."""
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.relative_to(folder).as_posix() not in names:
            path.unlink()
