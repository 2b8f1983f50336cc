#!/usr/bin/env bash
# outlines-core 0.2.14: under a JSON Schema with `pattern` a model may write what is no JSON, or keys that the schema forbids.
#
# One would guess: `pattern` limits the value of a string, which is then written as JSON writes it; what is admitted can be
# parsed, and a key that `additionalProperties: false` forbids cannot come.
# What happens: the pattern is put between two quote marks as it stands. `.` and `\S` stand for a quote mark and a backslash
# too, so the string may end early: a Windows path comes with single backslashes, words in quotes as they are, and a
# further key after `"name":"a"`. A pattern that asks for a quote mark admits only what is no JSON. JSON Schema's
# patterns are not anchored; here "v\d" admits "v1" alone, and "^v\d" (or "v\d$") admits nothing: the index can't be
# built. Both anchors, and a class without quote mark and backslash, are safe.
# Output seen:
#   ^\S+$ admits {"name":"C:\q"}: no JSON
#   ^.+$ admits {"name":"say "no""}: no JSON
#   ^.+$ admits {"name":"a","role":"b"}: another key
#   v\d admits {"name":"v1"}, not {"name":"v12"}
#   ^v\d: cannot be built
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q outlines-core==0.2.14
"$folder/v/bin/python" - <<'PYTHON'
import json
import sys

from outlines_core import Guide, Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema

CHARACTERS = [chr(code) for code in range(32, 127)]
VOCABULARY = Vocabulary(len(CHARACTERS), {character: [number] for number, character in enumerate(CHARACTERS)})


def build(pattern):
    name = {"type": "string", "pattern": pattern}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"], "additionalProperties": False}
    return Index(build_regex_from_schema(json.dumps(schema)), VOCABULARY)


def admits(pattern, text):
    guide = Guide(build(pattern))
    for character in text:
        number = CHARACTERS.index(character)
        if number not in guide.get_tokens():
            return False
        guide.advance(number)
    return guide.is_finished()


def judge(text):
    try:
        return "valid" if set(json.loads(text)) == {"name"} else "another key"
    except json.JSONDecodeError:
        return "no JSON"


CASES = [
    (r"^\S+$", r'{"name":"C:\q"}', True, "no JSON"),
    ("^.+$", '{"name":"say "no""}', True, "no JSON"),
    ("^.+$", '{"name":"a","role":"b"}', True, "another key"),
    (r"v\d", '{"name":"v1"}', True, "valid"),
    (r"v\d", '{"name":"v12"}', False, "valid"),
]
changed = False
for pattern, text, *expected in CASES:
    seen = [admits(pattern, text), judge(text)]
    changed |= seen != expected
    print(pattern, "admits" if seen[0] else "refuses", f"{text}: {seen[1]}")
try:
    build(r"^v\d")
    changed = True
except ValueError:
    print(r"^v\d: cannot be built")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
