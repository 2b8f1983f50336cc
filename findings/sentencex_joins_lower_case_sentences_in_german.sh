#!/usr/bin/env bash
# sentencex 1.0.32: with "de" a full stop before a small letter ends no sentence, with "en", "fr" and "es" it does.
#
# One would guess: a language's rules add its abbreviations and dates to the same splitting. So one passes the language
# of the text, since "en" ends a sentence behind the day of "am 5. Mai", and "de" does not.
# What happens: "de" keeps "am 5. Mai" whole, and also every message of a person who writes without capitals: three
# sentences come out as one, without a sign of it. In French, Spanish and English the same line is three sentences.
# Neither language splits both lines rightly.
# Output seen:
#   en: 3 sentences without capitals, 2 of one with a date
#   fr: 3 sentences without capitals, 2 of one with a date
#   es: 3 sentences without capitals, 2 of one with a date
#   de: 1 sentences without capitals, 1 of one with a date
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q sentencex==1.0.32
PYTHONIOENCODING=utf-8 "$folder/v/bin/python" - <<'PYTHON'
import sys

import sentencex

CHAT = "der build ist rot. bitte nochmal starten. danach deployen."
DATE = "Wir treffen uns am 5. Mai in Wien."
seen = {}
for language in ("en", "fr", "es", "de"):
    seen[language] = tuple(
        len([part for part in sentencex.segment(language, text) if part.strip()])
        for text in (CHAT, DATE)
    )
    print(
        f"{language}: {seen[language][0]} sentences without capitals,"
        f" {seen[language][1]} of one with a date"
    )
if seen != {"en": (3, 2), "fr": (3, 2), "es": (3, 2), "de": (1, 1)}:
    sys.exit("sentences are split otherwise now")
PYTHON
