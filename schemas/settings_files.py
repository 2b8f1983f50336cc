"""The files that settings come from: the user's own, and a project's, which may say little.

A `slowwave.toml` in the folder of a command came with that project, perhaps from a stranger. It may set what concerns
the project alone (`OF_PROJECT`). Whatever else stands in it has no effect, and a line says so, once a
process. It is no error: a stranger's file must not be able to turn a memory off either.
"""

import json
import logging
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import SETTINGS_FILE, find_user_file, get_default_path

LOG = logging.getLogger(__name__)

OF_PROJECT = "read.exclude"
"""The setting that a project's own file may set."""
ALIASES = "aliases"
"""The setting with other names of workspaces."""
LARGEST = 64 * 1024
"""Bytes of a project's file; a larger one is left out unread."""
NAMED = 8
"""Refused names that are told one by one."""


def find_project_file() -> Path | None:
    """Return the settings file of the folder that the process works in, unless that is the user's own."""
    try:
        own = find_user_file()
        here = Path.cwd() / SETTINGS_FILE
        return (
            here
            if here.is_file() and not (own and own.exists() and own.samefile(here))
            else None
        )
    except OSError:  # a link into a place where nobody may look
        return None


def load_user_settings(model: type[BaseModel]) -> dict[str, Any]:
    """Return what the user's own file sets.

    Args:
        model: whose fields the settings are.

    Raises:
        UsageError: the file that was named is not there, can't be read, or sets what there is not.
    """
    path = find_user_file()
    if path is None:
        return {}
    if not path.is_file():
        raise UsageError(f"there is no settings file {path} (SLOWWAVE_CONFIG)")
    table = _read_toml(path)
    if unknown := set(table) - set(model.model_fields):
        raise UsageError(
            f"{path} has unknown settings: {', '.join(sorted(unknown))}; `slowwave config` lists all"
        )
    return table


def load_aliases() -> dict[str, str]:
    """Return the names of workspaces that the user's file replaces, each with its new one; none if it can't be read."""
    path = find_user_file()
    try:
        return _load_aliases(path, path.stat().st_mtime_ns) if path else {}
    except OSError:
        return {}


@lru_cache(maxsize=2)
def _load_aliases(path: Path, mtime_ns: int) -> dict[str, str]:
    try:
        aliases = _read_toml(path).get(ALIASES)
    except UsageError:  # whoever loads the settings is told
        return {}
    pairs = aliases.items() if isinstance(aliases, dict) else ()
    return {old: new for old, new in pairs if isinstance(new, str) and old and new}


def write_alias(old: str, new: str) -> Path:
    """Write into the user's settings file that a workspace has another name now, and return the file's path.

    Raises:
        UsageError: the file is no valid TOML, or can't be written.
    """
    path = find_user_file() or get_default_path()
    text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
    table = _read_toml(path) if text else {}
    if old in table.get(ALIASES, {}):
        raise UsageError(
            f"{path} has an alias of {old!r} already: {table[ALIASES][old]!r}; change it there"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_insert_alias(text, old, new), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
    return path


def _insert_alias(text: str, old: str, new: str) -> str:
    """Return the text of a settings file with the alias, as the first line of its table."""
    # A string of TOML too.
    line = (
        f"{json.dumps(old, ensure_ascii=False)} = {json.dumps(new, ensure_ascii=False)}"
    )
    lines = text.splitlines()
    header = f"[{ALIASES}]"
    at = next((n for n, other in enumerate(lines) if other.strip() == header), None)
    if at is None:
        lines += [*([""] if lines else []), header]
        at = len(lines) - 1
    return "\n".join([*lines[: at + 1], line, *lines[at + 1 :]]) + "\n"


def load_project_excludes() -> list[str]:
    """Return globs of what the project's file leaves out of a night, none of which reaches out of the project's folder.

    Raises nothing: what can't be read or may not be set there is told and left out.
    """
    path = find_project_file()
    if path is None:
        return []
    try:
        named = dict(_list_values(_read_toml(path, LARGEST)))
    except UsageError as unreadable:
        warn_once(f"{unreadable}; it is left out")
        return []
    patterns = named.pop(OF_PROJECT, [])
    refused = list(named)
    # Globs below a folder: none is absolute, none climbs.
    if not isinstance(patterns, list) or not all(
        isinstance(glob, str)
        and glob
        and not glob.startswith(("/", "~"))
        and ".." not in glob.split("/")
        for glob in patterns
    ):
        patterns = []
        refused = [
            *refused,
            f"{OF_PROJECT} with other than globs relative to its folder",
        ]
    if refused:
        more = f" and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
        warn_once(
            f"{path} is a project's settings file and may not set {', '.join(refused[:NAMED])}{more}: left out; "
            f"if you mean it, set it in {find_user_file() or get_default_path()}"
        )
    # As globs for `fnmatch` that reach no other folder; `*` is all of the project.
    root = "".join(
        f"[{char}]" if char in "*?[" else char for char in str(path.parent).rstrip("/")
    )
    return [
        *([root] if "*" in patterns else []),
        *(f"{root}/{pattern}" for pattern in patterns),
    ]


def load_file_settings(model: type[BaseModel]) -> dict[str, Any]:
    """Return what both files set: the user's, and what the project's may add to it.

    Raises:
        UsageError: as `load_user_settings`.
    """
    own = load_user_settings(model)
    excluded = load_project_excludes()
    read = own.get("read", {})
    globs = read.get("exclude", []) if isinstance(read, dict) else None
    if not excluded or not isinstance(globs, list):
        return own
    return {**own, "read": {**read, "exclude": [*globs, *excluded]}}


def _read_toml(path: Path, largest: int | None = None) -> dict[str, Any]:
    """Return a TOML file's table; the error says in a line why there is none."""
    try:
        with path.open("rb") as stream:
            content = stream.read() if largest is None else stream.read(largest + 1)
        if largest is not None and len(content) > largest:
            raise UsageError(f"{path} is larger than {largest // 1024} KiB")
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is no UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from None
    except RecursionError:
        raise UsageError(f"{path} is no valid TOML: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{path} is no valid TOML: {error}") from None


def _list_values(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a file's table, each with its dotted name; what lies deeper than any setting is one value."""
    for name, value in table.items():
        named = above + name[:80]
        if isinstance(value, dict) and named.count(".") < 2:
            yield from _list_values(value, f"{named}.")
        else:
            yield named, value


@cache
def warn_once(line: str) -> None:
    """Warn once a process, in one line whatever names a stranger chose."""
    LOG.warning(
        "%s",
        "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line),
    )
