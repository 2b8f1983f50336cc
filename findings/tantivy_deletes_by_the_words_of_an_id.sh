#!/usr/bin/env bash
# tantivy 0.27.0 (Python): `delete_documents("id", value)` deletes nothing for "E-4711", and two documents for "note".
#
# One would guess: the document whose field is this value is deleted, and no other; or the call raises on a text field, which
# has no values but words.
# What happens: a text field keeps the lower-case words of its value, "e" and "4711", and `delete_documents` looks for a term
# that is the value as it was given. For an id with a hyphen or a capital there is none: nothing is deleted, and what a
# person wanted gone is found as before. An id that is one small word deletes each document that has it among its words. Both
# return a number of the operation and no error. Only `tokenizer_name="raw"` in the schema makes a value of the field.
# Output seen:
#   words: E-4711 leaves 4 of 4, note leaves 2 of 4
#   raw: E-4711 leaves 3 of 4, note leaves 4 of 4
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q tantivy==0.27.0
"$folder/v/bin/python" - <<'PYTHON'
import sys

import tantivy

IDS = ["E-4711", "E-4711-old", "note-1", "note-2"]


def count_left(value, **options):
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, **options)
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for each in IDS:
        writer.add_document(tantivy.Document(id=each))
    writer.commit()
    writer.delete_documents("id", value)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index.searcher().num_docs


seen = {}
for name, options in {"words": {}, "raw": {"tokenizer_name": "raw"}}.items():
    seen[name] = [count_left(value, **options) for value in ("E-4711", "note")]
    print(f"{name}: E-4711 leaves {seen[name][0]} of 4, note leaves {seen[name][1]} of 4")
if seen != {"words": [4, 2], "raw": [3, 4]}:
    sys.exit("the behaviour has changed")
PYTHON
