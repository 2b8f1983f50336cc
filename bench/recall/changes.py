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

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from bench.harness import build_parser, print_rows
from bench.recall.amendment_cases import NoCases, read_cases
from slowwave import Memory
from slowwave.context.rendering import Line
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_run
from slowwave.recall.hits import Hit
from slowwave.schemas.settings import Settings, SupersedeSettings
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LEADS, LedgerKind
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


def evaluate_file(path: Path, settings: Settings) -> tuple[dict[str, Any], list[Answer]]:
    """Run a night over a file in the settings' store, have its model judge where there is one, count, and ask."""
    run_night_over(path, settings.model_copy(update={"llm": "off"}))
    if settings.llm != "off":
        judge_changes(settings)
    memory = Memory.open(settings.store)
    answers = [_ask(memory, question) for question in read_questions(path)]
    claims, retired, linked = count_changes(memory)
    told = {
        "newer first": [a.newer_first for a in answers],
        "top": [a.top for a in answers],
        "in the block": [a.in_the_block for a in answers],
        "marked": [a.marked for a in answers],
        "both": [a.newer_first and a.marked for a in answers],
    }
    shares = {name: fmean(values) if values else None for name, values in told.items()}
    counts = {"claims": claims, "retired": retired, "linked": linked, "asked": len(answers)}
    return {"file": path.stem, **counts, **shares}, answers


def count_changes(memory: Memory) -> tuple[int, int, int]:
    """Return claims, those retired by one of another session, and those that may be changed by one."""
    columns = ["observation_id", "session_id", "superseded_by"]
    rows = memory.snapshot.read(OBSERVATIONS, columns).to_pylist()
    session = {row["observation_id"]: row["session_id"] for row in rows}
    retired = [row for row in rows if session.get(row["superseded_by"], row["session_id"]) != row["session_id"]]
    columns = ["kind", "rule", "loser_id", "winner_id", "undone"]
    ledger = memory.snapshot.read(MERGES, columns).to_pylist()
    linked = {
        row["loser_id"]
        for row in ledger
        if row["kind"] == LedgerKind.DOUBT
        and row["rule"] != LEADS
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


def main() -> None:
    """Run a night a file, ask, print."""
    parser = build_parser(__doc__, "files…")
    parser.add_argument("--misses", action="store_true", help="list the questions of which the newer is not first")
    parser.add_argument("--llm", default="off", help="who judges pairs after the night: an engine, as in SLOWWAVE_LLM")
    given = parser.parse_args()
    rows, misses = list[dict[str, Any]](), list[str]()
    for path in given.files:
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(store=Path(folder) / "store", encoder=given.encoder, llm=given.llm, supersede=ALL_PAIRS)
            row, answers = evaluate_file(path, settings)
        rows.append(row)
        missed = [one for one in answers if not (one.newer_first and one.in_the_block and one.marked)]
        misses += [f"{path.stem}: {answer}" for answer in missed if given.misses]
    print_rows(rows, given.as_json, "what changed and what did not, extractive nights", misses)


if __name__ == "__main__":
    main()
