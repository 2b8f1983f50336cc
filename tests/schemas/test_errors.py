"""The tree of errors that `schemas/errors.py` draws is the tree that there is."""

import ast
import re

import slowwave.schemas.errors as errors
from bench.house import read_modules
from tests.bench_inputs import ROOT


def test_the_tree_names_every_error_under_its_parent() -> None:
    assert read_tree(errors.__doc__ or "") == find_errors()


def read_tree(drawing: str) -> dict[str, str]:
    """Each error's parent, of a drawing with four characters a level."""
    above = {0: "SlowwaveError"}
    found = {}
    for branch, name in re.findall(r"^([│ ]*[├└]── )(\w+)", drawing, re.MULTILINE):
        level = len(branch) // 4
        above[level] = name
        found[name] = above[level - 1]
    return found


def find_errors() -> dict[str, str]:
    """Each error's parent, of the classes in the sources that go back to `SlowwaveError`."""
    classes = {
        node.name: base.id
        for path in read_modules(ROOT).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
    }

    def is_ours(name: str) -> bool:
        return name == "SlowwaveError" or (name in classes and is_ours(classes[name]))

    return {name: parent for name, parent in classes.items() if is_ours(parent)}
