#!/usr/bin/env bash
# pylance 14.0.2: a column of Arrow's JSON type gives back another text than was written, and other numbers.
#
# One would guess: `pa.json_()` is text that is known to be JSON, so a record comes back as it was, as from Parquet or
# from pyarrow itself; or at least each number is the same number.
# What happens: Lance stores the values in a binary form and writes the text anew: keys are sorted, spaces and the way a
# number was written are gone ("1.50" is 1.5), an integer above 64 bits and a decimal of more than 17 digits lose digits,
# and a text of no characters becomes the value null. A record that is known by the hash of its line is another one. A
# document with a key twice is refused, which JSON's grammar allows. In filters `json_get_int` finds the text "5" for 5,
# and `json_extract` the number 5 without quotes and the text with them.
# Output seen:
#   {"b": 1, "a": 2}             -> {"a":2,"b":1}
#   {"price": 1.50}              -> {"price":1.5}
#   {"id": 18446744073709551615} -> {"id":18446744073709551615}
#   {"id": 18446744073709551616} -> {"id":1.8446744073709552e+19}
#   (empty)                      -> null
#   json_get_int(j, 'n') = 5: ['{"n":5}', '{"n":"5"}'], json_extract(j, '$.n') = '5': ['{"n":5}']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2 pyarrow==26.0.1
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import sys

import lance
import pyarrow as pa

WRITTEN = {
    '{"b": 1, "a": 2}': '{"a":2,"b":1}',
    '{"price": 1.50}': '{"price":1.5}',
    '{"id": 18446744073709551615}': '{"id":18446744073709551615}',
    '{"id": 18446744073709551616}': '{"id":1.8446744073709552e+19}',
    "": "null",
}


def write(name, texts):
    return lance.write_dataset(pa.table({"j": pa.array(texts, pa.json_())}), f"{sys.argv[1]}/{name}.lance")


def find(rows, text):
    return rows.to_table(filter=text)["j"].to_pylist()


texts = write("texts", list(WRITTEN)).to_table()["j"].to_pylist()
for written, text in zip(WRITTEN, texts):
    print(f"{written or '(empty)'} -> {text}")
rows = write("rows", ['{"n": 5}', '{"n": "5"}'])
found = find(rows, "json_get_int(j, 'n') = 5"), find(rows, "json_extract(j, '$.n') = '5'")
print("json_get_int(j, 'n') = 5: {}, json_extract(j, '$.n') = '5': {}".format(*found))
if texts != list(WRITTEN.values()) or found != (['{"n":5}', '{"n":"5"}'], ['{"n":5}']):
    sys.exit("the behaviour has changed")
PYTHON
