"""The weight and structure of the code: syntax nodes, not lines.

    python -m bench.house [ROOT] [--walk STORE] [--json] [--write bench/house.json]

Counts syntax nodes (expressions and statements), modules, numbers and patterns per package; for the whole also nodes a
line of code, nodes of a function, class names that mean several things, settings, commands, import cycles and the
longest chain of imports. `bench/house.json` holds the figures that no change may raise (`tests/bench/test_house.py`).
With `--walk` one question, one block and one night over the samples are followed: the modules each enters, the
functions it calls, and how often it returns to a module that it had left.
"""

import ast
import json
import sys
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
HEAVY = 200
"""Nodes from which a function is too heavy to be read in one go."""
QUESTION = "Which database does tidepool use for the gauge readings?"


def measure(
    root: Path = ROOT,
    *,
    walk: Path | None = None,
    write: Path | None = None,
    folder: Path = SCRATCH,
) -> Figures:
    """Return the weight of each package, the figures of the whole, and the ways through a store."""
    figures = measure_house(root)
    if write:
        write.write_text(
            json.dumps({name: figures[name] for name in MAY_NOT_RISE}, indent=1) + "\n"
        )
    sums = (
        count_modules(root)
        .group_by("package")
        .agg(pl.col("nodes", "modules", "numbers", "patterns").sum())
    )
    packages = sums.sort("package").to_dicts()
    whole = [{"figure": name, "now": figure} for name, figure in figures.items()]
    return Figures([*packages, *whole, *(follow_ways(walk, folder) if walk else ())])


def read_modules(root: Path) -> dict[str, Path]:
    """Return the file of each module of slowwave, by its dotted name."""
    found: dict[str, Path] = {}
    for top in CODE:
        for path in sorted((root / top).rglob("*.py")):
            if path.resolve() != (root.resolve() / path.relative_to(root)):
                continue  # the same file through a link
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            found[
                name
                if top == "slowwave" or not (root / "slowwave" / top).exists()
                else f"slowwave.{name}"
            ] = path
    return found


def list_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method that is neither a dunder nor a property."""
    for node in ast.walk(tree):
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef
        ) or node.name.startswith("__"):
            continue
        if not any(
            "property" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node


def read_imports(
    modules: dict[str, Path], *, everywhere: bool = False
) -> dict[str, set[str]]:
    """Return the modules of slowwave that each module imports: at its top, or also inside functions and for types."""
    imports: dict[str, set[str]] = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = {
            f"{node.module}.{alias.name}"
            if f"{node.module}.{alias.name}" in modules
            else node.module
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
            below = [
                follow(module, above | {name})
                for module in sorted(imports[name] - above)
            ]
            longest[name] = [name, *max(below, key=len, default=[])]
        return longest[name]

    return max((follow(name, frozenset()) for name in imports), key=len)


def find_cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return each group of modules that all reach one another by imports."""
    names = sorted(imports)
    reached = csr_array([[other in imports[name] for other in names] for name in names])
    labels = connected_components(reached, connection="strong")[1].tolist()
    groups = [
        [name for name, of in zip(names, labels, strict=True) if of == label]
        for label in dict.fromkeys(labels)
    ]
    return [group for group in groups if len(group) > 1]


def count_settings() -> int:
    """Return the number of settings that a user may give, those of a section one by one."""
    from pydantic import BaseModel

    from slowwave.schemas.settings import Settings

    def count(model: type[BaseModel]) -> int:
        kinds = [field.annotation for field in model.model_fields.values()]
        return sum(
            count(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else 1
            for kind in kinds
        )

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


def count_nodes(tree: ast.AST) -> int:
    """Return the number of expressions and statements."""
    return sum(isinstance(node, ast.expr | ast.stmt) for node in ast.walk(tree))


def count_modules(root: Path) -> pl.DataFrame:
    """Return a row a module: its package and folder, its weight, and what it holds."""
    rows = []
    for path in read_modules(root).values():
        source, folders = (
            path.read_text(encoding="utf-8"),
            path.relative_to(root).parts[:-1],
        )
        tree = ast.parse(source)
        values = [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        ]
        constants = [node for value in values for node in ast.walk(value)]
        calls = [
            ast.unparse(node.func) for node in constants if isinstance(node, ast.Call)
        ]
        rows.append({
            "package": "/".join(folders[: 2 if folders[0] in ("tasks", "slowwave") else 1]),
            "folder": str(path.parent),
            "nodes": count_nodes(tree),
            "code": _count_code_lines(source, tree),
            "modules": int(path.name != "__init__.py"),
            "numbers": sum(isinstance(node, ast.Constant) and type(node.value) in (int, float) for node in constants),
            "patterns": sum(call in ("re.compile", "regex.compile") for call in calls),
            "functions": [count_nodes(node) for node in list_functions(tree)],
            "classes": [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)],
        })  # fmt: skip
    return pl.DataFrame(rows)


def _count_code_lines(source: str, tree: ast.AST) -> int:
    """Return the lines that are neither blank, nor a comment, nor of a docstring."""
    texts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    documented = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1 for node in texts
    )
    lines = [line.strip() for line in source.splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in lines) - documented


def measure_house(root: Path) -> dict[str, Any]:
    """Return the figures of one checkout, by name."""
    modules, counted = read_modules(root), count_modules(root)
    sums = counted.select(
        pl.col("nodes", "code", "modules", "numbers", "patterns").sum()
    ).to_dicts()[0]
    functions = pl.Series(
        [nodes for listed in counted["functions"] for nodes in listed], dtype=pl.Int64
    )
    classes = pl.Series(
        [name for listed in counted["classes"] for name in listed], dtype=pl.String
    )
    return {
        "nodes": sums["nodes"],
        "nodes a line": round(sums["nodes"] / sums["code"], 2),
        "functions": len(functions),
        "nodes a function, median": functions.median(),
        "nodes a function, most": functions.max(),
        f"functions over {HEAVY} nodes": int((functions > HEAVY).sum()),
        "class names with several meanings": int(
            (classes.value_counts()["count"] > 1).sum()
        ),
        "modules": sums["modules"],
        "commands": count_commands(),
        "settings": count_settings(),
        "numbers": sums["numbers"],
        "patterns": sums["patterns"],
        "import cycles": len(find_cycles(read_imports(modules, everywhere=True))),
        "longest chain of imports": len(find_longest_chain(read_imports(modules))),
        "biggest folder": counted.group_by("folder")
        .agg(pl.col("modules").sum())["modules"]
        .max(),
    }


MAY_NOT_RISE = (
    "nodes a line", "nodes a function, median", "nodes a function, most", f"functions over {HEAVY} nodes",
    "class names with several meanings", "commands", "settings", "import cycles", "longest chain of imports",
    "biggest folder",
)  # fmt: skip
"""The figures that `bench/house.json` bounds: cases and weight. Lines are not a goal (docs/decisions/011-code.md)."""


def follow_calls(work: Callable[[], object]) -> dict[str, int]:
    """Return the number of modules of slowwave that some work enters, of functions it calls, and of returns to a
    module.
    """
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
    return {
        "modules": len(set(visits)),
        "functions": len(set(calls)),
        "returns": len(visits) - len(set(visits)),
    }


def follow_ways(store: Path, folder: Path) -> list[Row]:
    """Return the figures of one question, one block and one night, once everything is loaded."""
    from slowwave import Memory
    from slowwave.flows.nightly import run_night
    from slowwave.schemas.settings import Settings

    memory = Memory.open(store)
    ways: dict[str, Callable[[int], object]] = {
        "a question": lambda n: memory.recall(QUESTION + " " * n),
        "a block": lambda n: memory.context(QUESTION + " " * n),
        "a night": lambda n: run_night(
            [SAMPLES], Settings(store=folder / str(n), encoder="hash-384")
        ),
    }
    for way in ways.values():
        way(0)
    return [
        {"followed": name, **follow_calls(partial(way, 1))}
        for name, way in ways.items()
    ]


if __name__ == "__main__":
    run(measure)
