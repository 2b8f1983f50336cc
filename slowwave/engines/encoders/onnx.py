"""The encoder of nights and queries: a small BERT on ONNX Runtime, on the CPU, without torch.

Its graph is built once (`bert_graph.py`), checked against its original, and kept under `~/.cache/slowwave` by the hash
of its weights. Its constants are in a file of their own, which is memory-mapped. Opening the graph takes 0.1 s, a query
5 ms on one core, and many texts less than with sentence-transformers. A text's vector does not depend on the texts it
is encoded with, to the last bit. So a night that was killed and run again gives the same tables
(`docs/decisions/005-vectors.md`).
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from slowwave.engines.encoders.protocol import (
    EIGHT_BITS,
    Vectors,
    is_unread,
    may_build_graphs,
    report_encoded,
)
from slowwave.schemas.errors import EncoderNotFound
from slowwave.schemas.places import find_cache_folder

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

BATCH_TOKENS = 512
"""Tokens in a batch. Short texts are faster in a batch; a core gains nothing more above 256."""
TOKENISED = 1_000
"""Texts that are tokenised together. The tokenizer's own result for one takes some kB until it is read."""
CHECKED = (
    "Where does the cat sleep?",
    "",
    "東京 Ünïcode déjà-vu ☕",
    "def f(x): return x ** 2",
    "a long text " * 200,
)
"""Texts by which a new graph is compared with its original."""
GRAPH_VERSION = 3
"""Raise this number if the same weights give another graph, or it is kept in another way."""
MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
"""Chains of sentence-transformers modules that the graph can compute."""
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
"""ONNX Runtime's option for the folder of a graph's constants."""


class OnnxEncoder:
    """Unit vectors of a BERT with mean pooling; in 8 bits if its name ends so (`EIGHT_BITS`).

    Raises:
        ValueError: ONNX Runtime can't read the graph.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        graph: Path | bytes,
    ) -> None:
        config = read_json(folder / "config.json")
        limit = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        self.folder = folder
        self.name = name
        self.dim = int(config["hidden_size"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._unknown = self._tokenizer.token_to_id("[UNK]")
        self._tokenizer.enable_truncation(
            int(limit or config["max_position_embeddings"])
        )
        # in 8 bits a batch would have one scale for all its texts
        self._batch_tokens = 1 if name.endswith(EIGHT_BITS) else BATCH_TOKENS
        self._graph = graph
        self._session = open_session(graph if isinstance(graph, bytes) else str(graph))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        A text that is too long for the model is cut. A text whose tokens it does not know gets zeros. A batch has texts
        with the same number of tokens, so nothing is padded. OMP_NUM_THREADS batches are computed at once, by default
        one for each core.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        ids = [
            encoding.ids
            for start in range(0, len(texts), TOKENISED)
            for encoding in self._tokenizer.encode_batch(
                list(texts[start : start + TOKENISED])
            )
        ]

        def compute(rows: list[int]) -> int:
            tokens = np.array([ids[row] for row in rows], dtype=np.int32)
            share = np.full(
                (len(rows), 1, tokens.shape[1]), 1 / tokens.shape[1], dtype=np.float32
            )
            made = self._session.run(["vectors"], {"ids": tokens, "share": share})[0]
            vectors[rows] = made * [
                [not is_unread(ids[row][1:-1], self._unknown)] for row in rows
            ]
            return len(rows)

        # as many threads as are set, or as there are cores
        set_threads = os.environ.get("OMP_NUM_THREADS", "")
        if set_threads.isdecimal() and int(set_threads):
            threads = int(set_threads)
        else:
            threads = (
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1
            )
        with ThreadPoolExecutor(threads) as pool:
            for done in pool.map(
                compute,
                _split_batches([len(tokens) for tokens in ids], self._batch_tokens),
            ):
                report_encoded(done)
        return vectors

    def locate_tokens(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return a text's tokens without those that begin and end it, and the first and last character of each."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def open_pooling(
        self,
        tensors: dict[str, npt.NDArray[np.float32]],
    ) -> "InferenceSession":
        """Return a session of the encoder with other upper layers; see `build_pooling_graph`.

        Args:
            tensors: the weights of these layers, named as in a model.safetensors.
        """
        import onnx

        from slowwave.engines.encoders.bert_graph import build_pooling_graph

        graph = self._graph
        if isinstance(graph, Path) and not graph.is_file():
            # the cache was emptied since
            graph = find_graph(
                self.folder, partial(check_graph, self.folder, self.name)
            )
        if isinstance(graph, bytes):
            model = onnx.load_model_from_string(graph)
            folder = ""
        else:
            model = onnx.load_model(graph, load_external_data=False)
            folder = str(graph.parent)
        config = read_json(self.folder / "config.json")
        return open_session(build_pooling_graph(model, config, tensors), folder)


def open_session(graph: bytes | str, folder: str = "") -> "InferenceSession":
    """Return an ONNX Runtime session for a graph, on one thread.

    Args:
        graph: the graph, or the path of its file.
        folder: the folder of the constants that a graph of bytes keeps in a file of their own.

    Raises:
        ValueError: it is not a valid graph.
    """
    # Otherwise it reports to Microsoft, and keeps an id of the machine in the user's cache. A user's value is kept.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    # One thread for a batch: several would wait for each other on a busy machine.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if folder:
        options.add_session_config_entry(WEIGHTS_FOLDER, folder)
    try:
        return InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as trouble:  # its errors, one a status, have no base of their own
        raise ValueError(f"ONNX Runtime can't read the graph: {trouble}") from trouble


def _split_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield the indices of texts of the same length, about so many tokens in a batch, longest first."""
    groups: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        groups.setdefault(length, []).append(row)
    for length, rows in sorted(groups.items(), reverse=True):
        size = max(1, tokens // max(length, 1))
        yield from (rows[at : at + size] for at in range(0, len(rows), size))


@cache
def open_onnx_encoder(folder: Path, name: str) -> OnnxEncoder:
    """Return the encoder of a folder that `is_plain_bert`, which is opened once per process.

    If the kept graph can't be read, for example after a power cut, it is deleted and built again.

    Raises:
        OSError, KeyError, TypeError, ValueError: the folder gives no graph, or the graph's vectors differ from those of
            sentence-transformers.
    """

    check = partial(check_graph, folder, name)
    bits = 8 if name.endswith(EIGHT_BITS) else 32
    graph = find_graph(folder, check, bits)
    try:
        return OnnxEncoder(folder, name, graph)
    except ValueError:
        if isinstance(graph, bytes):
            raise
        graph.unlink(missing_ok=True)
        return OnnxEncoder(folder, name, find_graph(folder, check, bits))


def check_graph(
    folder: Path,
    name: str,
    graph: bytes,
) -> None:
    """Compare a new graph's vectors with those of sentence-transformers. Do nothing if that is not installed.

    Raises:
        ValueError: the vectors differ.
    """
    try:
        from slowwave.engines.encoders.torch import load_folder

        original = load_folder(folder, name)
    except ModuleNotFoundError:
        return  # an install for reading alone
    cosines = (
        original.encode(CHECKED) * OnnxEncoder(folder, name, graph).encode(CHECKED)
    ).sum(axis=1)
    if cosines.min() < (0.95 if name.endswith(EIGHT_BITS) else 0.9999):
        raise ValueError(
            f"the graph of {folder} is not its model: cosine {cosines.min():.4f}"
        )


def is_plain_bert(folder: Path) -> bool:
    """Return True if a sentence-transformers folder has a model that the graph can compute: BERT, mean pooling, no
    prompts.
    """
    files = (
        "config.json",
        "modules.json",
        "tokenizer.json",
        "model.safetensors",
        "1_Pooling/config.json",
    )
    if not all((folder / file).is_file() for file in files):
        return False
    config = read_json(folder / "config.json")
    pooling = read_json(folder / "1_Pooling" / "config.json")
    modes = {
        name
        for name, on in pooling.items()
        if name.startswith("pooling_mode_") and on is True
    }
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and [
            module["type"].split(".")[-1]
            for module in read_json(folder / "modules.json")
        ]
        in MODULES
        and (
            modes == {"pooling_mode_mean_tokens"}
            or pooling.get("pooling_mode") == "mean"
        )
        and not any(
            read_json(folder / "config_sentence_transformers.json")
            .get("prompts", {})
            .values()
        )
    )


def read_json(path: Path) -> Any:
    """Return the object in a JSON file; an empty one if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def find_graph(
    folder: Path,
    check: Callable[[bytes], None],
    bits: int = 32,
) -> Path | bytes:
    """Return a model's graph in so many bits: its cached file, made if it does not exist; or the graph itself if it
    can't be cached.

    The file is named by a hash of weights and configuration. Hashing 90 MB takes as long as answering a query, so a
    note with the weights' path, size and times stores the name. `check` is called with a new graph before it is cached.
    It imports torch, so it is not called if the graph can't be cached: each process would wait for it.

    Raises:
        OSError, KeyError, TypeError, ValueError: the weights can't be read, or are not those of such a model.
        EncoderNotFound: it is not cached, and may not be built now (`without_new_graphs`).
    """
    weights = (folder / "model.safetensors").resolve()
    config = (folder / "config.json").read_bytes()
    status = weights.stat()
    times = (
        f"{weights} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}".encode()
    )
    cache_dir = _make_cache_dir()
    kind = (config,) if bits == 32 else (config, b"8 bits")
    note = cache_dir / f"{_hash(times, *kind)}.name" if cache_dir else None
    if (
        note
        and note.is_file()
        and (graph := note.with_name(note.read_text())).is_file()
    ):
        return graph
    if not may_build_graphs():
        why = (
            "its graph is not built yet: `slowwave run` and `slowwave install` build it"
        )
        raise EncoderNotFound(folder.name, [why])
    if cache_dir is None or note is None:
        return _make_graph(folder, bits)
    with weights.open("rb") as file:
        graph = (
            cache_dir
            / f"{_hash(hashlib.file_digest(file, 'sha256').digest(), *kind)}.onnx"
        )
    made = b""
    if not graph.is_file():
        made = _make_graph(folder, bits)
        if os.access(cache_dir, os.W_OK):
            check(made)
    try:
        _cache_graph(made, graph, note)
    except OSError:
        # the disk is full, or the folder is read-only: the next process builds the graph again
        return made or graph
    return graph


def _make_cache_dir() -> Path | None:
    """Return the folder of cached graphs, made if it does not exist; None if it can't be made."""
    try:
        cache_dir = find_cache_folder() / "encoders"
        for private in (cache_dir.parent, cache_dir):
            # `mode` applies to the last folder only.
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission, or no home folder
        return None
    return cache_dir


def _cache_graph(
    made: bytes,
    graph: Path,
    note: Path,
) -> None:
    """Write a new graph to its file, if there is one, and its name into the note; each file is complete at once.

    Raises:
        OSError: the folder can't be written.
    """
    with tempfile.TemporaryDirectory(dir=graph.parent) as part:
        if made:
            import onnx

            # the weights are a file of their own and written first: a process that sees the graph finds them
            written = Path(part) / graph.name
            constants = graph.with_suffix(".weights")
            model = onnx.load_model_from_string(made)
            onnx.save_model(
                model, written, save_as_external_data=True, location=constants.name
            )
            written.with_suffix(".weights").replace(constants)
            written.replace(graph)
        (Path(part) / note.name).write_text(graph.name)
        (Path(part) / note.name).replace(note)


def _make_graph(folder: Path, bits: int) -> bytes:
    from slowwave.engines.encoders.bert_graph import build_bert_graph, quantise_graph

    graph = build_bert_graph(
        read_json(folder / "config.json"), folder / "model.safetensors"
    )
    return quantise_graph(graph) if bits == 8 else graph


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(
        b"\0".join((str(GRAPH_VERSION).encode(), *parts))
    ).hexdigest()[:32]
