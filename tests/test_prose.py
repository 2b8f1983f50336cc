"""The English of docstrings, module heads and comments, by a few patterns of sentences that hide their verb or subject.

A rule per pattern, each with its reason and a better form; `make lint` runs them (no module of slowwave is imported).
The docstring of a command or a tool is its help text, which is shown and documented elsewhere: it isn't read here.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("slowwave", "tasks", "flows", "schemas", "bench", "deployments")


class Rule(NamedTuple):
    """A pattern that no text may have."""

    pattern: str
    why: str
    wrong: str
    better: str


RULES = {
    "question": Rule(
        r"^(?:Return|Yield)s? (?:what|whether|which|who|those|how)\b",
        "A relative clause hides what is returned: name it, or the condition of True.",
        "Return whether a later claim had changed what a row says.",
        "Return True if a later claim changed this row.",
    ),
    "is no": Rule(
        r"(?<!here )\b(?:is|are|was|were) no\b(?! (?:longer|more|less|better|worse))"
        r"|\bthat (?:is none\b(?! of)|there is not\b)",
        "A negated noun is read twice: negate the verb, or name what it is.",
        "Raises: UsageError: it is no date.",
        "Raises: UsageError: not a date.",
    ),
    "none where": Rule(
        r"\b(?:None|0|-1|NaN|empty|nothing|none) where\b"
        r"|\bwhere (?:none|nothing|nobody|neither|None|there (?:is|are|was|were))\b"
        r"|\bwhere (?:that|it|they|these) (?:is|are) (?:not )?(?:known|given|plain|there|null)\b"
        r"|\bwhere (?:it|they) (?:has|have) (?:none|no)\b",
        "`where` is a place; a condition is `if`, a lack is `without`.",
        "The times that it names; None where it names none.",
        "The times that it names; None if it names none.",
    ),
    "fragment": Rule(
        r"^Of (?:a|an|the|each|all|those|what)\b",
        "A text that begins with its owner lacks a noun: name the value.",
        "Of an edit: what it writes.",
        "The text that an edit writes.",
    ),
    "told": Rule(
        r"\b(?:is|are|was|were|be|been) (?:told|heard|held)\b(?! back)",
        "A word is shown, matched or stored, a score is computed, a lock has an owner.",
        "The line that is told unasked; its lock is held.",
        "The line that an automatic block shows; this process holds its lock.",
    ),
    "whoever": Rule(
        r"\b[Ww]hoever\b|\b(?:for|to|from|of) who\b",
        "A caller without a name: say which call, process or speaker it is.",
        "Least hits to order: whoever asks for fewer gets the first of the same.",
        "Least hits to order: a smaller k returns the first of the same.",
    ),
}


def _is_help(node: ast.AST) -> bool:
    """Return True for a function with annotated options, as commands and tools have them."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    kinds = [ast.unparse(one.annotation) for one in arguments if one.annotation]
    return any(kind.startswith("Annotated[") for kind in kinds)


def _read_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, of attributes too, without help texts."""
    for owner in ast.walk(ast.parse(source)):
        if _is_help(owner):
            continue
        for node in ast.iter_child_nodes(owner):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield node.lineno, text


def _read_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and text of each run of comments below each other."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [
        (*token.start, token.string.lstrip("#: "))
        for token in tokens
        if token.type == tokenize.COMMENT
    ]
    first, words = 0, list[str]()
    for (line, column, text), after in pairwise([*found, (0, 0, "")]):
        first = first or line
        words.append(text)
        if after[:2] != (line + 1, column):
            yield first, " ".join(words)
            first, words = 0, []


@cache
def read_texts() -> list[tuple[str, str]]:
    """Return the place and text of each docstring and comment, with single spaces."""
    # resolved, since a link in slowwave/ leads to the folder beside it
    files = {path.resolve() for name in FOLDERS for path in (ROOT / name).rglob("*.py")}
    texts = list[tuple[str, str]]()
    for path in sorted(files):
        source = path.read_text(encoding="utf-8")
        for line, text in [*_read_docstrings(source), *_read_comments(source)]:
            place = f"{path.relative_to(ROOT.resolve())}:{line}"
            texts.append((place, " ".join(text.split())))
    return texts


@pytest.mark.parametrize("name", RULES)
def test_prose_has_no_hidden_subject_or_verb(name: str) -> None:
    rule = RULES[name]
    hits = [
        f"{place}: …{text[max(0, hit.start() - 30) : hit.end() + 40]}…"
        for place, text in read_texts()
        for hit in re.finditer(rule.pattern, text)
    ]
    assert not hits, "\n".join([rule.why, f"Better: {rule.better}", *hits])


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_its_example_and_not_the_better_form(name: str) -> None:
    rule = RULES[name]
    assert re.search(rule.pattern, rule.wrong)
    assert not re.search(rule.pattern, rule.better)


SOURCE = """'Head.'

X = 1
'Attribute.'


def f() -> int:
    'Body.'
    # one
    # two
    return X  # three


def command(name: Annotated[str, "Its help."]) -> None:
    'Say what is shown.'
"""


def test_texts_are_those_of_modules_attributes_functions_and_comments() -> None:
    texts = [text for _, text in _read_docstrings(SOURCE)]
    assert texts == ["Head.", "Attribute.", "Body."]
    assert list(_read_comments(SOURCE)) == [(9, "one two"), (11, "three")]
