"""Does a block tell what happened over many sessions, and in order? LoCoMo's own lists of events are the key.

    python -m bench.recall.outline FILE [--budgets N…] [--store DIR] [--encoder NAME] [--json]

FILE is LoCoMo's (`.json`); its annotators listed what happened to each speaker in each session. For each speaker six
broad questions are asked: for the order of events, a summary, a count. *Told* is the mean share of an event's content
words, less the question's, in the lines of its session; *events*, the share of events with half the words or more in
them; *sessions*, the share of sessions with an event of which any line stands in the block; *in order*, of the
pairs of such events next to each other in time, the share whose lines stand in that order. A night makes a store of
each conversation, kept as DIR/NAME with `--store`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import orjson

from bench.harness import ENCODER, SCRATCH, Figures, Row, average, run
from bench.recall.blocks import extract_words
from bench.recall.talks import read_talks
from slowwave.context.build import Context

QUESTIONS = (
    "In what order did the events in {name}'s life happen?",
    "List what {name} brought up, from first to last.",
    "Summarise what {name} told over these months.",
    "How has {name}'s life changed during these conversations?",
    "How many different activities did {name} take up?",
    "Give me an overview of {name}'s plans and what became of them.",
)
TOLD = 0.5
"""Share of an event's words from which it counts as shown."""

Event = tuple[str, str]
"""The session that tells of it, and what happened."""


def measure(
    file: Path,
    *,
    budgets: Sequence[int] = (500, 1_000, 2_000),
    store: Path = SCRATCH,
    encoder: str = ENCODER,
) -> Figures:
    """Return the mean figures of all blocks, a row a budget."""
    found: list[Row] = []
    for talk, raw in zip(
        read_talks(file), orjson.loads(file.read_bytes()), strict=True
    ):
        memory = talk.open(store, encoder)
        for name, events in read_events(raw).items():
            for text in (question.format(name=name) for question in QUESTIONS):
                blocks = ((budget, memory.context(text, budget)) for budget in budgets)
                found += [
                    {"budget": budget, **score_block(block, text, events)}
                    for budget, block in blocks
                ]
    return Figures(average(found, "budget", count="questions"), "events in blocks")


def read_events(
    raw: Mapping[str, Mapping[str, Mapping[str, list[str]]]],
) -> dict[str, list[Event]]:
    """Return a conversation's events by speaker, in order of time."""
    events: dict[str, list[Event]] = {}
    for n in sorted(int(key.rsplit("_", 1)[1]) for key in raw["event_summary"]):
        for name, texts in raw["event_summary"][f"events_session_{n}"].items():
            if name != "date":
                events.setdefault(name, []).extend(
                    (f"{raw['sample_id']}/{n}", text) for text in texts
                )
    return events


def score_block(
    block: Context, question: str, events: Sequence[Event]
) -> dict[str, float]:
    """Return the four figures of one block, each 0 to 1."""
    words: dict[str, set[str]] = {}
    place: dict[str, int] = {}
    for at, line in enumerate(line for part in block.parts for line in part.lines):
        session = line.source.session or ""
        words.setdefault(session, set()).update(extract_words(line.text))
        place.setdefault(session, at)
    wanted = [
        (session, extract_words(text) - extract_words(question))
        for session, text in events
    ]
    shares = [
        len(some & words.get(session, set())) / max(1, len(some))
        for session, some in wanted
    ]
    told = [
        session
        for (session, _), share in zip(events, shares, strict=True)
        if share >= TOLD
    ]
    pairs = [(a, b) for a, b in pairwise(told) if a != b]
    return {
        "told": fmean(shares),
        "events": len(told) / len(events),
        "sessions": fmean(session in place for session, _ in events),
        "in order": fmean(place[a] < place[b] for a, b in pairs) if pairs else 0.0,
    }


if __name__ == "__main__":
    run(measure)
