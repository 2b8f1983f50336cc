#!/usr/bin/env bash
# sumy 0.13.0: a line in capitals is a heading, and no summary of any length has it.
#
# One would guess: PlaintextParser reads plain text as sentences; a summary of all sentences is the text.
# What happens: a line whose letters are all capitals ends the paragraph and is kept among the headings, which no summarizer
# chooses from. So a rule that somebody shouts ("DO NOT DEPLOY ON FRIDAYS.") and a line with nothing but a code ("E4711") are
# in no summary, and those are the lines that were meant to be seen. Within a line capitals are a sentence like others.
# Output seen:
#   summary of 100%: ['The team met.', 'We keep the tides.', 'NASA was right.', 'The pump failed.']
#   headings: ['DO NOT DEPLOY ON FRIDAYS.', 'E4711']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q sumy==0.13.0 numpy==2.4.6
"$folder/v/bin/python" -W ignore - <<'PYTHON'
import sys

from sumy.parsers.plaintext import PlaintextParser
from sumy.summarizers.lex_rank import LexRankSummarizer

TEXT = """The team met.
DO NOT DEPLOY ON FRIDAYS.

We keep the tides. NASA was right.
E4711
The pump failed."""


class Tokenizer:
    """Splits at stops, so that the script needs no data of NLTK."""

    def to_sentences(self, paragraph):
        return [f"{each.strip()}." for each in paragraph.split(".") if each.strip()]

    def to_words(self, sentence):
        return sentence.strip(".").split()


document = PlaintextParser.from_string(TEXT, Tokenizer()).document
summary = [str(each) for each in LexRankSummarizer()(document, "100%")]
headings = [str(each) for each in document.headings]
print(f"summary of 100%: {summary}\nheadings: {headings}")
whole = ["The team met.", "We keep the tides.", "NASA was right.", "The pump failed."]
if (summary, headings) != (whole, ["DO NOT DEPLOY ON FRIDAYS.", "E4711"]):
    sys.exit("the behaviour has changed")
PYTHON
