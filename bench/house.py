"""The house in figures: files, functions, imports, and the way of one question through the modules.

    python -m bench.house [ROOT] [--walk STORE] [--json]

With `--walk` one question is asked of a store, twice, and the second is followed: the modules it enters, the functions
it calls, and how often it comes back to a module that it had left.
"""

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

CODE = ("schemas", "tasks", "flows", "slowwave")
QUESTION = "Which database does tidepool use for the gauge readings?"


def read_modules(root: Path) -> dict[str, Path]:
    """Return the file of each module of slowwave, by its dotted name."""
    found: dict[str, Path] = {}
    for top in CODE:
        for path in sorted((root / top).rglob("*.py")):
            if path.resolve() != (root.resolve() / path.relative_to(root)):
                continue  # the same file through a link
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            found[name if top == "slowwave" or not (root / "slowwave" / top).exists() else f"slowwave.{name}"] = path
    return found


def list_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method that is neither a dunder nor a property."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
            continue
        if not any("property" in ast.unparse(one) for one in node.decorator_list):
            yield node


def read_imports(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Return the modules of slowwave that each module imports at its top, types' imports left out."""
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wanted = {
            target
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
            for target in (f"{node.module}.{alias.name}", node.module)
        }
        found[name] = (wanted & set(modules)) - {name}
    return found


def find_longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """Return the longest chain of modules that import one another; a circle is cut where it closes."""
    longest: dict[str, list[str]] = {}

    def follow(name: str, above: frozenset[str]) -> list[str]:
        if name not in longest:
            below = [follow(one, above | {name}) for one in sorted(imports[name] - above)]
            longest[name] = [name, *max(below, key=len, default=[])]
        return longest[name]

    return max((follow(name, frozenset()) for name in imports), key=len)


def count_comments(source: str) -> int:
    """Return how many comments a source has."""
    return sum(one.type == tokenize.COMMENT for one in tokenize.generate_tokens(io.StringIO(source).readline))


def measure_house(root: Path) -> dict[str, Any]:
    """Return the figures of one checkout, by name."""
    modules = read_modules(root)
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(source) for name, source in sources.items()}
    lengths = [source.count("\n") for source in sources.values()]
    functions = [one for tree in trees.values() for one in list_functions(tree)]
    bodies = [(one.end_lineno or one.lineno) - one.lineno + 1 for one in functions]
    folders = Counter(path.parent for path in modules.values() if path.name != "__init__.py")
    chain = find_longest_chain(read_imports(modules))
    stems = Counter(path.stem for path in modules.values() if path.stem not in ("__init__", "task"))
    tests = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / "tests").rglob("*.py"))
    return {
        "files": len(modules),
        "lines": sum(lengths),
        "lines a file, median": median(lengths),
        "lines a file, most": max(lengths),
        "functions": len(functions),
        "lines a function, median": median(bodies),
        "lines a function, most": max(bodies),
        "comments in 100 lines": round(100 * sum(map(count_comments, sources.values())) / sum(lengths), 2),
        "biggest folder": max(folders.values()),
        "longest chain of imports": len(chain),
        "file names in two folders": sum(count > 1 for count in stems.values()),
        "lines of tests to a line of code": round(tests / sum(lengths), 2),
    }


def walk_question(store: Path) -> dict[str, Any]:
    """Return the modules and functions that a question enters once everything is loaded, and its returns."""
    from slowwave import Memory

    memory = Memory.open(store)
    memory.recall(QUESTION)
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.split(".")[0] in CODE:
            calls.append((module, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        memory.recall(QUESTION + " ")
    finally:
        sys.setprofile(None)
    way = [module for module, _ in groupby(module for module, _ in calls)]
    return {
        "a question enters modules": len(set(way)),
        "calls functions": len(set(calls)),
        "returns to a module": len(way) - len(set(way)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", default=Path(__file__).parent.parent)
    parser.add_argument("--walk", type=Path, help="a store with a release")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure_house(args.root) | (walk_question(args.walk) if args.walk else {})
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    table = Table("", "figure", title="The house")
    for name, figure in figures.items():
        table.add_row(name, str(figure))
    Console().print(table)


if __name__ == "__main__":
    main()
