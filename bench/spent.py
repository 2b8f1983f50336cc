"""What a process of `bench.cost` measures of itself, with the code of whatever checkout PYTHONPATH names.

    PYTHONPATH=CHECKOUT python -P bench/spent.py night STORE ENCODER FOLDER…

It imports nothing of `bench`, so that an older checkout's code can be measured by it.
"""

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

BUDGET = 500
"""Tokens of a block."""

Spent = dict[str, float]
"""What a process measured of itself."""


def spend_night(store: str, encoder: str, *folders: str) -> Spent:
    """Do a night over folders; return its CPU seconds and memory, and what the store then has."""
    from slowwave.flows.nightly import run_night
    from slowwave.schemas.settings import Settings

    os.fsync = lambda _: None  # type: ignore[assignment]
    settings = Settings(store=Path(store), encoder=encoder)
    report = run_night([Path(folder) for folder in folders], settings)
    kept = sum(path.stat().st_size for path in Path(store).rglob("*") if path.is_file())
    counts = report.release.counts if report.release else {}
    return {**_measure_self(), "messages": counts.get("messages", 0), "bytes": kept}


def spend_warm_night(store: str, encoder: str, first: str, *folders: str) -> Spent:
    """Do a night over the first folder, then one over the others in another store; return what the second cost."""
    spend_night(f"{store} first", encoder, first)
    begun = time.process_time()
    found = spend_night(store, encoder, *folders)
    return {**found, "cpu": found["cpu"] - begun, "whole": found["cpu"]}


def spend_questions(store: str, questions: str) -> Spent:
    """Ask questions and make their blocks in turn; return the median CPU milliseconds of each."""
    from slowwave.memory import Memory

    memory = Memory.open(Path(store))
    spent: dict[str, list[float]] = {"recall": [], "block": []}
    for asked in json.loads(Path(questions).read_text()):
        for name, ask in (
            ("recall", memory.recall),
            ("block", lambda text: memory.context(text, BUDGET)),
        ):
            begun = time.process_time()
            ask(asked)
            spent[name].append(1_000 * (time.process_time() - begun))
    # the first opens the release and the encoder
    return {
        **{k: statistics.median(v[1:]) for k, v in spent.items()},
        **_measure_self(),
    }


def spend_encoding(texts: str, *encoders: str) -> Spent:
    """Encode the same texts with each encoder in turn, three times; return the least CPU seconds of each."""
    from slowwave.engines.encoders.load import load_encoder

    said = json.loads(Path(texts).read_text())
    opened = {name: load_encoder(name) for name in encoders}
    spent: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(3):
        for name, encoder in opened.items():
            begun = time.process_time()
            encoder.encode(said)
            spent[name].append(time.process_time() - begun)
    return {**{name: min(of) for name, of in spent.items()}, **_measure_self()}


def _measure_self() -> Spent:
    """Return the process's CPU seconds so far, and the most megabytes that it had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": time.process_time(), "MB": peak}


SPEND: dict[str, Callable[..., Spent]] = {
    "night": spend_night,
    "warm": spend_warm_night,
    "questions": spend_questions,
    "encoding": spend_encoding,
}
"""What a process of its own measures, by its first argument."""

if sys.argv[0] == __file__:
    print(json.dumps(SPEND[sys.argv[1]](*sys.argv[2:])))
