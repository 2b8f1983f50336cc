"""Does a block tell what happened over many sessions, and in order? LoCoMo's own lists of events are the key.

    python -m bench.recall.outline FILE [--store DIR] [--budgets N…] [--json]

FILE is LoCoMo's (`.json`); its annotators listed what happened to each speaker in each session. For each speaker six
broad questions are asked: for the order of events, a summary, a count. *Told* is the mean share of an event's content
words, less the question's, in the lines of its session; *events*, the share of events of which half the words or more
are told; *sessions*, the share of sessions with an event of which any line stands in the block; *in order*, of the
pairs of such events next to each other in time, the share whose lines stand in that order. A night makes a store of
each conversation, kept as DIR/NAME with `--store`, as `bench.recall.answers` does.
"""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import orjson

from bench.harness import build_parser, forbid_cached_answers, print_rows
from bench.recall.answers import extract_words, write_talk
from bench.recall.locomo_files import load_conversations
from slowwave import Memory
from slowwave.context.build import Context
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

QUESTIONS = (
    "In what order did the events in {name}'s life happen?",
    "List what {name} brought up, from first to last.",
    "Summarise what {name} told over these months.",
    "How has {name}'s life changed during these conversations?",
    "How many different activities did {name} take up?",
    "Give me an overview of {name}'s plans and what became of them.",
)
TOLD = 0.5
"""Share of an event's words from which it counts as told."""


@dataclass(frozen=True)
class Event:
    """What happened to a speaker, in the session that tells of it."""

    session: str
    text: str


def read_events(path: Path) -> dict[str, dict[str, list[Event]]]:
    """Return each conversation's events by speaker, in order of time."""
    events: dict[str, dict[str, list[Event]]] = {}
    for raw in orjson.loads(path.read_bytes()):
        of_speaker = events.setdefault(raw["sample_id"], {})
        numbers = sorted(int(key.rsplit("_", 1)[1]) for key in raw["event_summary"])
        for n in numbers:
            for name, texts in raw["event_summary"][f"events_session_{n}"].items():
                if name != "date":
                    of_speaker.setdefault(name, []).extend(Event(f"{raw['sample_id']}/{n}", text) for text in texts)
    return events


def measure_block(block: Context, question: str, events: list[Event]) -> dict[str, float]:
    """Return the four figures of one block, each 0 to 1."""
    lines = [line for part in block.parts for line in part.lines]
    words: dict[str, set[str]] = {}
    place: dict[str, int] = {}
    for at, line in enumerate(lines):
        session = line.source.session or ""
        words.setdefault(session, set()).update(extract_words(line.text))
        place.setdefault(session, at)
    shares = []
    for event in events:
        wanted = extract_words(event.text) - extract_words(question)
        shares.append(len(wanted & words.get(event.session, set())) / max(1, len(wanted)))
    told = [event for event, share in zip(events, shares, strict=True) if share >= TOLD]
    pairs = [(a.session, b.session) for a, b in pairwise(told) if a.session != b.session]
    return {
        "told": fmean(shares),
        "events": len(told) / len(events),
        "sessions": fmean(event.session in place for event in events),
        "in order": fmean(place[a] < place[b] for a, b in pairs) if pairs else 0.0,
    }


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where stores are, or are kept")
    parser.add_argument("--budgets", type=int, nargs="+", default=[500, 1000, 2000])
    given = parser.parse_args()
    forbid_cached_answers()
    events = read_events(given.file)
    found: dict[int, list[dict[str, float]]] = {budget: [] for budget in given.budgets}
    with tempfile.TemporaryDirectory(prefix="slowwave-outline-") as folder:
        for talk in load_conversations(given.file):
            store = (given.store or Path(folder)) / talk.id
            if not store.exists():
                run_night([write_talk(talk, Path(folder)).absolute()], Settings(store=store, encoder=given.encoder))
            memory = Memory.open(store)
            asked = [(name, text.format(name=name)) for name in events[talk.id] for text in QUESTIONS]
            for budget in given.budgets:
                found[budget] += [
                    measure_block(memory.context(text, budget), text, events[talk.id][name]) for name, text in asked
                ]
    rows = [
        {
            "budget": budget,
            "questions": len(some),
            **{name: round(fmean(one[name] for one in some), 3) for name in some[0]},
        }
        for budget, some in found.items()
    ]
    print_rows(rows, given.as_json, "events in blocks")


if __name__ == "__main__":
    main()
