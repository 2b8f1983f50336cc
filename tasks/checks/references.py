"""Find what a text names that a checkout can confirm or deny: paths, identifiers, settings, ports, versions, scripts.

Only the form of the text counts: a code span, a path, an underscore or a capital within a word, a number behind a name.
So the language does not matter. More is taken than a checkout knows; what it never had is left alone later.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from slowwave.schemas.vocabulary import CheckKind

SPAN = re.compile(r"`([^`\n]{1,200})`")
URL = re.compile(r"[a-z][a-z+.-]*://\S+", re.IGNORECASE)
PATH = re.compile(
    r"(?<![\w./@-])(?:\.{0,2}/)?(?:[\w.@+\[\]-]+/)+[\w.@+\[\]-]*"
    r"|(?<![\w./@-])\.?[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w(])"
)
"""Words with a slash, or with what may be a file's extension."""
# A.b, A::b.
# With an underscore.
# CamelCase, PascalCase.
# call().
CODE_WORD = re.compile(
    r"(?<![\w.$/@-])(?:"
    r"[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)+"
    r"|_*[A-Za-z][A-Za-z0-9]*_[\w]*"
    r"|_[A-Za-z]\w*"
    r"|[A-Za-z]+[a-z0-9][A-Z]\w*"
    r"|[A-Za-z_$][\w$]*(?=\(\))"
    r")(?![\w/-])"
)
FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w]*(?:-[\w]+)*(?![\w-])")
ONE_NAME = re.compile(
    r"[$@]?[A-Za-z_][\w$]*(?:(?:\.|::|#|-)[A-Za-z_$][\w$]*)*(?:\(.*\))?"
)
"""A code span that is one name."""
ASSIGNMENT = re.compile(
    r"""["']?([A-Za-z_][\w.-]*)["']?(?:\s*:\s*[\w\[\]., |]{1,60})?\s*[:=]\s*["']?"""
    r"""([^\s"',;{}]{1,60})["']?,?"""
)
"""A key and its value, perhaps with a type between them."""
BOUND = r"(?:==|>=|<=|~=|!=|\^|~|>|<|@|=)?\s{0,2}v?\d+(?:\.\d+){0,3}(?:\.[x*])?"
PINNED = re.compile(
    rf"(?<![\w./-])(@?[A-Za-z][\w./-]*?)(?:\[[\w,-]+\])?\s{{0,2}}({BOUND}(?:,\s?{BOUND})*)(?![\w%])"
)
"""A name and a version, perhaps with operators."""
VERSION = re.compile(
    rf"(?<![\w./<>=~^-])((?:[<>=~^!]|\d+\.\d)(?:(?<=\d)\d*(?:\.\d+)*|{BOUND}))(?![\w%]|[.,]\d)"
)
"""A number that is likely a version: with an operator or a point."""
LITERAL = re.compile(r"\b(?:True|False|None|true|false|null|undefined)\b")
BEFORE = 60
"""Characters before a version in which its name stands."""
PACKAGE = re.compile(r"(?<![\w./@-])@?[A-Za-z][\w.]*(?:[-/.][\w.]+)*(?![\w/-])")
NUMBER = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?(?![\w]|[.,]\d)")
PORT = re.compile(r"(?<![\w.,/-])(?:[\w.-]*:)?(\d{4,5})(?![\w%]|[.,:]\d)")
BRANCH = re.compile(r"(?<![\w./@-])\w[\w.#+-]*(?:/\w[\w.#+-]*)*(?![\w/(])")
"""Words that may be a branch's name."""
PLAIN_BRANCH = re.compile(BRANCH.pattern, re.ASCII)
"""The same beside letters that follow without a space, as in Japanese."""
RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "make", "just", "task"})
"""Programs that run a script which a manifest names."""
MOST_VALUES = 8
"""Values in one text that are tried for each of its settings."""
MOST = 60
"""References taken from one text."""


class Reference(NamedTuple):
    """One thing that a text names."""

    kind: CheckKind
    name: str
    """A path, an identifier, a package, a script or a setting's key."""
    value: str = ""
    """A version, with the operator before it, a setting's value or a port."""
    is_guess: bool = False
    """Whether text and code may mean other things by it: it counts only if the code once had just this."""


def find_references(text: str, files: Iterable[str] = ()) -> list[Reference]:
    """Return the references of a text, each once, in order. A certain reference isn't returned as a guess too.

    Args:
        text: a claim or a passage.
        files: paths that it is known to be about.
    """
    plain = URL.sub(" ", text)
    spans = SPAN.findall(plain)
    rest = SPAN.sub(" ` ", plain)
    found: dict[Reference, None] = dict.fromkeys(
        Reference(CheckKind.FILE, path) for path in files
    )
    for part in [*(_read_span(span) for span in spans), _read_prose(rest)]:
        found.update(dict.fromkeys(part))
    found.update(dict.fromkeys(_find_pins(plain.replace("`", " "))))
    found.update(dict.fromkeys(_pair_settings(plain, spans, list(found))))
    found.update(dict.fromkeys(_find_branches(plain.replace("`", " "), spans)))
    certain = {one[:3] for one in found if not one.is_guess}
    once = (one for one in found if not one.is_guess or one[:3] not in certain)
    return list(islice(once, MOST))


def _read_span(span: str) -> Iterator[Reference]:
    """Yield the references of a code span."""
    words = span.split()
    if not words:
        return
    if words[0] in RUNNERS and len(words) > 1:
        plain = [word for word in words[1:] if not word.startswith("-")]
        plain = plain[1:] if plain[:1] == ["run"] else plain
        yield from (Reference(CheckKind.SCRIPT, word) for word in plain[:1])
        return
    if assigned := ASSIGNMENT.fullmatch(span.strip()):
        yield Reference(CheckKind.SETTING, assigned[1], assigned[2])
        return
    if len(words) == 1:
        if ONE_NAME.fullmatch(span.strip()):
            name = span.strip().partition("(")[0]
            yield Reference(CheckKind.DEPENDENCY, name, is_guess=True)
            yield Reference(CheckKind.SCRIPT, name, is_guess=True)
            yield from _read_name(name)
        elif span.startswith("@"):
            yield Reference(CheckKind.DEPENDENCY, span.strip(), is_guess=True)
        yield from _find_paths(span)
        yield from (Reference(CheckKind.NAME, flag) for flag in FLAG.findall(span))
        return
    yield Reference(CheckKind.SCRIPT, words[0], is_guess=True)
    yield from _read_prose(span)


def _read_name(name: str) -> Iterator[Reference]:
    """Yield a name in code; a file of that name is meant if there is one."""
    if re.search(r"\.[A-Za-z][A-Za-z0-9]{0,5}$", name):
        yield Reference(CheckKind.FILE, name, is_guess=True)
    yield Reference(CheckKind.NAME, name.lstrip("$"))


def _read_prose(text: str) -> Iterator[Reference]:
    """Yield the references of a text outside of code spans."""
    yield from _find_paths(text)
    for match in CODE_WORD.finditer(text):
        yield from _read_name(match[0])
    yield from (
        Reference(CheckKind.NAME, flag)
        for flag in FLAG.findall(text)
        if flag.startswith("--")
    )
    for match in PACKAGE.finditer(text):
        name = match[0].rstrip(".")
        # a word of small letters alone, or one that opens a sentence, may be any word
        opens = not re.search(r"[\w,;)]\s*$", text[: match.start()])
        if (not name.islower() and not opens) or re.search(r"[^A-Za-z.]", name):
            yield Reference(CheckKind.DEPENDENCY, name, is_guess=True)


def _find_paths(text: str) -> Iterator[Reference]:
    for path in PATH.findall(text):
        yield Reference(CheckKind.FILE, path.rstrip(".") if path != "." else path)


def _find_pins(text: str) -> Iterator[Reference]:
    """Yield names with a version: the word before it, or any of the words before it in its sentence."""
    for name, version in PINNED.findall(text):
        yield _pin(name.rstrip("-./"), version)
    for match in VERSION.finditer(text):
        before = re.split(r"[.!?。]\s|\n", text[: match.start()])[-1][-BEFORE:]
        for name in PACKAGE.findall(before):
            yield _pin(name, match[1])


def _find_branches(
    text: str,
    spans: Iterable[str],
) -> Iterator[Reference]:
    """Yield the words that may be branches: code spans of one word, and other words with a slash, also within a span.

    A word with hyphens alone is as ordinary as one without: type-hints, end-to-end, us-east-1.
    """
    words = [span for span in spans if BRANCH.fullmatch(span)]
    for pattern in (BRANCH, PLAIN_BRANCH):
        words += [word for word in pattern.findall(text) if "/" in word]
    for word in words:
        yield Reference(CheckKind.BRANCH, word.rstrip(".-+#"), is_guess=True)


def _pin(
    name: str,
    version: str,
) -> Reference:
    value = re.sub(r"\s|(?<![<>=~!^])[@=]=?(?=v?\d)|(?<![\w.])v(?=\d)", "", version)
    return Reference(CheckKind.DEPENDENCY, name, value, is_guess=True)


def _pair_settings(
    text: str,
    spans: list[str],
    found: list[Reference],
) -> Iterator[Reference]:
    """Yield each name with each value of the text, since it may be a setting's; and numbers that may be ports."""
    numbers = [*NUMBER.findall(text), *LITERAL.findall(text)]
    values = [*numbers, *(span.strip("\"'") for span in spans if " " not in span)]
    for reference in found:
        if reference.kind is CheckKind.NAME:
            key = re.split(r"\.|::|#", reference.name)[-1].lstrip("-")
            for value in dict.fromkeys(values[:MOST_VALUES]):
                if value not in (reference.name, key):
                    yield Reference(CheckKind.SETTING, key, value, is_guess=True)
    yield from (
        Reference(CheckKind.PORT, number, number, is_guess=True)
        for number in dict.fromkeys(PORT.findall(text))
        if 1024 <= int(number) < 65_536
    )
