"""The size of the code may fall, never rise: `python -m bench.house --write bench/house.json` writes a fall down."""

import json

from bench.house import find_cycles, find_longest_chain, measure_house
from tests.bench_inputs import ROOT


def test_no_figure_rises() -> None:
    bounds = json.loads((ROOT / "bench" / "house.json").read_text())
    figures = measure_house(ROOT)
    assert {
        name: figures[name] for name, bound in bounds.items() if figures[name] > bound
    } == {}


def test_a_cycle_and_a_chain_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set()}
    assert find_cycles(imports) == [["a", "b", "c"]]
    assert find_longest_chain({"a": {"b"}, "b": {"d"}, "d": {"e"}, "e": set()}) == [
        "a",
        "b",
        "d",
        "e",
    ]
