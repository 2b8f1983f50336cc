"""Every error slowwave raises on purpose, each with the facts as attributes.

SlowwaveError
├── StoreError
│   ├── StoreMissing       no store, or no such space, at this path
│   ├── StoreUnreadable    a store that is broken, or half there
│   ├── StoreUnwritable    no room, no right, or a table that is broken
│   ├── StoreLocked        another run is writing
│   ├── NoRelease          nothing has been released yet, or not under that name
│   │   └── ReleaseDropped  it was, and is no longer kept
│   ├── SchemaMismatch     a table on disk has other columns: another version of slowwave wrote it
│   └── BadRows            rows that can't be stored: a null or repeated key
├── ReadError              a transcript can't be read (slowwave.tasks.ingest.parsing.records)
│   ├── UnknownFormat      no reader knows the file
│   └── NoSuchPath         a path that was given does not exist, or is a pipe or a device
├── EngineError            a model can't be had or used
│   ├── EncoderNotFound    no encoder of that name: not a folder, not an installed package, not on the hub
│   ├── EncoderFailed      an embedding server returned no vectors
│   │   └── TextsRefused   it refused these texts
│   └── EngineUnavailable  a language model's engine can answer nothing (slowwave.engines.llm.protocol)
│       └── ModelNotServed it has no model of that name
├── NightIncomplete        a step failed, or a session in it; the rest is released (slowwave.flows.parts.report)
├── Unquoted               an error without its words, for Prefect (slowwave.flows.prefect)
├── PrefectFailed          Prefect can't run something, or can't record it (slowwave.flows.prefect)
├── ClusterFailed          no Ray at an address, or no machine there can do the work (slowwave.plugins.fleet.on_ray)
├── WebTrouble             a search or a page can't be had (slowwave.plugins.talk.web.engines)
└── UsageError             a request that can't be carried out as given
    └── NoSuchId           nothing has the id that was asked for
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.schemas.places import name_place

if TYPE_CHECKING:
    from pydantic import ValidationError

MOST_RELEASES = 6
"""Releases that a message lists, the latest."""
NO_STORE = "run `slowwave run` first, or name another with --store"
"""What to do if no store is at a path."""


class SlowwaveError(Exception):
    """Base of every error raised on purpose."""

    exit_status = 1
    """Exit status of a command that ends with this error. Some errors set 3: something that was named is not there."""


class StoreError(SlowwaveError):
    """The store could not do what was asked."""


class StoreMissing(StoreError):
    """An expected store or space does not exist."""

    def __init__(self, path: Path, why: str = NO_STORE) -> None:
        self.path = path
        super().__init__(f"no store at {name_place(path)}: {why}")


class StoreUnreadable(StoreError):
    """The store can't be read: files of it are broken or gone."""

    def __init__(
        self,
        path: Path,
        why: str,
    ) -> None:
        self.path = path
        self.why = why
        super().__init__(f"the store at {name_place(path)} can't be read: {why}")


class StoreUnwritable(StoreError):
    """The store can't be written to; what was released stays as it is."""

    def __init__(
        self,
        path: Path,
        why: str,
    ) -> None:
        self.path = path
        self.why = why
        super().__init__(
            f"the store at {name_place(path)} can't be written to, its last release stays: {why}"
        )


class StoreLocked(StoreError):
    """Another run holds the writer's lock."""

    def __init__(
        self,
        path: Path,
        holder: str,
    ) -> None:
        self.path = path
        self.holder = holder
        super().__init__(
            f"the store at {name_place(path)} is being written by {holder}: wait for it, or end it"
        )


class NoRelease(StoreError):
    """Nothing has been released yet, or not under that name."""

    def __init__(
        self,
        path: Path,
        release: str | None = None,
        kept: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.release = release
        place = name_place(path)
        if release:
            earlier = "…, " if len(kept) > MOST_RELEASES else ""
            there = f"{earlier}{', '.join(kept[-MOST_RELEASES:])}"
            super().__init__(
                f"there is no release {release!r} in {place}; there are: {there or 'none yet'}"
            )
        else:
            super().__init__(
                f"nothing has been released yet in {place}: `slowwave run` makes the first release"
            )


class ReleaseDropped(NoRelease):
    """A release that was made, and is no longer kept."""

    def __init__(
        self,
        path: Path,
        release: str,
    ) -> None:
        self.path = path
        self.release = release
        StoreError.__init__(
            self,
            f"{release} of {name_place(path)} is no longer kept: `storage` says how many releases are, and forgetting "
            "drops all but its own; `slowwave inspect releases` says which are left",
        )


class SchemaMismatch(StoreError):
    """A table on disk is unknown to this version of slowwave, or has other columns."""

    def __init__(
        self,
        table: str,
        missing: list[str],
        other: list[str],
    ) -> None:
        self.table = table
        self.missing = missing
        self.other = other
        facts = [
            f"{name} {', '.join(of)}"
            for name, of in (("it lacks", missing), ("it has", other))
            if of
        ]
        why = "; ".join(facts) or "this version has no such table"
        super().__init__(
            f"table {table!r} was written by another version of slowwave ({why}): "
            "`slowwave export OUT` with the version that wrote it, then `slowwave run OUT --store NEW` with this one"
        )


class BadRows(StoreError):
    """Rows that can't be stored: a null or repeated key, which Lance would lose or double without a word."""

    def __init__(
        self,
        table: str,
        why: str,
    ) -> None:
        self.table = table
        self.why = why
        super().__init__(
            f"rows for table {table!r} refused: {why}; nothing was written"
        )


class UsageError(SlowwaveError):
    """A request that can't be carried out as given; the message says which could be."""


class NoSuchId(UsageError):
    """Nothing has the id that was asked for."""


class EngineError(SlowwaveError):
    """A model could not be had or could not be used."""


class EncoderNotFound(EngineError):
    """No encoder of that name could be loaded; `tried` lists each place with what was wrong there."""

    def __init__(
        self,
        name: str,
        tried: Sequence[str],
    ) -> None:
        self.name = name
        self.tried = tuple(tried)
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(
            f"no encoder {name!r}. Tried:{places}\n"
            "Name a folder, an installed model package or a hub model in `encoder` (SLOWWAVE_ENCODER),\n"
            "or turn vectors off (SLOWWAVE_EMBEDDINGS=false): recall is then full text alone."
        )


class EncoderFailed(EngineError):
    """The embedding server of the encoder `name` returned no vectors; `why` says the reason."""

    def __init__(
        self,
        name: str,
        why: str,
    ) -> None:
        self.name = name
        self.why = why
        super().__init__(f"encoder {name!r}: {why}")


class TextsRefused(EncoderFailed):
    """The embedding server refused these texts: one may be too long."""


def name_install(extra: str) -> str:
    """Return the command that adds an extra to slowwave, by pip or uv and from where slowwave itself was installed."""
    import json
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec
    from urllib.request import url2pathname

    try:
        origin = json.loads(
            distribution("slowwave").read_text("direct_url.json") or "{}"
        )
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = origin.get("url", "")
    vcs = origin.get("vcs_info", {})
    packages = [f"slowwave[{extra}]"]
    if origin.get("dir_info", {}).get("editable"):
        packages = ["-e", f"{url2pathname(url.removeprefix('file://'))}[{extra}]"]
    elif url:
        source = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
        packages = [f"slowwave[{extra}] @ {source}"]
    by_pip = [sys.executable, "-m", "pip", "install"]
    by_uv = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*(by_pip if find_spec("pip") else by_uv), *packages])


READ_TROUBLE = (OSError, RuntimeError, ValueError)
"""Errors of Lance for an index or a file that it can't read."""
TROUBLE = (*READ_TROUBLE, StoreError)
"""Errors of a store that is gone or incomplete."""
SOURCE = re.compile(r"\.rs:\d+")


def format_error(trouble: Exception) -> str:
    """Return the first 300 characters of an error's message, without its places in Lance's source files."""
    words = " ".join(str(trouble).split()).split(", ")
    return ", ".join(word for word in words if not SOURCE.search(word))[:300]


def explain_invalid(error: "ValidationError") -> str:
    """Return in one line which values pydantic refuses, and why."""
    return "; ".join(
        f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False)
    )


@contextmanager
def translate_read_errors(
    path: Path, raised: type[StoreError] = StoreUnreadable
) -> Iterator[None]:
    """Turn an error of Lance in the block (READ_TROUBLE) into an error of the store.

    Args:
        path: the table, or the store.
        raised: the class of the error to raise.

    Raises:
        StoreUnreadable: by default, if the block can't read a table.
    """
    try:
        yield
    except READ_TROUBLE as trouble:
        raise raised(path, format_error(trouble)) from trouble


def translate_write_errors(path: Path) -> AbstractContextManager[None]:
    """Raise `StoreUnwritable` if the block can't write: the disk is full, a right is missing, or a table is broken."""
    return translate_read_errors(path, StoreUnwritable)
