"""Both kinds of night side by side: without a language model, and with one, over the same transcripts.

    python -m bench.nights.both_kinds [PATH…] [--llm SPEC] [--encoder NAME] [--json]

Without arguments it reads `data/samples`, with the recorded answers of a strong model (`tests/cassette.py`). Columns:
claims that hold, the share of these with a category of their own (not `context`), decisions and conventions, and the
share of them that stand in the skill of their project; claims that a later one changed; topics of three claims or more,
sessions with a title of the night's; prompts, tokens of prompts and answers, and the night's seconds.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from bench.harness import SAMPLES, Figures, Row, run
from slowwave import Memory
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store import Store
from slowwave.tasks.llm.fence import has_injection

RECORDED = "scripted:tests.cassette:replay"
RULES = ("decision", "convention")


def measure(paths: Sequence[Path] = (SAMPLES,), *, llm: str = RECORDED, encoder: str = "hash-384") -> Figures:
    """Return the figures of a night of each kind; the answers that ship were recorded with the default encoder."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = [
            measure_night(name, paths, Settings(store=Path(scratch) / name, encoder=encoder, llm=model))
            for name, model in (("without", "off"), ("with", llm))
        ]
    return Figures(rows)


def measure_night(name: str, paths: Sequence[Path], settings: Settings) -> Row:
    """Return the figures of one night over the paths, in a store of its own."""
    start = time.perf_counter()
    counts = [step.counts for step in run_night([*paths], settings).steps]
    seconds = time.perf_counter() - start
    store, view = Store.open(settings.store, settings.space), Memory.open(settings.store).get_view()
    rows = store.read(OBSERVATIONS).to_pylist()
    active = [row for row in rows if row["status"] == Status.ACTIVE]
    rules = [row for row in active if row["category"] in RULES and row["workspace"]]
    places = sorted({row["workspace"] for row in rules})
    told = {line.claim for place in places for line in collect_skill_lines(view, {place}, has_injection)}
    masters = (pc.field("scope") == "session") & (pc.field("tier") == -1)
    asked = {
        what: sum(n for some in counts for name, n in some.items() if name.endswith(f": {what}"))
        for what in ("requests", "prompt tokens", "answer tokens")
    }
    return {
        "night": name,
        "claims": len(active),
        "categorised": sum(row["category"] not in ("", "context") for row in active) / max(1, len(active)),
        "rules": len(rules),
        "in_skill": sum(row["observation_id"] in told for row in rules) / max(1, len(rules)),
        "changed": sum(row["status"] == Status.SUPERSEDED for row in rows),
        "topics": sum(row["size"] >= 3 for row in store.read(TOPICS).to_pylist()),
        "titles": sum(bool(row["title"]) for row in store.read(SUMMARIES, where=masters).to_pylist()),
        **asked,
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    run(measure)
