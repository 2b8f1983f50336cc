"""Places of the user's settings and cache, of Prefect's server, and of the folder that stands for a bucket.

A store in a bucket (`s3://bucket/prefix`, gs and az alike) has a working copy in a folder that is named after the
bucket. So every store is a folder, and `slowwave/store/place.py` finds the bucket by the folder's name. Hooks import
this module with each prompt, so it imports little.
"""

import os
import re
from pathlib import Path

URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)")
"""An address. It has only one slash if it was parsed as a path, as command lines do."""
SCHEMES = ("s3", "gs", "az")
"""Schemes of addresses, beside those that other packages' places add (docs/plugins.md)."""
PREFECT_SERVER = "http://127.0.0.1:4200/api"
"""The Prefect server of `make serve`."""
SETTINGS_FILE = "slowwave.toml"


def find_user_file() -> Path | None:
    """Return the user's settings file: the one that `SLOWWAVE_CONFIG` names, which may not exist, else the file in the
    config folder, or None if there is none.
    """
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
    """Return the address of the bucket that a folder is a working copy of; None for any other folder."""
    if "%3A%2F%2F" not in folder.name:
        return None
    from urllib.parse import unquote

    return read_url(unquote(folder.name))


def name_last_part(path: str) -> str:
    """Return the last part of a path of any system, as answers name a workspace.

    A name without a slash is unchanged.
    """
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def name_place(path: Path) -> str:
    """Return a path as text. A path in a bucket's working copy begins with the bucket's address instead."""
    places = (
        (find_url(folder), str(path)[len(str(folder)) :])
        for folder in (path, *path.parents)
    )
    return next((f"{url}{rest}" for url, rest in places if url), str(path))
