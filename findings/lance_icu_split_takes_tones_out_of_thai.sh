#!/usr/bin/env bash
# pylance 14.0.2: the tokenizer "icu/split" drops Thai tone marks and splits words at them; "icu" keeps them.
#
# One would guess: "icu/split" is "icu" that also splits at punctuation ("simple-style delimiter splitting").
# What happens: its second split keeps letters and digits alone, and a tone mark is neither. The word for "keep" becomes
# two terms, and words that differ in nothing but the tone are one term: "wood" and "silk" both lose it. And the default
# stop words of both tokenizers are those of every language at once: "com" (Portuguese) is left out of an English
# index, unless `custom_stop_words` are given. Over a run without spaces the time is quadratic.
# Output seen:
#   icu:       เก็บใบแจ้งหนี้ -> เก็บ ใบ แจ้ง หนี้
#   icu/split: เก็บใบแจ้งหนี้ -> เก บ ใบ แจ ง หนี
#   icu, English, default stop words: "example com" -> example
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys

from lance import tokenize


def terms(text, base, stop=False):
    found = tokenize(text, base_tokenizer=base, language="English", stem=False, remove_stop_words=stop)
    return " ".join(token.text for token in found)


seen = [terms("เก็บใบแจ้งหนี้", base) for base in ("icu", "icu/split")]
seen.append(terms("example com", "icu", stop=True))
print(*seen, sep="\n")
if seen != ["เก็บ ใบ แจ้ง หนี้", "เก บ ใบ แจ ง หนี", "example"]:
    sys.exit("the behaviour has changed")
PYTHON
