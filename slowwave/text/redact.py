"""Replace secrets in a text by typed placeholders, before anything is stored or sent to a model.

In `password = "[redacted:password]"` the place and the kind stay readable. The rules are in `secrets/rules.py`. The
same text always gives the same result, and redacting twice changes nothing.

Cost: a text is first searched for each rule's literals. A rule's pattern runs only if one is found.
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
"""Characters before a name that are considered."""
MOST_VALUE = 512
"""Most letters of a bare value, as in `NAMED`."""
_BARE = re.compile(
    rf'(?P<key>(?P<quote>\\{{0,7}}")\s{{0,9}}:\s{{0,9}})(?P<mark>{re.escape(MARK)}[a-z-]+\])(?=\s*[,}}\]])'
)
_KEYS, _TOKENS, _PHRASES, _ANYWHERE = (
    [(hint, rule) for rule in rules for hint in rule.hints]
    for rules in (KEYS, TOKENS, PHRASES, ANYWHERE)
)
"""Each hint with its rule. Most texts only cost a search for these hints."""
NONE: frozenset[str] = frozenset()
CERTAIN = 0.5
"""Probability from which a word is masked as a secret."""
MOST_PASSES = 8
"""Most passes, and so most secrets without a separator. A chain of names alone gives one a pass, which once took a
night hours.
"""


def redact(
    text: str,
    keep: frozenset[str] = NONE,
) -> tuple[str, Counter[str]]:
    """Return the text with a placeholder for each secret, and the number of secrets of each kind.

    A word in `keep` is left as it is: a person said that it isn't a secret.
    """
    clean, counts = _redact(text, keep)
    return clean, Counter(counts)


@lru_cache(maxsize=8)  # a message is redacted for its id, and again for storing
def _redact(
    text: str,
    keep: frozenset[str],
) -> tuple[str, Counter[str]]:
    before = text
    text, counts = _redact_once(text, keep)
    more = counts
    passes = 1
    while more and passes < MOST_PASSES:
        # a placeholder may separate two secrets, so that the second one is found
        text, more = _redact_once(text, keep)
        counts = counts + more
        passes = passes + 1
    # a number in JSON within other text becomes a string, so that it stays JSON
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
    text = _apply_rules(hints=_KEYS, text=text, lower=lower, counts=counts, keep=keep)
    # before the phrases, since a token can be the secret part of a URL
    text = _apply_rules(hints=_TOKENS, text=text, lower=text, counts=counts, keep=keep)
    text = _apply_rules(
        hints=_PHRASES, text=text, lower=lower, counts=counts, keep=keep
    )
    text = _redact_assignments(text, counts, keep)
    text = _redact_likely(text, counts, keep)
    return _apply_rules(
        hints=_ANYWHERE, text=text, lower=text, counts=counts, keep=keep
    ), counts


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
    """Redact the strings and numbers inside a JSON text, so that it stays JSON; return it and the counts, as `redact`.

    A text that isn't JSON is redacted as plain text.
    """
    counts: Counter[str] = Counter()
    try:
        clean = _redact_json_value(
            value=json.loads(text), name="", counts=counts, keep=keep
        )
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
    """Return the text after applying the rules with a hint in `lower`; add to `counts`."""
    for rule in dict.fromkeys([rule for hint, rule in hints if hint in lower]):
        text = _apply_rule(rule=rule, text=text, counts=counts, keep=keep)
    return text


def _apply_rule(
    rule: Rule,
    text: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text with the secrets that the rule finds replaced; add to `counts`."""
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
    """Return the text with the values of names such as `password` replaced; add to `counts`."""
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
            # skip a very long run: in a line of ten million letters, a name could begin at each of them
            passed = match.end()
    return "".join((*pieces, text[at:])) if pieces else text


def _redact_likely(
    text: str,
    counts: Counter[str],
    keep: frozenset[str],
) -> str:
    """Return the text with words replaced that are secrets by their context, or by a table's heading; add to
    `counts`.
    """
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
                _redact_json_value(
                    value=key, name="", counts=counts, keep=keep
                ): _redact_json_value(
                    value=member, name=str(key), counts=counts, keep=keep
                )
                for key, member in value.items()
            }
        case list():
            return [
                _redact_json_value(value=member, name=name, counts=counts, keep=keep)
                for member in value
            ]
        case str():
            text, here = redact(value, keep)
            if not here and name and value not in keep:
                # test it as the member of an object: only its name may say that it is a secret
                here = redact(f'"{name}": "{value.translate(_QUOTES)}"', keep)[1]
                text = f"{MARK}{next(iter(here))}]" if here else value
            counts.update(here)
            return text
        case int() if here := redact(f'"{name}": {value}', keep)[1]:
            counts.update(here)
            return f"{MARK}{next(iter(here))}]"
        case _:
            return value
