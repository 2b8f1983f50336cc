#!/usr/bin/env bash
# lancedb 0.40.0: `Table.optimize()` without arguments also cleans up, and raises once a tagged version is a week old.
#
# One would guess: `optimize()` compacts files and indexes; tags keep their versions, whatever their age.
# What happens: it also deletes versions older than seven days, and raises if one of these is tagged. The compaction is
# committed before that. Nothing happens in the first week, so a daily job that tags a version works for seven days.
# The age is the commit time inside the version's manifest; the file's own time does not count.
# Output seen: RuntimeError: lance error: Cleanup error: 1 tagged version(s) have been marked for cleanup. ...
# pylance's `dataset.optimize.compact_files()` compacts without cleaning up.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q lancedb==0.40.0 pylance==14.0.2
"$folder/v/bin/python" - "$folder/db" <<'PYTHON'
import re
import sys
from pathlib import Path

import lance
import lancedb
import pyarrow as pa

table = lancedb.connect(sys.argv[1]).create_table("t", pa.table({"n": [0]}))
for n in range(1, 9):
    table.add(pa.table({"n": [n]}))
table.tags.create("kept", table.version)
table.add(pa.table({"n": [9]}))
# Eight days pass: field 7 of each manifest is the time of its commit, in seconds as a varint of five bytes.
for path in Path(sys.argv[1]).glob("t.lance/_versions/*.manifest"):
    content = path.read_bytes()
    (found,) = re.finditer(rb"\x3a[\x06-\x0c]\x08([\x80-\xff]{4}[\x01-\x7f])", content)
    seconds = sum((byte & 127) << 7 * place for place, byte in enumerate(found[1])) - 8 * 86_400
    varint = bytes((seconds >> 7 * place) & 127 | (128 if place < 4 else 0) for place in range(5))
    path.write_bytes(content[: found.start(1)] + varint + content[found.end(1) :])
table = lancedb.connect(sys.argv[1]).open_table("t")
try:
    table.optimize()
except RuntimeError as error:
    print(f"RuntimeError: {str(error)[:90]} ...")
else:
    sys.exit("the behaviour has changed: optimize() does not raise")
print(f"files after it raised: {len(lance.dataset(sys.argv[1] + '/t.lance').get_fragments())}")
PYTHON
