#!/usr/bin/env bash
# dateparser 1.5.0: of the day after tomorrow and the day before yesterday it knows the German and French names alone
# of many that Unicode's CLDR has, although its data is made from CLDR.
#
# Guess: what CLDR has as the relative day +2 or -2 of a language ("pasado mañana", "dopodomani", "그저께") is parsed, as
# "übermorgen" and "avant-hier" are, since dateparser ships CLDR's data for more than 200 locales.
# Seen with a base of Wednesday 18 Nov 2026, each with its language named:
#   de übermorgen -> 2026-11-20, fr avant-hier -> 2026-11-16
#   es pasado mañana, it dopodomani, pt depois de amanhã, ko 그저께, ko 모레, sv i övermorgon, hu holnapután -> None
# The names are those that `Intl.RelativeTimeFormat(language, {numeric: "auto"}).format(±2, "day")` gives (CLDR 48).
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install --quiet dateparser==1.5.0
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PY'
import sys
from datetime import datetime

import dateparser

NAMES = {
    "de übermorgen": "2026-11-20",
    "fr avant-hier": "2026-11-16",
    "es pasado mañana": None,
    "it dopodomani": None,
    "pt depois de amanhã": None,
    "ko 그저께": None,
    "ko 모레": None,
    "sv i övermorgon": None,
    "hu holnapután": None,
}
changed = []
for name, expected in NAMES.items():
    language, _, words = name.partition(" ")
    day = dateparser.parse(words, languages=[language], settings={"RELATIVE_BASE": datetime(2026, 11, 18)})
    seen = day and day.date().isoformat()
    print(name, "->", seen)
    if seen != expected:
        changed.append(name)
if changed:
    sys.exit(f"the behaviour has changed: {', '.join(changed)}")
PY
