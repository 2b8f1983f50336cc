"""How much of what a published set of rules calls a secret is redacted, and how much of what it calls none.

    python -m bench.nights.redaction gitleaks.toml [--json]

The file is gitleaks' `config/gitleaks.toml`. Every example is made at run time, from a seed, out of the rules' own
patterns: a true one has the entropy that the rule asks for and stands in one of the forms in which settings are
written; a harmless one has a value that stands for none (a variable, a call, one character over and over, one of the
rules' stop words). No secret is kept anywhere. Time: a few seconds.
"""

import math
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import printable
from typing import Any

from bench.harness import Figures, run
from slowwave.text.redact import redact

FORMS = (
    *(
        '{i}Token="{s}"',
        '{i}Token = "{s}"',
        "{i}Token={s}",
        "{i}Token = {s}",
        '{{"{i}_token": "{s}"}}',
    ),
    *(
        '{{\\"{i}_token\\": \\"{s}\\"}}',
        "<{i}Token>{s}</{i}Token>",
        "<{i}Token>\n    {s}\n</{i}Token>",
    ),
    *(
        "{i}_token: {s}",
        "{i}_token: '{s}'",
        "{i}_token: |\n  {s}",
        "{i}_token: >\n  {s}",
    ),
    *(
        'string {i}Token = "{s}";',
        'var {i}Token string = "{s}"',
        "{i}Token := `{s}`",
        '${i}Token .= "{s}"',
    ),
    *(
        "{i}Token,{s},",
        '"{i}Token" => "{s}"',
        '{i}_TOKEN ::= "{s}"',
        '{i}_TOKEN ?= "{s}"',
        '{i}_TOKEN += "{s}"',
    ),
)
"""How settings are written; `i` is what a rule calls its issuer, `s` the secret."""
BLANKS = (
    "${{{i}_TOKEN}}",
    "get_{i}_token()",
    "os.environ['{i}']",
    "<{i}-token>",
    "x" * 24,
    "a" * 10,
)
"""Values that stand for one which is not there."""
NAMED = re.compile(
    r"\{0,50\}\?(?P<who>\(\?.*?\))\(\?:\[[^\]]*\]\{0,20\}.*?\{0,5\}\((?P<secret>.*)\)\(\?:\[",
    re.S,
)
ALONE = re.compile(r"(?:\(\?i\))?(?:\\b)?\((?P<secret>.*)\)\(\?:\[.*\$\)\Z", re.S)
"""How the rules are built: an issuer's name before a secret of any form, or a secret of a form of its own."""
MOST = 6
"""Repeats of a part that may stand any number of times."""
LETTERS = printable[:62]


def measure(rules: Path) -> Figures:
    """Return the shares, and below them what is missed and what is touched."""
    true, harmless = make_examples(tomllib.loads(rules.read_text("utf-8")))
    missed = [
        f"missed   {rule:34} {text!r}"
        for rule, secret, text in true
        if secret in redact(text)[0]
    ]
    touched = [
        f"touched  {text!r} -> {redact(text)[0]!r}"
        for text in harmless
        if redact(text)[1]
    ]
    shares = {
        "redacted": round(1 - len(missed) / len(true), 4),
        "touched": round(len(touched) / len(harmless), 4),
    }
    notes = [line[:200] for line in (*missed, *touched)]
    return Figures(
        [{"true": len(true), "harmless": len(harmless), **shares}], notes=notes
    )


def make_examples(
    rules: dict[str, Any], seed: int = 0
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return true examples (rule, secret, text) and harmless texts, the same ones every time.

    Args:
        rules: the file's content: `rules` with `id`, `regex`, `entropy` and `allowlists`.
        seed: of the characters drawn.
    """
    draw, true, harmless = (
        random.Random(seed),
        list[tuple[str, str, str]](),
        list[str](),
    )
    for rule in rules["rules"]:
        if "regex" not in rule or rule["id"] in {"generic-api-key", "private-key"}:
            continue
        named, least = NAMED.search(rule["regex"]), rule.get("entropy", 0)
        if named is None:
            alone = ALONE.match(rule["regex"])
            if secret := _draw_secret(
                alone["secret"] if alone else rule["regex"], least, draw
            ):
                true.append((rule["id"], secret, f"it is {secret} here"))
            continue
        flags = "(?i)" if rule["regex"].startswith("(?i)") else ""
        for _ in range(3):
            secret = _draw_secret(flags + named["secret"], least, draw)
            who = (
                _draw_secret(named["who"].replace("(?i:", "(?:"), 0, draw)
                if secret
                else None
            )
            if secret and who:
                form = draw.choice(FORMS)
                true.append((rule["id"], secret, form.format(i=who, s=secret)))
                harmless.append(form.format(i=who, s=draw.choice(BLANKS).format(i=who)))
    stop = {
        word
        for rule in rules["rules"]
        for one in rule.get("allowlists", ())
        for word in one.get("stopwords", ())
    }
    harmless += [draw.choice(FORMS).format(i="client", s=word) for word in sorted(stop)]
    return true, harmless


def _draw_secret(pattern: str, entropy: float, draw: random.Random) -> str | None:
    """Return a text that the pattern matches and that is as disorderly as asked; None if none of 50 texts is."""
    found = re.sub(
        r"\[\[:alnum:\]\]", "[0-9A-Za-z]", pattern.replace(r"\z", r"\Z")
    ).replace("[:alnum:]", "0-9A-Za-z")
    try:
        parsed = re._parser.parse(found.replace("(?i)", ""))  # type: ignore[attr-defined]
    except re.error:
        return None
    texts = ("".join(_draw_parts(parsed, draw)) for _ in range(50))
    return next(
        (
            text
            for text in texts
            if compute_entropy(text) > entropy and ("(?i)" in found or text)
        ),
        None,
    )


def _draw_parts(parts: Any, draw: random.Random) -> Iterator[str]:
    """Yield a text for each part of a parsed pattern; borders and look-arounds yield nothing, since the forms give
    them.
    """
    for kind, value in parts:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "NOT_LITERAL":
                yield draw.choice([c for c in LETTERS if ord(c) != value])
            case "ANY":
                yield "."
            case "IN":
                yield draw.choice(_list_members(value))
            case "BRANCH":
                yield from _draw_parts(draw.choice(value[1]), draw)
            case "SUBPATTERN":
                yield from _draw_parts(value[3], draw)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, inner = value
                for _ in range(draw.randint(low, max(low, min(int(high), low + MOST)))):
                    yield from _draw_parts(inner, draw)


def _list_members(value: Any) -> list[str]:
    found: set[str] = set()
    for kind, one in value:
        match str(kind):
            case "LITERAL":
                found.add(chr(one))
            case "RANGE":
                found |= {chr(n) for n in range(one[0], min(one[1], 127) + 1)}
            case "CATEGORY":
                found |= {
                    c for c in LETTERS if str(one) != "CATEGORY_DIGIT" or c.isdigit()
                }
            case _:
                return [c for c in LETTERS if c not in found]  # negated
    return sorted(c for c in found if c.isprintable() and c not in " '\"`") or sorted(
        found
    )


def compute_entropy(text: str) -> float:
    """Return bits a character, after Shannon."""
    return (
        -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())
        if text
        else 0.0
    )


if __name__ == "__main__":
    run(measure)
