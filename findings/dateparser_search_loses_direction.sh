#!/usr/bin/env bash
# dateparser 1.5.0: `search_dates` loses the direction of relative dates that `parse` reads rightly.
#
# Guess: what `dateparser.parse` reads, `dateparser.search.search_dates` finds in a sentence with the same date.
# Seen with a base of Wednesday 8 Apr 2026, each sentence in its own language:
#   "the day after tomorrow"  parse: 10 Apr   search in a sentence: 9 Apr (tomorrow)
#   "il y a trois jours"      parse: 5 Apr    search: finds "a trois jours" and gives 11 Apr, three days AHEAD
#   "hace tres días"          parse: nothing  search: nothing (its words for numbers know only "un" and "una")
#   the word "we" in an English sentence is found as a date, next Wednesday.
# So a date put beside a sentence from it would be wrong by days, and in French by its sign.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install --quiet dateparser==1.5.0
"$folder/v/bin/python" - <<'PY'
import sys
from datetime import datetime

import dateparser
from dateparser.search import search_dates

SETTINGS = {"RELATIVE_BASE": datetime(2026, 4, 8, 9), "PREFER_DATES_FROM": "future"}
CASES = [
    ("en", "the day after tomorrow", "We ship the day after tomorrow"),
    ("fr", "il y a trois jours", "Il y a trois jours c'était cassé"),
    ("es", "hace tres días", "Lo cambiamos hace tres días"),
    ("en", None, "Today we ship"),
]
seen = []
for language, phrase, sentence in CASES:
    parsed = phrase and dateparser.parse(phrase, languages=[language], settings=SETTINGS)
    found = search_dates(sentence, languages=[language], settings=SETTINGS) or []
    row = (phrase, parsed and f"{parsed:%d %b}", [(words, f"{at:%d %b}") for words, at in found])
    print(*row)
    seen.append(row)
EXPECTED = [
    ("the day after tomorrow", "10 Apr", [("We", "15 Apr"), ("the day after tomorrow", "09 Apr")]),
    ("il y a trois jours", "05 Apr", [("a trois jours", "11 Apr")]),
    ("hace tres días", None, []),
    (None, None, [("Today", "08 Apr"), ("we", "15 Apr")]),
]
if seen != EXPECTED:
    sys.exit(f"it behaves otherwise now: {seen}")
PY
