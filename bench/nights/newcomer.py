"""The memory of a stranger's first weeks: how much of what holds is shown unasked, and how much is found.

    python -m bench.nights.newcomer data/labelled/newcomers/*/ [--answers FILE] [--encoder NAME] [--misses] [--json]

FOLDERs hold sessions of Claude Code by one writer each, and `truth.json` of the same writer: statements that hold at
the end (`standing`), those that do not (`gone`), and questions with a verbatim piece of the answer, each with its
project. Columns, a row a writer: *rules* and decisions that hold; *told*, the share of them that a skill has; *lines*
of the skills that state something; *hold* and *gone*, the shares of the lines that say what holds, and what no longer
does; *questions*; *first* and *in three*, the shares whose answer `recall` finds there, asked in the project. A line
says a statement if it, or the words that it rests on, have SAME of the words of its quote. Lines that say neither are
commands, habits, and statements that the writer did not list.

`--answers FILE` runs the night with a language model whose recorded answers FILE has, as
`data/labelled/newcomers/answers.json` (`tests/cassette.py`). Topics and summaries without an answer wait.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from bench.harness import ENCODER, SCRATCH, Figures, Row, run
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.llm.fence import has_injection
from tests.cassette import ANSWERS, REPLAY

SAME = 0.6
"""Share of the words of a quote that a line has to have."""
WORD = re.compile(r"\w{2,}")
SETTLING = ("rule", "decision")
Statement = dict[str, Any]


def measure(
    folders: Sequence[Path],
    scratch: Path = SCRATCH,
    *,
    answers: Path | None = None,
    encoder: str = ENCODER,
    misses: bool = False,
) -> Figures:
    """Return a row a writer."""
    llm = "off" if answers is None else REPLAY
    rows, notes = [], []
    with answer_from(answers):
        for folder in folders:
            row, missed = measure_writer(folder, scratch / folder.name, encoder, llm)
            rows.append(row)
            notes += missed if misses else []
    return Figures(rows, notes=notes)


@contextmanager
def answer_from(file: Path | None) -> Iterator[None]:
    """Let a model's recorded answers be those of a file meanwhile, if one is given."""
    before = os.environ.get(ANSWERS)
    if file is not None:
        os.environ[ANSWERS] = str(file)
    try:
        yield
    finally:
        os.environ.pop(ANSWERS, None)
        if before is not None:
            os.environ[ANSWERS] = before


def measure_writer(
    folder: Path, scratch: Path, encoder: str, llm: str = "off"
) -> tuple[Row, list[str]]:
    """Return the row of a writer, and the rules and decisions that no skill has."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    sessions = scratch / "sessions"
    sessions.mkdir(parents=True)
    for path in sorted(folder.glob("*.jsonl")):
        shutil.copy2(path, sessions)
    settings = Settings(store=scratch / "store", encoder=encoder, llm=llm)
    run_night([sessions], settings)
    memory = Memory.open(settings.store)
    by_project = dict(_list_lines(memory))
    standing = [*truth["standing"], *truth.get("standing_more", [])]
    gone = [*truth["gone"], *truth.get("gone_more", [])]
    settled = [one for one in standing if one["kind"] in SETTLING]
    missed = [one for one in settled if not _is_told(one, by_project)]
    lines = [(at, line) for at, some in by_project.items() for line in some]
    holding = [line for at, line in lines if _says_one(line, at, standing)]
    lost = [line for at, line in lines if _says_one(line, at, gone)]
    lost = [line for line in lost if line not in holding]
    places = [_find_place(memory, one) for one in truth["questions"]]
    asked = [one for one in places if one is not None]
    row: Row = {
        "writer": folder.name,
        "rules": len(settled),
        "told": 1 - len(missed) / len(settled),
        "lines": len(lines),
        "hold": len(holding) / max(len(lines), 1),
        "gone": len(lost) / max(len(lines), 1),
        "questions": len(places),
        "first": sum(place == 0 for place in asked) / len(places),
        "in three": sum(place < 3 for place in asked) / len(places),
    }
    return row, [f"{folder.name}: {one['quote']}" for one in missed]


def _list_lines(memory: Memory) -> Iterator[tuple[str, list[str]]]:
    """Yield each project's name with the lines of its skill that state something, each with the words it rests on."""
    view = memory.get_view()
    for workspace in sorted(view.workspaces):
        found = collect_skill_lines(view, (workspace,), has_injection)
        ids = [line.claim for line in found if line.claim]
        rows = view.read_by_id(CLAIMS, ids, ["quote"])
        yield (
            PurePath(workspace).name,
            [
                f"{line.text} {rows[line.claim]['quote'] or ''}"
                for line in found
                if line.claim
            ],
        )


def _is_told(one: Statement, by_project: dict[str, list[str]]) -> bool:
    return any(_says(line, one) for line in by_project.get(one["project"], ()))


def _says_one(line: str, project: str, statements: Sequence[Statement]) -> bool:
    return any(_says(line, one) for one in statements if one["project"] == project)


def _says(line: str, one: Statement) -> bool:
    """Return True if a line has most words of a statement's quote."""
    words = set(WORD.findall(one["quote"].casefold()))
    return len(words & set(WORD.findall(line.casefold()))) >= SAME * len(words)


def _find_place(memory: Memory, question: Statement) -> int | None:
    """Return the place of the first hit that has the answer, or None."""
    workspaces = memory.get_view().workspaces
    places = [one for one in workspaces if PurePath(one).name == question["project"]]
    hits = memory.recall(question["question"], workspace=places[0] if places else None)
    answer = question["answer"].casefold()
    for place, hit in enumerate(hits):
        texts = [hit.text, *(source.quote for source in hit.sources)]
        if any(answer in text.casefold() for text in texts):
            return place
    return None


if __name__ == "__main__":
    run(measure)
