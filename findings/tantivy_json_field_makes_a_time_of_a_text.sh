#!/usr/bin/env bash
# tantivy 0.27.0 (Python): a text in a JSON field that looks like a time comes back as a datetime in UTC, and a search for a
# word of it does not find it.
#
# One would guess: a JSON field keeps values as they were, as its numbers and lists show: a text comes back as that text,
# and is searched by its words. `delete_documents_by_term("id", "Abc-1")` deletes the document with that id.
# What happens: a text in the form of RFC 3339 with a zone becomes a datetime in UTC: the offset, and so the hour at which a
# person spoke, is gone, and so are nanoseconds. Without a zone, or inside a sentence, it stays a text, so a column has
# two types. "2026" finds those and not the others. An id in a text field is cut into words in lower case:
# deleting "Abc-1" deletes nothing, without an error, so an update adds a second copy; deleting "abc" deletes all ids
# with that word. Give the id's field `tokenizer_name="raw"`.
# Output seen:
#   2026-03-01T23:30:00-05:00 -> datetime 2026-03-02 04:30:00+00:00
#   2026-03-01T23:30:00       -> str 2026-03-01T23:30:00
#   meta.at:2026 finds 1 of 2
#   left after deleting Abc-1: 2, abc: 0; with raw: 1
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q tantivy==0.27.0
"$folder/v/bin/python" - <<'PYTHON'
import sys

import tantivy

TIMES = ["2026-03-01T23:30:00-05:00", "2026-03-01T23:30:00"]


def fill(tokenizer):
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name=tokenizer)
    builder.add_json_field("meta", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer(15_000_000, 1)
    for number, time in enumerate(TIMES, 1):
        writer.add_document(tantivy.Document(id=f"Abc-{number}", meta={"at": time}))
    return index, writer


def search(index, writer):
    writer.commit()
    index.reload()
    return index.searcher()


def count_left(index, writer, word):
    writer.delete_documents_by_term("id", word)
    return search(index, writer).num_docs


index, writer = fill("default")
searcher = search(index, writer)
hits = searcher.search(tantivy.Query.all_query(), 9).hits
values = [searcher.doc(address).to_dict()["meta"][0]["at"] for _, address in hits]
stored = [f"{type(value).__name__} {value}" for value in values]
for time, value in zip(TIMES, stored):
    print(f"{time} -> {value}")
found = searcher.search(index.parse_query("meta.at:2026", ["meta"]), 9).count
left = count_left(index, writer, "Abc-1"), count_left(index, writer, "abc"), count_left(*fill("raw"), "Abc-1")
print("meta.at:2026 finds {} of 2\nleft after deleting Abc-1: {}, abc: {}; with raw: {}".format(found, *left))
expected = ["datetime 2026-03-02 04:30:00+00:00", "str 2026-03-01T23:30:00"], 1, (2, 0, 1)
if (stored, found, left) != expected:
    sys.exit("the behaviour has changed")
PYTHON
