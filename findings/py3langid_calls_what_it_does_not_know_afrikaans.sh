#!/usr/bin/env bash
# py3langid 0.4.0: a text of which it knows no part is Afrikaans.
#
# One would guess: a text without evidence gets no language ("und", or "zxx", which py3langid gives for digits), or English,
# as from langid 1.1.6, whose successor it is.
# What happens: all languages get the smallest number of a float32, and the first of the alphabet wins. The short answers of
# chats are such texts: "ok", "no", "hi" and a time of day are "af". Nothing but the score tells it, and
# `classify` gives one for every text, so a column of languages has a language that nobody wrote.
# Output seen (py3langid, langid):
#   ok: af, en; no: af, en; 12:30: af, en; ?: af, en; 12345: zxx, en
#   score of ok: -3.4e+38; best of all languages: ['af', 'am', 'ar']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q py3langid==0.4.0 langid==1.1.6 numpy==2.4.6
"$folder/v/bin/python" -W ignore - <<'PYTHON'
import sys

import langid
import py3langid

TEXTS = ["ok", "no", "12:30", "?", "12345"]
seen = [(py3langid.classify(text)[0], langid.classify(text)[0]) for text in TEXTS]
score = f"{py3langid.classify('ok')[1]:.1e}"
best = [language for language, _ in py3langid.rank("ok")[:3]]
print("; ".join(f"{text}: {new}, {old}" for text, (new, old) in zip(TEXTS, seen)))
print(f"score of ok: {score}; best of all languages: {best}")
if (seen, score, best) != ([("af", "en")] * 4 + [("zxx", "en")], "-3.4e+38", ["af", "am", "ar"]):
    sys.exit("the behaviour has changed")
PYTHON
