#!/usr/bin/env bash
# llama-index-core 0.14.25: in a talk that repeats itself a chunk's `start_char_idx` names an earlier place.
#
# One would guess: `start_char_idx` and `end_char_idx` say where in the document the chunk was cut out.
# What happens: SentenceSplitter makes the chunks first and looks for each afterwards, from one character behind where it
# found the last. A chunk that also stands earlier, as turns of "yes." and "no." do, is found there, and the fault adds up:
# after nine chunks it is a third of the document. The characters at the place are equal, so a check of the quote passes. Who
# takes the place for the message, its speaker's turn and its time, cites an earlier one.
# Output seen:
#   chunks begin at [0, 19, 38, 57, 76, 95, 114, 133, 152, 342]; 135 characters of 391 are in no chunk
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q llama-index-core==0.14.25
cat > "$folder/try.py" <<'PYTHON'
import sys

from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter

text = "Ann: yes.\nBob: no.\n" * 20 + "Ann: stop.\n"
chunks = SentenceSplitter(chunk_size=24, chunk_overlap=8).get_nodes_from_documents([Document(text=text)])
starts = [chunk.start_char_idx for chunk in chunks]
covered = {place for chunk in chunks for place in range(chunk.start_char_idx, chunk.end_char_idx)}
missing = len(text) - len(covered)
equal = all(text[chunk.start_char_idx : chunk.end_char_idx] == chunk.text for chunk in chunks)
print(f"chunks begin at {starts}; {missing} characters of {len(text)} are in no chunk")
if (starts, missing, equal) != ([0, 19, 38, 57, 76, 95, 114, 133, 152, 342], 135, True):
    sys.exit("the behaviour has changed")
PYTHON
env HOME="$folder" "$folder/v/bin/python" "$folder/try.py" 2> "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
