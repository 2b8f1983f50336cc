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
from slowwave.engines.encoders import embedding_server
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.engines.encoders.load import load_encoder, load_query_encoder
from slowwave.engines.errors import EncoderFailed, EncoderNotFound, WrongDimension
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.store.releases import read_releases
from slowwave.store.store import Store
from slowwave.tasks.vectors import encode_once
from tests.talk_files import session


class Server:
    """What the tests' server does: hashed words for vectors, three times as long as unit, the last text first."""

    def __init__(self) -> None:
        self.dim, self.nested, self.troubles = 384, True, list[int]()
        self.seen: list[dict[str, Any]] = []

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.seen.append(body)
        if self.troubles:
            return self.troubles.pop(0), {"error": "not now"}
        if "dimensions" in body and not self.nested:
            return 400, {"error": "this model has vectors of one length"}
        made = 3 * HashEncoder(body.get("dimensions", self.dim)).encode(body["input"])
        rows = [{"index": place, "embedding": vector.tolist()} for place, vector in enumerate(made)]
        return 200, {"data": rows[::-1]}


@contextmanager
def serving(server: Server, port: int = 0) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/embeddings"
            status, body = server.answer(orjson.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            sent = orjson.dumps(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"openai:some/model@http://127.0.0.1:{http.server_port}/v1"
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_server, "FIRST_PAUSE", 0.001)


def test_vectors_are_those_of_their_texts_at_unit_length() -> None:
    texts = [f"text number {n}" for n in range(150)] + [""]
    with serving(server := Server()) as setting:
        encoder = load_encoder(setting)
        assert (encoder.name, encoder.dim) == ("some/model", 384)
        assert np.allclose(encoder.encode(texts), HashEncoder().encode([text or " " for text in texts]), atol=1e-6)
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
    with pytest.raises(EncoderNotFound, match="ConnectError"):
        load_encoder(setting)
    with pytest.raises(EncoderNotFound, match="expected openai:MODEL@http"):
        load_encoder("openai:model")
    with pytest.raises(EncoderNotFound, match="InvalidURL"):
        load_encoder("openai:model@http://127.0.0.1:port/v1")


def test_who_waits_for_an_answer_waits_for_two_tries() -> None:
    with serving(server := Server()) as setting:
        encoder = load_query_encoder(setting)
        server.troubles = [503] * 5
        with pytest.raises(EncoderFailed, match="HTTP 503"):
            encoder.encode(["one"])
    assert len(server.troubles) == 3


def test_a_model_of_one_length_is_asked_for_another_once() -> None:
    server = Server()
    server.nested = False
    with serving(server) as setting:
        encoder = load_encoder(setting)
        assert encoder.encode(["one", "two"]).shape == (2, 384)
        assert ["dimensions" in body for body in server.seen] == [True, False, False]
        server.troubles = [400]
        with pytest.raises(EncoderFailed, match="HTTP 400"):
            encoder.encode(["one"])


def test_vectors_of_another_length_are_refused_before_anything_is_written() -> None:
    server = Server()
    server.nested, server.dim = False, 768
    with serving(server) as setting, pytest.raises(WrongDimension) as caught:
        encode_once(["one"], load_encoder(setting))
    assert (caught.value.got, caught.value.expected) == (768, 384)


def test_a_night_and_a_query_by_a_server_and_the_query_goes_on_by_words_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = session(tmp_path, "s1", 2, [("user", "We decided that PostgreSQL keeps the tickets from now on.")])
    with serving(Server()) as setting:
        settings = Settings(store=tmp_path / "store", encoder=setting)
        monkeypatch.setenv("SLOWWAVE_ENCODER", setting)
        run_night([talk], settings)
        assert read_releases(Store.open(settings.store))[-1].encoder == "some/model"
        found = Memory.open(settings.store).recall("Which database keeps the tickets?")
        assert (found[0].text[:10], found.notes) == ("We decided", ())
    memory = Memory.open(settings.store)
    found = memory.recall("Which database keeps the tickets?")
    assert found[0].text[:10] == "We decided"
    assert "answered by full text alone" in found.notes[0]
    with serving(Server(), port=int(setting.rpartition(":")[2].removesuffix("/v1"))):
        assert memory.recall("Which database keeps all of the tickets?").notes == ()
