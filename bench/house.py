"""The size and structure of the code, beside the budget of each package.

    python -m bench.house [ROOT] [--walk STORE] [--json] [--write bench/house.json]

Counts lines, modules, numbers and patterns per package, and settings, commands, import cycles and the longest chain of
imports for the whole. `bench/house.json` holds the figures that no change may raise (`tests/bench/test_house.py`).
With `--walk` one question, one block and one night over the samples are followed: the modules each enters, the
functions it calls, and how often it returns to a module that it had left.
"""

import ast
import io
import json
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bench.harness import ROOT, SAMPLES, SCRATCH, Figures, Row, run

CODE = ("schemas", "tasks", "flows", "slowwave")
BUDGETS = {
    "schemas": 1_080, "flows": 1_150, "tasks": 560, "tasks/ingest": 3_600, "tasks/passages": 180,
    "tasks/boilerplate": 260, "tasks/habits": 450, "tasks/gists": 200, "tasks/observe": 1_250, "tasks/dedupe": 850,
    "tasks/supersede": 800, "tasks/relate": 280, "tasks/topics": 750, "tasks/summarize": 850, "tasks/publish": 430,
    "tasks/forget": 800, "tasks/llm": 900, "slowwave": 400, "slowwave/text": 1_200,
    "slowwave/engines": 1_850, "slowwave/store": 1_850, "slowwave/recall": 2_850, "slowwave/context": 1_450,
    "slowwave/mcp": 270, "slowwave/cli": 1_700, "slowwave/chat": 480, "slowwave/web": 430,
}  # fmt: skip
"""Lines of source that each package should need."""
QUESTION = "Which database does tidepool use for the gauge readings?"


def measure(
    root: Path = ROOT, *, walk: Path | None = None, write: Path | None = None, folder: Path = SCRATCH
) -> Figures:
    """Return lines of each package beside its budget, the figures of the whole, and the ways through a store."""
    figures = measure_house(root)
    if write:
        write.write_text(json.dumps({name: figures[name] for name in MAY_NOT_RISE}, indent=1) + "\n")
    sums = count_modules(root).group_by("package").agg(pl.col("lines", "modules", "numbers", "patterns").sum())
    packages = [
        {
            "package": row.pop("package"),
            "budget": (most := BUDGETS.get(name)),
            "over": most and row["lines"] - most,
            **row,
        }
        for row in sums.sort("package").to_dicts()
        if (name := row["package"])
    ]
    whole = [{"figure": name, "now": figure} for name, figure in figures.items()]
    return Figures([*packages, *whole, *(follow_ways(walk, folder) if walk else ())])


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
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield node


def read_imports(modules: dict[str, Path], *, everywhere: bool = False) -> dict[str, set[str]]:
    """Return the modules of slowwave that each module imports: at its top, or also inside functions and for types."""
    imports: dict[str, set[str]] = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in modules else node.module
            for node in (ast.walk(tree) if everywhere else tree.body)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        imports[name] = (targets & set(modules)) - {name}
    return imports


def find_longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """Return the longest chain of modules that import one another; a cycle is cut where it closes."""
    longest: dict[str, list[str]] = {}

    def follow(name: str, above: frozenset[str]) -> list[str]:
        if name not in longest:
            below = [follow(module, above | {name}) for module in sorted(imports[name] - above)]
            longest[name] = [name, *max(below, key=len, default=[])]
        return longest[name]

    return max((follow(name, frozenset()) for name in imports), key=len)


def find_cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return each group of modules that all reach one another by imports."""
    names = sorted(imports)
    reached = csr_array([[other in imports[name] for other in names] for name in names])
    labels = connected_components(reached, connection="strong")[1].tolist()
    groups = [[name for name, of in zip(names, labels, strict=True) if of == label] for label in dict.fromkeys(labels)]
    return [group for group in groups if len(group) > 1]


def count_settings() -> int:
    """Return the number of settings that a user may give, those of a section one by one."""
    from pydantic import BaseModel

    from slowwave.schemas.settings import Settings

    def count(model: type[BaseModel]) -> int:
        kinds = [field.annotation for field in model.model_fields.values()]
        return sum(count(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else 1 for kind in kinds)

    return count(Settings)


def count_commands() -> int:
    """Return the number of commands that a user may call, those of a group one by one; hidden ones do not count."""
    import click
    import typer

    from slowwave.cli.main import app

    def count(command: click.Command) -> int:
        if commands := getattr(command, "commands", None):
            return sum(count(below) for below in commands.values())
        return int(not command.hidden)

    return count(typer.main.get_command(app))


def count_modules(root: Path) -> pl.DataFrame:
    """Return a row a module: its package and folder, its lines, and what they hold."""
    rows = []
    for path in read_modules(root).values():
        source, folders = path.read_text(encoding="utf-8"), path.relative_to(root).parts[:-1]
        tree = ast.parse(source)
        values = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
        constants = [node for value in values for node in ast.walk(value)]
        calls = [ast.unparse(node.func) for node in constants if isinstance(node, ast.Call)]
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        rows.append({
            "package": "/".join(folders[: 2 if folders[0] in ("tasks", "slowwave") else 1]),
            "folder": str(path.parent),
            "lines": source.count("\n"),
            "modules": int(path.name != "__init__.py"),
            "numbers": sum(isinstance(node, ast.Constant) and type(node.value) in (int, float) for node in constants),
            "patterns": sum(call in ("re.compile", "regex.compile") for call in calls),
            "comments": sum(token.type == tokenize.COMMENT for token in tokens),
            "functions": [node.end_lineno - node.lineno + 1 for node in list_functions(tree)],
        })  # fmt: skip
    return pl.DataFrame(rows)


def measure_house(root: Path) -> dict[str, Any]:
    """Return the figures of one checkout, by name."""
    modules, counted = read_modules(root), count_modules(root)
    sums, functions = counted.sum().to_dicts()[0], counted["functions"].explode().drop_nulls()
    tests, benches = (
        sum(path.read_text(encoding="utf-8").count("\n") for path in (root / name).rglob("*.py"))
        for name in ("tests", "bench")
    )
    return {
        "lines": sums["lines"],
        "modules": sums["modules"],
        "lines of tests": tests,
        "lines of benches": benches,
        "commands": count_commands(),
        "settings": count_settings(),
        "numbers": sums["numbers"],
        "patterns": sums["patterns"],
        "import cycles": len(find_cycles(read_imports(modules, everywhere=True))),
        "longest chain of imports": len(find_longest_chain(read_imports(modules))),
        "biggest folder": counted.group_by("folder").agg(pl.col("modules").sum())["modules"].max(),
        "functions": len(functions),
        "lines a function, median": functions.median(),
        "lines a function, most": functions.max(),
        "comments in 100 lines": round(100 * sums["comments"] / sums["lines"], 2),
    }


MAY_NOT_RISE = (
    "lines", "modules", "lines of tests", "lines of benches", "commands", "settings", "numbers", "patterns",
    "import cycles", "longest chain of imports", "biggest folder",
)  # fmt: skip
"""The figures that `bench/house.json` bounds."""


def follow_calls(work: Callable[[], object]) -> dict[str, int]:
    """Return how many modules of slowwave some work enters, the functions it calls, and its returns to a module."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith("slowwave."):
            calls.append((module, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    visits = [module for module, _ in groupby(module for module, _ in calls)]
    return {"modules": len(set(visits)), "functions": len(set(calls)), "returns": len(visits) - len(set(visits))}


def follow_ways(store: Path, folder: Path) -> list[Row]:
    """Return the figures of one question, one block and one night, once everything is loaded."""
    from slowwave import Memory
    from slowwave.flows.nightly import run_night
    from slowwave.schemas.settings import Settings

    memory = Memory.open(store)
    ways: dict[str, Callable[[int], object]] = {
        "a question": lambda n: memory.recall(QUESTION + " " * n),
        "a block": lambda n: memory.context(QUESTION + " " * n),
        "a night": lambda n: run_night([SAMPLES], Settings(store=folder / str(n), encoder="hash-384")),
    }
    for way in ways.values():
        way(0)
    return [{"followed": name, **follow_calls(partial(way, 1))} for name, way in ways.items()]


if __name__ == "__main__":
    run(measure)
