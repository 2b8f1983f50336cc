#!/usr/bin/env bash
# langchain-text-splitters 1.1.3: MarkdownHeaderTextSplitter takes the indentation out of code and of nested lists.
#
# One would guess: a splitter cuts a text and leaves it as it is between the cuts; it knows fenced code, since it takes no "#"
# in a fence for a header.
# What happens: each line is stripped. Python in a fence is no Python any more, a list of steps under a step becomes one list,
# and a diff loses the spaces that mark its unchanged lines. In a fence of four backticks, which is how one writes about
# Markdown, a "#" is a header: the answer is cut there, and what follows has that line for its header.
# ExperimentalMarkdownSyntaxTextSplitter of the same package keeps the spaces, and cuts there too.
# Output seen:
#   code: '```python\nif old:\nremove()\n```'
#   list: '- stop\n- pump 1\n- start'
#   headers of the last line: {'h1': 'Tides'}
#   the other one: '```python\nif old:\n    remove()\n```\n', '- stop\n  - pump 1\n- start\n', {'h1': 'Tides'}
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q langchain-text-splitters==1.1.3 langchain-core==1.8.3
"$folder/v/bin/python" - <<'PYTHON'
import sys

from langchain_text_splitters import ExperimentalMarkdownSyntaxTextSplitter, MarkdownHeaderTextSplitter

CODE = "# Clean up\n```python\nif old:\n    remove()\n```\n"
LIST = "# Order\n- stop\n  - pump 1\n- start\n"
FENCE = "# A note\n````\n```\n# Tides\n```\n````\nThis is still about the note.\n"
seen = []
for splitter in (MarkdownHeaderTextSplitter, ExperimentalMarkdownSyntaxTextSplitter):
    code, steps = (splitter([("#", "h1")]).split_text(text)[0].page_content for text in (CODE, LIST))
    seen.append((code, steps, splitter([("#", "h1")]).split_text(FENCE)[-1].metadata))
code, steps, headers = seen[0]
print(f"code: {code!r}\nlist: {steps!r}\nheaders of the last line: {headers}")
print("the other one: {!r}, {!r}, {}".format(*seen[1]))
tides = {"h1": "Tides"}
EXPECTED = [
    ("```python\nif old:\nremove()\n```", "- stop\n- pump 1\n- start", tides),
    ("```python\nif old:\n    remove()\n```\n", "- stop\n  - pump 1\n- start\n", tides),
]
if seen != EXPECTED:
    sys.exit("the behaviour has changed")
PYTHON
