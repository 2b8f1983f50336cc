"""Graphs of models on disk: each made once, checked, and kept by the hash of its weights under `~/.cache/slowwave`.

A graph's constants lie in a file of their own, which is mapped and not read: that takes a tenth of a second off every
start, and the processes that use it share its memory.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

GRAPH_VERSION = 2
"""Raised when another graph is made of the same weights, or kept in another way."""

MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
"""Chains of sentence-transformers modules that the graph does."""


def is_plain_bert(folder: Path) -> bool:
    """Return whether a sentence-transformers folder holds what the graph computes: BERT, mean pooling, no prompts."""
    wanted = ("config.json", "modules.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json")
    if not all((folder / file).is_file() for file in wanted):
        return False
    config, pooling = read_json(folder / "config.json"), read_json(folder / "1_Pooling" / "config.json")
    prompts = read_json(folder / "config_sentence_transformers.json")
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and [module["type"].split(".")[-1] for module in read_json(folder / "modules.json")] in MODULES
        and _is_mean_pooling(pooling)
        and not any(prompts.get("prompts", {}).values())
    )


def _is_mean_pooling(pooling: Mapping[str, Any]) -> bool:
    modes = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True}
    return modes == {"pooling_mode_mean_tokens"} or pooling.get("pooling_mode") == "mean"


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; without the file, an empty object."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def find_graph(folder: Path, check: Callable[[bytes], None]) -> Path | bytes:
    """Return a model's graph: its file, made where there is none, or itself where no file can be kept.

    The name is a hash of weights and configuration, noted by the weights' place, size and times: to hash 90 MB takes
    as long as to answer a query. `check` is given a new graph before it is kept: it brings torch, and where nothing can
    be kept each process would wait for that.

    Raises:
        OSError, KeyError, TypeError, ValueError: the weights can't be read, or are not those of such a model.
    """
    weights, config = (folder / "model.safetensors").resolve(), (folder / "config.json").read_bytes()
    found = weights.stat()
    times = f"{weights} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}".encode()
    try:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowwave" / "encoders"
        for private in (kept.parent, kept):
            private.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is the last one's alone
    except (OSError, RuntimeError):  # no right to, or no home at all
        return _make_graph(folder)
    note = kept / f"{_hash(times, config)}.name"
    if note.is_file() and (graph := kept / note.read_text()).is_file():
        return graph
    with weights.open("rb") as file:
        graph = kept / f"{_hash(hashlib.file_digest(file, 'sha256').digest(), config)}.onnx"
    made = b""
    if not graph.is_file():
        made = _make_graph(folder)
        if os.access(kept, os.W_OK):
            check(made)
    try:
        if made:
            _write_graph(graph, made)
        _replace_file(note, graph.name.encode())
    except OSError:  # no room, or no right: it is made again by the next process
        return made or graph
    return graph


def _make_graph(folder: Path) -> bytes:
    from slowwave.engines.encoders.bert_graph import build_bert_graph

    return build_bert_graph(read_json(folder / "config.json"), folder / "model.safetensors")


def _write_graph(path: Path, made: bytes) -> None:
    """Write a graph and, beside it and first, its constants: whoever sees the one finds the other."""
    import onnx

    constants = path.with_suffix(".weights")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        written = Path(folder, path.name)
        model = onnx.load_model_from_string(made)
        onnx.save_model(model, written, save_as_external_data=True, location=constants.name)
        written.with_suffix(".weights").replace(constants)
        written.replace(path)


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join((str(GRAPH_VERSION).encode(), *parts))).hexdigest()[:32]


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        written = Path(file.name)
        try:
            file.write(content)
            file.close()
            written.replace(path)
        except OSError:
            file.close()
            written.unlink(missing_ok=True)
            raise
