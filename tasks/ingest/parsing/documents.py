"""Whole JSON documents, read as a stream of conversations: exports are one array, of any size.

Small ones are parsed at once, large ones piece by piece. Compressed files are decompressed on the way.
"""

import codecs
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import ijson
import orjson

from slowwave.tasks.ingest.parsing.lines import (
    DAMAGE,
    PACKED,
    get_inner_suffix,
    iter_json,
    open_binary,
    parse_json_lines,
)
from slowwave.tasks.ingest.parsing.records import Head, Limits, Rejected
from slowwave.tasks.ingest.parsing.values import encode_json, format_excerpt

WHOLE = 16 * 1024 * 1024
"""A document up to this size is parsed at once, which is several times faster; a larger one is streamed."""

LEFT = "slowwave-copy-"
"""How the names of folders for plain copies begin, in the system's folder for temporary files."""
_BAD = "\ufdd0"  # a noncharacter: stands where a byte was no UTF-8, so that only its conversation is rejected
_MARK = "slowwave-mark"
codecs.register_error(_MARK, lambda error: (_BAD, cast(UnicodeDecodeError, error).end))


@contextmanager
def decompress_file(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a decompressed copy that lasts as long as the block: for formats that need to seek."""
    if path.suffix.lower() not in PACKED:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=LEFT) as folder:
        copy = Path(folder, path.stem)
        with open_binary(path) as packed, copy.open("wb") as target:
            shutil.copyfileobj(packed, target, 1 << 20)
        yield copy


class _Utf8:
    """A stream whose bytes are always UTF-8: what was not is marked, and counted."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(_MARK)
        self.damaged = False

    def read(self, size: int = -1) -> bytes:
        if size == 0:
            return b""  # ijson asks so for the type
        while chunk := self._stream.read(size):
            if text := self._decoder.decode(chunk):
                self.damaged = self.damaged or _BAD in text
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()


def iter_documents(path: Path, limits: Limits) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield number (from 1) and object of each conversation: those of a JSON array, the lines of a JSONL, or the only
    one.

    Memory is bounded by one conversation, or by `WHOLE`. An array that breaks off yields what it held, then one
    `Rejected`; an item that is no object, or holds invalid UTF-8, is a `Rejected` and the rest is read.
    """
    with open_binary(path) as stream:
        try:
            head = stream.read(WHOLE + 1)
        except DAMAGE as error:
            yield Rejected(0, f"compressed file is damaged: {error}")
            return
    if len(head) <= WHOLE:
        try:
            whole = orjson.loads(head.removeprefix(codecs.BOM_UTF8))
        except orjson.JSONDecodeError:
            pass
        else:
            yield from map(_check_item, range(1, 1 << 62), whole if isinstance(whole, list) else [whole])
            return
    if get_inner_suffix(path) in (".jsonl", ".ndjson") or _is_jsonl_head(head):
        yield from iter_json(path, limits)
        return
    with open_binary(path) as stream:
        yield from _stream_items(_Utf8(stream), "item" if _get_first_byte(head) == b"[" else "")


def has_leading_keys(head: Head, *keys: str) -> bool:
    """Return whether a file starts as an array or an object (or lines) that has these keys; for sniffing.

    Where the first line is a whole object, it must have the first key itself: a key deeper down, as in another tool's
    record, is no sign.
    """
    start = head.data.removeprefix(codecs.BOM_UTF8).lstrip()
    whole = parse_json_lines(start.split(b"\n", 1)[:1])
    if whole and isinstance(whole[0], dict) and keys[0] not in whole[0]:
        return False
    return start.startswith((b"[", b"{")) and all(f'"{key}"'.encode() in head.data for key in keys)


def _get_first_byte(head: bytes) -> bytes:
    return head[:4096].removeprefix(codecs.BOM_UTF8).lstrip()[:1]


def _is_jsonl_head(head: bytes) -> bool:
    """Return whether some line in the head is an object on its own: pretty-printed JSON has `{` alone on its first."""
    if _get_first_byte(head) != b"{":
        return False
    first = head.lstrip().split(b"\n", 1)[0].rstrip()
    return first.startswith(b'{"') and (first.endswith(b"}") or len(first) > 4096)


def _stream_items(stream: _Utf8, prefix: str) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    number = 0
    try:
        for number, item in enumerate(ijson.items(stream, prefix, use_float=True), 1):
            if stream.damaged and _BAD.encode() in encode_json(item).encode():
                yield Rejected(number, f"invalid UTF-8 in conversation {number}")
            else:
                yield _check_item(number, item)
    except DAMAGE as error:
        yield Rejected(number + 1, f"compressed file is damaged: {error}")
    except ijson.JSONError as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else "the JSON does not end"
        yield Rejected(number + 1, f"broken JSON in conversation {number + 1}, the rest can't be read: {why}")


def _check_item(number: int, item: object) -> tuple[int, dict[str, object]] | Rejected:
    if isinstance(item, dict):
        return number, item
    return Rejected(number, f"expected a conversation object, got {type(item).__name__}", format_excerpt(item))
