"""Of thirty plain pairs, what holds is told before what it replaced at least as often as it ever was."""

from bench.harness import LABELLED
from bench.recall.changes import measure

REACHED = 26


def test_the_newer_of_two_statements_comes_first_as_often_as_ever() -> None:
    figures = measure(
        [LABELLED / "newer_first.jsonl"], misses=True, encoder="all-MiniLM-L6-v2"
    )
    assert figures.rows[0]["asked"] == 30
    assert round(figures.rows[0]["newer first"] * 30) >= REACHED, figures.notes
