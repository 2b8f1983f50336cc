"""The server of a resident reader: it accepts connections of its own user, passes on requests, and ends by itself.

It ends after IDLE seconds without a request, if the machine's memory is short, on request, and if its socket is
replaced. Requests are answered one after the other, so that each can have the client's folder and environment.
"""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from select import select
from socketserver import StreamRequestHandler, TCPServer, ThreadingMixIn
from threading import Lock
from typing import Any, Protocol, cast

from slowwave.resident.place import Address, compute_version, has_peer_credentials
from slowwave.resident.wire import (
    Frame,
    is_own_user,
    is_proven,
    make_nonce,
    prove,
    read_message,
    write_message,
)

LAST_SECONDS = 5.0
"""Seconds that an ending reader waits for its unfinished answers."""
IDLE = 20 * 60
"""Seconds without a request after which a reader ends."""
LEAST_FREE = 0.05
"""Share of the machine's memory that must be available; below it a reader ends."""
LOOK = 1.0
"""Seconds between two checks of the clock, the memory and the store."""
PATIENCE = 10.0
"""Seconds that a client may take to send its request, or to take its answer."""


class Answering(Protocol):
    """Answers the requests of a server."""

    is_over: bool
    """True if the reader should end, for example after a change of the settings."""

    def answer(self, request: Frame) -> Frame:
        """Return the answer to a request, or a reason under "pass"; called by one thread at a time."""
        ...

    def look(self) -> None:
        """Drop outdated data. It is called about once a second, never during an answer."""
        ...

    def describe(self) -> Frame:
        """Return the store and the space."""
        ...


class Resident(ThreadingMixIn, TCPServer):
    """The server of one reader."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: Address, reader: Answering) -> None:
        """Start to listen.

        Args:
            address: the files of this reader, whose lock this process holds.
            reader: answers the requests.
        """
        self.files = address
        self._reader = reader
        self.version = compute_version()
        self.token = ""
        self.timeout = LOOK
        self.is_over = False
        self.answers = 0
        self.since = time.time()
        self._used = time.monotonic()
        self._turn = Lock()
        self._counting = Lock()
        self._begun = 0
        if has_peer_credentials():
            self.address_family = socket.AF_UNIX
            where = str(_name_unready(address.socket))
            _name_unready(address.socket).unlink(missing_ok=True)
        else:
            where = cast(Any, ("127.0.0.1", 0))
        super().__init__(cast(Any, where), _Conversation)
        if self.address_family != socket.AF_UNIX:
            self._write_token()
        self._mark = self._read_mark()

    def server_bind(self) -> None:
        """Bind the socket. A Unix socket gets its name once it is closed to other users: clients refuse an open one."""
        super().server_bind()
        if self.address_family == socket.AF_UNIX:
            unready = _name_unready(self.files.socket)
            unready.chmod(0o600)
            unready.replace(self.files.socket)

    @property
    def _listed(self) -> Path:
        """The file by which clients find this reader."""
        is_unix = self.address_family == socket.AF_UNIX
        return self.files.socket if is_unix else self.files.token

    def _write_token(self) -> None:
        """Write the port and a new token into the token file, which is replaced in one step."""
        self.token = make_nonce()
        fresh = _name_unready(self.files.token)
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="ascii") as out:
            out.write(f"{self.server_address[1]} {self.token}")
        fresh.replace(self.files.token)

    def _read_mark(self) -> tuple[int, int]:
        """Return the inode and change time of the reader's file, which differ if it is replaced or its mode changes."""
        status = self._listed.lstat()
        return status.st_ino, status.st_ctime_ns

    def run(self) -> None:
        """Serve until the reader should end; then wait up to LAST_SECONDS for unfinished answers."""
        try:
            while not self.is_over:
                self.handle_request()
                self._look_around()
        finally:
            self.end()
            until = time.monotonic() + LAST_SECONDS
            while self._begun and time.monotonic() < until:
                time.sleep(0.01)
            self.server_close()

    def end(self) -> None:
        """Accept no more connections, and remove the file by which clients find this reader, unless it was replaced."""
        self.is_over = True
        with suppress(OSError):
            if self._read_mark()[0] == self._mark[0]:
                self._listed.unlink()

    def _look_around(self) -> None:
        """End if the reader is idle or over, memory is short, or its file is gone or changed. Else, between two
        answers, let it drop outdated data.
        """
        is_busy = self._turn.locked()
        is_idle = time.monotonic() - self._used > IDLE and not is_busy
        try:
            is_replaced = self._read_mark() != self._mark
        except OSError:
            is_replaced = True
        if is_idle or is_replaced or self._reader.is_over or is_memory_short():
            self.is_over = True
        elif self._turn.acquire(blocking=False):
            try:
                self._reader.look()
            finally:
                self._turn.release()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return True if a connection comes from this user. Over the loopback address, the token is checked later."""
        return self.address_family != socket.AF_UNIX or is_own_user(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke: its client does the work itself."""

    def take_request(self, request: Frame, connection: socket.socket) -> Frame:
        """Return the answer to a request. Requests other than "end" and "about" wait for their turn.

        Return a reason under "pass" if the reader ends, or the client has gone while it waited.
        """
        if request.get("do") == "end":
            self.end()
            return {}
        if request.get("do") == "about":
            return self.describe()
        with self._turn:
            if self.is_over or self._reader.is_over or has_gone(connection):
                return {"pass": "ending"}
            self._used = time.monotonic()
            answer = self._reader.answer(request)
            self._used = time.monotonic()
            self.answers += "pass" not in answer
            return answer

    def count_begun(self, more: int) -> None:
        """Add `more` to the number of unanswered requests."""
        with self._counting:
            self._begun += more

    def describe(self) -> Frame:
        """Return the reader's facts for `slowwave status`: pid, since, answers, and those of `Answering.describe`."""
        facts = {
            "pid": os.getpid(),
            "since": self.since,
            "answers": self.answers,
        }
        return {**facts, **self._reader.describe()}


def _name_unready(file: Path) -> Path:
    """Return the name under which a file for clients is made ready."""
    return file.with_suffix(".new")


class _Conversation(StreamRequestHandler):
    """One connection: greeting, request, answer."""

    timeout = PATIENCE

    def handle(self) -> None:
        """Answer one request of a client that proves it knows the token."""
        server = cast(Resident, self.server)
        hello = read_message(self.rfile)
        nonce = make_nonce()
        greeting = {
            "version": server.version,
            "pid": os.getpid(),
            "nonce": nonce,
        }
        greeting["proof"] = prove(server.token, "reader", str(hello.get("nonce")))
        write_message(self.wfile, greeting)
        request = read_message(self.rfile)
        if is_proven(
            token=server.token, who="client", nonce=nonce, proof=request.get("proof")
        ):
            server.count_begun(1)
            try:
                write_message(self.wfile, server.take_request(request, self.connection))
            finally:
                server.count_begun(-1)


def has_gone(connection: socket.socket) -> bool:
    """Return True if the other side has closed a connection."""
    try:
        is_readable, _, _ = select([connection], [], [], 0)
        return bool(is_readable) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def is_memory_short() -> bool:
    """Return True if less than LEAST_FREE of the machine's memory is available; False if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    sizes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    total = sizes.get("MemTotal", 0)
    return sizes.get("MemAvailable", total) < LEAST_FREE * total
