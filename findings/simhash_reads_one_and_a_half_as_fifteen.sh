#!/usr/bin/env bash
# simhash 2.1.2: texts that differ in a decimal point, a minus sign or a space have one hash.
#
# One would guess: two different sentences differ in some of their shingles and so in some bits; only case and perhaps
# punctuation at the ends are ignored.
# What happens: before the text is cut into shingles of four characters, everything but letters, digits and "_" is removed,
# spaces too, and what is left is joined. "1.5 s" and "15 s", "-5" and "5", "1.15" and "11.5", "now here" and "nowhere" are the
# same text. Their distance is 0, so no threshold keeps them apart, and whoever drops near duplicates drops a changed
# setting. `SimhashIndex` besides gives ids back as text, whatever they were, and keeps an id's earlier text
# beside a later one.
# Output seen:
#   0: timeout is 1.5 s | timeout is 15 s
#   0: the offset is -5 | the offset is 5
#   0: we pin 1.15 | we pin 11.5
#   0: it is now here | it is nowhere
#   added as 1, then anew with another text: ['1'] by the first text, ['1'] by the second
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q simhash==2.1.2
"$folder/v/bin/python" - <<'PYTHON'
import sys

from simhash import Simhash, SimhashIndex

PAIRS = [
    ("timeout is 1.5 s", "timeout is 15 s"),
    ("the offset is -5", "the offset is 5"),
    ("we pin 1.15", "we pin 11.5"),
    ("it is now here", "it is nowhere"),
]
distances = [Simhash(a).distance(Simhash(b)) for a, b in PAIRS]
for distance, pair in zip(distances, PAIRS):
    print(f"{distance}: {' | '.join(pair)}")
earlier, later = Simhash("we deploy on friday evening"), Simhash("the cat sleeps in a box")
index = SimhashIndex([(1, earlier)])
index.add(1, later)
found = index.get_near_dups(earlier), index.get_near_dups(later)
print("added as 1, then anew with another text: {} by the first text, {} by the second".format(*found))
if any(distances) or found != (["1"], ["1"]):
    sys.exit("the behaviour has changed")
PYTHON
