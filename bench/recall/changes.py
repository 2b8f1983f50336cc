"""What changed and what did not: is anything retired that holds, and is what holds told before what does not?

    python -m bench.recall.changes FILE… [--misses] [--encoder NAME] [--llm SPEC] [--json]

FILEs are conversations, a store and a whole extractive night each. What is asked of one stands in it as cases, as in
`data/labelled/amendments.jsonl` (see `bench/recall/amendment_cases.py`), or beside it (`X.queries.json` for `X.jsonl`:
a list of `{workspace, query, current, stale}` with ids of messages). Of a file without either only the claims are
counted: where no session changes what another said, every one retired is wrong. With `--llm` a language model then
judges the pairs of claims that the night's classifier found likely (`slowwave.tasks.supersede`), all of them, and
nothing else.

Columns: *claims*; *retired*, by a claim of another session; *linked*, of which another session may have changed them;
*asked*; *newer first*, questions of which the first of ten hits that tells either tells what holds; *top*, the very
first hit does; *in the block*, the first line of `context` (500 tokens) that tells either tells what holds; *marked*,
none of the ten hits tells what is stale without a word of it: superseded, or linked to a later claim; *both*, newer
first and marked.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from bench.recall.amendment_cases import NoCases, read_cases
from slowwave import Memory
from slowwave.context.rendering import Line
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run
from slowwave.recall.hits import Hit
from slowwave.schemas.settings import Settings, SupersedeSettings
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.tasks.publish.task import publish_release
from slowwave.tasks.supersede.task import supersede_observations

TOP = 10
BUDGET = 500
"""Tokens of the block."""
ALL_PAIRS = SupersedeSettings(pairs=1_000_000)
"""No budget: what is measured is the model."""

Told = tuple[str, datetime | None, frozenset[str]]
"""A text, when it was said, and the messages it stands in."""
Tells = Callable[[str, datetime | None, frozenset[str]], bool]
"""Whether what is told tells a thing."""


@dataclass(frozen=True)
class Question:
    """A question of which something holds and something is stale."""

    text: str
    workspace: str | None
    tells_current: Tells
    tells_stale: Tells


@dataclass(frozen=True)
class Answer:
    """What is told to a question."""

    question: str
    newer_first: bool
    top: bool
    in_the_block: bool
    marked: bool


@dataclass(frozen=True)
class Result:
    """One file."""

    file: str
    claims: int
    retired: int
    linked: int
    asked: int
    newer_first: float
    top: float
    in_the_block: float
    marked: float
    both: float


def read_questions(path: Path) -> list[Question]:
    """Return what is asked of a file, in it or beside it; nothing where neither has any."""
    beside = path.with_suffix(".queries.json")
    if beside.exists():
        rows = [row for row in orjson.loads(beside.read_bytes()) if row.get("current") and row.get("stale")]
        return [
            Question(row["query"], row.get("workspace"), _tell_by_ids(row["current"]), _tell_by_ids(row["stale"]))
            for row in rows
        ]
    try:
        _, cases = read_cases([path])
    except NoCases:
        return []
    return [
        Question(
            case.query,
            None,
            lambda text, at, ids, case=case: case.is_current(text),  # type: ignore[misc]
            lambda text, at, ids, case=case: case.is_outdated(text, at),  # type: ignore[misc]
        )
        for case in cases
    ]


def _tell_by_ids(messages: Iterable[str]) -> Tells:
    meant = frozenset(messages)
    return lambda text, at, ids: not meant.isdisjoint(ids)


def run_night_over(path: Path, settings: Settings) -> None:
    """Read, distil and release the messages of a file, in which lines of cases stand too."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [line for line in path.read_bytes().splitlines() if b'"role"' in line]
        talk = Path(folder) / path.name
        talk.write_bytes(b"\n".join(lines) + b"\n")
        run_night([talk], settings).check_complete()


def judge_changes(settings: Settings) -> None:
    """Have the settings' model judge what the night left in the store, and release it."""
    with open_run("judge", settings) as (job, report):
        report.steps += [supersede_observations(job), publish_release(job)]


def evaluate_file(path: Path, settings: Settings) -> tuple[Result, list[Answer]]:
    """Run a night over a file in the settings' store, have its model judge where there is one, count, and ask."""
    run_night_over(path, settings.model_copy(update={"llm": "off"}))
    if settings.llm != "off":
        judge_changes(settings)
    memory = Memory.open(settings.store)
    answers = [_ask(memory, question) for question in read_questions(path)]
    claims, retired, linked = count_changes(memory)
    shares = (
        sum(values) / len(answers) if answers else float("nan")
        for values in (
            [a.newer_first for a in answers],
            [a.top for a in answers],
            [a.in_the_block for a in answers],
            [a.marked for a in answers],
            [a.newer_first and a.marked for a in answers],
        )
    )
    return Result(path.stem, claims, retired, linked, len(answers), *shares), answers


def count_changes(memory: Memory) -> tuple[int, int, int]:
    """Return claims, those retired by one of another session, and those that may be changed by one."""
    columns = ["observation_id", "session_id", "superseded_by"]
    rows = memory.snapshot.read(OBSERVATIONS, columns).to_pylist()
    session = {row["observation_id"]: row["session_id"] for row in rows}
    retired = [row for row in rows if session.get(row["superseded_by"], row["session_id"]) != row["session_id"]]
    columns = ["kind", "loser_id", "winner_id", "undone"]
    ledger = memory.snapshot.read(MERGES, columns).to_pylist()
    linked = {
        row["loser_id"]
        for row in ledger
        if row["kind"] == LedgerKind.DOUBT
        and not row["undone"]
        and session.get(row["loser_id"]) != session.get(row["winner_id"])
    }
    return len(rows), len(retired), len(linked)


def _ask(memory: Memory, question: Question) -> Answer:
    hits = memory.recall(question.text, k=TOP, workspace=question.workspace)
    block = memory.context(question.text, BUDGET, workspace=question.workspace)
    lines = [_read_line(line) for part in block.parts for line in part.lines]
    told = [_read_hit(hit) for hit in hits]
    stale = [hit for hit, one in zip(hits, told, strict=True) if _is_stale(question, one)]
    return Answer(
        question=question.text,
        newer_first=_is_current_first(question, told),
        top=bool(told) and question.tells_current(*told[0]),
        in_the_block=_is_current_first(question, lines),
        marked=all(hit.status != "active" or hit.perhaps_superseded_by is not None for hit in stale),
    )


def _read_hit(hit: Hit) -> Told:
    return hit.text, hit.observed_at, frozenset(source.message for source in hit.sources)


def _read_line(line: Line) -> Told:
    return line.text, line.source.at, frozenset({line.source.message} - {None})


def _is_stale(question: Question, told: Told) -> bool:
    return question.tells_stale(*told) and not question.tells_current(*told)


def _is_current_first(question: Question, told: Sequence[Told]) -> bool:
    """Return whether, of what tells either, the first tells what holds."""
    telling = (
        question.tells_current(*one) for one in told if question.tells_current(*one) or question.tells_stale(*one)
    )
    return next(telling, False)


def render_changes_table(results: Sequence[Result]) -> Table:
    """For people."""
    table = Table(title="what changed and what did not, extractive nights")
    for field in fields(Result):
        table.add_column(field.name.replace("_", " "), justify="left" if field.name == "file" else "right")
    for result in results:
        cells = astuple(result)
        shares = (f"{value:.1%}" if value == value else "–" for value in cells[5:])
        table.add_row(cells[0], *(f"{value:,}" for value in cells[1:5]), *shares)
    return table


def main() -> None:
    """Run a night a file, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--misses", action="store_true", help="list the questions of which the newer is not first")
    parser.add_argument("--encoder", default=Settings().encoder)
    parser.add_argument("--llm", default="off", help="who judges pairs after the night: an engine, as in SLOWWAVE_LLM")
    parser.add_argument("--json", action="store_true", help="one JSON object a file, with its answers")
    args = parser.parse_args()
    results = []
    for path in args.files:
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(store=Path(folder) / "store", encoder=args.encoder, llm=args.llm, supersede=ALL_PAIRS)
            result, answers = evaluate_file(path, settings)
        results.append(result)
        if args.json:
            print(orjson.dumps({**asdict(result), "answers": [asdict(answer) for answer in answers]}).decode())
        for answer in answers if args.misses else []:
            if not (answer.newer_first and answer.in_the_block and answer.marked):
                print(f"{path.stem}: {answer}")
    if not args.json:
        Console(width=140).print(render_changes_table(results))


if __name__ == "__main__":
    main()
