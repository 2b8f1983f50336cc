#!/usr/bin/env bash
# pylance 14.0.2: a full-text index's stop words are compared with stems, not with words.
#
# One would guess: with `stem=True, remove_stop_words=True, custom_stop_words=["above", "own"]` the index leaves out
# "above" and "own" and nothing else.
# What happens: the stop words are taken out after the stemmer. "above" (stem "abov") is indexed and found though it is
# on the list, and "owned" (stem "own") is left out though it is not. Lance's own English list behaves alike.
# Output seen: searched ['above', 'own', 'owned', 'tide'], found ['above', 'tide']
# Besides, `describe_indices()[0].details["custom_stop_words"]` is None; only `stats.index_stats` reports the list.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
"$folder/v/bin/python" - "$folder/t.lance" <<'PYTHON'
import sys

import lance
import pyarrow as pa

words = ["above", "own", "owned", "tide"]
dataset = lance.write_dataset(pa.table({"text": words}), sys.argv[1])
dataset.create_scalar_index(
    "text", "INVERTED", stem=True, remove_stop_words=True, custom_stop_words=["above", "own"]
)
dataset = lance.dataset(sys.argv[1])
# "own" and "owned" are one stem, so a row is asked for by the word it holds
found = [word for word in words if word in dataset.to_table(full_text_query=word)["text"].to_pylist()]
print(f"searched {words}, found {found}")
listed = dataset.describe_indices()[0].details["custom_stop_words"]
print(f"custom_stop_words by describe_indices: {listed}")
if found != ["above", "tide"] or listed is not None:
    sys.exit("the behaviour has changed")
PYTHON
