"""Read files (plain, gzip or Zstandard) as lines, or JSON documents as a stream of conversations.

One line or one conversation is in memory at a time. A line over the limit is skipped in pieces. A last line without a
newline that is not valid JSON is an unfinished write of the tool.
"""

import codecs
import gzip
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import ijson
import orjson
import zstandard

from slowwave.tasks.ingest.parsing.records import Head, Limits, Rejected
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_time,
    dump_json,
    encode_json,
)

_TIME_KEYS = ("timestamp", "ts", "created_at", "time")
_LAST = datetime.max.replace(tzinfo=UTC)
CHUNK = 1 << 20
EXCERPT = 4_000
"""Bytes of a bad line that are shown to the quarantine, which redacts them and keeps the first half."""
HEAD = 1 << 16
BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)
PACKED = (".gz", ".zst", ".zstd")
MOST_UNPACKED = 200
"""Most times its size that a compressed file may unpack to, above `FREE_UNPACKED`. Transcripts shrink 5 to 50 times."""
STEP = 1 << 10
"""Bytes of Zstandard that are unpacked at once. If they pack nothing but zeros, they give about 30 MB."""
FREE_UNPACKED = 64 * 1024 * 1024

NumberedLine = tuple[int, bytes]
Document = tuple[int, dict[str, object]]
"""A line's number and the JSON object in it."""


class BoundedUnpacking(io.RawIOBase):
    """A stream that unpacks a file up to a bound, since two megabytes may unpack to two gigabytes of zeros.

    One read of it is one read of the packed stream, so that the content before damage is returned before the damage
    raises an error.

    Raises:
        EOFError: the file unpacks to more than MOST_UNPACKED times its size, and to more than FREE_UNPACKED.
    """

    def __init__(self, packed: Any, size: int) -> None:
        self._packed = packed
        self._left = max(FREE_UNPACKED, MOST_UNPACKED * size)
        self._read = getattr(packed, "read1", packed.read)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the result of one read, and return its length."""
        data = self._read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise EOFError(
                f"it unpacks to over {MOST_UNPACKED} times its size; unpacked by hand it is read whole"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file too."""
        self._packed.close()
        super().close()


class _WholeFrames(io.RawIOBase):
    """Unpacks a Zstandard file of one or several frames.

    The package's own reader gives no error for a file that breaks off within a frame.

    Raises:
        EOFError: on reading, if the file breaks off.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._unpacked = b""

    def read1(self, size: int) -> bytes:
        """Return some unpacked bytes, at most `size`; none at the end of the file."""
        while not self._unpacked:
            packed = b""
            if self._frame.eof:
                packed = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._begun = False
            packed = packed or self._file.read(STEP)
            if not packed and self._begun:
                raise EOFError("it breaks off within a frame")
            if not packed:
                return b""
            self._begun = True
            self._unpacked = self._frame.decompress(packed)
        piece = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_binary(path: Path) -> io.BufferedReader:
    """Open a transcript for reading; `.gz` and `.zst` are decompressed on the way, within bounds."""
    match path.suffix.lower():
        case ".gz":
            packed: Any = gzip.open(path, "rb")  # noqa: SIM115 - closed with what is returned
        case ".zst" | ".zstd":
            packed = _WholeFrames(path)
        case _:
            return path.open("rb")
    return io.BufferedReader(BoundedUnpacking(packed, path.stat().st_size), CHUNK)


def get_inner_suffix(path: Path) -> str:
    """Return the suffix under the compression's: `.jsonl` for `a.jsonl.zst`."""
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return name[dot:] if 0 < (dot := name.rfind(".")) < len(name) - 1 else ""


def read_head(path: Path) -> Head:
    """Return the first 64 KiB of a file, and the values of their first 200 lines that are whole and JSON.

    Of a damaged compressed file the head is what comes before the damage.

    Raises:
        OSError, EOFError, zlib.error, zstandard.ZstdError: the file can't be opened or decompressed at all.
    """
    data = b""
    with open_binary(path) as stream:
        try:
            while len(data) < HEAD and (piece := stream.read1(HEAD - len(data))):
                data += piece
        except DAMAGE:
            if not data:
                raise
    whole = data if len(data) < HEAD else data[: data.rfind(b"\n") + 1]
    return Head(path=path, data=data, lines=parse_json_lines(whole.split(b"\n")[:200]))


def parse_json_lines(lines: Iterable[bytes]) -> list[object]:
    """Return the values of the lines that are JSON; half emoji in them are repaired, as where they are read."""
    values: list[object] = []
    for raw in lines:
        try:
            values.append(orjson.loads(raw.removeprefix(BOM)))
        except orjson.JSONDecodeError:
            if (value := _repair_surrogates(raw.removeprefix(BOM))) is not None:
                values.append(value)
    return values


def iter_lines(
    stream: io.BufferedReader, limits: Limits
) -> Iterator[NumberedLine | Rejected]:
    """Yield the number (from 1) and the bytes of each line, without its newline; a `Rejected` for a line over the
    limit.
    """
    number = 0
    while line := stream.readline(limits.max_line_bytes + 1):
        number += 1
        line = line.removesuffix(b"\n")
        if len(line) <= limits.max_line_bytes:
            yield number, line
            continue
        size = len(line)
        start = line[:EXCERPT]
        piece = line
        while not piece.endswith(b"\n") and (piece := stream.readline(CHUNK)):
            size += len(piece.removesuffix(b"\n"))
            start = (start + piece)[:EXCERPT].removesuffix(b"\n")
        yield Rejected(
            number,
            f"line of {size} bytes is over the limit of {limits.max_line_bytes}",
            decode_excerpt(start),
        )


def _iter_file(path: Path, limits: Limits) -> Iterator[NumberedLine | Rejected]:
    with open_binary(path) as stream:
        try:
            yield from iter_lines(stream, limits)
        except DAMAGE as error:
            yield Rejected(line=0, reason=f"compressed file is damaged: {error}")


def iter_json(path: Path, limits: Limits) -> Iterator[Document | Rejected]:
    """Yield the number and the JSON object of each line that is not blank; a `Rejected` with the reason for other
    lines.

    Invalid UTF-8 is not repaired, but rejected.
    """
    for item in _iter_file(path, limits):
        if isinstance(item, Rejected):
            yield item
        elif item[1].strip():
            yield parse_object(*item)


def parse_object(number: int, raw: bytes) -> Document | Rejected:
    """Return the number and the JSON object in the bytes, or a `Rejected` with the reason why there is none."""
    raw = raw.removeprefix(BOM) if number == 1 else raw
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        value = _repair_surrogates(raw)
        if value is None:
            return Rejected(
                number, _explain_invalid_json(raw, error), decode_excerpt(raw)
            )
    if not isinstance(value, dict):
        return Rejected(
            number,
            f"expected a JSON object, got {type(value).__name__}",
            decode_excerpt(raw),
        )
    return number, value


def _repair_surrogates(raw: bytes) -> object | None:
    """Return the line's value with half emoji as U+FFFD: tools in JavaScript cut strings between two surrogates.

    Return None if that does not make it JSON.
    """
    if b"\\ud" not in raw.lower():
        return None
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
        text = json.dumps(value, ensure_ascii=False)
        repaired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return cast(object, orjson.loads(repaired))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> object:
    """Refuse NaN and Infinity, which Python's `json` reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _explain_invalid_json(raw: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as bad:
        return f"invalid UTF-8 at byte {bad.start}"
    if raw.lstrip()[:1] == b"{" and not raw.rstrip().endswith(b"}"):
        return "torn line: the JSON object does not end"
    return f"invalid JSON: {error.msg}"


def decode_excerpt(raw: bytes) -> str:
    """Return the start of a line as text, for the quarantine row.

    If the line is longer than EXCERPT, only half of the excerpt is returned: the other half lets redaction recognise a
    secret at the cut.
    """
    text = raw[:EXCERPT].decode("utf-8", "replace")
    return text if len(raw) < EXCERPT else text[: len(text) // 2]


def iter_text(path: Path, limits: Limits) -> Iterator[tuple[int, str] | Rejected]:
    """Yield the number and the text of each line without its line break, blank lines as "". Trailing spaces are kept.

    Yield a `Rejected` for a line that is not UTF-8.
    """
    for item in _iter_file(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        number, raw = item
        raw = raw.removeprefix(BOM) if number == 1 else raw
        try:
            yield number, raw.decode("utf-8").removesuffix("\r") if raw.strip() else ""
        except UnicodeDecodeError as error:
            yield Rejected(
                number, f"invalid UTF-8 at byte {error.start}", decode_excerpt(raw)
            )


def format_excerpt(value: object) -> str:
    """Return the start of a value as JSON, for the quarantine row."""
    return decode_excerpt(encode_json(value).encode("utf-8", "replace"))


# Documents.

LEFT = "slowwave-copy-"
"""Prefix of folders for unpacked copies, in the system's folder for temporary files."""
# A noncharacter that replaces bytes that are not UTF-8, so that only their conversation is rejected.
_BAD = "\ufdd0"
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


def iter_documents(
    path: Path, limits: Limits
) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield the number (from 1) and the object of each conversation in a JSON array, in JSON lines, or of a single one.

    One conversation is in memory at a time. An array that breaks off yields its items, then one `Rejected`. An item
    that isn't an object, or has invalid UTF-8, is a `Rejected`, and the rest is read.
    """
    head = read_head(path).data
    # Lines are read one by one, an array or an object of any size as a stream.
    if get_inner_suffix(path) in (".jsonl", ".ndjson") or _is_jsonl_head(head):
        yield from iter_json(path, limits)
        return
    with open_binary(path) as stream:
        pieces = codecs.iterdecode(
            iter(partial(stream.read, 1 << 16), b""), "utf-8-sig", _MARK
        )
        yield from _stream_items(
            map(str.encode, pieces), "item" if _get_first_byte(head) == b"[" else ""
        )


def has_keys_in_head(head: Head, *keys: str) -> bool:
    """Return True if a file starts with an array or an object (or lines of them), and its first 64 KiB have these keys.

    If the first line is a complete object, it must have the first key itself, since a nested key may be another tool's.
    """
    start = head.data.removeprefix(BOM).lstrip()
    whole = parse_json_lines(start.split(b"\n", 1)[:1])
    if whole and isinstance(whole[0], dict) and keys[0] not in whole[0]:
        return False
    return start.startswith((b"[", b"{")) and all(
        f'"{key}"'.encode() in head.data for key in keys
    )


def _get_first_byte(head: bytes) -> bytes:
    return head.removeprefix(BOM).lstrip()[:1]


def _is_jsonl_head(head: bytes) -> bool:
    """Return True if the first line begins with `{"` and ends with `}`, or is longer than 4,096 bytes.

    Pretty-printed JSON has only `{` on its first line.
    """
    first = head.removeprefix(BOM).lstrip().split(b"\n", 1)[0].rstrip()
    return first.startswith(b'{"') and (first.endswith(b"}") or len(first) > 4096)


def _stream_items(
    pieces: Iterator[bytes], prefix: str
) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    number = 0
    try:
        for number, item in enumerate(ijson.items(ijson.from_iter(pieces), prefix), 1):
            text = dump_json(item)
            if _BAD in text:
                yield Rejected(number, f"invalid UTF-8 in conversation {number}")
            else:
                yield _check_item(number, _convert_decimals(item, text))
    except DAMAGE as error:
        yield Rejected(number + 1, f"compressed file is damaged: {error}")
    except ijson.JSONError as error:
        why = (
            str(error).strip().splitlines()[0]
            if str(error).strip()
            else "the JSON does not end"
        )
        yield Rejected(
            number + 1,
            f"broken JSON in conversation {number + 1}, the rest can't be read: {why}",
        )


def _convert_decimals(item: object, text: str) -> object:
    """Return an item with floats instead of ijson's decimals; `text` if it can't be written as JSON.

    With its own option for floats, ijson stops at a large integer.
    """
    with suppress(TypeError, orjson.JSONEncodeError):
        return cast(object, orjson.loads(orjson.dumps(item, default=float)))
    with suppress(RecursionError, ValueError):
        return cast(object, json.loads(json.dumps(item, default=float)))
    return text


def _check_item(number: int, item: object) -> tuple[int, dict[str, object]] | Rejected:
    if isinstance(item, dict):
        return number, item
    return Rejected(
        number,
        f"expected a conversation object, got {type(item).__name__}",
        format_excerpt(item),
    )


# Files in order of time.


def sort_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths sorted by the first time in the file, then the last, then the path; files without a time
    last.
    """
    return sorted(paths, key=lambda path: (*_read_time_range(path), path))


def _read_time_range(path: Path) -> tuple[datetime, datetime]:
    """Return the first time in the head of a JSON lines file, and the latest in its head and tail.

    Of a compressed file only the head is read. Without a time, both are the greatest possible time.
    """
    head = list[object]()
    tail = list[object]()
    if (
        get_inner_suffix(path) in (".jsonl", ".ndjson")
        or ".jsonl." in path.name.lower()
    ):
        with suppress(OSError, *DAMAGE):
            head = read_head(path).lines
            if path.suffix.lower() not in PACKED:
                with path.open("rb") as stream:
                    stream.seek(-min(HEAD, stream.seek(0, os.SEEK_END)), os.SEEK_END)
                    tail = parse_json_lines(stream.read(HEAD).split(b"\n"))
    times = list(_parse_times(head))
    first = times[0] if times else _LAST
    return first, max([*times, *_parse_times(tail)], default=_LAST)


def _parse_times(lines: Iterable[object]) -> Iterator[datetime]:
    for line in lines:
        yield from filter(
            None, (coerce_time(coerce_dict(line).get(key)) for key in _TIME_KEYS)
        )
