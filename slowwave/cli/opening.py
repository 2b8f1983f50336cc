"""Settings and memories that a command line names, and the night in the background that a hook starts.

It imports the standard library alone until a memory is opened: hooks import it with each prompt.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowwave.resident.client import leave_running, start_detached
from slowwave.schemas.places import find_working_copy

if TYPE_CHECKING:
    from slowwave.memory import Memory
    from slowwave.schemas.settings import Settings


def format_version() -> str:
    """Return the name and version."""
    from importlib.metadata import version

    return f"slowwave {version('slowwave')}"


def build_overrides(
    store: Path | None = None, space: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return the settings of the command line, as plain JSON values."""
    given = {
        "store": str(find_working_copy(store).expanduser().absolute())
        if store
        else None,
        "space": space,
        **more,
    }
    return {name: value for name, value in given.items() if value is not None}


def load_settings(
    store: Path | str | None = None, space: str | None = None, **more: Any
) -> "Settings":
    """Return the settings; those of the command line override the settings file and the environment.

    Raises:
        UsageError: a value is invalid (the message names the setting and its valid values), or the user's settings
            file can't be read.
    """
    from slowwave.schemas.settings import (
        make_settings,  # takes a tenth of a second, which `--help` does not need
    )

    return make_settings(build_overrides(Path(store) if store else None, space, **more))


def open_anew(settings: "Settings", release: str | None) -> "Memory":
    """Return the memory that settings name, opened by this process.

    Raises:
        UsageError, StoreError: as `Memory.open`.
    """
    from slowwave.memory import Memory

    return Memory.open(settings.store, settings.space, release)


OPENER: ContextVar[Callable[["Settings", str | None], "Memory"]] = ContextVar(
    "opener", default=open_anew
)
"""The function that opens a memory. The resident reader sets one that keeps the memory open."""


def open_memory(
    store: Path | None, space: str | None, release: str | None = None
) -> "Memory":
    """Open the memory that the settings and these options name. Its warnings are not logged: the caller prints them.

    Raises:
        UsageError, StoreError: as `Memory.open`.
    """
    with import_uncollected():
        from slowwave.recall.live import LOG
    # Without a handler, Python would print the warnings on stderr.
    LOG.addHandler(logging.NullHandler())
    return OPENER.get()(load_settings(store, space), release)


@contextmanager
def import_uncollected() -> Iterator[None]:
    """Look for no garbage during imports: imported objects stay. To try it takes an eighth of a command's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def find_project(memory: "Memory", folder: str = ".") -> str | None:
    """Return the folder (default: the current one) if the memory knows its project, or one above it; else None.

    See `find_workspaces` for what a folder's project is.
    """
    return folder if memory.has_workspace(folder) else None


def prepare_encoder(settings: "Settings") -> None:
    """Build the encoder's graph that queries need, if it is missing, since a hook has no time for it.

    A failure is ignored here: the call that needs the encoder reports it.
    """
    if not settings.embeddings:
        return
    from slowwave.engines.encoders.load import build_query_graph

    with suppress(OSError, KeyError, TypeError, ValueError):
        build_query_graph(settings.encoder)


def start_small_night(transcript: Path, given: dict[str, Any]) -> None:
    """Start a background night over the transcript of an ended session, in a process that outlives this one."""
    words = [
        word
        for name, value in given.items()
        if name in ("store", "space")
        for word in (f"--{name}", value)
    ]
    night = start_detached("slowwave", "run", str(transcript), "--background", *words)
    leave_running(night)
