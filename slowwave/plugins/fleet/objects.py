"""A space as a bucket holds it: `files/SHA256`, which are never written again, and `live.json`, which says what counts;
and transcripts in a bucket, of which what is new or changed comes down and is read like any other folder.

Only `live.json` is ever replaced, and only by whoever names the version that it read (If-Match). Each writer raises its
epoch, so that one which was thought dead can't make live what it goes on to write.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from slowwave.schemas.errors import StoreUnreadable, StoreUnwritable, UsageError, name_install
from slowwave.schemas.places import find_url
from slowwave.store.private import make_private_folder, replace_file

if TYPE_CHECKING:
    from obstore import UpdateVersion

POINTER, FILES = "live.json", "files/"
TRIES, AT_ONCE = 3, 8
Answer = TypeVar("Answer")


class Fenced(Exception):
    """Somebody else replaced the pointer meanwhile."""


class Pointer(NamedTuple):
    """The current state of a space in a bucket, and its writer."""

    epoch: int = 0
    release: str | None = None
    listing: str | None = None
    """The SHA-256 of the list of its files."""
    holder: str | None = None
    """The working copy that is being written, until it is given back."""
    who: str = ""
    renewed: float = 0.0
    """When its holder last said so, in seconds since 1970 by its clock."""
    nonce: str = ""
    """No two are equal: it tells whether a write whose answer was lost was one's own."""


class Bucket:
    """The objects of one space, or those below an address."""

    def __init__(self, folder: Path, url: str = "", *, retries: int = 10) -> None:
        """Set up; nothing is asked yet.

        Raises:
            UsageError: what it takes is not installed.
            StoreUnreadable: the address, or a variable that says how it is reached, is none.
        """
        try:
            import obstore.exceptions
            import obstore.store
        except ModuleNotFoundError:
            raise UsageError(f"a store in a bucket needs obstore: {name_install('bucket')}") from None
        self.folder, self.obs, self.trouble = folder, obstore, (obstore.exceptions.BaseError, OSError)
        with self.translate_errors():
            self.objects = obstore.store.from_url(
                url or f"{find_url(folder.parent)}/{folder.name}",
                client_options={"read_timeout": "60s", "timeout": "1h", "allow_http": True},  # of a large file, in all
                retry_config={"max_retries": retries},
            )

    @contextmanager
    def translate_errors(self, raised: type[StoreUnreadable | StoreUnwritable] = StoreUnreadable) -> Iterator[None]:
        """Raise an error of ours, in a line, for what the bucket or the way there refuses inside."""
        try:
            yield
        except self.trouble as trouble:
            why = " ".join(str(trouble).partition("Debug source")[0].split())[:300]
            raise raised(self.folder, why) from trouble

    def read_pointer(self) -> tuple[Pointer, "UpdateVersion"]:
        """Return the pointer and what tells this version of it, which is empty where there is none."""
        try:
            return self._read_whole(
                lambda: self.obs.get(self.objects, POINTER),
                lambda answer: (Pointer(**orjson.loads(bytes(answer.bytes()))), _pick_version(answer.meta)),
            )
        except FileNotFoundError:
            return Pointer(), {}

    def replace_pointer(self, new: Pointer, version: "UpdateVersion") -> "UpdateVersion":
        """Put a pointer in the place of the version that was read, and return its own.

        Raises:
            Fenced: there is another by now.
        """
        for attempt in range(TRIES):
            try:
                made = self.obs.put(self.objects, POINTER, orjson.dumps(new._asdict()), mode=version or "create")
                return _pick_version(made)
            except self.trouble:
                stored, now = self.read_pointer()
                if stored == new:
                    return now  # the answer was lost, or the request was made twice
                if now != version:
                    raise Fenced from None
                if attempt == TRIES - 1:
                    raise
                time.sleep(1)
        raise Fenced

    def fetch(self, name: str, path: Path) -> None:
        """Download an object into a file; one that is named by its hash once it is seen to be that."""
        make_private_folder(path.parent)

        def save(answer: Any) -> None:
            with path.open("w+b") as out:
                for piece in answer:
                    out.write(piece)
                out.seek(0)
                if name.startswith(FILES) and file_digest(out, "sha256").hexdigest() != name.removeprefix(FILES):
                    raise OSError(f"{name} does not match the hash in its name")

        self._read_whole(lambda: self.obs.get(self.objects, name), save)

    def _read_whole(self, ask: Callable[[], Any], read: Callable[[Any], Answer]) -> Answer:
        """Return what is read of an answer. One that breaks off is asked for again: obstore repeats what is refused,
        but not each answer that ends too early.
        """
        for _ in range(TRIES - 1):
            answer = ask()
            with suppress(*self.trouble):
                return read(answer)
        return read(ask())

    def upload(self, name: str, content: Path | bytes) -> None:
        """Upload an object; a large one in parts, few at once, since they are held in memory."""
        self.obs.put(self.objects, name, content, max_concurrency=4)

    def list_objects(self, below: str | None = None) -> dict[str, Any]:
        """Return the metadata of each object, by its name."""
        return self._read_whole(
            lambda: self.obs.list(self.objects, below),
            lambda pages: {entry["path"]: entry for page in pages for entry in page},
        )


def do_for_each(call: Callable[[str], object], names: Iterable[str]) -> None:
    """Call a function for each of many names, several at once; what the first that failed raised is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(call, names))


def _pick_version(meta: Any) -> "UpdateVersion":
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}  # type: ignore[return-value]


def fetch_objects(folder: Path, url: str) -> Path:
    """Return the folder with what lies below an address. What is gone there is gone from the folder.

    Raises:
        UsageError: nothing lies there.
        StoreUnreadable: the bucket can't be reached.
    """
    bucket, noted = Bucket(folder, url), folder.with_name(f"{folder.name}.json")
    fetched = orjson.loads(noted.read_bytes()) if noted.exists() else {}
    with bucket.translate_errors():
        there = {name: entry for name, entry in bucket.list_objects().items() if ".." not in Path(name).parts}
        if not there:
            raise UsageError(f"nothing lies at {url}/: name a bucket, or a prefix in one")

        def fetch(name: str) -> None:
            bucket.fetch(name, folder / name)
            os.utime(folder / name, (at := there[name]["last_modified"].timestamp(), at))

        # what is new there, or changed; what is gone there goes here
        tags = {name: entry["e_tag"] for name, entry in there.items()}
        do_for_each(fetch, [name for name in tags if fetched.get(name) != tags[name] or not (folder / name).exists()])
    for path in (path for path in [*folder.rglob("*")] if path.is_file()):
        if path.relative_to(folder).as_posix() not in there:
            path.unlink()
    replace_file(noted, orjson.dumps(tags))
    return folder
