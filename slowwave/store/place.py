"""The place of a store's files: its own folder, or an address with the folder as a working copy.

A store at an address (`s3://bucket/prefix`) is used through a folder of this machine that is named after the address
(`slowwave/schemas/places.py`). A `Place` downloads and uploads its files; the address's scheme selects it among the
entry points of the group `slowwave.places`. For a store in a folder of its own, the place does nothing. Encryption of
the disk reaches the rest of the code through `check_writable` and `report_missing`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slowwave.schemas.errors import StoreMissing, UsageError
from slowwave.schemas.places import find_url, find_working_copy, read_url
from slowwave.schemas.plugins import load_plugin
from slowwave.store.encrypted_disk import describe_lock, find_encryption
from slowwave.store.manifest import Damage

if TYPE_CHECKING:
    from slowwave.schemas.settings import Settings

GROUP = "slowwave.places"
EXTRA = "bucket"


class Place(Protocol):
    """The place of a store's files. A factory makes it from the store's folder on this machine and its address."""

    def pull(self, space: str | None = None) -> None:
        """Update the working copy of a space, or of all spaces.

        Raises:
            StoreUnreadable: the place can't be reached, and there is no copy yet.
        """
        ...

    def lease(
        self,
        space: str,
        run_id: str,
        kind: str,
        wait: float = 0,
    ) -> AbstractContextManager[None]:
        """Hold the right to write a space: update the copy at the start, and publish it at the end.

        Raises:
            StoreLocked: another machine writes the space.
            StoreUnwritable: the place can't be reached, or another machine took over.
        """
        ...

    def push(self, space: str) -> None:
        """Publish notes of this machine; if a run is in progress, leave it to the next run or note."""
        ...

    def find_damage(self, space: str) -> list[Damage]:
        """Return the files of a space that the place lacks, or has with other content."""
        ...

    def fetch(self) -> Path:
        """Download all files below the address (transcripts to read), and return their folder.

        Raises:
            UsageError: the address has no files.
            StoreUnreadable: the place can't be reached.
        """
        ...


class OwnFolder:
    """The place of a store in a folder of its own: there is nothing to download or upload."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def pull(self, space: str | None = None) -> None:
        """Do nothing."""

    @contextmanager
    def lease(
        self,
        space: str,
        run_id: str,
        kind: str,
        wait: float = 0,
    ) -> Iterator[None]:
        """Do nothing: the writer's lock is enough."""
        yield

    def push(self, space: str) -> None:
        """Do nothing."""

    def find_damage(self, space: str) -> list[Damage]:
        """Return an empty list: the manifest covers all files."""
        return []

    def fetch(self) -> Path:
        """Return the folder."""
        return self.root


def find_place(root: Path, url: str | None = None) -> Place:
    """Return the place of a store, given its folder on this machine; `url` is needed if the folder does not name it.

    Raises:
        UsageError: no package is installed for the address's scheme.
    """
    if (address := url or find_url(root)) is None:
        return OwnFolder(root)
    place: Place = load_plugin(GROUP, address.partition(":")[0], EXTRA)(root, address)
    return place


def fetch_transcripts(path: Path) -> Path:
    """Return a folder with the files below an address; return a path as it is.

    Raises:
        UsageError: the address has no files, or no package is installed for its scheme.
        StoreUnreadable: the address can't be reached.
    """
    url = read_url(path)
    return (
        find_place(find_working_copy(url, "transcripts"), url).fetch() if url else path
    )


def refuse_copy(store: Path, what: str) -> None:
    """Raise a usage error if a store's folder is a working copy, since `what` needs a folder of its own.

    Raises:
        UsageError: the folder is a working copy.
    """
    if url := find_url(store):
        raise UsageError(f"{what}, and {url} is in a bucket: nothing was done")


def check_writable(settings: "Settings", folder: Path | None = None) -> None:
    """Check that the settings allow writing to a folder (default: the store).

    Raises:
        UsageError: the store's encrypted folder is not mounted; or the settings require encryption and none is known.
    """
    folder = folder or settings.store
    lock = describe_lock(folder) if folder == settings.store else None
    if lock:
        raise UsageError(
            f"nothing is written to {folder}: the store is locked, or half moved (docs/install.md). {lock}"
        )
    if not settings.storage.require_encrypted:
        return
    refuse_copy(
        folder,
        "storage.require_encrypted asks for a disk that is known to be encrypted",
    )
    if find_encryption(folder) is None:
        raise UsageError(
            f"nothing is written to {folder}: no encryption is known there (storage.require_encrypted)"
        )


def report_missing(folder: Path) -> StoreMissing:
    """Return the error for a space that does not exist, with the command that unlocks the store if it is locked."""
    lock = describe_lock(folder.parent)
    return StoreMissing(folder, lock) if lock else StoreMissing(folder)
