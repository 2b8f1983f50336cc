#!/usr/bin/env bash
# langchain-core 1.8.3: `merge_message_runs` makes one message of what two people said, drops both names, and adds up the
# numbers beside the text.
#
# One would guess: messages in a row of one type are merged if they are of one speaker (`name`), and fields that cannot be
# merged (an id, a time) are the first's or are left out.
# What happens: only the type is compared. The merged message has the first's id and no name at all, not even if both have
# the same. `additional_kwargs` are merged as the pieces of a streamed answer are: integers are added, strings are put one
# behind the other. Two times in seconds become a time in the year 2082, two votes a sum, two zones one word. Messages
# of a tool are left apart.
# Output seen:
#   text: 'We use tabs.\nNo, we use spaces.', id: m1, name: None
#   beside it: {'at': 3534450120, 'zone': 'UTCUTC'}
#   of one person: name None
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q langchain-core==1.8.3
"$folder/v/bin/python" - <<'PYTHON'
import sys

from langchain_core.messages import HumanMessage, merge_message_runs


def said(text, name, ident, at):
    return HumanMessage(text, name=name, id=ident, additional_kwargs={"at": at, "zone": "UTC"})


talk = [said("We use tabs.", "ann", "m1", 1767225000), said("No, we use spaces.", "bob", "m2", 1767225120)]
(merged,) = merge_message_runs(talk)
(alone,) = merge_message_runs([talk[0], said("Yes, tabs.", "ann", "m3", 1767225180)])
print(f"text: {merged.content!r}, id: {merged.id}, name: {merged.name}")
print(f"beside it: {merged.additional_kwargs}\nof one person: name {alone.name}")
seen = merged.content, merged.id, merged.name, merged.additional_kwargs, alone.name
if seen != ("We use tabs.\nNo, we use spaces.", "m1", None, {"at": 3534450120, "zone": "UTCUTC"}, None):
    sys.exit("the behaviour has changed")
PYTHON
