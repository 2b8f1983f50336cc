"""Questions over the samples: are they answered, by the right session, with a source?

    python -m bench.questions data/questions.toml [--demo] [--store DIR] [--space NAME] [--json]

Each question in the file names a text that a right hit must show and the session it stands in. `--demo` asks the
three that the README shows, and prints their answers as a person would read them.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slowwave import Memory
from slowwave.cli.ask import format_hit
from slowwave.recall.hits import Hit

K = 5


def load_questions(path: Path, *, demo: bool) -> list[dict[str, Any]]:
    """Return the file's questions; with `demo`, those it marks."""
    questions: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
    return [q for q in questions if q.get("demo")] if demo else questions


def find_rank(question: dict[str, Any], hits: list[Hit]) -> int | None:
    """Return place, from 1, of the first hit that shows the expected text and cites the expected session."""
    for rank, hit in enumerate(hits, 1):
        shown = " ".join([hit.text, *(source.quote for source in hit.sources)])
        if question["expect"] in shown and any(source.session == question["session"] for source in hit.sources):
            return rank
    return None


def print_answers(console: Console, question: dict[str, Any], hits: list[Hit]) -> None:
    """Print a question and its best three answers, as `slowwave recall` does."""
    console.print(f"\n[bold]? {question['question']}[/bold]", highlight=False)
    for number, hit in enumerate(hits[:3], 1):
        console.print(format_hit(number, hit), highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Ask, and print a table or the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--space", default="default")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    memory = Memory.open(given.store, given.space)
    console = Console()
    ranks = {}
    for question in load_questions(given.file, demo=given.demo):
        hits = memory.recall(question["question"], k=K)
        ranks[question["question"]] = find_rank(question, hits)
        if given.demo:
            print_answers(console, question, hits)
    if given.as_json:
        print(json.dumps(ranks, indent=2))
    elif not given.demo:
        table = Table("question", "rank")
        for text, rank in ranks.items():
            table.add_row(text, str(rank or "-"))
        console.print(table)
        console.print(
            f"{sum(r == 1 for r in ranks.values())} first, {sum(r is not None for r in ranks.values())} in {K}"
        )


if __name__ == "__main__":
    main()
