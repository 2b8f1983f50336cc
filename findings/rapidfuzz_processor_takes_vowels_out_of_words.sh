#!/usr/bin/env bash
# rapidfuzz 3.14.6: `utils.default_process` takes the vowels out of Hindi and Bengali words.
#
# One would guess: the processor lowers case and replaces punctuation by spaces; letters of any script stay.
# What happens: vowel signs and viramas (Unicode Mn and Mc) count as punctuation and become spaces. Words fall
# into single consonants, and words with other vowels become the same text: "my son is five" and "my daughter is five",
# "day" and "poor", score 100 by every scorer. Whoever merges above a threshold merges opposite facts. NFC does
# not help: these signs have no composed form. Python's own `\w` draws the same line: `re.findall(r"\w+", ...)` finds
# the same pieces.
# Output seen (ratio without the processor, with it):
#   मेरा बेटा पाँच का है | मेरी बेटी पाँच की है   85, 100
#   दिन | दीन   67, 100
#   বাবা | বিবি   50, 100
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q rapidfuzz==3.14.6
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys

from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

PAIRS = {
    ("मेरा बेटा पाँच का है", "मेरी बेटी पाँच की है"): (85, 100),
    ("दिन", "दीन"): (67, 100),
    ("বাবা", "বিবি"): (50, 100),
}
changed = False
for (a, b), expected in PAIRS.items():
    got = round(fuzz.ratio(a, b)), round(fuzz.ratio(a, b, processor=default_process))
    changed |= got != expected
    print(f"{a} | {b}: {got[0]}, {got[1]}; as processed {default_process(a)!r}, {default_process(b)!r}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
