#!/usr/bin/env bash
# ijson 3.6.0 (its default backend yajl2_c) beside orjson 3.13.0: an integer above 63 bits in a valid JSON file.
#
# One would guess: `use_float=True` changes how numbers with a fraction are handed out ("float" instead of Decimal).
# Integers are read as before, and a number in one item harms at most that item.
# What happens: integers then have to fit a signed 64-bit number. At the first that does not (an unsigned hash, a trace
# id, 2**63 itself) the iteration ends with IncompleteJSONError "integer overflow": every item after it is lost, though
# the file is complete and valid. Who catches ijson.JSONError as "the file breaks off" drops the rest of an export.
# Without `use_float` all items come. orjson reads up to 2**64 - 1 exactly and turns a larger integer into a float, so
# the same id read by the two libraries is two values or none.
# Output seen:
#   ijson:                 [1, 9223372036854775808, 18446744073709551616, 4]
#   ijson, use_float:      [1], then IncompleteJSONError: parse error: integer overflow
#   orjson:                [1, 9223372036854775808, 1.8446744073709552e+19, 4]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q ijson==3.6.0 orjson==3.13.0
"$folder/v/bin/python" - <<'PYTHON'
import json
import sys
from io import BytesIO

import ijson
import orjson

CONTENT = json.dumps([{"id": n} for n in (1, 2**63, 2**64, 4)]).encode()


def read(**options):
    ids, why = [], ""
    try:
        for item in ijson.items(BytesIO(CONTENT), "item", **options):
            ids.append(item["id"])
    except ijson.JSONError as error:
        why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ids, why


exact, floats = read(), read(use_float=True)
by_orjson = [item["id"] for item in orjson.loads(CONTENT)]
print(f"backend {ijson.backend_name}")
print(f"ijson: {exact}\nijson, use_float: {floats}\norjson: {by_orjson}")
if exact != ([1, 2**63, 2**64, 4], "") or floats[0] != [1] or "integer overflow" not in floats[1]:
    sys.exit("ijson's behaviour has changed")
if by_orjson[1:3] != [2**63, 2.0**64] or type(by_orjson[2]) is not float:
    sys.exit("orjson's behaviour has changed")
PYTHON
