"""The files that settings come from: the user's own, and a project's, which may set little.

A `slowwave.toml` in the folder of a command came with that project, perhaps from a stranger. It may only set what
concerns the project (`OF_PROJECT`). Other settings in it have no effect, and a warning says so once per process. This
is not an error, since a stranger's file must not be able to turn a memory off either.
"""

import json
import logging
import re
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
HEADER = re.compile(rf"\s*\[\s*(['\"]?){ALIASES}\1\s*\]\s*(?:#.*)?$")
"""The line that begins the table of the aliases."""
LARGEST = 64 * 1024
"""Most bytes of a project's file; a larger file is ignored."""
NAMED = 8
"""Most refused names in a warning."""


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
    except OSError:  # a link to a place without access
        return None


def load_user_settings(model: type[BaseModel]) -> dict[str, Any]:
    """Return the table of the user's own settings file; an empty one if there is no file.

    Args:
        model: has the settings as fields.

    Raises:
        UsageError: the file that SLOWWAVE_CONFIG names does not exist, can't be read, or has an unknown setting.
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
    """Return the new name of each workspace that the user's file renames; no names if the file can't be read."""
    path = find_user_file()
    try:
        return _load_aliases(path, path.stat().st_mtime_ns) if path else {}
    except OSError:
        return {}


@lru_cache(maxsize=2)
def _load_aliases(path: Path, mtime_ns: int) -> dict[str, str]:
    try:
        aliases = _read_toml(path).get(ALIASES)
    except UsageError:  # loading the settings raises it
        return {}
    pairs = aliases.items() if isinstance(aliases, dict) else ()
    return {old: new for old, new in pairs if isinstance(new, str) and old and new}


def add_alias(old: str, new: str) -> tuple[Path, str]:
    """Return the user's settings file, and its text with the alias that a workspace has another name now.

    Raises:
        UsageError: the file has an alias of the old name already, isn't valid TOML, or has its aliases in another form
            than a table with a header.
    """
    path = find_user_file() or get_default_path()
    text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
    table = _read_toml(path) if text else {}
    aliases = table.get(ALIASES, {})
    if isinstance(aliases, dict) and old in aliases:
        raise UsageError(
            f"{path} has an alias of {old!r} already: {aliases[old]!r}; change it there"
        )
    longer = _insert_alias(text, old, new)
    if not _has_alias(text=longer, table=table, old=old, new=new):
        raise UsageError(
            f"{path} has `{ALIASES}` in a form that can't be added to; write the alias of {old!r} there"
        )
    return path, longer


def _insert_alias(text: str, old: str, new: str) -> str:
    """Return the text of a settings file with the alias, as the first line of its table."""
    # a string of JSON is one of TOML too
    line = (
        f"{json.dumps(old, ensure_ascii=False)} = {json.dumps(new, ensure_ascii=False)}"
    )
    lines = text.splitlines()
    at = next((n for n, other in enumerate(lines) if HEADER.match(other)), None)
    if at is None:
        lines += [*([""] if lines else []), f"[{ALIASES}]"]
        at = len(lines) - 1
    return "\n".join([*lines[: at + 1], line, *lines[at + 1 :]]) + "\n"


def _has_alias(
    text: str,
    table: dict[str, Any],
    old: str,
    new: str,
) -> bool:
    """Return True if a file's new text is valid TOML and only adds the alias to its old table."""
    try:
        return tomllib.loads(text) == {
            **table,
            ALIASES: {**table.get(ALIASES, {}), old: new},
        }
    except (tomllib.TOMLDecodeError, TypeError):  # TypeError: aliases aren't a table
        return False


def load_project_excludes() -> list[str]:
    """Return globs of paths below the project's folder that the project's file excludes from a night.

    A file that can't be read, and settings that it may not set, are ignored with a warning.
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
    """Return the settings of the user's file, with the excluded paths of the project's file added.

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
    """Return the table of a TOML file.

    Raises:
        UsageError: the file can't be read, is larger than `largest` bytes, or isn't valid TOML in UTF-8.
    """
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
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from None
    except RecursionError:
        raise UsageError(f"{path} is not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def _list_values(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in a file's table with its dotted name. A table below the third level is one value."""
    for name, value in table.items():
        named = above + name[:80]
        if isinstance(value, dict) and named.count(".") < 2:
            yield from _list_values(value, f"{named}.")
        else:
            yield named, value


@cache
def warn_once(line: str) -> None:
    """Log a warning once per process. Characters that are not printable are escaped, so it stays one line."""
    LOG.warning(
        "%s",
        "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line),
    )
