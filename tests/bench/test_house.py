"""The size of the code may fall, never rise: `python -m bench.house --write bench/house.json` writes a fall down."""

import ast
import json
from collections.abc import Iterator, Mapping

import pytest

from bench.house import find_cycles, find_longest_chain, measure_house, read_modules
from tests.bench_inputs import ROOT

MOST_BY_POSITION = 3
"""Values that a call may pass by their position alone."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Trees = Mapping[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Each module of slowwave, by its name."""
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in read_modules(ROOT).items()
    }


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


def test_a_statement_sets_one_thing(trees: Trees) -> None:
    """A tuple of values on the right is two statements in one; values that change places stay."""
    assert list_parallel_assignments(trees) == []


def test_fields_are_given_by_keyword(trees: Trees) -> None:
    """A call of our own code passes up to three values by position, and splats no values into a class.

    A function that takes any number of values (`*parts`) is left out: what stands before them has no keyword. A splat
    of a name, which holds such a pair already, may stay in a call of a function of up to three.
    """
    assert list_positional_calls(trees) == []


def test_each_fault_is_found() -> None:
    """The rules find each form that they name, and no allowed one."""
    other = "def draw(x, y, z, t): ...\ndef join(*parts): ...\n"
    own = """
from slowwave.other import draw as paint, join
class Point:
    def move(self, x, y, z, t): ...
    def turn(self):
        self.move(1, 2, 3, 4)
def pair(x, y): ...
a, b = 1, 2
a, b = b, a
a, b = pair(1, 2)
Point(*b)
paint(1, 2, 3, 4)
paint(1, *b)
pair(*(1, 2))
paint(1, 2, 3, t=4)
pair(*b)
join(1, 2, 3, *b, 4)
print(1, 2, 3, 4)
"""
    trees = {"slowwave.other": ast.parse(other), "slowwave.own": ast.parse(own)}
    assert list_parallel_assignments(trees) == ["slowwave.own:8 a, b = (1, 2)"]
    assert sorted(list_positional_calls(trees)) == [
        "slowwave.own:11 Point(*b)",
        "slowwave.own:12 paint(1, 2, 3, 4)",
        "slowwave.own:13 paint(1, *b)",
        "slowwave.own:14 pair(*(1, 2))",
        "slowwave.own:6 self.move(1, 2, 3, 4)",
    ]


def list_parallel_assignments(trees: Trees) -> list[str]:
    """Return the assignments of several values to several places, except those that exchange places."""
    return [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and sorted(map(ast.unparse, node.targets[0].elts))
        != sorted(map(ast.unparse, node.value.elts))
    ]


def list_positional_calls(trees: Trees) -> list[str]:
    """Return the calls of our own functions and classes that pass too much by position."""
    return [
        f"{module}:{call.lineno} {ast.unparse(call)}"
        for module, tree in trees.items()
        for call, called in find_own_calls(trees, module, tree)
        if _passes_much_by_position(call, called)
    ]


def _passes_much_by_position(call: ast.Call, called: Definition) -> bool:
    splats = [arg for arg in call.args if isinstance(arg, ast.Starred)]
    if isinstance(called, ast.ClassDef):
        return bool(splats) or len(call.args) > MOST_BY_POSITION
    taken = called.args
    if taken.vararg:
        return False
    if not splats:
        return len(call.args) > MOST_BY_POSITION
    named = [arg.arg for arg in (*taken.posonlyargs, *taken.args)]
    room = len(named) - (named[:1] in (["self"], ["cls"])) - len(call.keywords)
    is_built = any(not isinstance(splat.value, ast.Name) for splat in splats)
    return is_built or room > MOST_BY_POSITION


def find_own_calls(
    trees: Trees, module: str, tree: ast.Module
) -> Iterator[tuple[ast.Call, Definition]]:
    """Yield the calls in a module, with the function, class or method of ours that is called by its name."""
    known = _list_names(trees, module)
    for scope in ast.walk(tree):
        if isinstance(scope, ast.ClassDef):
            own = {f"self.{name}": one for name, one in _list_defined(scope).items()}
            yield from _match_calls(scope, own)
    for name, one in [*known.items()]:
        if isinstance(one, ast.ClassDef):
            methods = _list_defined(one).items()
            known |= {f"{name}.{method}": found for method, found in methods}
    yield from _match_calls(tree, known)


def _match_calls(
    scope: ast.AST, known: Mapping[str, Definition]
) -> Iterator[tuple[ast.Call, Definition]]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and (called := known.get(ast.unparse(node.func))):
            yield node, called


def _list_names(trees: Trees, module: str) -> dict[str, Definition]:
    """Return the functions and classes of ours that a module defines or imports, by the name that they have there."""
    names = _list_defined(trees[module])
    for node in ast.walk(trees[module]):
        if isinstance(node, ast.ImportFrom) and node.module in trees:
            defined = _list_defined(trees[node.module])
            names |= {
                alias.asname or alias.name: defined[alias.name]
                for alias in node.names
                if alias.name in defined
            }
    return names


def _list_defined(scope: ast.Module | ast.ClassDef) -> dict[str, Definition]:
    return {node.name: node for node in scope.body if isinstance(node, Definition)}
