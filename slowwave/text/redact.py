"""Secrets out of text before anything is stored or sent to a model: each becomes a typed placeholder.

`password = "[redacted:password]"`: place and kind stay readable, the value is gone. What counts as a secret is in
`secret_rules.py`. The same text always gives the same result, and redacting twice changes nothing.

Cost: a text is searched for each rule's literals; patterns run only where one stands.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

from slowwave.text.secrets.rules import (
    ANYWHERE,
    CORE,
    KEYS,
    MARK,
    NAMED,
    PHRASES,
    TOKENS,
    Rule,
    classify_secret,
    is_placeholder,
)
from slowwave.text.secrets.score import find_secrets
from slowwave.text.secrets.tables import find_tabled

_QUOTES = str.maketrans(dict.fromkeys("\"'`\\", "_"))
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
BEFORE = 60
"""How much of the text before a name is looked at."""
MOST_VALUE = 512
"""Letters of a bare value, as `NAMED` has it."""
_BARE = re.compile(
    rf'(?P<key>(?P<quote>\\{{0,7}}")\s{{0,9}}:\s{{0,9}})(?P<mark>{re.escape(MARK)}[a-z-]+\])(?=\s*[,}}\]])'
)
_KEYS, _TOKENS, _PHRASES, _ANYWHERE = (
    [(hint, rule) for rule in rules for hint in rule.hints]
    for rules in (KEYS, TOKENS, PHRASES, ANYWHERE)
)
"""Each hint with its rule: one look at all of them is what most texts cost."""
NONE: frozenset[str] = frozenset()
CERTAIN = 0.5
"""Probability from which a word is masked as a secret."""
MOST_PASSES = 8
"""So many secrets may have run together; a chain of names alone gave up one a pass, and held a night for hours."""


def redact(
    text: str,
    keep: frozenset[str] = NONE,
) -> tuple[str, Counter[str]]:
    """Return the text with a placeholder for each secret, and how many of each kind there were.

    A word in `keep` is left as it is: a person says that it is no secret.
    """
    clean, counts = _redact(text, keep)
    return clean, Counter(counts)


@lru_cache(
    maxsize=8
)  # a message's words are looked through for its id and as they are stored
def _redact(
    text: str,
    keep: frozenset[str],
) -> tuple[str, Counter[str]]:
    before = text
    text, counts = _redact_once(text, keep)
    more = counts
    passes = 1
    while more and passes < MOST_PASSES:
        # A placeholder may part what ran together, so that a second secret shows.
        text, more = _redact_once(text, keep)
        counts = counts + more
        passes = passes + 1
    # A number in JSON, in the midst of other text: it stays JSON.
    return (
        _BARE.sub(r"\g<key>\g<quote>\g<mark>\g<quote>", text)
        if text != before
        else text
    ), counts


def _redact_once(
    text: str,
    keep: frozenset[str],
) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    lower = text.lower()
    text = _apply_rules(_KEYS, text, lower, counts, keep)
    # Before the phrases: in a URL a token is the secret half.
    text = _apply_rules(_TOKENS, text, text, counts, keep)
    text = _apply_rules(_PHRASES, text, lower, counts, keep)
    text = _redact_assignments(text, counts, keep)
    text = _redact_likely(text, counts, keep)
    return _apply_rules(_ANYWHERE, text, text, counts, keep), counts


def redact_text(
    text: str,
    keep: frozenset[str] = NONE,
) -> str:
    """Return the text with a placeholder for each secret."""
    return redact(text, keep)[0]


def redact_json(
    text: str,
    keep: frozenset[str] = NONE,
) -> tuple[str, Counter[str]]:
    """As `redact`, on the strings inside of JSON, so that it stays JSON; a text that is none is taken as it is."""
    counts: Counter[str] = Counter()
    try:
        clean = _redact_json_value(json.loads(text), "", counts, keep)
    except (ValueError, RecursionError):
        return redact(text, keep)
    return (
        json.dumps(clean, ensure_ascii=False, separators=(",", ":")) if counts else text
    ), counts


def _apply_rules(
    hints: Iterable[tuple[str, Rule]],
    text: str,
    lower: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text without what the rules find of which a hint stands in `lower`."""
    for rule in dict.fromkeys([rule for hint, rule in hints if hint in lower]):
        text = _apply_rule(rule, text, counts, keep)
    return text


def _apply_rule(
    rule: Rule,
    text: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text with what the rule finds replaced."""
    group = "secret" if "secret" in rule.pattern.groupindex else 0

    def placeholder(match: re.Match[str]) -> str:
        word = match[group]
        if MARK in word or word in keep or not rule.holds(match):
            return match[0]
        counts[rule.name] += 1
        return f"{text[match.start() : match.start(group)]}{MARK}{rule.name}]{text[match.end(group) : match.end()]}"

    return rule.pattern.sub(placeholder, text)


def _redact_assignments(
    text: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text without values that are assigned to telling names."""
    pieces: list[str] = []
    at = passed = 0
    lower = text.lower()
    if len(lower) != len(text):  # a few letters grow in lower case, and positions shift
        lower = text.translate(_LOWER)
    for core in CORE.finditer(lower):
        match = NAMED.match(text, core.start()) if core.start() >= passed else None
        if match and (
            kind := classify_secret(
                text[max(0, core.start() - BEFORE) : core.start()], match
            )
        ):
            passed = match.end()
            start, end = match.span("bare" if match["quoted"] is None else "quoted")
            if text[start:end] in keep:
                continue
            counts[kind] += 1
            pieces += (text[at:start], f"{MARK}{kind}]")
            at = end
        elif match and len(match["bare"] or "") == MOST_VALUE:
            # A run that never ends: of a line of ten million letters a name may stand at each.
            passed = match.end()
    return "".join((*pieces, text[at:])) if pieces else text


def _redact_likely(
    text: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text without the words that are certainly secrets by what stands around them, or above in a table."""
    pieces = list[str]()
    at = 0
    found = {*find_secrets(text, CERTAIN), *find_tabled(text)}
    for start, end in sorted(found):
        if start < at:
            continue
        if is_placeholder(text[start:end]) or text[start:end] in keep:
            continue
        counts["secret"] += 1
        pieces += (text[at:start], f"{MARK}secret]")
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def _redact_json_value(
    value: object,
    name: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> object:
    match value:
        case dict():
            return {
                _redact_json_value(key, "", counts, keep): _redact_json_value(
                    member, str(key), counts, keep
                )
                for key, member in value.items()
            }
        case list():
            return [_redact_json_value(member, name, counts, keep) for member in value]
        case str():
            text, here = redact(value, keep)
            if not here and name and value not in keep:
                # As the member of an object: only its name may say that it is a secret.
                here = redact(f'"{name}": "{value.translate(_QUOTES)}"', keep)[1]
                text = f"{MARK}{next(iter(here))}]" if here else value
            counts.update(here)
            return text
        case int() if here := redact(f'"{name}": {value}', keep)[1]:
            counts.update(here)
            return f"{MARK}{next(iter(here))}]"
        case _:
            return value
