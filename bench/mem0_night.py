"""What mem0 takes to keep the same messages, run by an interpreter that has it: `bench.night --beside PYTHON` does.

    PYTHON bench/mem0_night.py FOLDER-OF-THE-MODEL < lines of {"user": …, "text": …}

`add(infer=False)`: no language model, each message encoded and stored as it is. Prints seconds as JSON. Imports nothing
of slowwave, so that mem0 lives in an environment of its own.
"""

import json
import os
import sys
import tempfile
import time


def main() -> None:
    """Add every line of stdin, and print how long that took."""
    os.environ["MEM0_TELEMETRY"] = "False"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEM0_DIR"] = folder
        try:
            from mem0 import Memory
        except ModuleNotFoundError:
            sys.exit(
                "mem0 is not installed here: pip install mem0ai==2.2.1 sentence-transformers, in a venv of its own"
            )
        start = time.perf_counter()
        memory = Memory.from_config(
            {
                "embedder": {
                    "provider": "huggingface",
                    "config": {"model": sys.argv[1], "embedding_dims": 384, "model_kwargs": {"device": "cpu"}},
                },
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": 384},
                },
                "llm": {"provider": "openai", "config": {"api_key": "not asked"}},
                "history_db_path": f"{folder}/history.db",
            }
        )
        lines = [json.loads(line) for line in sys.stdin]
        opened = time.perf_counter()
        for line in lines:
            memory.add([{"role": "user", "content": line["text"]}], user_id=line["user"], infer=False)
        print(json.dumps({"opening": opened - start, "adding": time.perf_counter() - opened}))


if __name__ == "__main__":
    main()
