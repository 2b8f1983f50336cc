"""The English of code and pages, by a few patterns of sentences that hide their verb or subject.

Reads docstrings, module heads, comments, the other strings of the code (help, messages), and pages in Markdown. A rule
per pattern, each with its reason and a better form; `make lint` runs them (no module of slowwave is imported). The
subjects of commits that the repository's origin lacks have a greatest length.
"""

import ast
import io
import re
import shutil
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("slowwave", "tasks", "flows", "schemas", "bench", "deployments", "docs")
PAGES = ("*.md", "data/*.md", "docs/**/*.md")
FOR_MODELS = ("BASE_PURPOSES", "SUMMARY_PROMPT")
"""Names of texts that only a model reads: with other words it would give other vectors or answers."""


LONGEST_SUBJECT = 65
BEGINS = re.compile(r"\s*(?:[-*+] |\d+\. |#+ |\||>|<!--|$)")
"""The start of a line of Markdown that does not continue the paragraph above it."""


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


def _read_strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string, docstrings too; `…` stands for a value in it."""
    seen = set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in FOR_MODELS:
                seen.update(map(id, ast.walk(node)))
            case ast.JoinedStr(values=parts) if id(node) not in seen:
                seen.update(map(id, parts))
                words = [
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in parts
                ]
                yield node.lineno, "".join(words)
            case ast.Constant(value=str(text)) if id(node) not in seen:
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


def _read_page(page: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and text of each paragraph, item and row, without code."""
    first, words, is_code = 0, list[str](), False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_mark = line.startswith("<!--")
        if is_fence := line.lstrip().startswith("```"):
            is_code = not is_code
        if words and (is_fence or BEGINS.match(line)):
            yield first, re.sub(r"`[^`]*`", "`…`", " ".join(words))
            words.clear()
        if line.strip() and not (is_code or is_fence or is_mark):
            first = first if words else number
            words.append(BEGINS.sub("", line, count=1))


@cache
def read_texts() -> list[tuple[str, str]]:
    """Return the place and text of each string, comment and part of a page, with single spaces."""
    # resolved, since a link in slowwave/ leads to the folder beside it
    files = {path.resolve() for name in FOLDERS for path in (ROOT / name).rglob("*.py")}
    files |= {path.resolve() for pattern in PAGES for path in ROOT.glob(pattern)}
    texts = list[tuple[str, str]]()
    for path in sorted(files):
        source = path.read_text(encoding="utf-8")
        found = (
            _read_page(source)
            if path.suffix == ".md"
            else [*_read_strings(source), *_read_comments(source)]
        )
        for line, text in found:
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


def find_long_subjects(root: Path) -> list[str]:
    """Return the subjects over 65 characters of commits that the origin of a repository lacks.

    The list is empty without git, a repository or an origin.
    """
    if not shutil.which("git") or not (root / ".git").exists():
        return []
    call = ("git", "log", "--no-merges", "--format=%s", "origin/HEAD..HEAD", "--")
    done = subprocess.run(call, cwd=root, capture_output=True, encoding="utf-8")
    return [line for line in done.stdout.splitlines() if len(line) > LONGEST_SUBJECT]


def test_subjects_of_new_commits_are_short() -> None:
    assert not find_long_subjects(ROOT)


def test_only_long_subjects_that_origin_lacks_are_found(tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    origin, clone = tmp_path / "origin", tmp_path / "clone"

    def run(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], check=True, capture_output=True)

    def commit(folder: Path, subject: str) -> None:
        run("-C", str(folder), "commit", "--allow-empty", "-m", subject)

    run("init", str(origin))
    commit(origin, "a" * 80)
    assert find_long_subjects(origin) == []
    run("clone", str(origin), str(clone))
    assert find_long_subjects(clone) == []
    commit(clone, "b" * 65)
    commit(clone, "c" * 66)
    assert find_long_subjects(clone) == ["c" * 66]


SOURCE = """'Head.'

X = 1
'Attribute.'


def f() -> int:
    'Body.'
    # one
    # two
    return X  # three


def command(name: Annotated[str, "Its help."]) -> None:
    print(f"{name} is no {name!r}")


SUMMARY_PROMPT = 'What is told'
"""
PAGE = """# Head
<!-- mark -->
One and
two, but not `three`.
- Four
  goes on
| five | 5 |

```
six
```
seven
"""


def test_texts_are_those_of_strings_and_comments_but_not_prompts() -> None:
    texts = [text for _, text in _read_strings(SOURCE)]
    assert sorted(texts) == ["Attribute.", "Body.", "Head.", "Its help.", "… is no …"]
    assert list(_read_comments(SOURCE)) == [(9, "one two"), (11, "three")]


def test_a_page_has_a_text_a_paragraph_item_and_row() -> None:
    assert list(_read_page(PAGE)) == [
        (1, "Head"),
        (3, "One and two, but not `…`."),
        (5, "Four   goes on"),
        (7, " five | 5 |"),
        (12, "seven"),
    ]
