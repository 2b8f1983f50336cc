"""A server on this machine that answers as SearXNG and Google do, and holds pages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

STORY = (
    "The harbour authority raised the berthing fee to 41 euros a metre on Monday. "
    "Boats under six metres pay half, and the winter discount ends in March. "
    "The fee had not changed since the new breakwater was finished."
)
PAGE = f"""<!doctype html><html><head><title>Harbour fees</title><script>track("visitor")</script></head><body>
<nav><a href="/">Home</a><a href="/login">Sign in</a></nav>
<article><h1>Harbour fees</h1><p>{STORY}</p><p>{STORY.replace("Monday", "Tuesday")}</p></article>
<footer>Cookie settings · Imprint</footer></body></html>"""


class Web:
    """The server: `asked` holds each request's path and parameters, `status` what searches answer with."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        self.status = 200
        self.url = ""

    def answer(self, path: str) -> tuple[int, str, bytes]:
        pages = {
            "/fees": PAGE,
            "/big": "x" * 3_000_000,
            "/empty": "<html><body></body></html>",
        }
        if path in ("/search", "/customsearch/v1"):
            return (
                self.status,
                "application/json",
                json.dumps(self.found(path)).encode(),
            )
        if path == "/image":
            return 200, "image/png", b"\x89PNG"
        if path == "/blank":
            return 200, "text/plain", b" \n"
        if path in pages:
            return 200, "text/html; charset=utf-8", pages[path].encode()
        return 404, "text/html", b"no such page"

    def found(self, path: str) -> dict[str, Any]:
        paths = ("fees", "gone", "image", "fees", "big", "empty")
        if path == "/search":
            return {
                "query": "…",
                "results": [
                    {
                        "title": f"<b>{p}</b>",
                        "url": f"{self.url}/{p}",
                        "content": f"snippet of {p} &amp; more",
                    }
                    for p in paths
                ],
            }
        return {
            "items": [
                {"title": p, "link": f"{self.url}/{p}", "snippet": f"snippet of {p}"}
                for p in paths
            ]
        }


@contextmanager
def serving(web: Web) -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            web.asked.append((parts.path, parse_qs(parts.query), dict(self.headers)))
            status, media, body = web.answer(parts.path)
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except (
                BrokenPipeError,
                ConnectionResetError,
            ):
                # A client that has read enough.
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
