"""How fast texts are encoded: tokens a CPU second, beside plain sentence-transformers in the same process.

    python -m bench.encoder PATH [--texts 300] [--rounds 3] [--encoder NAME] [--json]

Reads transcripts, takes the first texts that people and models said, and has each side encode them in turn; the best
round of each counts. Run it with OMP_NUM_THREADS=1 on a machine that has no other work. Says too how near the vectors
are.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from bench.night import read_said
from slowwave.engines.encoders.load import load_original, load_query_encoder
from slowwave.engines.encoders.protocol import Vectors


def measure_encoders(texts: list[str], name: str, rounds: int) -> dict[str, Any]:
    """Return tokens a CPU second of each side, and the least and mean cosine to plain sentence-transformers."""
    ours, original = load_query_encoder(name), load_original(name)
    sides: dict[str, Callable[[], Any]] = {
        "sentence-transformers, plain": lambda: original.model.encode(texts, normalize_embeddings=True),
        "sentence-transformers, in batches of one length": lambda: original.encode(texts),
        "slowwave": lambda: ours.encode(texts),
    }
    tokenizer: Tokenizer = original.model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokens = sum(len(one.ids) for one in tokenizer.encode_batch(texts))
    seconds, made = dict.fromkeys(sides, float("inf")), dict[str, Vectors]()
    for _ in range(rounds):
        for side, encode in sides.items():
            start = time.process_time()
            made[side] = np.asarray(encode())
            seconds[side] = min(seconds[side], time.process_time() - start)
    plain, *_ = sides
    near = {side: (vectors * made[plain]).sum(axis=1) for side, vectors in made.items()}
    return {
        "texts": len(texts),
        "tokens": tokens,
        "sides": {
            side: {
                "tokens_a_cpu_second": tokens / seconds[side],
                "beside_plain": seconds[plain] / seconds[side],
                "cosine_mean": float(near[side].mean()),
                "cosine_least": float(near[side].min()),
            }
            for side in sides
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    found = measure_encoders(read_said([given.path.absolute()])[: given.texts], given.encoder, given.rounds)
    if given.as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table("encoder", "tokens a CPU second", "beside plain", "cosine, mean", "least")
    for side, at in found["sides"].items():
        rate, times = f"{at['tokens_a_cpu_second']:,.0f}", f"{at['beside_plain']:.2f}"
        table.add_row(side, rate, times, f"{at['cosine_mean']:.5f}", f"{at['cosine_least']:.5f}")
    console = Console()
    console.print(table)
    console.print(f"{found['texts']:,} texts of {found['tokens']:,} tokens", highlight=False)


if __name__ == "__main__":
    main()
