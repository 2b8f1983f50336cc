#!/usr/bin/env bash
# pysbd 0.3.4: a sentence that holds one of the signs which pysbd uses inside is left out of its answer.
#
# One would guess: with `clean=False` the segments put together are the text, as pysbd's description of that option says
# ("non-destructive"), whatever signs a text has.
# What happens: while it works, pysbd writes rare signs in the place of stops, and turns all of them into stops at the end.
# If the text has such a sign itself, the sentence made so is not found in the text, and is dropped. Of one sentence with a
# surface integral nothing is left: an empty list. With the sign of the sun, or a note of music, the sentence before
# them is gone and a rest stays. No error, and no sign that the segments are shorter than the text.
# Output seen:
#   'The flux ∯ is kept. We check it daily.' -> ['We check it daily.']
#   'The flux ∯ is kept.' -> []
#   'Sunrise ☉ is at six. We start then.' -> ['is at six. ', 'We start then.']
#   'We play ♬ at noon. Ann sings.' -> ['Ann sings.']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pysbd==0.3.4
"$folder/v/bin/python" -W ignore - <<'PYTHON'
import sys

from pysbd import Segmenter

EXPECTED = {
    "The flux ∯ is kept. We check it daily.": ["We check it daily."],
    "The flux ∯ is kept.": [],
    "Sunrise ☉ is at six. We start then.": ["is at six. ", "We start then."],
    "We play ♬ at noon. Ann sings.": ["Ann sings."],
}
seen = {text: Segmenter(language="en", clean=False).segment(text) for text in EXPECTED}
for text, segments in seen.items():
    print(f"{text!r} -> {segments}")
if seen != EXPECTED:
    sys.exit("the behaviour has changed")
PYTHON
