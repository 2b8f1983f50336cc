"""Is what a person refused or denied ever shown without the refusal?

    python -m bench.recall.objections FILE… [--encoder NAME] [--json]

FILEs are pairs of statements (`pairs_*.jsonl`); of these the retracted ones are used in which an agent proposes or
reports something and a person says no at once. Each pair is a session of its own: a question, the agent's message, the
person's, and a reply. One night runs over all of them. Each pair is asked for twice, in the agent's own words and by
its `question`, if it has one.

Columns: *asked*; *shown*, of the blocks at these tokens, or of the first hits with their exchanges, those with a
sentence of the agent's message; *alone*, of these the ones without the person's words, which are listed below. None
should be.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from bench.harness import ENCODER, SCRATCH, Figures, Row, run
from bench.recall.changes import REPLIES, run_night_over
from slowwave import Memory
from slowwave.schemas.settings import Settings
from slowwave.text.sentences import split_sentences

BUDGETS = (60, 120, 250, 500)
"""Tokens of the block; the first has hardly room for two messages."""
HITS = (1, 3, 10)
OPENING = "What do you think?"


def measure(
    files: Sequence[Path],
    *,
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return the figures of each file, a row a budget and a row a number of hits."""
    rows: list[Row] = []
    alone: list[str] = []
    for path in files:
        pairs = read_objections(path)
        settings = Settings(store=store / path.stem, encoder=encoder)
        run_night_over([*say_objections(pairs)], path.stem, settings)
        found = [*find_shown(Memory.open(settings.store), pairs)]
        rows += [{"file": path.stem, **row} for row in sum_up(found)]
        alone += [f"{path.stem}: {row['query']}" for row in found if row["alone"]]
    title = "what was refused, and shown without the refusal"
    return Figures(rows, title, sorted(set(alone)))


def read_objections(path: Path) -> list[dict[str, Any]]:
    """Return the pairs in which a person takes back what an agent said."""
    pairs = map(orjson.loads, path.read_bytes().splitlines())
    return [
        pair
        for pair in pairs
        if pair["kind"] == "retracted"
        and pair["earlier"]["who"] == "agent"
        and pair["later"]["who"] == "person"
    ]


def say_objections(pairs: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """Yield the messages of each pair as lines of the generic format, a session a pair."""
    for number, (pair, reply) in enumerate(zip(pairs, cycle(REPLIES), strict=False)):
        begin = datetime.fromisoformat(f"{pair['earlier']['date']}T09:00:00+00:00")
        said = [
            ("user", OPENING),
            ("assistant", pair["earlier"]["text"]),
            ("user", pair["later"]["text"]),
            ("assistant", reply),
        ]
        for at, (role, text) in enumerate(said):
            yield orjson.dumps(
                {
                    "session_id": f"objection-{number}",
                    "message_id": f"objection-{number}-{at}",
                    "role": role,
                    "content": text,
                    "ts": (begin + timedelta(minutes=at)).isoformat(),
                    "workspace": pair["project"],
                }
            )


def find_shown(memory: Memory, pairs: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """Yield for each question and each size of an answer whether it shows the refused message, and shows it alone."""
    for pair in pairs:
        for query in filter(None, (pair["earlier"]["text"], pair.get("question"))):
            for name, text in show_answers(memory, query, pair["project"]):
                shown, refused = find_parts(pair, text)
                yield {
                    "shown in": name,
                    "shown": shown,
                    "alone": shown and not refused,
                    "query": query,
                }


def sum_up(found: Sequence[Row]) -> list[Row]:
    """Return a row for each size of an answer, in the order in which they were found."""
    named = pl.DataFrame(found).group_by("shown in", maintain_order=True)
    return named.agg(
        pl.len().alias("asked"), pl.col("shown").sum(), pl.col("alone").sum()
    ).to_dicts()


def show_answers(
    memory: Memory,
    query: str,
    workspace: str,
) -> Iterator[tuple[str, str]]:
    """Yield the blocks for a question, and the texts of its first hits with their exchanges."""
    for budget in BUDGETS:
        block = memory.context(query, budget, workspace=workspace)
        yield f"a block of {budget} tokens", block.text
    hits = memory.recall(query, max(HITS), everything=True, workspace=workspace)
    texts = [
        " ".join([hit.text, *(fragment.text for fragment in hit.pair)]) for hit in hits
    ]
    for most in HITS:
        yield f"the first {most} hits", " ".join(texts[:most])


def find_parts(pair: dict[str, Any], text: str) -> tuple[bool, bool]:
    """Return two flags: a text has a sentence of the agent's message, and it has the person's words."""
    shown = fold(text)
    stated = split_sentences(pair["earlier"]["text"])
    is_shown = any(fold(sentence.text) in shown for sentence in stated)
    return is_shown, fold(pair["later"]["text"]) in shown


def fold(text: str) -> str:
    """Return a text in small letters with single spaces, without the end of its sentence."""
    return " ".join(text.casefold().split()).rstrip(".!?…")


if __name__ == "__main__":
    run(measure)
