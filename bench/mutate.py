"""Would a test notice? Code is changed in one place at a time, and the tests that reach it are run.

    python -m bench.mutate [PATH…] [--tests TEST…] [--count N] [--seed N] [--seconds N] [--json]

PATHs are files and folders of code, by default the rooms of recall, context, chat and supersede with their tests. The
tests run once under a tracer, to learn which reach a line; then `--count` changes, drawn by chance, as many of each
PATH, are made one by one in a copy of the tree: a comparison or condition turned round, `and` for `or`, + for -, a
number one more, a call left out, `break` for `continue`, `min` for `max`. A change that no test fails on has survived;
one that hangs for `--seconds` counts as noticed. Each change has its own process, forked from one that has imported
much and run nothing, and the quickest tests first: a few seconds a change.

mutmut and cosmic-ray were looked at: the one forks the process that ran the tests, which Lance does not outlive, the
other changes the files of the working tree itself.
"""

import argparse
import ast
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("slowwave/recall", "slowwave/context", "slowwave/chat", "tasks/supersede")
TESTS = (
    *("tests/recall", "tests/context", "tests/chat", "tests/supersede", "tests/relate", "tests/habits"),
    *("tests/cli/test_project.py", "tests/engines/test_embedding_server.py", "tests/store/test_notes.py"),
    "tests/store/test_store_away.py",
)
"""Of those rooms, and what else is about a file of theirs."""
COPIED = ("bench", "data", "deployments", "docs", "flows", "schemas", "slowwave", "tasks", "tests", "pyproject.toml")
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
LEFT_ALONE = (ast.JoinedStr, ast.Raise, ast.FunctionDef, ast.AsyncFunctionDef)
"""What an error or a line says is for people; a function in a function has its own turn. `strict=True`, of a zip over
what has one length, is left alone too.
"""
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly")
IMPORTED = ("lance", "lancedb.index", "lancedb.table", "onnxruntime", "pytest", "sklearn.linear_model")
"""What takes seconds to import and does nothing yet: the process that each run is forked from has them."""
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload([*IMPORTED])


@dataclass(frozen=True)
class Mutation:
    """One change of one place."""

    file: str
    place: int
    """Among all of the file's, in order."""
    line: int
    before: str
    after: str


def list_mutations(root: Path, file: Path) -> list[Mutation]:
    """Return every change that could be made in the functions of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    name = file.relative_to(root).as_posix()
    return [
        Mutation(name, place, old.lineno, ast.unparse(old), ast.unparse(new))
        for place, (old, new) in enumerate(_find_places(tree))
    ]


def apply_mutation(source: str, place: int) -> str:
    """Return a file's code with one of its changes made."""
    tree = ast.parse(source)
    old, new = list(_find_places(tree))[place]

    class Change(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Change().visit(tree)))


def _find_places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Yield what can be changed within functions, and what it would be changed to."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        for statement in function.body:
            yield from _find_in(statement)


def _find_in(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    if isinstance(node, LEFT_ALONE) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    if isinstance(node, ast.expr | ast.stmt) and (new := _change(node)) is not None:
        yield node, ast.copy_location(new, node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _find_in(child)


def _change(node: ast.expr | ast.stmt) -> ast.expr | ast.stmt | None:
    """Return what a node is changed to; None where it is left."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            return _replace(node, ops=[OPERATORS[type(operator)]()])
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text(node):
            return _replace(node, op=OPERATORS[type(operator)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return deepcopy(operand)
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.IfExp(body=body, orelse=other):
            return _replace(node, body=deepcopy(other), orelse=deepcopy(body))
        case ast.If(test=test) | ast.While(test=test):
            return _replace(node, test=ast.UnaryOp(ast.Not(), deepcopy(test)))
        case ast.Expr(value=ast.Call()):
            return ast.Pass()
        case ast.Continue():
            return ast.Break()
        case ast.Break():
            return ast.Continue()
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            return ast.Name(NAMES[name], ast.Load())
    return None


def _is_text(node: ast.AST) -> bool:
    """Return whether an operation has a text in it: those are joined, or hold types."""
    return any(
        isinstance(one, ast.JoinedStr | ast.Constant) and not isinstance(getattr(one, "value", ""), int | float)
        for one in ast.iter_child_nodes(node)
    )


def _replace(node: ast.AST, **fields: object) -> ast.expr | ast.stmt:
    new = deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    assert isinstance(new, ast.expr | ast.stmt)
    return new


def draw_mutations(root: Path, paths: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """Return some of all changes by chance, as many of each path while it has them."""
    drawn: list[Mutation] = []
    for path in paths:
        files = sorted((root / path).rglob("*.py")) if (root / path).is_dir() else [root / path]
        some = [one for file in files for one in list_mutations(root, file)]
        drawn += Random(f"{seed}/{path}").sample(some, min(len(some), count // len(paths)))
    return drawn


def leave_out(folder: str, names: Sequence[str]) -> set[str]:
    """Return what of a folder is not copied: caches, and the demo's store."""
    own = {"store"} if Path(folder) == ROOT / "data" else set()
    return {name for name in names if name in ("__pycache__", ".hypothesis", *own)}


def copy_tree(folder: Path) -> Path:
    """Return a copy of what the tests need, with its links."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def trace_tests(tree: Path, files: Sequence[str], tests: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Return for each file and line the tests that reach it.

    Raises:
        SystemExit: a test fails before anything is changed.
    """
    found = tree / "lines.json"
    real = os.pathsep.join(str((tree / file).resolve()) for file in files)
    told = {"MUTATE_FILES": real, "MUTATE_LINES": str(found)}
    done = run_tests(tree, ["-p", "bench.mutate_trace", *tests], None, told)
    if done != 0:
        log = (tree / "run.log").read_text(encoding="utf-8")
        raise SystemExit(f"{log[-2000:]}\nthe tests fail on the code as it is ({done})")
    reached = json.loads(found.read_text(encoding="utf-8"))
    return {Path(file).relative_to(tree.resolve()).as_posix(): lines for file, lines in reached.items()}


def run_tests(tree: Path, words: Sequence[str], seconds: float | None, told: Mapping[str, str]) -> int | None:
    """Return pytest's exit status over a tree; None where it ran out of time."""
    run = SERVER.Process(target=_run_pytest, args=(tree, words, told))
    run.start()
    run.join(seconds)
    if run.exitcode is None and run.pid is not None:
        os.killpg(run.pid, signal.SIGKILL)
    return run.exitcode


def _run_pytest(tree: Path, words: Sequence[str], told: Mapping[str, str]) -> None:
    """Run tests in this process, which has nothing of ours yet but this module, and end it."""
    os.setsid()
    told_to = os.open(tree / "run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for output in (1, 2):
        os.dup2(told_to, output)
    os.environ.update({"PYTHONPATH": str(tree), **told})
    del os.environ["PYTHONWARNINGS"]
    sys.dont_write_bytecode = not told  # what is changed must not be kept
    os.chdir(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] == "bench"]:
        del sys.modules[name]
    import pytest

    os._exit(pytest.main([*OPTIONS, *words]))


def judge_mutation(tree: Path, one: Mutation, tests: Sequence[str], seconds: float) -> str:
    """Return what became of a change: noticed, survived, or not reached by any test."""
    if not tests:
        return "not reached"
    file = tree / one.file
    source, known = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(apply_mutation(source, one.place), encoding="utf-8")
    try:
        return "survived" if run_tests(tree, ["-x", *tests], seconds, {}) == 0 else "noticed"
    finally:
        file.write_text(source, encoding="utf-8")
        os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))  # what was compiled of it holds again


def print_mutations_table(judged: Sequence[tuple[Mutation, str]], paths: Sequence[str]) -> None:
    """Print how many were noticed, and each that was not."""
    table = Table("code", "changes", "noticed", "survived", "not reached", title="changes that a test fails on")
    for path in paths:
        fates = [fate for one, fate in judged if one.file.startswith(path)]
        counts = (str(fates.count(fate)) for fate in ("noticed", "survived", "not reached"))
        table.add_row(path, str(len(fates)), *counts)
    Console(width=max(100, Console().width)).print(table)
    for one, fate in judged:
        if fate != "noticed":
            print(f"{fate}: {one.file}:{one.line}\n    - {_cut(one.before)}\n    + {_cut(one.after)}")


def _cut(code: str) -> str:
    first = code.splitlines()[0]
    return first if first == code else f"{first} …"


def main() -> None:
    """Change, test and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=ROOMS, metavar="PATH")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="TEST")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore"  # Lance's, of what it has not begun; pytest sets the tests' own
    with tempfile.TemporaryDirectory(prefix="slowwave-mutate-") as folder:
        tree = copy_tree(Path(folder))
        drawn = draw_mutations(tree, given.paths, given.count, given.seed)
        reached = trace_tests(tree, sorted({one.file for one in drawn}), given.tests)
        judged = [
            (one, judge_mutation(tree, one, reached.get(one.file, {}).get(str(one.line), []), given.seconds))
            for one in track(drawn, "changes", console=Console(stderr=True))
        ]
    if given.as_json:
        print(json.dumps([asdict(one) | {"fate": fate} for one, fate in judged], indent=2))
    else:
        print_mutations_table(judged, given.paths)


if __name__ == "__main__":
    main()
