"""How much of the summaries tells what an agent is about to do, in place of what is worth knowing? By tier.

    python -m bench.nights.narration PATH… [--labels data/labelled/worth.tsv] [--draw 20] [--seed 0] [--json]

PATHs as of `bench.fit.worth`, two at least. Of each a real night makes summaries without a language model or vectors,
so of sessions alone. A sentence of theirs is told to be narration by a classifier of the labelled sentences of the
other PATHs (area .94 on projects that it has not learnt from). Columns: *tier* (the master's is -1), summaries,
sentences, and the share that is *narration*. `--draw` prints so many sentences a tier to be read by hand instead.
"""

import argparse
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from bench.fit.worth import Labelled, collect_labelled, fit_worth_model
from bench.nights.draw_sentences import read_shown_messages
from bench.nights.worth import LABELS, read_labels
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import SUMMARIES
from slowwave.schemas.vocabulary import is_turn
from slowwave.store import Store
from slowwave.tasks.observe.units import list_sentences, strip_emphasis
from slowwave.text.sentences import split_sentences

NARRATION = "narration"


@dataclass(frozen=True)
class Told:
    """A sentence of a summary."""

    path: str
    tier: int
    summary: str
    text: str


@dataclass(frozen=True)
class Result:
    """What summaries of a tier hold."""

    path: str
    tier: int
    summaries: int
    sentences: int
    narration: float


def read_summaries(path: Path) -> list[Told]:
    """Return the sentences of the summaries that a night makes of transcripts."""
    with tempfile.TemporaryDirectory() as folder:
        run_night([path.absolute()], Settings(store=Path(folder), embeddings=False))
        rows = Store.open(Path(folder)).read(SUMMARIES, ["tier", "summary_id", "text"]).to_pylist()
    return [
        Told(path.name, row["tier"], row["summary_id"], strip_emphasis(row["text"][one.start : one.end]))
        for row in rows
        for one in split_sentences(row["text"])
    ]


def collect_numbers(path: Path) -> dict[str, tuple[float, ...]]:
    """Return of every sentence that was said what is known of it besides its words."""
    rows = read_shown_messages([path]).sort_by([("session_id", "ascending"), ("seq", "ascending")]).to_pylist()
    sessions = groupby(filter(is_turn, rows), key=itemgetter("session_id"))
    return {_strip_end(one.text): one.numbers for _, turns in sessions for one in list_sentences(list(turns))}


def _strip_end(text: str) -> str:
    return text.rstrip(".!?… ")


def measure_narration(
    told: Sequence[Told], numbers: dict[str, tuple[float, ...]], others: Sequence[Labelled]
) -> list[Result]:
    """Return the figures of each tier of the summaries of one PATH, by what is learnt from the `others`' sentences."""
    model = fit_worth_model(others, [one.label == NARRATION for one in others])
    known = [one for one in told if _strip_end(one.text) in numbers]
    odds = model.compute_worth([one.text for one in known], [numbers[_strip_end(one.text)] for one in known])
    by_tier: dict[int, list[tuple[Told, bool]]] = defaultdict(list)
    for one, said in zip(known, odds, strict=True):
        by_tier[one.tier].append((one, said >= 0))
    return [
        Result(
            some[0][0].path,
            tier,
            len({one.summary for one, _ in some}),
            len(some),
            sum(is_narration for _, is_narration in some) / len(some),
        )
        for tier, some in sorted(by_tier.items())
    ]


def draw_sentences(told: Sequence[Told], count: int, seed: int = 0) -> list[Told]:
    """Return so many sentences of each tier, in an order of chance."""
    order = list(told)
    random.Random(seed).shuffle(order)
    return [one for tier in sorted({one.tier for one in told}) for one in [o for o in order if o.tier == tier][:count]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--labels", type=Path, default=LABELS, help="labelled sentences, by hash")
    parser.add_argument("--draw", type=int, default=0, help="print so many sentences a tier, in place of figures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    if len(args.paths) < 2:
        parser.error("one path alone: each is judged by what is learnt from the others")
    told = {path: read_summaries(path) for path in args.paths}
    if args.draw:
        for path in args.paths:
            for one in draw_sentences(told[path], args.draw, args.seed):
                print(orjson.dumps(asdict(one)).decode())
        return
    labels = read_labels(args.labels)
    learnt = {path: collect_labelled([path], labels) for path in args.paths}
    results = [
        one
        for path in args.paths
        for one in measure_narration(
            told[path],
            collect_numbers(path),
            [each for other in args.paths if other != path for each in learnt[other]],
        )
    ]
    if args.json:
        print(orjson.dumps([asdict(one) for one in results], option=orjson.OPT_INDENT_2).decode())
        return
    shown = Table(*(field.name for field in fields(Result)))
    for one in results:
        shown.add_row(*(f"{value:.0%}" if isinstance(value, float) else str(value) for value in astuple(one)))
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
