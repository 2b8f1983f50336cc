#!/usr/bin/env bash
# pylance 14.0.2: with `stem` and `ascii_folding`, a word with an accent and the same word without never meet.
#
# One would guess: accents are folded first, so that "résumé" and "resume" are one term, as the option's name promises.
# What happens: words are stemmed first and folded after. The English stemmer takes the e from "resume" and leaves
# "résumé" alone, since it does not end in e: the terms are "resum" and "resume". A query for either misses the other.
# Without `stem` both are "resume". Look up the folded form and the accented forms of a word together.
# Also: the accent as a letter of its own (NFD, as macOS writes names) ends a word: "re", "sume".
# Output seen:
#   stem and fold: résumé -> resume, resume -> resum
#   fold alone:    résumé -> resume, resume -> resume
#   stem and fold: Straße -> strasse, Strasse -> strass
#   decomposed résumé -> sume (and "re" is a stop word)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys

from lance import tokenize


def terms(text, stem):
    found = tokenize(text, base_tokenizer="simple", language="English", stem=stem, ascii_folding=True,
                     lower_case=True, remove_stop_words=True)
    return " ".join(token.text for token in found)


seen = [terms(word, stem) for stem in (True, False) for word in ("résumé", "resume", "Straße", "Strasse")]
print("stem and fold:", seen[:4])
print("fold alone:   ", seen[4:])
decomposed = terms("re\u0301sume\u0301", True)
print("decomposed résumé ->", decomposed)
if seen != ["resume", "resum", "strasse", "strass", "resume", "resume", "strasse", "strasse"] or decomposed != "sume":
    sys.exit("the behaviour has changed")
PYTHON
