"""Ask the resident reader, and start it if there is none. After any failure, the caller does the work itself.

Only the standard library is imported, since a hook does this with each prompt.
"""

import os
import socket
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.resident.place import (
    Address,
    compute_version,
    find_address,
    find_runtime_folder,
    has_peer_credentials,
    is_private,
    make_address,
)
from slowwave.resident.wire import (
    Frame,
    is_own_user,
    is_proven,
    make_nonce,
    prove,
    read_message,
    write_message,
)

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from subprocess import Popen

GREETING_SECONDS = 1.0
"""Seconds to wait for a reader's greeting: one that is stopped or hung sends none."""
PAUSE = 0.02
"""Seconds between two attempts to connect to a reader that is starting."""
READER = "slowwave.cli.agents.resident"
"""The module that a reader runs."""


class Refused(Exception):
    """The reader must not be asked: it is another user's, open to others, or of another version."""


def ask(
    request: Frame,
    store: str | None,
    space: str | None,
    seconds: float,
) -> Frame | None:
    """Return the reader's answer, or None if the caller has to do the work itself.

    The request is sent with this process's folder and environment. A reader is started if none runs.

    Args:
        request: the request.
        store: as the command line names it; None for the settings' store.
        space: as the command line names it; None for the settings' space.
        seconds: how long to wait, including the start of a reader.
    """
    try:
        if (address := find_address(store, space)) is None:
            return None
        here = {
            "cwd": str(Path.cwd()),
            "environ": dict(os.environ),
        }
        return _ask(address, {**request, **here}, seconds)
    except (OSError, ValueError, Refused):
        return None


def _ask(address: Address, request: Frame, seconds: float) -> Frame | None:
    """Return the answer; None if no reader starts in time, or it passes the request back.

    Raises:
        OSError, ValueError: the connection broke, or the answer is malformed.
        Refused: the reader must not be asked.
    """
    deadline = time.monotonic() + seconds
    child: Popen[bytes] | None = None
    try:
        while (found := connect(address)) is None:
            child = child or start_reader(address)
            has_ended = child is not None and child.poll() is not None
            if has_ended or time.monotonic() > deadline:
                return None
            time.sleep(PAUSE)
    finally:
        leave_running(child)
    connection, token = found
    with connection:
        answer = converse(
            connection=connection, token=token, request=request, deadline=deadline
        )
    return None if "pass" in answer else answer


def connect(address: Address) -> tuple[socket.socket, str] | None:
    """Return a connection to the reader and its token; None if no reader listens.

    Raises:
        Refused: the socket or its file is not the user's own, or is open to others.
    """
    if has_peer_credentials():
        path = address.socket
        is_kind = stat.S_ISSOCK
    else:
        path = address.token
        is_kind = stat.S_ISREG
    try:
        if not is_private(path, is_kind):
            raise Refused(f"{path} is not this user's alone")
        if path == address.socket:
            connection = _open_socket(str(path))
            token = ""
        else:
            port, token = path.read_text(encoding="ascii").split()
            connection = socket.create_connection(
                ("127.0.0.1", int(port)), GREETING_SECONDS
            )
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    if not token and not is_own_user(connection):
        raise Refused(f"{path} is served by another user")
    return connection, token


def _open_socket(path: str) -> socket.socket:
    """Return a connection to a Unix socket; if there is none, nothing stays open."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(GREETING_SECONDS)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def converse(
    connection: socket.socket,
    token: str,
    request: Frame,
    deadline: float,
) -> Frame:
    """Return the answer to a request. A reader of another version gets the request to end, except for "about".

    Raises:
        OSError, ValueError: the connection broke, or no answer came in time.
        Refused: the reader does not know the token, or has another version.
    """
    nonce = make_nonce()
    with connection.makefile("rwb") as stream:
        write_message(stream, {"nonce": nonce})
        greeting = read_message(stream)
        if not is_proven(
            token=token, who="reader", nonce=nonce, proof=greeting.get("proof")
        ):
            raise Refused("what listens there does not know the token")
        proof = prove(token, "client", str(greeting.get("nonce")))
        if request["do"] != "about" and greeting.get("version") != compute_version():
            write_message(stream, {"do": "end", "proof": proof})
            raise Refused("the reader has another version")
        connection.settimeout(max(PAUSE, deadline - time.monotonic()))
        write_message(stream, {**request, "proof": proof})
        return read_message(stream)


def start_reader(address: Address) -> "Popen[bytes] | None":
    """Start the reader of an address and return its process; None if another process starts it, or it runs.

    This process takes the lock and passes it to the reader, which holds it until it ends.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(address.lock, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    else:
        return start_detached(READER, str(address.socket), str(lock), keep_open=[lock])
    finally:
        os.close(lock)


def leave_running(process: "Popen[bytes] | None") -> None:
    """Let a process outlive this one without Python's warning that nobody waits for it."""
    if process is not None and process.returncode is None:
        process.returncode = 0


def start_detached(
    module: str, *words: str, keep_open: "list[int] | None" = None
) -> "Popen[bytes]":
    """Start a module of slowwave in a process that outlives this one."""
    from subprocess import DEVNULL, Popen  # takes as long as the rest of a hook

    # -P: the client's folder may contain a module of any name
    return Popen(
        [sys.executable, "-P", "-m", module, *words],
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
        pass_fds=keep_open or (),
    )


def find_readers(store: Path, space: str) -> list[Frame]:
    """Return the facts of each of the user's readers of a store and space: pid, since, answers, megabytes."""
    found = []
    folder = find_runtime_folder() if sys.platform != "win32" else None
    for lock in sorted(folder.glob("*.lock")) if folder else ():
        about = _ask_about(make_address(lock))
        if (about.get("store"), about.get("space")) == (str(store), space):
            found.append(about)
    return found


def _ask_about(address: Address) -> Frame:
    """Return the facts of a reader of any version; an empty message if it does not answer."""
    try:
        if (found := connect(address)) is None:
            return {}
        deadline = time.monotonic() + GREETING_SECONDS
        with found[0] as connection:
            return converse(
                connection=connection,
                token=found[1],
                request={"do": "about"},
                deadline=deadline,
            )
    except (OSError, ValueError, Refused):
        return {}
