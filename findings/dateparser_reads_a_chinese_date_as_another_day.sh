#!/usr/bin/env bash
# dateparser 1.5.0: `search_dates` reads "3月5日" (5 March) as a day in August, and finds half of other phrases.
#
# One would guess: a date of month and day, in the language that is named, is that day; or nothing is found.
# What happens: counted from 18 November 2026 the text "3月5日" is read as 2026-08-13, three months and five days before. With
# the year before it ("2026年3月5日") it is right. Of "letzten Dienstag" and "mardi dernier" only the weekday is found,
# of "上周二" (Tuesday of last week) only the week; "hace dos semanas" and "先週の火曜日" give None.
# Output seen:
#   3月5日 -> 2026-08-13
#   2026年3月5日 -> 2026-03-05
#   letzten Dienstag -> Dienstag
#   上周二 -> 上周
#   hace dos semanas -> None
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q dateparser==1.5.0
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys
from datetime import datetime

from dateparser.search import search_dates

SETTINGS = {"RELATIVE_BASE": datetime(2026, 11, 18), "PREFER_DATES_FROM": "past"}


def find(text, language):
    return search_dates(text, languages=[language], settings=SETTINGS)


days = [find("3月5日", "zh")[0][1].date().isoformat(), find("2026年3月5日", "zh")[0][1].date().isoformat()]
words = [find("letzten Dienstag", "de")[0][0], find("上周二", "zh")[0][0], find("hace dos semanas", "es")]
print(days, words)
if days != ["2026-08-13", "2026-03-05"] or words != ["Dienstag", "上周", None]:
    sys.exit("the behaviour has changed")
PYTHON
