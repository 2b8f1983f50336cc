#!/usr/bin/env bash
# pylance 14.0.2: `alter_columns` with a new type drops the column's metadata, and with it the primary key.
#
# One would guess: a column that gets a wider type (string to large_string) keeps what else was said of it: its metadata
# (a unit, `lance-schema:unenforced-primary-key`) stays, as it does if the column gets a new name.
# What happens: a new type removes the field's metadata, without a word. For a key it is more than a comment: by the mark
# Lance compares keys where two writers merge into one version. Without it the second `merge_insert` of the same new
# keys commits too, and each key is in the table twice.
# Output seen:
#   as written: metadata of id {b'lance-schema:unenforced-primary-key': b'true'}, 101 rows
#   with a new type: metadata of id None, 201 rows
#   with a new name: metadata of n {b'unit': b'tokens'}
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import sys

import lance
import pyarrow as pa

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
schema = pa.schema([pa.field("id", pa.string(), False, KEY), pa.field("n", pa.int64(), metadata={"unit": "tokens"})])


def merge_twice(name, change):
    path = f"{sys.argv[1]}/{name}.lance"
    dataset = lance.write_dataset(pa.table({"id": ["first"], "n": [0]}, schema=schema), path)
    change(dataset)
    field = lance.dataset(path).schema.field("id")
    rows = pa.table({"id": pa.array([f"k{i}" for i in range(100)], field.type), "n": range(100)})
    writers = [lance.dataset(path), lance.dataset(path)]  # both read the same version
    for writer in writers:
        writer.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    count = lance.dataset(path).count_rows()
    print(f"{name}: metadata of id {field.metadata}, {count} rows")
    return field.metadata, count


as_written = merge_twice("as written", lambda dataset: None)
retyped = merge_twice(
    "with a new type", lambda dataset: dataset.alter_columns({"path": "id", "data_type": pa.large_string()})
)
dataset = lance.write_dataset(pa.table({"id": ["a"], "n": [0]}, schema=schema), f"{sys.argv[1]}/renamed.lance")
dataset.alter_columns({"path": "n", "name": "tokens"})
renamed = lance.dataset(f"{sys.argv[1]}/renamed.lance").schema.field("tokens").metadata
print(f"with a new name: metadata of n {renamed}")
if (as_written, retyped, renamed) != ((KEY, 101), (None, 201), {b"unit": b"tokens"}):
    sys.exit("the behaviour has changed")
PYTHON
