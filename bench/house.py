"""The house in figures: files, names, imports, and the way of one question through the modules.

    python -m bench.house [ROOT] [--walk STORE] [--json]

Names count as beginning with a verb when their first word is one of `VERBS`, `is`, `has` or `to`/`from`/`as` of a
conversion; dunder methods and properties are left out, since a property is named for what it is. With `--walk` one
question is asked of a store, twice, and the second is followed: the modules it enters, the functions it calls, and how
often it comes back to a module that it had left.
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
VERBS = frozenset(
    """
    absorb accept add adjust admit align allow annotate answer append apply are arrange as ask assemble assign
    attach await bind blend break briefly bring build cache calibrate call can cancel cap capture carry cast catch
    change check choose claim clamp clean clear clip close cluster coerce collapse collect combine commit compact
    compare compile complete compose compute concat connect consolidate consume contain convert copy count cover
    create credit cut debit decide decline decode dedupe deduplicate defer define delete deliver derive describe
    detach detect discard display distil divide does download drain draw drop dump embed emit encode end enforce
    enrich ensure enter enumerate escape estimate evaluate evict exclude execute expand expire explain export
    extend extract fail fence fetch fill filter find finish fit flag flatten flush fold follow forget format free
    freeze from gather generate get give grade grant group grow guard guess halt hand handle has hash have hide
    hold holds ignore import include increment index infer inform ingest initialise insert inspect install
    intersect invert invoke is iterate join judge keep kill label launch lay leave lift limit link list listen
    load locate lock log look lookup lower make map mark mask match may measure meet mend merge migrate mix move
    must name narrate narrow needs normalise normalize note number observe offer omit open order overlap override
    pack pad page paginate pair parse pass paste patch pause peek permit pick pin place plan point poll pool pop
    prefer prefix prepare print probe process produce project promote prompt protect prove prune publish pull push
    put quarantine query queue quote raise rank rate reach read rebuild recall receive record redact redo reduce
    refer refine refresh refuse register reject relate release reload remember remove rename render renew reopen
    repair repeat replace reply report reprocess request require rerank rescale reserve reset resolve respond
    restart restore restrict resume retire retrieve retry return reuse reverse revert review revise rewrite roll
    rotate round route run sample satisfy save say scale scan schedule score scrub seal search see seed select
    send separate serialise serve set settle shift shorten should show shrink shut sift skip slice snapshot sniff
    sort spawn spend split spool spread squash squeeze stack stamp standardise start stay stop store stream strip
    submit substitute subtract suggest sum summarise summarize supersede supply suppress switch sync synchronise
    tag take talk tally tell tend test tidy time to tokenise tokenize touch trace track train transform translate
    traverse treat trim truncate try tune turn undo unite unload unlock unpack unsupersede untangle unwrap update
    upgrade use validate verify visit vote wait wake walk warn was watch weigh weight widen withdraw wrap write
    yield
    """.split()  # noqa: SIM905
)


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


def begins_with_verb(name: str) -> bool:
    """Return whether the first word of a function's name is a verb."""
    return name.lstrip("_").split("_")[0].lower() in VERBS


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
        "names that begin with a verb": round(sum(begins_with_verb(one.name) for one in functions) / len(functions), 3),
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
