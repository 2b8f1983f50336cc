"""A local OpenAI-compatible server that does, on request, everything a real one may do wrong.

`FakeServer(answer)` asks `answer(prompt, nth)` what to do with the nth request for a prompt: a `Reply`, a list or dict
(sent as JSON), or plain text.
"""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass(frozen=True)
class Reply:
    """One answer, or one trouble."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    refusal: str | None = None
    tokens: int = 7
    body: bytes | None = None  # in place of a completion
    half: bool = False  # the connection ends in the middle of the body
    reset: bool = False  # the connection is reset before any answer
    drip: float = 0.0  # seconds between two bytes
    after: float = 0.0  # seconds before the answer
    usage: bool = True  # whether tokens are told
    dies: bool = False  # the whole server goes down, this request unanswered
    events: list[str] | None = None  # server-sent events in place of a completion


Answer = Callable[[str, int], Any]


class FakeServer:
    """A server on 127.0.0.1; `seen` holds the bodies of all requests, `headers` theirs."""

    def __init__(
        self,
        answer: Answer,
        model: str = "fake",
        window: int | None = 4096,
        listing: int = 200,
    ) -> None:
        self.answer, self.model, self.window = answer, model, window
        self.listing = listing  # the status of its list of models
        self.seen: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def up(self) -> None:
        """Listen, on the same port as before."""
        self.http = _Http(("127.0.0.1", self.port), _handler(self))
        self.port = self.http.server_port
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def down(self) -> None:
        """Stop listening and cut every connection."""
        self.http.shutdown()
        self.http.server_close()
        for connection in list(self.http.connections):
            _cut(connection)
        self.thread.join()

    def reply(self, body: dict[str, Any]) -> Reply:
        prompt = body["messages"][-1]["content"]
        with self.lock:
            self.seen.append(body)
            nth = self.counts[prompt]
            self.counts[prompt] += 1
        said = self.answer(prompt, nth)
        return (
            said
            if isinstance(said, Reply)
            else Reply(said if isinstance(said, str) else orjson.dumps(said).decode())
        )


@contextmanager
def serving(answer: Answer, **more: Any) -> Iterator[FakeServer]:
    """A server that is down again at the end."""
    server = FakeServer(answer, **more)
    try:
        yield server
    finally:
        server.down()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *args: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*args)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


def _cut(connection: socket.socket) -> None:
    """End a connection by a reset."""
    try:
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            listed = {"id": server.model} | (
                {"max_model_len": server.window} if server.window else {}
            )
            self._send(server.listing, orjson.dumps({"data": [listed]}), {})

        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            # VLLM takes no other.
            assert self.headers["Content-Type"] == "application/json"
            reply = server.reply(
                orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            )
            time.sleep(reply.after)
            if reply.dies:
                threading.Thread(target=server.down, daemon=True).start()
                time.sleep(0.2)
            if reply.reset or reply.dies:
                self.close_connection = True
                _cut(self.connection)
                return
            body, headers = (
                reply.body if reply.body is not None else _completion(reply),
                dict(reply.headers),
            )
            if reply.events is not None:
                body = "".join(f"data: {event}\n\n" for event in reply.events).encode()
                headers["Content-Type"] = "text/event-stream"
            self._send(reply.status, body, headers, half=reply.half, drip=reply.drip)

        def _send(
            self,
            status: int,
            body: bytes,
            headers: Mapping[str, str],
            half: bool = False,
            drip: float = 0.0,
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if drip:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(drip)
            else:
                self.wfile.write(body[: len(body) // 2] if half else body)
            if half:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler


def _completion(reply: Reply) -> bytes:
    message = {
        "role": "assistant",
        "content": None if reply.refusal else reply.text,
        "refusal": reply.refusal,
    }
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": reply.tokens,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    answer = {"choices": [{"message": message, "finish_reason": reply.finish}]}
    return orjson.dumps(answer | ({"usage": usage} if reply.usage else {}))
