"""What slowwave costs: CPU, memory and bytes, each beside its bar, of this code and of the code before it in one run.

    python -m bench.cost [--messages 2000] [--before CHECKOUT] [--encoder NAME] [--mem0 PYTHON] [--json]

Sessions of `data/labelled` are used until there are so many messages, again with other figures if need be; 1% news
follow. Each row is a process of its own on one thread, and its CPU seconds are all that it took, imports among them.
`--before` names a checkout of other code, which takes turns with this one, so that what else the machine does hits
both. `--mem0` names the Python of an environment with mem0, which adds the same short messages without a language model
and with the model in the folder that SLOWWAVE_BENCH_MODEL names; without it that row is our own cost. Rows of hook and
recall are those of `bench.startup`, in CPU seconds of client and reader together.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import spent, startup
from bench.harness import ENCODER, ROOT, SCRATCH, Figures, Row, run
from bench.spent import Spent
from bench.year import Session, read_sessions, write_session
from slowwave.engines.encoders.protocol import EIGHT_BITS
from slowwave.schemas.settings import Settings

SHORT, WIDEST = 758, 120
"""Short messages of a night, and their letters at most."""
ASKED = 30
"""Questions."""
TIMES = 3
"""Runs of each call."""
ENCODED = 300
"""Messages that the encoder computes."""
BARS = {
    "a prompt's hook, s": 0.15,
    "recall, warm, s": 0.3,
    "recall, cold, s": 1.0,
    "encoder in 8 bits, times 32": 2.0,
    "a night of short messages, by mem0's": 0.9,
    "first night, ms a message": 10.0,
    "1% news, % of the first night": 2.0,
    "nothing new, s": 2.0,
    "a question, ms": 40.0,
    "a block by its question": 1.3,
    "store, bytes a message": 3_000.0,
}
"""Each row's bar."""

ADD = """
import json, os, sys, time
os.environ.setdefault("OPENAI_API_KEY", "not used")  # without one it can't be made, though no model is asked
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": sys.argv[1] + ".home"}
from mem0 import Memory
texts = json.load(open(sys.argv[1]))
embedder = {"provider": "huggingface", "config": {"model": os.environ["SLOWWAVE_BENCH_MODEL"]}}
store = {"provider": "qdrant", "config": {"path": sys.argv[1] + ".mem0", "embedding_model_dims": 384}}
memory = Memory.from_config({"embedder": embedder, "vector_store": store})
memory.add("The first.", user_id="ada", infer=False)
start = time.process_time()
for text in texts:
    memory.add(text, user_id="ada", infer=False)
print(json.dumps([time.process_time() - start, time.process_time()]))
"""
"""Adds messages to mem0; prints what they cost after a first one, and what the whole process did."""

Codes = Mapping[str, Path]
"""Checkouts, by the column of their figures."""


def measure(
    *,
    messages: int = 2_000,
    before: Path | None = None,
    encoder: str = ENCODER,
    mem0: Path | None = None,
    folder: Path = SCRATCH,
) -> Figures:
    """Return a row for each thing that costs."""
    write_talks(folder, messages)
    codes: Codes = {"now": ROOT, **({"before": before.absolute()} if before else {})}
    found = [
        *measure_calls(folder, codes, encoder),
        *measure_encoder(folder, codes, encoder),
        *measure_short_night(folder, codes, encoder, mem0),
        *measure_nights(folder, codes, encoder),
        *measure_questions(folder, codes),
    ]
    rows = [{**row, "bar": BARS.get(str(row["what"]))} for row in found]
    return Figures(rows, f"{messages:,} messages")


def write_talks(folder: Path, messages: int) -> None:
    """Write the sessions of the first night and of the second, short messages, texts, and questions."""
    pool = read_sessions()
    random.Random(1).shuffle(pool)
    told = _tell(folder / "talk", pool, 0, messages)
    _tell(folder / "news", pool, told, max(messages // 100, 1))
    said = [row["content"] for session in pool for row in session]
    short = [text for text in said if len(text) <= WIDEST][: min(SHORT, messages)]
    asked = [text for text in short if text.endswith("?")][
        : min(ASKED, messages // 10) + 2
    ]
    for name, texts in (
        ("short", short),
        ("texts", said[:ENCODED]),
        ("questions", asked),
    ):
        (folder / f"{name}.json").write_text(json.dumps(texts))
    rows = [{"role": "user", "content": text} for text in short]
    _tell(folder / "one", [rows[:1]], 0, 1)
    _tell(
        folder / "plain",
        [rows[at : at + 50] for at in range(0, len(rows), 50)],
        0,
        len(rows),
    )


def _tell(folder: Path, pool: Sequence[Session], number: int, messages: int) -> int:
    """Write sessions from this number on until there are so many messages; return the next number."""
    folder.mkdir()
    while messages > 0:
        session = pool[number % len(pool)]
        cycle = number // len(pool)
        messages -= write_session(folder, session, number, number // 20, cycle)
        number += 1
    return number


def spend(code: Path, action: str, *words: object) -> Spent:
    """Return the figures of a process that imports the code of a checkout.

    Raises:
        RuntimeError: it failed.
    """
    environ = {
        **os.environ,
        "PYTHONPATH": str(code),
        "OMP_NUM_THREADS": "1",
        "SLOWWAVE_RESIDENT": "0",
    }
    call = [sys.executable, "-P", spent.__file__, action, *map(str, words)]
    done = subprocess.run(call, env=environ, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"{action} ended with {done.returncode}")
    found: Spent = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_calls(folder: Path, codes: Codes, encoder: str) -> Iterator[Row]:
    """Yield the cost of a hook and of recall, by the resident reader and directly."""
    names = {
        "hook by the reader, later": "a prompt's hook, s",
        "recall by the reader, later": "recall, warm, s",
        "recall, directly": "recall, cold, s",
    }
    found = {}
    for name, code in codes.items():
        own = folder / f"calls {name}"
        own.mkdir()
        figures = startup.measure(times=TIMES, encoder=encoder, folder=own, code=code)
        found[name] = {row["call"]: row for row in figures.rows}
    for call, what in names.items():
        rows = {name: of[call] for name, of in found.items()}
        cost = {name: of["CPU s"] + of["reader CPU s"] for name, of in rows.items()}
        yield _join(what, cost, rows)


def measure_encoder(folder: Path, codes: Codes, encoder: str) -> Iterator[Row]:
    """Yield the ratio of texts that the encoder computes in a CPU second in 8 bits to those in 32.

    Code of a checkout that has no encoder in 8 bits has no figure.
    """
    if encoder != Settings.model_fields["encoder"].default:
        return
    eight = f"{encoder}{EIGHT_BITS}"
    found = {}
    for name, code in codes.items():
        try:
            found[name] = spend(code, "encoding", folder / "texts.json", encoder, eight)
        except RuntimeError:
            if code == ROOT:
                raise
    times = {name: of[encoder] / of[eight] for name, of in found.items()}
    yield _join("encoder in 8 bits, times 32", times, found)


def measure_short_night(
    folder: Path, codes: Codes, encoder: str, mem0: Path | None
) -> Iterator[Row]:
    """Yield the cost of a night over short messages, by mem0's if there is one.

    Imports and the model's loading count in the row of whole processes alone: before, each takes in one message.
    """
    found = {
        name: spend(
            code,
            "warm",
            folder / f"short {name}",
            encoder,
            folder / "one",
            folder / "plain",
        )
        for name, code in codes.items()
    }
    each = {name: 1_000 * of["cpu"] / of["messages"] for name, of in found.items()}
    yield _join("a night of short messages, ms each", each, found)
    if mem0 is None:
        return
    call = [str(mem0), "-c", ADD, str(folder / "short.json")]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=True)
    added, whole = json.loads(done.stdout.splitlines()[-1])
    for what, part, theirs in (
        ("a night of short messages, by mem0's", "cpu", added),
        ("the same, whole processes", "whole", whole),
    ):
        figures = {name: of[part] / theirs for name, of in found.items()}
        yield _join(what, figures, found)


def measure_nights(folder: Path, codes: Codes, encoder: str) -> Iterator[Row]:
    """Yield the cost of a first night, of one with 1% news and of one without, and the store's size."""
    talk, news = folder / "talk", folder / "news"
    first, more, idle = (
        {
            name: spend(code, "night", folder / f"store {name}", encoder, *folders)
            for name, code in codes.items()
        }
        for folders in ((talk,), (talk, news), (talk, news))
    )
    total = {name: of["cpu"] for name, of in first.items()}
    told = {name: of["messages"] for name, of in first.items()}
    each = {name: 1_000 * total[name] / told[name] for name in codes}
    size = {name: of["bytes"] / told[name] for name, of in first.items()}
    share = {name: 100 * of["cpu"] / total[name] for name, of in more.items()}
    yield _join("first night, ms a message", each, first)
    yield _join("store, bytes a message", size, first)
    yield _join("1% news, % of the first night", share, more)
    for what, night in (("1% news, s", more), ("nothing new, s", idle)):
        yield _join(what, {name: of["cpu"] for name, of in night.items()}, night)


def measure_questions(folder: Path, codes: Codes) -> Iterator[Row]:
    """Yield the median of a question's CPU milliseconds, and of a block's by those of its question."""
    found = {
        name: spend(
            code, "questions", folder / f"store {name}", folder / "questions.json"
        )
        for name, code in codes.items()
    }
    yield _join("a question, ms", {k: of["recall"] for k, of in found.items()}, found)
    shares = {k: of["block"] / of["recall"] for k, of in found.items()}
    yield _join("a block by its question", shares, found)


def _join(what: str, figures: Mapping[str, float], found: Mapping[str, Spent]) -> Row:
    """Return a row with the figures of each code and the memory that its process took."""
    row = {"what": what, **{name: round(of, 3) for name, of in figures.items()}}
    return row | {f"MB {name}": round(of["MB"]) for name, of in found.items()}


if __name__ == "__main__":
    run(measure)
