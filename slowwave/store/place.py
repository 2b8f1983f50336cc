"""Where the files of a store lie: in its own folder, or elsewhere, with the folder as a copy of them.

A store at an address (`s3://bucket/prefix`) is worked on in a folder of this machine that is named after the address
(`slowwave/schemas/places.py`). What brings its files here and back is a `Place`, found by the address's scheme among
the entry points of the group `slowwave.places`. A store in a folder of its own has a place that does nothing.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import find_url, find_working_copy, read_url
from slowwave.schemas.plugins import load_plugin
from slowwave.store.manifest import Damage

GROUP, EXTRA = "slowwave.places", "bucket"


class Place(Protocol):
    """Where the files of a store lie. A factory makes one of the store's folder here and its address."""

    def pull(self, space: str | None = None) -> None:
        """Bring a space's copy up to what is live; of no space, the copies of all of them.

        Raises:
            StoreUnreadable: the place can't be reached, and there is no copy.
        """
        ...

    def lease(self, space: str, run_id: str, kind: str, wait: float = 0) -> AbstractContextManager[None]:
        """Hold the right to write a space: begin with what is live, and make live what stands here at the end.

        Raises:
            StoreLocked: another machine writes it.
            StoreUnwritable: the place can't be reached, or another machine took over.
        """
        ...

    def push(self, space: str) -> None:
        """Bring up what was noted here, unless a run is in progress: the next run or note does it then."""
        ...

    def find_damage(self, space: str) -> list[Damage]:
        """Return the files of a space that the place lacks, or has otherwise."""
        ...

    def fetch(self) -> Path:
        """Return the folder with all files below the address: transcripts to read.

        Raises:
            UsageError: nothing lies there.
            StoreUnreadable: the place can't be reached.
        """
        ...


class OwnFolder:
    """The place of a store whose folder is no copy: nothing has to be brought anywhere."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def pull(self, space: str | None = None) -> None:
        """Do nothing."""

    @contextmanager
    def lease(self, space: str, run_id: str, kind: str, wait: float = 0) -> Iterator[None]:
        """Hold nothing: the writer's lock is enough."""
        yield

    def push(self, space: str) -> None:
        """Do nothing."""

    def find_damage(self, space: str) -> list[Damage]:
        """Return nothing: the manifest has it all."""
        return []

    def fetch(self) -> Path:
        """Return the folder."""
        return self.root


def find_place(root: Path, url: str | None = None) -> Place:
    """Return the place of a store by its folder here; `url` is the address, if the folder's name does not tell it.

    Raises:
        UsageError: no package is installed for its scheme.
    """
    if (address := url or find_url(root)) is None:
        return OwnFolder(root)
    place: Place = load_plugin(GROUP, address.partition(":")[0], EXTRA)(root, address)
    return place


def fetch_transcripts(path: Path) -> Path:
    """Return a folder with what lies below an address; a path as it is.

    Raises:
        UsageError: nothing lies there, or no package is installed for its scheme.
        StoreUnreadable: it can't be reached.
    """
    url = read_url(path)
    return find_place(find_working_copy(url, "transcripts"), url).fetch() if url else path


def refuse_copy(store: Path, what: str) -> None:
    """Refuse what can't be done with a store whose folder is a copy.

    Raises:
        UsageError: it is one.
    """
    if url := find_url(store):
        raise UsageError(f"{what}, and {url} is in a bucket: nothing was done")
