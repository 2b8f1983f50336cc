#!/usr/bin/env bash
# zstandard 0.25.0: of a file of two frames, as appending to a log writes it, some calls return the first alone.
#
# One would guess: all ways to decompress agree, as those of gzip do; or `read_across_frames=False` keeps a reader to one
# frame, and what is left over raises.
# What happens: `decompress`, `decompressobj` and `read_to_iter` return the first frame and drop the rest without an error.
# `stream_reader`, `copy_stream`, `stream_writer` and `zstandard.open` return both, and the reader does so with
# `read_across_frames=False` as well. So a loop over `read_to_iter` instead of a reader loses what was appended, and the
# option that would bring it back cannot be given to `decompress` ("not yet implemented"). Only
# `decompress(..., allow_extra_data=False)` says that more was there.
# Output seen:
#   first alone: decompress, decompressobj, read_to_iter
#   both: stream_reader, stream_reader that must not cross frames, copy_stream, stream_writer, open
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q zstandard==0.25.0
"$folder/v/bin/python" - "$folder/log.zst" <<'PYTHON'
import io
import sys

import zstandard

DAYS = b"monday\n", b"tuesday\n"
for day in DAYS:
    with open(sys.argv[1], "ab") as log:
        log.write(zstandard.compress(day))
with open(sys.argv[1], "rb") as log:
    packed = log.read()
reader = zstandard.ZstdDecompressor()


def copy():
    target = io.BytesIO()
    reader.copy_stream(io.BytesIO(packed), target)
    return target.getvalue()


def write():
    target = io.BytesIO()
    with reader.stream_writer(target, closefd=False) as writer:
        writer.write(packed)
    return target.getvalue()


texts = {
    "decompress": reader.decompress(packed),
    "decompressobj": reader.decompressobj().decompress(packed),
    "read_to_iter": b"".join(reader.read_to_iter(io.BytesIO(packed))),
    "stream_reader": reader.stream_reader(io.BytesIO(packed)).read(),
    "stream_reader that must not cross frames": reader.stream_reader(
        io.BytesIO(packed), read_across_frames=False
    ).read(),
    "copy_stream": copy(),
    "stream_writer": write(),
    "open": zstandard.open(sys.argv[1]).read(),
}
first = [name for name, text in texts.items() if text == DAYS[0]]
both = [name for name, text in texts.items() if text == b"".join(DAYS)]
print(f"first alone: {', '.join(first)}\nboth: {', '.join(both)}")
try:
    reader.decompress(packed, allow_extra_data=False)
    sys.exit("the behaviour has changed")
except zstandard.ZstdError:
    pass
if first != list(texts)[:3] or both != list(texts)[3:]:
    sys.exit("the behaviour has changed")
PYTHON
