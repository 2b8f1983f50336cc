#!/usr/bin/env bash
# llguidance 1.7.6 (the guidance backend of vLLM 0.32), Python package `llguidance`.
#
# One would guess: under the JSON Schema {"type": "string"} every JSON string is admitted, so what `json.dumps` writes
# by default (`ensure_ascii=True`: "caf\u00e9", "\ud83d\ude00") can be generated, and so can `\/`.
#
# What happens: a character is admitted in one spelling alone. `\n`, `\t`, `\"`, `\\` and the \u of control characters are
# admitted; `\u00e9`, a surrogate pair and `\/` are refused, é itself is admitted. DEL is the other way round: JSON allows
# it as it is, llguidance admits `\u007f` alone. A model that learnt to write JSON in ASCII is turned away in the middle
# of a word, and an answer written by `json.dumps` fails a check by LLMatcher though it is valid.
#
# Exits with 1 if that changes.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install --quiet --disable-pip-version-check llguidance==1.7.6
"$work/v/bin/python" - <<'PYTHON'
import json
import sys

from llguidance import LLMatcher, LLTokenizer

TOKENIZER = LLTokenizer("byte")
SCHEMA = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"], "additionalProperties": False}
GRAMMAR = LLMatcher.grammar_from_json_schema(json.dumps(SCHEMA), defaults={"whitespace_flexible": False})
SEEN = {
    r'"a\n\t\"\\b"': True,
    r'"\u001b[0m"': True,
    '"café"': True,
    r'"caf\u00e9"': False,
    '"😀"': True,
    r'"\ud83d\ude00"': False,
    r'"a\/b"': False,
    '"a\x7fb"': False,
    r'"a\u007fb"': True,
}


def admits(text: str) -> bool:
    matcher, tokens = LLMatcher(TOKENIZER, GRAMMAR), TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


changed = 0
for string, expected in SEEN.items():
    json.loads(string)  # valid, each of them
    found = admits('{"s":' + string + "}")
    changed += found != expected
    print("admitted" if found else "refused ", ascii(string), "" if found == expected else "  <- CHANGED")
print(f"{changed} changed")
sys.exit(bool(changed))
PYTHON
