"""Vectors from a server: in order, of unit length, asked again where it is busy, refused where they don't fit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from slowwave import Memory
from slowwave.engines import http
from slowwave.engines.encoders.load import load_encoder, load_query_encoder
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import EncoderFailed, EncoderNotFound
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import TABLES
from slowwave.store.publishing import read_releases
from slowwave.store.store import Store
from tests.talk_files import session


class Server:
    """What the tests' server does: hashed words for vectors, three times as long as unit, the last text first."""

    def __init__(self) -> None:
        self.dim, self.longest, self.most, self.troubles = 384, 10_000, 100, list[int]()
        self.refused: str | None = None
        self.seen: list[dict[str, Any]] = []

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.seen.append(body)
        if self.troubles:
            return self.troubles.pop(0), {"error": "not now"}
        if len(body["input"]) > self.most:
            return 422, {"error": "too many texts"}
        if any(
            len(text) > self.longest or text == self.refused for text in body["input"]
        ):
            return 400, {"error": "maximum context length exceeded"}
        made = 3 * HashEncoder(body.get("dimensions", self.dim)).encode(body["input"])
        rows = [
            {"index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(made)
        ]
        return 200, {"data": rows[::-1]}


@contextmanager
def serving(server: Server, port: int = 0) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path.split("?")[0] == "/v1/embeddings"
            status, body = server.answer(
                orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            )
            sent = orjson.dumps(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield f"openai:some/model@http://127.0.0.1:{http.server_port}/v1"
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.001)


def test_vectors_are_those_of_their_texts_at_unit_length() -> None:
    texts = [f"text number {n}" for n in range(150)] + [""]
    with serving(server := Server()) as setting:
        encoder = load_encoder(setting)
        assert (encoder.name, encoder.dim) == ("some/model", 384)
        assert np.allclose(
            encoder.encode(texts),
            HashEncoder().encode([text or " " for text in texts]),
            atol=1e-6,
        )
        assert encoder.encode([]).shape == (0, 384)
    assert [len(body["input"]) for body in server.seen] == [1, 64, 64, 23]


def test_a_busy_server_is_asked_again_and_one_that_refuses_is_not() -> None:
    with serving(server := Server()) as setting:
        encoder = load_encoder(setting)
        server.troubles = [503, 429]
        assert encoder.encode(["one"]).shape == (1, 384)
        server.troubles = [401]
        with pytest.raises(EncoderFailed, match="HTTP 401"):
            encoder.encode(["one"])
        server.troubles = [500] * 5
        with pytest.raises(EncoderFailed, match="HTTP 500"):
            encoder.encode(["one"])
        hurried, server.troubles = load_query_encoder(setting), [503] * 5
        with pytest.raises(EncoderFailed, match="HTTP 503"):
            hurried.encode(["one"])
        assert len(server.troubles) == 3  # who waits for an answer waits for two tries
    with pytest.raises(EncoderNotFound, match="ConnectError"):
        load_encoder(setting)
    with pytest.raises(EncoderNotFound, match="expected openai:MODEL@http"):
        load_encoder("openai:model")
    with pytest.raises(EncoderNotFound, match="InvalidURL"):
        load_encoder("openai:model@http://127.0.0.1:port/v1")


def test_a_models_own_length_is_taken_unless_a_shorter_one_is_named() -> None:
    server = Server()
    server.dim = 768
    with serving(server) as setting:
        assert load_encoder(setting).encode(["one", "two"]).shape == (2, 768)
        nested = load_encoder(setting.replace("model@", "model#256@"))
        assert (nested.name, nested.encode(["one"]).shape) == (
            "some/model#256",
            (1, 256),
        )
    assert [body.get("dimensions") for body in server.seen] == [None, None, 256, 256]
    assert {body["model"] for body in server.seen} == {"some/model"}


def test_a_text_that_is_too_long_is_cut_and_its_company_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = ["short", "word " * 200, "short too"]
    server = Server()
    server.longest, server.most = 400, 2
    with serving(server) as setting:
        made = load_encoder(setting).encode(texts)
    assert np.allclose(
        made[[0, 2]], HashEncoder().encode([texts[0], texts[2]]), atol=1e-6
    )
    assert np.allclose(made[1], HashEncoder().encode(["word"]), atol=1e-6)
    # 1,000 · .75⁴, rounded down each time.
    assert "was given 315 of a text's 1000 characters" in caplog.text


def test_a_text_that_is_refused_however_short_has_no_vector_and_a_server_that_refuses_all_ends_the_night(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    server.refused = "what it can't bear"
    with serving(server) as setting:
        encoder = load_encoder(setting)
        made = encoder.encode(["one", server.refused])
        assert (made[0].any(), made[1].any()) == (True, False)
        assert "which has no vector: HTTP 400" in caplog.text
        server.longest = 0
        with pytest.raises(EncoderFailed, match="HTTP 400"):
            encoder.encode(["one"])


def test_a_night_by_a_server_names_no_place_and_without_it_queries_go_on_by_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = session(
        tmp_path,
        "s1",
        2,
        [("user", "We decided that PostgreSQL keeps the tickets from now on.")],
    )
    store, asked = tmp_path / "store", "Which database keeps the tickets?"
    with serving(Server()) as first:
        monkeypatch.setenv("SLOWWAVE_ENCODER", first)
        assert (
            run_night([talk], Settings(store=store, encoder=first)).release is not None
        )
        assert read_releases(Store.open(store))[-1].encoder == "some/model"
        found = Memory.open(store).recall(asked)
        assert (found[0].text[:10], found.notes) == ("We decided", ())
    # It moves, to an address with keys: nothing is made anew, and nothing tells the address.
    with serving(server := Server()) as setting:
        moved = setting.replace("//", "//me:secret@") + "?key=secret"
        assert run_night([talk], Settings(store=store, encoder=moved)).release is None
        assert server.seen == []
        assert load_encoder(moved).encode(["one"]).shape == (1, 384)
    with pytest.raises(EncoderNotFound) as caught:
        load_encoder(moved)
    assert "secret" not in str(caught.value)
    named = (
        row
        for table in TABLES.values()
        for row in Store.open(store).read(table).to_pylist()
    )
    assert not any("127.0.0.1" in str(row) or "secret" in str(row) for row in named)
    # It is away, and comes back.
    memory = Memory.open(store)
    found = memory.recall(asked)
    assert found[0].text[:10] == "We decided"
    assert "answered by full text alone" in found.notes[0]
    with serving(
        server := Server(), port=int(first.rpartition(":")[2].removesuffix("/v1"))
    ):
        for query in (
            "Which database keeps all of the tickets?",
            "Who keeps the tickets?",
        ):
            assert memory.recall(query).notes == ()
        assert [body["input"] for body in server.seen[1:]] == [
            ["Which database keeps all of the tickets?"],
            [query],
        ]
