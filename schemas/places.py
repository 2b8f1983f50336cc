"""Where things lie: the user's settings and cache, Prefect's server, and the folder that stands for a bucket.

A bucket (`s3://bucket/prefix`, gs and az alike) is worked on in a copy, in a folder that is named after it. So whoever
is given a store gets a folder, and `slowwave/store/place.py` finds the bucket by its name. Hooks import this
module with each prompt: it imports little.
"""

import os
import re
from pathlib import Path

URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)")
"""With one slash where it was taken for a path, as command lines do."""
SCHEMES = ("s3", "gs", "az")
"""Schemes of addresses, beside those that other packages' places add (docs/plugins.md)."""
PREFECT_SERVER = "http://127.0.0.1:4200/api"
"""The Prefect server of `make serve`."""
SETTINGS_FILE = "slowwave.toml"


def find_user_file() -> Path | None:
    """Return the user's settings file: the one that `SLOWWAVE_CONFIG` names, else that of the config folder, if any."""
    named = os.environ.get("SLOWWAVE_CONFIG")
    if named:
        return Path(named).expanduser()
    return path if (path := get_default_path()).is_file() else None


def get_default_path() -> Path:
    """Return the default place of the user's settings file."""
    return (
        Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        / "slowwave"
        / SETTINGS_FILE
    )


def find_cache_folder() -> Path:
    """Return the user's cache folder: `$XDG_CACHE_HOME/slowwave`, else `~/.cache/slowwave`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowwave"


def read_url(path: Path | str) -> str | None:
    """Return the address of a bucket, or of a prefix in one; None for a path."""
    match = URL.fullmatch(str(path))
    return (
        f"{match[1]}://{match[2].rstrip('/')}"
        if match and _is_scheme(match[1])
        else None
    )


def _is_scheme(name: str) -> bool:
    if name in SCHEMES:
        return True
    from importlib.metadata import (
        entry_points,  # of no use for a path or one of the usual addresses
    )

    return name in entry_points(group="slowwave.places").names


def find_working_copy(store: Path | str, kind: str = "stores") -> Path:
    """Return the folder that stands for a bucket; any other path as it is."""
    url = read_url(store)
    if not url:
        return Path(store)
    from urllib.parse import quote  # of no use for a path, and not free to import

    return find_cache_folder() / kind / quote(url, safe="")


def find_url(folder: Path) -> str | None:
    """Return the address of the bucket that a folder stands for; None where it is a store of its own."""
    if "%3A%2F%2F" not in folder.name:
        return None
    from urllib.parse import unquote

    return read_url(unquote(folder.name))


def name_last_part(path: str) -> str:
    """Return the last part of a path of any system, by which answers call a workspace; a plain name as it is."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def name_place(path: Path) -> str:
    """Return a path as a person names it: a bucket's working copy by the bucket's address."""
    places = (
        (find_url(folder), str(path)[len(str(folder)) :])
        for folder in (path, *path.parents)
    )
    return next((f"{url}{rest}" for url, rest in places if url), str(path))
