"""Bytes in, lines out: plain, gzip and Zstandard files, one line at a time, within a bound of memory.

A line over the limit is skipped in pieces and never held whole. A last line without its newline that is not
valid JSON is a torn write: the tool is still at it.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import orjson
import zstandard

from slowwave.tasks.ingest.parsing.records import Head, Limits, Rejected

CHUNK = 1 << 20
EXCERPT = 4_000
"""Bytes of a bad line that are shown to the quarantine, which redacts them and keeps the first half."""
HEAD = 1 << 16
BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)
PACKED = (".gz", ".zst", ".zstd")
MOST_UNPACKED = 200
"""Times its size that a compressed file may unpack to, above `FREE_UNPACKED`; talk packs 5 to 50 times."""
FREE_UNPACKED = 64 * 1024 * 1024

Line = tuple[int, bytes]
Document = tuple[int, dict[str, object]]
"""A line's number and the JSON object in it."""


class BoundedUnpacking(io.RawIOBase):
    """A stream that unpacks a file no further than talk can be packed: two megabytes may hold two gigabytes of nothing.

    One read of it is one read of the packed stream, so that what stands before a damage is handed out before the
    damage raises.

    Raises:
        EOFError: on reading over the bound.
    """

    def __init__(self, packed: IO[bytes], size: int) -> None:
        self._packed, self._left = cast(io.BufferedReader, packed), max(FREE_UNPACKED, MOST_UNPACKED * size)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what one read gives, and return how much that is."""
        data = self._packed.read1(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise EOFError(f"it unpacks to over {MOST_UNPACKED} times its size; unpacked by hand it is read whole")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file too."""
        self._packed.close()
        super().close()


def open_binary(path: Path) -> io.BufferedReader:
    """Open a transcript for reading; `.gz` and `.zst` are decompressed on the way, within bounds."""
    match path.suffix.lower():
        case ".gz":
            packed = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115 - closed with what is returned
        case ".zst" | ".zstd":
            # Archives written in several frames are one stream to us.
            packed = cast(IO[bytes], zstandard.open(path, "rb", dctx=zstandard.ZstdDecompressor()))
        case _:
            return path.open("rb")
    return io.BufferedReader(BoundedUnpacking(packed, path.stat().st_size), CHUNK)


def get_inner_suffix(path: Path) -> str:
    """Return the suffix under the compression's: `.jsonl` for `a.jsonl.zst`."""
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def read_head(path: Path) -> Head:
    """Return the first 64 KiB and the JSON lines in them; lines that don't parse are left out.

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
    """Return the values of the lines that are JSON."""
    values: list[object] = []
    for raw in lines:
        try:
            values.append(orjson.loads(raw.removeprefix(BOM)))
        except orjson.JSONDecodeError:
            continue
    return values


def iter_lines(stream: io.BufferedReader, limits: Limits) -> Iterator[Line | Rejected]:
    """Yield number and bytes of each line, counted from 1, without its newline; an over-long one as a `Rejected`."""
    number = 0
    while line := stream.readline(limits.max_line_bytes + 1):
        number += 1
        line = line.removesuffix(b"\n")
        if len(line) <= limits.max_line_bytes:
            yield number, line
            continue
        size, start, piece = len(line), line[:EXCERPT], line
        while not piece.endswith(b"\n") and (piece := stream.readline(CHUNK)):
            size += len(piece.removesuffix(b"\n"))
            start = (start + piece)[:EXCERPT].removesuffix(b"\n")
        yield Rejected(
            number, f"line of {size} bytes is over the limit of {limits.max_line_bytes}", decode_excerpt(start)
        )


def _iter_file(path: Path, limits: Limits) -> Iterator[Line | Rejected]:
    with open_binary(path) as stream:
        try:
            yield from iter_lines(stream, limits)
        except DAMAGE as error:
            yield Rejected(line=0, reason=f"compressed file is damaged: {error}")


def iter_json(path: Path, limits: Limits) -> Iterator[Document | Rejected]:
    """Yield number and JSON object of each line that is not blank; what is no object comes as a `Rejected` that says
    why.

    Invalid UTF-8 is not repaired: the line is quarantined with the reason.
    """
    for item in _iter_file(path, limits):
        if isinstance(item, Rejected):
            yield item
        elif item[1].strip():
            yield parse_object(*item)


def parse_object(number: int, raw: bytes) -> Document | Rejected:
    """Return the number and the JSON object that stands in the bytes, or why there is none."""
    raw = raw.removeprefix(BOM) if number == 1 else raw
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        value = _repair_surrogates(raw)
        if value is None:
            return Rejected(number, _explain_invalid_json(raw, error), decode_excerpt(raw))
    if not isinstance(value, dict):
        return Rejected(number, f"expected a JSON object, got {type(value).__name__}", decode_excerpt(raw))
    return number, value


def _repair_surrogates(raw: bytes) -> object | None:
    """Return the line's value with half emoji as U+FFFD: tools in JavaScript cut strings between two surrogates."""
    if b"\\ud" not in raw.lower():
        return None
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return cast(object, orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")))


def _explain_invalid_json(raw: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as bad:
        return f"invalid UTF-8 at byte {bad.start}"
    if raw.lstrip()[:1] == b"{" and not raw.rstrip().endswith(b"}"):
        return "torn line: the JSON object does not end"
    return f"invalid JSON: {error.msg}"


def decode_excerpt(raw: bytes) -> str:
    """Return the start of a line as text, for the quarantine row."""
    text = raw[:EXCERPT].decode("utf-8", "replace")
    # Of a line that goes on, what the cut may have gone through is left out: half a secret looks like none.
    return text if len(raw) < EXCERPT else text[: len(text) // 2]


def iter_text(path: Path, limits: Limits) -> Iterator[tuple[int, str] | Rejected]:
    """Yield number and text of each line, blank ones as "", without its line break; trailing spaces stay.

    A line that is no UTF-8 comes as a `Rejected` that says where.
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
            yield Rejected(number, f"invalid UTF-8 at byte {error.start}", decode_excerpt(raw))
