"""Secrets out of text before anything is stored or sent to a model: each becomes a typed placeholder.

`password = "[redacted:password]"`: place and kind stay readable, the value is gone. What counts as a secret is in
`secret_rules.py`. The same text always gives the same result, and redacting twice changes nothing.

Cost: clean text is split into words once and searched for a dozen literals; patterns run only where there is a clue.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

from slowwave.text.secret_rules import (
    CLUES,
    CORE,
    KEYS,
    LONG,
    MARK,
    NAMED,
    OTHER_HINTS,
    PHRASES,
    RUN_HINT,
    TOKENS,
    Rule,
    kind_of,
)

_RUNS = bytes(byte if chr(byte) in f"{ascii_letters}{digits}_-" else 32 for byte in range(256))
_QUOTES = str.maketrans(dict.fromkeys("\"'`\\", "_"))
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
BEFORE = 60
"""How much of the text before a name is looked at."""


def redact(text: str) -> tuple[str, Counter[str]]:
    """The text with a placeholder for each secret, and how many of each kind there were."""
    text, found = _once(text)
    more = found
    while more:  # a placeholder may part what ran together, so that a second secret shows
        text, more = _once(text)
        found = found + more
    return text, found


def _once(text: str) -> tuple[str, Counter[str]]:
    found: Counter[str] = Counter()
    lower = text.lower()
    if not any(map(lower.__contains__, CLUES)):
        return _without_tokens(text, found), found
    text = _without(KEYS, text, lower, found)
    text = _without_tokens(text, found)  # before the phrases: where it stands in a URL, a token is the secret half
    text = _without(PHRASES, text, lower, found)
    return _without_assigned(text, found), found


def redact_text(text: str) -> str:
    """The text with a placeholder for each secret."""
    return redact(text)[0]


def redact_json(text: str) -> tuple[str, Counter[str]]:
    """As `redact`, on the strings inside of JSON, so that it stays JSON; a text that is none is taken as it is."""
    if not any(map(text.lower().__contains__, CLUES)) and not redact(text)[1]:
        return text, Counter()
    found: Counter[str] = Counter()
    try:
        clean = _walk(json.loads(text), "", found)
    except (ValueError, RecursionError):
        return redact(text)
    return (json.dumps(clean, ensure_ascii=False, separators=(",", ":")) if found else text), found


def _without(rules: Iterable[Rule], text: str, lower: str, found: Counter[str]) -> str:
    """The text without what the rules find; their hints are looked for in `lower`."""
    for rule in rules:
        if any(map(lower.__contains__, rule.hints)):
            text = _applied(rule, text, found)
    return text


def _without_tokens(text: str, found: Counter[str]) -> str:
    """The text without issuers' tokens: looked for where there is a run of characters long enough for one."""
    runs = [run for run in text.encode("utf-8", "replace").translate(_RUNS).split() if len(run) >= LONG]
    if runs and (RUN_HINT.search(b" ".join(runs)) or any(map(text.__contains__, OTHER_HINTS))):
        for rule in TOKENS:
            if any(map(text.__contains__, rule.hints)):
                text = _applied(rule, text, found)
    return text


def _applied(rule: Rule, text: str, found: Counter[str]) -> str:
    """The text with what the rule finds replaced."""
    group = "secret" if "secret" in rule.pattern.groupindex else 0

    def placeholder(match: re.Match[str]) -> str:
        if MARK in match[group] or not rule.holds(match):
            return match[0]
        found[rule.name] += 1
        return f"{text[match.start() : match.start(group)]}{MARK}{rule.name}]{text[match.end(group) : match.end()]}"

    return rule.pattern.sub(placeholder, text)


def _without_assigned(text: str, found: Counter[str]) -> str:
    """The text without values that are assigned to telling names."""
    pieces: list[str] = []
    at = 0
    for start, end, kind in _assigned(text):
        found[kind] += 1
        pieces += (text[at:start], f"{MARK}{kind}]")
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def _assigned(text: str) -> Iterator[tuple[int, int, str]]:
    """Where each value stands, and its kind; in order, none overlapping."""
    passed = 0
    lower = text.lower()
    if len(lower) != len(text):  # a few letters grow in lower case, and positions shift
        lower = text.translate(_LOWER)
    for core in CORE.finditer(lower):
        match = NAMED.match(text, core.start()) if core.start() >= passed else None
        if match and (kind := kind_of(text[max(0, core.start() - BEFORE) : core.start()], match)):
            passed = match.end()
            yield *match.span("bare" if match["quoted"] is None else "quoted"), kind


def _walk(value: object, name: str, found: Counter[str]) -> object:
    match value:
        case dict():
            return {_walk(key, "", found): _walk(member, str(key), found) for key, member in value.items()}
        case list():
            return [_walk(member, name, found) for member in value]
        case str():
            text, here = redact(value)
            if not here and name:
                # As the member of an object: only its name may say that it is a secret.
                here = redact(f'"{name}": "{value.translate(_QUOTES)}"')[1]
                text = f"{MARK}{next(iter(here))}]" if here else value
            found.update(here)
            return text
        case _:
            return value
