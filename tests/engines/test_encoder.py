"""The encoders and the step that asks them: unit vectors, the same whatever the company, each text encoded once."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slowwave.engines.encoders import torch as encoders_torch
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Encoder, HashEncoder, KnownEncoder, Vectors
from slowwave.engines.encoders.torch import SentenceTransformerEncoder
from slowwave.schemas.errors import EncoderNotFound, WrongDimension
from slowwave.schemas.tables import PASSAGES, VECTOR
from slowwave.store.store import Store
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import attach_vectors

PORT = "The database listens on port 5433."
SAME_PORT = "Postgres is reachable at port 5433."
CAT = "My cat sleeps on the sofa all day."


class Counting:
    """An encoder that writes down what it was asked."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dim, self.encoder = encoder.name, encoder.dim, encoder
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return self.encoder.encode(texts)


def test_real_encoder_finds_the_same_meaning(encoder: Encoder) -> None:
    port, same, cat = encoder.encode([PORT, SAME_PORT, CAT])
    assert (encoder.name, encoder.dim) == ("all-MiniLM-L6-v2", 384)
    assert port @ same > 0.6 > 0.2 > port @ cat


def test_hash_encoder_shares_words() -> None:
    a, b, c = HashEncoder().encode(["red green", "Green RED", "blue"])
    assert np.array_equal(a, b)
    assert a @ c == 0


@pytest.mark.parametrize("kind", ["encoder", "original", "fake_encoder"])
def test_vectors_are_unit_float32_in_order(kind: str, request: pytest.FixtureRequest) -> None:
    encoder: Encoder = request.getfixturevalue(kind)
    texts = ["", " ", "!!!", "word " * 400, "東京", CAT, PORT, CAT]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (8, encoder.dim)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[5], vectors[7])
    assert encoder.encode([]).shape == (0, encoder.dim)


@pytest.mark.parametrize("kind", ["encoder", "original"])
def test_a_vector_does_not_depend_on_its_company(kind: str, request: pytest.FixtureRequest) -> None:
    """A night cut in two and run again encodes in other batches; its tables must be the same to the last bit."""
    encoder: Encoder = request.getfixturevalue(kind)
    if isinstance(encoder, SentenceTransformerEncoder) and encoder.model.device.type != "cpu":
        pytest.skip("a GPU's sums go in another order")
    chance = random.Random(7)
    words = ["night", "replays", "what", "the", "day", "said", "and", "keeps", "its", "gist"]
    texts = [" ".join(chance.choices(words, k=chance.randint(1, 40))) for _ in range(15)] + ["day " * 300, "", "a"]
    together = encoder.encode(texts)
    alone = np.vstack([encoder.encode([text]) for text in texts])
    halves = np.vstack([encoder.encode(texts[:7]), encoder.encode(texts[7:])])
    assert np.array_equal(together, alone)
    assert np.array_equal(together, halves)


def test_unknown_encoder_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderNotFound) as caught:
        load_encoder("no-such-org/no-such-model")
    assert [place.split()[0] for place in caught.value.tried] == ["installed", "folder", "hub"]


def test_each_of_the_last_texts_is_encoded_once(fake_encoder: HashEncoder) -> None:
    counting = Counting(fake_encoder)
    known = KnownEncoder(counting, size=2)
    assert np.array_equal(known.encode([PORT, CAT, PORT, SAME_PORT]), fake_encoder.encode([PORT, CAT, PORT, SAME_PORT]))
    known.encode([CAT, SAME_PORT])
    assert counting.asked == [PORT, CAT, SAME_PORT]
    known.encode([PORT])
    assert counting.asked == [PORT, CAT, SAME_PORT, PORT]
    assert known.encode([]).shape == (0, 384)


def test_the_first_vectors_bind_a_store_to_their_dimension(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    row = {"passage_id": "a", "message_id": "a", "session_id": "a", "seq": 0, "part": 0, "role": "user", "step_key": ""}
    said = pa.Table.from_pylist([{**row, "text": CAT}], schema=PASSAGES.schema)
    store.append(PASSAGES, attach_vectors(store, said, "text", HashEncoder(8)))
    kept = build_vector_matrix(Store.open(tmp_path).read(PASSAGES)["vector"])
    assert np.array_equal(kept, HashEncoder(8).encode([CAT]).astype(np.float16))
    with pytest.raises(WrongDimension, match="slowwave run OUT --space NEW") as caught:
        attach_vectors(store, said, "text", HashEncoder(768))
    assert (caught.value.got, caught.value.expected, store.dim) == (768, 8, 8)


def test_nulls_among_vectors_are_rows_of_zeros() -> None:
    column = pa.chunked_array([[None, [1.0, 2.0]], [[3.0, 4.0], None]], VECTOR)
    assert build_vector_matrix(column).tolist() == [[0, 0], [1, 2], [3, 4], [0, 0]]
    assert build_vector_matrix(column.slice(2, 1)).tolist() == [[3, 4]]
    assert build_vector_matrix(pa.nulls(3, VECTOR)).shape == (3, 0)


def test_without_a_network_the_hub_is_not_waited_for_but_a_proxy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: None) -> list[object]:
        raise OSError(host)

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(encoders_torch, "getaddrinfo", resolve)
    assert not encoders_torch.knows_hub()
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert encoders_torch.knows_hub()
