#!/usr/bin/env bash
# yake 0.7.3: a word of letters and digits, or with a sign in it, is never a keyword nor a part of one.
#
# One would guess: what is rare in the language and frequent in the text, as the name of a pump or of an error, is the best
# keyword; at worst it is one of forty.
# What happens: "E4711", "GPT4", "S3" and "C++" are tagged as odd words, and a candidate with such a word is dropped,
# whatever its frequency and however many keywords one asks for. Of "pg_dump" the keyword is "dump", which the text does not
# have as a word. So the keywords of a report on an error have neither the error nor the machine.
# Output seen:
#   keywords of one word: ['Pump', 'reports', 'error', 'restart', 'hand', 'part', 'back', 'bucket', 'dump', 'nginx', ...]
#   named of 7: []
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q yake==0.7.3
"$folder/v/bin/python" -W ignore - <<'PYTHON'
import sys

from yake import KeywordExtractor

TEXT = (
    "Pump P4711 reports error E4711. We restart P4711 by hand. E4711 comes back. The S3 bucket holds a copy of GPT4. "
    "We call pg_dump for it. HTTP2 is off in nginx, and k8s runs the C++ part. P4711 and E4711 are known."
)
ODD = ["P4711", "E4711", "S3", "GPT4", "HTTP2", "k8s", "C++"]
single = [word for word, _ in KeywordExtractor(lan="en", n=1, top=40).extract_keywords(TEXT)]
double = [word for word, _ in KeywordExtractor(lan="en", n=2, top=40).extract_keywords(TEXT)]
named = [odd for odd in ODD if any(odd.lower() in word.lower().split() for word in single + double)]
print(f"keywords of one word: {single}\nnamed of {len(ODD)}: {named}")
if named or "error" not in single:
    sys.exit("the behaviour has changed")
PYTHON
