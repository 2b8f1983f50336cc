#!/usr/bin/env bash
# pylance 14.0.2: the ICU tokenizers' default stop words hold Chinese, Japanese, Korean and Arabic, and no Hindi or Thai.
#
# One would guess: the list is of every language at once (it leaves out the Portuguese "com" in an English index), and
# ICU is there for scripts such as Thai, so their most frequent words are on it too.
# What happens: Chinese "的", Japanese "です", Korean "그리고" and Arabic "في" are left out. Hindi "है" (is) and "का" (of),
# Thai "ที่" (that) and "และ" (and), Hebrew "של" and Bengali "এবং" are indexed, and match nearly every text. Nothing in the
# arguments says which languages the list has. `custom_stop_words` takes them.
# Output seen:
#   left out: 的 です 그리고 في
#   kept: है का ที่ และ של এবং
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys

from lance import tokenize

WORDS = "的 です 그리고 في है का ที่ และ של এবং".split()
kept = [
    word
    for word in WORDS
    if tokenize(word, base_tokenizer="icu", stem=False, remove_stop_words=True)
]
print("left out:", *(word for word in WORDS if word not in kept))
print("kept:", *kept)
if kept != WORDS[4:]:
    sys.exit("the stop words are others now")
PYTHON
