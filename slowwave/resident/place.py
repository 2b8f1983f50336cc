"""Find where a resident reader listens: files in a private folder, named by user, install, store and space.

Two homes, stores, spaces or installs have different names, so none gets answers from another's reader.
"""

import hashlib
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import slowwave
from slowwave.schemas.places import find_user_file, find_working_copy

OFF = (
    "0",
    "false",
    "off",
    "no",
    "n",
    "f",
)
"""Values of SLOWWAVE_RESIDENT that switch readers off, as for any setting."""
KEYED = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "SLOWWAVE_CONFIG",
    "TZ",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_TIME",
    "OMP_NUM_THREADS",
)
"""Variables that a process reads once, or that decide what the settings are: each set of them has its own reader."""
LONGEST_PATH = 100
"""Bytes of a Unix socket's path; the limit is 104 on BSD and 108 on Linux."""
OTHERS = 0o077
"""The permissions of group and others."""


class Address(NamedTuple):
    """The files of one reader."""

    socket: Path
    """Its Unix socket."""
    token: Path
    """Its port and secret, for systems on which a Unix socket does not tell its user."""
    lock: Path
    """Locked (flock) as long as the reader runs."""


def has_peer_credentials() -> bool:
    """Return True if the system tells which user is at the other end of a Unix socket."""
    return hasattr(socket, "AF_UNIX") and hasattr(socket, "SO_PEERCRED")


def find_address(store: str | None, space: str | None) -> Address | None:
    """Return the address of the reader of a store and space, which are named as on a command line.

    Return None if readers are switched off, on Windows, if the user's settings file can't be read, or if the runtime
    folder can't be made or is not private. The caller then opens the memory itself.
    """
    if sys.platform == "win32":
        return None
    try:
        in_file = read_file()
        folder = find_runtime_folder() if is_on(in_file) else None
    except (OSError, ValueError, RecursionError):
        return None
    if folder is None:
        return None
    name = compute_name(
        find_store(store, in_file),
        space
        or read_variable("SLOWWAVE_SPACE")
        or str(in_file.get("space", "default")),
    )
    return make_address(folder / f"{name}.lock")


def read_file() -> dict[str, Any]:
    """Return the table of the user's settings file; an empty one if there is no file.

    A file without the words resident, store and space is not parsed either.

    Raises:
        OSError, ValueError, RecursionError: the file can't be read, or isn't TOML.
    """
    path = find_user_file()
    content = path.read_bytes() if path else b""
    if not any(word in content for word in (b"resident", b"store", b"space")):
        return {}
    import tomllib

    return tomllib.loads(content.decode("utf-8-sig"))


def is_on(in_file: dict[str, Any]) -> bool:
    """Return False if the environment or the user's file sets `resident` to false."""
    given = read_variable("SLOWWAVE_RESIDENT")
    if given is not None:
        return given.strip().lower() not in OFF
    return in_file.get("resident") is not False


def find_store(given: str | None, in_file: dict[str, Any]) -> str:
    """Return the absolute path of the store: the given one, else that of the environment, the user's file or the
    default.

    The reader compares it with its settings, and refuses a request with another path.
    """
    if given:
        return str(find_working_copy(given).expanduser().absolute())
    if named := read_variable("SLOWWAVE_STORE") or in_file.get("store"):
        return str(find_working_copy(str(named)).absolute())
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return str(Path(data) / "slowwave" / "store")


def make_address(lock: Path) -> Address:
    """Return the address with a lock file."""
    return Address(lock.with_suffix(".socket"), lock.with_suffix(".token"), lock)


def read_variable(name: str) -> str | None:
    """Return a variable of the environment in any case, as settings are read; None if it is not set."""
    return next(
        (value for key, value in os.environ.items() if key.upper() == name), None
    )


def find_runtime_folder() -> Path | None:
    """Return the private folder of the user's readers, which is made if it does not exist.

    Return None if it can't be made, others may use it, or its path is too long for a socket.
    """
    bases = [os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp"]
    for base in filter(None, bases):
        is_own = base == bases[0]
        folder = Path(base) / ("slowwave" if is_own else f"slowwave-{os.getuid()}")
        fits = len(os.fsencode(folder)) + 32 <= LONGEST_PATH
        if fits and folder.is_absolute() and folder.parent.is_dir():
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                return folder if is_private(folder, stat.S_ISDIR) else None
            except OSError:
                return None
    return None


def is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Return True if a path is of this kind, belongs to the user, and is closed to all others.

    Links are not followed.
    """
    status = path.lstat()
    return (
        is_kind(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & OTHERS
    )


def compute_name(store: str, space: str) -> str:
    """Return the name of a reader's files: a hash of all that must be equal for it to answer."""
    parts = [
        str(os.getuid()),
        str(Path(slowwave.__file__).parent),
        sys.executable,
        sys.version,
        store,
        space,
        *(os.environ.get(name, "") for name in KEYED),
    ]
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:20]


def compute_version() -> str:
    """Return a hash of slowwave's files by size and time, and of the time of the last change to installed packages.

    A reader that was started with other code than the client's has another version.
    """
    digest = hashlib.sha256()
    top = str(Path(slowwave.__file__).parent)
    for folder, folders, files in os.walk(top, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            status = Path(folder, name).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for path in sys.path:
        if path.endswith("-packages") and Path(path).is_dir():
            digest.update(f"{path} {Path(path).stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]
