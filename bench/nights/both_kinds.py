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
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.compute as pc

from bench.harness import build_parser, print_rows
from slowwave import Memory
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store import Store
from slowwave.tasks.llm.fence import has_injection

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
RECORDED = "scripted:tests.cassette:replay"
RULES = ("decision", "convention")


@dataclass(frozen=True)
class Night:
    """What a night made, and what it cost."""

    night: str
    claims: int
    categorised: float
    rules: int
    in_skill: float
    changed: int
    topics: int
    titles: int
    prompts: int
    prompt_tokens: int
    answer_tokens: int
    seconds: float


def measure_night(name: str, paths: Sequence[Path], settings: Settings) -> Night:
    """Return the figures of one night over the paths, in a store of its own."""
    start = time.perf_counter()
    report = run_night([*paths], settings)
    seconds = time.perf_counter() - start
    store, memory = Store.open(settings.store, settings.space), Memory.open(settings.store)
    rows = store.read(OBSERVATIONS).to_pylist()
    active = [row for row in rows if row["status"] == Status.ACTIVE]
    rules = [row for row in active if row["category"] in RULES and row["workspace"]]
    view = memory.get_view()
    told = {
        line.claim
        for place in sorted({row["workspace"] for row in rules})
        for line in collect_skill_lines(view, {place}, has_injection)
    }
    masters = (pc.field("scope") == "session") & (pc.field("tier") == -1)
    counts = [step.counts for step in report.steps]

    def add_up(what: str) -> int:
        return sum(n for some in counts for name, n in some.items() if name.endswith(f": {what}"))

    return Night(
        night=name,
        claims=len(active),
        categorised=sum(row["category"] not in ("", "context") for row in active) / max(1, len(active)),
        rules=len(rules),
        in_skill=sum(row["observation_id"] in told for row in rules) / max(1, len(rules)),
        changed=sum(row["status"] == Status.SUPERSEDED for row in rows),
        topics=sum(row["size"] >= 3 for row in store.read(TOPICS).to_pylist()),
        titles=sum(bool(row["title"]) for row in store.read(SUMMARIES, where=masters).to_pylist()),
        prompts=add_up("requests"),
        prompt_tokens=add_up("prompt tokens"),
        answer_tokens=add_up("answer tokens"),
        seconds=round(seconds, 1),
    )


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=[SAMPLES])
    parser.add_argument("--llm", default=RECORDED)
    parser.set_defaults(encoder="hash-384")  # which the answers were recorded with
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        nights = [
            measure_night(name, given.paths, Settings(store=Path(scratch) / name, encoder=given.encoder, llm=llm))
            for name, llm in (("without", "off"), ("with", given.llm))
        ]
    print_rows([asdict(night) for night in nights], given.as_json)


if __name__ == "__main__":
    main()
