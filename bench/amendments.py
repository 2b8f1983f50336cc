"""Decisions amended in a later session: does recall put the one that holds first, and is the stale one marked?

    python -m bench.amendments FILE… [--misses] [--json]

FILEs are conversations with cases in them, as `data/labelled/amendments.jsonl` (see `bench/amendment_cases.py`). A
whole night runs over the messages in a store of its own, extractive, without a language model: about a minute for 200
messages. Columns: *first*, cases whose first hit that tells either tells what holds, among observations and among all
kinds; *top*, the very first hit of all kinds tells what holds; *extracted*, cases of which some observation has the
stale words; *marked*, cases none of whose stale observations is left active, and none of whose ten best hits of any
kind has the stale words unmarked; *told*, the same, where a claim that stands but is said to be perhaps changed counts
as marked; *both*, first of all kinds and marked.
"""

import argparse
import tempfile
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench.amendment_cases import Case, read_cases
from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Hit
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MERGES, OBSERVATIONS

TOP = 10


@dataclass(frozen=True, slots=True)
class Result:
    """One case."""

    case: str
    first: bool
    first_of_all: bool
    top: bool
    extracted: bool
    marked: bool
    best: str
    """The text of the best hit."""
    told: bool
    unmarked: tuple[str, ...]
    """What is stale and not said to be."""

    @property
    def both(self) -> bool:
        """What holds comes first, and what does not is marked."""
        return self.first_of_all and self.marked


def evaluate_cases(store: Path, cases: Sequence[Case]) -> list[Result]:
    """Return each case asked of the released memory in `store`."""
    memory = Memory.open(store)
    columns = ["observation_id", "summary", "detail", "status", "observed_at"]
    rows = memory.snapshot.open_table(OBSERVATIONS).search().select(columns).to_list()
    ledger = memory.snapshot.open_table(MERGES).search().select(["kind", "loser_id", "undone"]).to_list()
    doubted = {row["loser_id"] for row in ledger if row["kind"] == "doubt" and not row["undone"]}
    return [_evaluate_case(memory, case, rows, doubted) for case in cases]


def _evaluate_case(memory: Memory, case: Case, rows: Sequence[dict[str, Any]], doubted: Set[str]) -> Result:
    claims = memory.recall(case.query, k=TOP, kinds="observation")
    everything = memory.recall(case.query, k=TOP)
    said = [r for r in rows if case.is_outdated(f"{r['summary']} {r['detail'] or ''}", r["observed_at"])]
    shown = [h for h in everything if h.status == "active" and _is_outdated_hit(case, h)]
    standing = [row for row in said if row["status"] == "active"]
    unmarked = [f"{h.kind}: {h.text}" for h in shown] + [f"claim: {row['summary']}" for row in standing]
    doubts = [h.perhaps_superseded_by is not None for h in shown] + [r["observation_id"] in doubted for r in standing]
    return Result(
        case=case.name,
        first=_is_current_first(claims, case),
        first_of_all=_is_current_first(everything, case),
        top=bool(everything) and case.is_current(everything[0].text),
        extracted=bool(said),
        marked=not unmarked,
        told=all(doubts),
        best=f"{everything[0].kind}: {everything[0].text}" if everything else "",
        unmarked=tuple(unmarked),
    )


def _is_outdated_hit(case: Case, hit: Hit) -> bool:
    return case.is_outdated(hit.text, hit.observed_at)


def _is_current_first(hits: Sequence[Hit], case: Case) -> bool:
    """Return whether, of the hits that tell either, the first tells what holds."""
    telling = (case.is_current(h.text) for h in hits if case.is_current(h.text) or _is_outdated_hit(case, h))
    return next(telling, False)


def run_night_over(messages: Sequence[dict[str, object]], folder: Path) -> Path:
    """Return a store in `folder` with the messages read, distilled and released."""
    path, store = folder / "conversations.jsonl", folder / "store"
    path.write_bytes(b"\n".join(map(orjson.dumps, messages)) + b"\n")
    run_night([path], Settings(store=store))
    return store


def render_amendments_table(rows: Sequence[Result]) -> Table:
    """Return shares over all cases."""
    table = Table(title=f"{len(rows)} amended decisions, extractive night")
    columns = {
        "first": [r.first for r in rows],
        "first of all kinds": [r.first_of_all for r in rows],
        "top": [r.top for r in rows],
        "stale extracted": [r.extracted for r in rows],
        "marked": [r.marked for r in rows],
        "told": [r.told for r in rows],
        "both": [r.both for r in rows],
    }
    for name in columns:
        table.add_column(name, justify="right")
    table.add_row(*(f"{sum(held) / len(rows):.1%}" for held in columns.values()))
    return table


def main() -> None:
    """Run the night, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--misses", action="store_true", help="list the cases that are not first and marked")
    parser.add_argument("--json", action="store_true", help="one JSON object a case")
    args = parser.parse_args()
    messages, cases = read_cases(args.files)
    with tempfile.TemporaryDirectory() as folder:
        rows = evaluate_cases(run_night_over(messages, Path(folder)), cases)
    console = Console(width=120)
    if args.json:
        print("\n".join(orjson.dumps(asdict(row)).decode() for row in rows))
        return
    console.print(render_amendments_table(rows))
    for row in rows if args.misses else []:
        if not (row.both and row.top):
            console.print(f"{row.case}: first {row.first_of_all}, marked {row.marked}; best {row.best!r}")
            console.print("\n".join(f"    unmarked {one!r}" for one in row.unmarked), end="\n" if row.unmarked else "")


if __name__ == "__main__":
    main()
