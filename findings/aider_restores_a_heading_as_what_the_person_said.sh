#!/usr/bin/env bash
# aider-chat 0.86.2: with `--restore-chat-history` a heading in an answer becomes the person's words, and quotes are lost.
#
# One would guess: aider restores from .aider.chat.history.md what it wrote there: who said what, whole.
# What happens: the file has "#### " before the person's lines and "> " before the program's own; the answer's lines are
# written as they come. Read again, a heading of four "#" in an answer is a message of the person. A quoted line is
# taken for the program's and left out, so a rule that the model quoted is gone; so is each line that begins with one
# "#" and a space: a title, or a comment in a block of code. The model is sent this as the conversation so far.
# Output seen:
#   user: 'How do I keep the tides?  \n'
#   assistant: '\nTwo steps:\n\n'
#   user: 'Step 1\n'
#   assistant: 'Open the table.\n\n'
#   assistant: '\n```sh\ncp tides old\n```\n'
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
# of its many dependencies the module that reads the file needs these alone
"$folder/v/bin/pip" install -q oslex==0.1.3 rich==14.3.2 packaging==26.0
"$folder/v/bin/pip" install -q --no-deps --ignore-requires-python aider-chat==0.86.2
cd "$folder"
env HOME="$folder" "$folder/v/bin/python" - <<'PYTHON'
import sys

from aider.utils import split_chat_history_markdown

WRITTEN = """
# aider chat started at 2026-11-30 10:00:00

#### How do I keep the tides?  

Two steps:

#### Step 1
Open the table.

> Never write on Fridays.

```sh
# keep the old ones
cp tides old
```
"""
restored = [(each["role"], each["content"]) for each in split_chat_history_markdown(WRITTEN)]
for role, content in restored:
    print(f"{role}: {content!r}")
EXPECTED = [
    ("user", "How do I keep the tides?  \n"),
    ("assistant", "\nTwo steps:\n\n"),
    ("user", "Step 1\n"),
    ("assistant", "Open the table.\n\n"),
    ("assistant", "\n```sh\ncp tides old\n```\n"),
]
if restored != EXPECTED:
    sys.exit("the behaviour has changed")
PYTHON
