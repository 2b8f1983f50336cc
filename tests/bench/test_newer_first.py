"""Of thirty plain pairs, what holds is told before what it replaced at least as often as the recorded run had it."""

import json
from pathlib import Path

from bench.recall.newer_first import PAIRS, RECORD, ask_pairs, count_newer_first, read_pairs


def test_the_newer_of_two_statements_comes_first_as_often_as_recorded(tmp_path: Path) -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    pairs = read_pairs(PAIRS)
    answers = ask_pairs(pairs, tmp_path, recorded["encoder"])
    figures = count_newer_first(pairs, answers)[0]
    missed = [answer.question for answer in answers if not answer.newer_first]
    assert figures["pairs"] == recorded["pairs"] == 30
    assert figures["newer first"] >= recorded["newer_first"], f"the newer is not first: {missed}"
