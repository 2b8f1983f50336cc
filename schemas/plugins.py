"""Plugins: what installed packages add by entry points, slowwave's own plugins among them (docs/plugins.md).

| group | an entry is |
|---|---|
| `slowwave.readers` | a `Reader`, or several: a transcript format |
| `slowwave.commands` | a function: a command, called as the entry is |
| `slowwave.places` | a class that makes a `Place`: where a store of this scheme (`s3`) lies |
| `slowwave.executors` | a function that opens an `Executor`: where a run's shards are computed |
| `slowwave.web` | a function that begins a web search; the entry `search` counts |
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from slowwave.schemas.errors import UsageError, name_install

OWN = "slowwave.plugins."
"""Beginning of the values of slowwave's own entries."""


@cache
def find_plugins(group: str) -> dict[str, EntryPoint]:
    """Return a group's entries by name, other packages' first; one of theirs replaces slowwave's own of its name."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(
        entry_points(group=group), key=lambda entry: entry.value.startswith(OWN)
    ):
        found.setdefault(entry.name, entry)
    return found


def load_plugin(group: str, name: str, extra: str = "") -> Any:
    """Return the object of an entry.

    Args:
        group: the group of entries.
        name: the entry's name.
        extra: the extra of slowwave that brings what the entry needs.

    Raises:
        UsageError: no installed package has the entry, or a package that it needs is missing.
    """
    entry = find_plugins(group).get(name)
    if entry is None:
        known = ", ".join(find_plugins(group)) or "none is installed"
        again = "slowwave's own come with its installation: install it again"
        raise UsageError(f"no package adds {name!r} to {group}: {known} ({again})")
    try:
        return entry.load()
    except ModuleNotFoundError as missing:
        install = f": {name_install(extra)}" if extra else ""
        raise UsageError(
            f"{group} {name!r} needs the package {missing.name}{install}"
        ) from missing
