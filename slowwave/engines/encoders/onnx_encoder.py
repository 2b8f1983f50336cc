"""The encoder of nights and queries: a small BERT on ONNX Runtime, on the CPU, without torch.

Its graph is made once (`graph_files.py`). Opening it takes 0.1 s, a query 5 ms on one core, many texts less than
sentence-transformers takes. A text's vector does not depend on the texts it is encoded with, to the
last bit: so a night that was cut and run again has the same tables (`docs/decisions/034-one-encoder.md`).
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from slowwave.engines.encoders.graph_files import find_graph, read_json
from slowwave.engines.encoders.protocol import Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

BATCH_TOKENS = 512
"""Tokens that go through the model together: short texts gain from company, and from 256 on a core gains no more."""

CHECKED = ("Where does the cat sleep?", "", "東京 Ünïcode déjà-vu ☕", "def f(x): return x ** 2", "a long text " * 200)
"""Texts that a new graph and its original are compared by."""
LEAST_COSINE = 0.9999


class OnnxEncoder:
    """Unit vectors of a BERT with mean pooling.

    Raises:
        ValueError: ONNX Runtime can't read the graph.
    """

    def __init__(self, folder: Path, name: str, graph: Path | bytes) -> None:
        config = read_json(folder / "config.json")
        limit = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        self.folder, self.name, self.dim = folder, name, int(config["hidden_size"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(int(limit or config["max_position_embeddings"]))
        self._session = _open_session(graph if isinstance(graph, bytes) else str(graph))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim); a text longer than the model reads is cut.

        Texts go together with texts of just their number of tokens, and nothing is padded. As many batches are computed
        at once as `count_threads` says.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))] if texts else []

        def compute(rows: list[int]) -> None:
            tokens = np.array([ids[row] for row in rows], dtype=np.int32)
            share = np.full((len(rows), 1, tokens.shape[1]), 1 / tokens.shape[1], dtype=np.float32)
            vectors[rows] = self._session.run(["vectors"], {"ids": tokens, "share": share})[0]

        batches = list(_split_batches([len(tokens) for tokens in ids]))
        if len(batches) < 2 or count_threads() < 2:
            for batch in batches:
                compute(batch)
        else:
            with ThreadPoolExecutor(count_threads()) as pool:
                list(pool.map(compute, batches))
        return vectors


def _open_session(graph: bytes | str) -> "InferenceSession":
    # Else it reports to Microsoft, and keeps an id of the machine in the user's cache. A user may set it otherwise.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    # Threads inside a batch would wait for each other where the machine has other work: a batch is one thread's.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as trouble:  # its errors, one a status, have no base of their own
        raise ValueError(f"ONNX Runtime can't read the graph: {trouble}") from trouble


def _split_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield places of texts of one length, `BATCH_TOKENS` together; the longest first."""
    groups: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        groups.setdefault(length, []).append(row)
    for length, rows in sorted(groups.items(), reverse=True):
        size = max(1, BATCH_TOKENS // max(length, 1))
        yield from (rows[at : at + size] for at in range(0, len(rows), size))


def count_threads() -> int:
    """Return how many batches are computed at once: what OMP_NUM_THREADS says, else a thread a core it may use."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def open_onnx_encoder(folder: Path, name: str) -> OnnxEncoder:
    """Return the encoder of a folder that `is_plain_bert`, opened once a process.

    A kept graph that can't be read, as a full disk or a power cut leaves it, is made anew.

    Raises:
        OSError, KeyError, TypeError, ValueError: no graph can be made of it, or it is not what sentence-transformers
            computes.
    """

    def check(graph: bytes) -> None:
        try:
            from slowwave.engines.encoders.sentence_transformer import load_folder

            original = load_folder(folder, name)
        except ModuleNotFoundError:
            return  # an install for reading alone
        cosines = (original.encode(CHECKED) * OnnxEncoder(folder, name, graph).encode(CHECKED)).sum(axis=1)
        if cosines.min() < LEAST_COSINE:
            raise ValueError(f"the graph of {folder} is not its model: cosine {cosines.min():.4f}")

    graph = find_graph(folder, check)
    try:
        return OnnxEncoder(folder, name, graph)
    except ValueError:
        if isinstance(graph, bytes):
            raise
        graph.unlink(missing_ok=True)
        return OnnxEncoder(folder, name, find_graph(folder, check))
