"""The numpy encoder of queries gives what sentence-transformers gives, without torch."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.engines.encoders.protocol import Encoder
from slowwave.engines.encoders.query_encoder import QueryEncoder, gelu, is_plain_bert, load_query_encoder
from slowwave.engines.encoders.sentence_transformer import SentenceTransformerEncoder

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
def quick() -> QueryEncoder:
    found = load_query_encoder("all-MiniLM-L6-v2")
    assert isinstance(found, QueryEncoder)
    return found


def test_vectors_equal_those_of_sentence_transformers(quick: QueryEncoder, encoder: Encoder) -> None:
    assert (quick.name, quick.dim) == (encoder.name, encoder.dim)
    assert np.abs(quick.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-5


def test_vectors_are_unit_and_the_same_alone(quick: QueryEncoder) -> None:
    vectors = quick.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors, np.vstack([quick.encode([text]) for text in TEXTS]), atol=1e-6)
    assert quick.encode([]).shape == (0, 384)


def test_gelu_by_hand() -> None:
    # 1 * Phi(1) = 0.841345, -2 * Phi(-2) = -0.045500
    assert gelu(np.array([0.0, 1.0, -2.0, 9.0], dtype=np.float32)) == pytest.approx(
        [0, 0.841345, -0.0455003, 9.0], abs=2e-6
    )


def test_a_folder_of_that_name_in_a_project_is_not_taken_for_the_packaged_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: QueryEncoder
) -> None:
    shutil.copytree(quick.folder, tmp_path / "all-MiniLM-L6-v2")
    monkeypatch.chdir(tmp_path)
    found = load_query_encoder("all-MiniLM-L6-v2")
    assert isinstance(found, QueryEncoder)
    assert found.folder == quick.folder


def test_another_kind_of_model_falls_back(quick: QueryEncoder, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    shutil.copytree(quick.folder, folder)
    assert is_plain_bert(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules.insert(2, {"idx": 9, "name": "9", "path": "9", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    assert not is_plain_bert(folder)
    (folder / "modules.json").unlink()
    assert not is_plain_bert(folder)
    assert isinstance(load_query_encoder("hash-384"), HashEncoder)
    pooling = json.loads((quick.folder / "1_Pooling" / "config.json").read_text())
    shutil.copy(quick.folder / "modules.json", folder)
    shutil.copytree(quick.folder / "1_Pooling", folder / "1_Pooling", dirs_exist_ok=True)
    pooling |= {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert isinstance(load_query_encoder(str(folder)), SentenceTransformerEncoder)


def test_encoding_a_query_imports_no_torch() -> None:
    code = (
        "import sys; from slowwave.engines.encoders.query_encoder import load_query_encoder as load;"
        "load('all-MiniLM-L6-v2').encode(['hello']); print({'torch', 'transformers', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


THREADS = """
import threading
import numpy as np
from threadpoolctl import threadpool_info
from slowwave.engines.encoders.blas import limit_blas_threads
from slowwave.engines.encoders.query_encoder import QueryEncoder, load_query_encoder

def blas():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

before, seen, hidden = blas(), [], QueryEncoder._compute_hidden_states
QueryEncoder._compute_hidden_states = lambda self, ids: (seen.append(blas()), hidden(self, ids))[1]
encoder = load_query_encoder("all-MiniLM-L6-v2")
readers = [threading.Thread(target=lambda: [encoder.encode([f"question {n}"]) for n in range(5)]) for _ in range(8)]
for one in readers: one.start()
for one in readers: one.join()
first, second = limit_blas_threads(), limit_blas_threads()
first.__enter__(); second.__enter__(); first.__exit__(None, None, None)
between = blas()
second.__exit__(None, None, None)
print(before, len(seen), set().union(*seen), between, blas())
"""


def test_a_query_is_encoded_on_one_blas_thread_and_the_others_come_back() -> None:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "{2} 40 {1} {1} {2}"
