#!/usr/bin/env bash
# trafilatura 2.3.1: with `deduplicate=True` what a page gives depends on the pages that the process read before it.
#
# One would guess: the option removes paragraphs that a page repeats. `extract` is a function of its arguments, so a second
# call with the same page gives the same text.
# What happens: the paragraphs are counted over all pages of the process. From the fourth call on, the same page gives None,
# "nothing found". A paragraph that many pages share (a licence, the description of a project) is missing from the fourth
# page on, and which page that is depends on the order of reading.
# Output seen:
#   the same page, five times: 431, 431, 431, None, None
#   five pages that share a paragraph: in the text of 3
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q trafilatura==2.3.1 lxml-html-clean==0.4.6
"$folder/v/bin/python" - <<'PYTHON'
import sys

from trafilatura import extract


def write_page(paragraphs):
    body = "".join(f"<p>{text}</p>" for text in paragraphs)
    return f"<html><body><article><h1>Ferry</h1>{body}</article></body></html>"


def write_paragraph(number):
    return (
        f"This is paragraph number {number} about the harbour ferry and its timetable, which changes in spring and is"
        " long enough to be kept by the extractor."
    )


page = write_page(write_paragraph(number) for number in range(3))
same = [extract(page, deduplicate=True) for _ in range(5)]
sizes = [text and len(text) for text in same]
shared = (
    "The ferry is run by the town, the tickets are sold on board, and dogs travel for nothing if they stay on deck"
    " during the whole crossing."
)
pages = [write_page([shared, write_paragraph(f"{n}0"), write_paragraph(f"{n}1")]) for n in range(5)]
holding = sum(shared in (extract(text, deduplicate=True) or "") for text in pages)
print("the same page, five times:", ", ".join(map(str, sizes)))
print(f"five pages that share a paragraph: in the text of {holding}")
if sizes[0] is None or sizes != [sizes[0]] * 3 + [None] * 2 or holding != 3:
    sys.exit("the behaviour has changed")
PYTHON
