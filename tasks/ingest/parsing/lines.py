"""Bytes in, lines out: plain, gzip and Zstandard files, one line at a time, within a bound of memory.

A line over the limit is skipped in pieces and never held whole. A last line without its newline that is not
valid JSON is a torn write: the tool is still at it.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

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


class BoundedUnpacking(io.BufferedIOBase):
    """A stream that unpacks a file no further than talk can be packed: two megabytes may hold two gigabytes of nothing.

    Raises:
        EOFError: on reading over the bound.
    """

    def __init__(self, packed: IO[bytes], size: int) -> None:
        self._packed, self._left = cast(io.BufferedReader, packed), max(FREE_UNPACKED, MOST_UNPACKED * size)

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, or all that are left."""
        return self._count(self._packed.read(self._left + 1 if size is None or size < 0 else size))

    def read1(self, size: int = -1) -> bytes:
        """Return what one read gives."""
        return self._count(self._packed.read1(size))

    def close(self) -> None:
        """Close the file too."""
        self._packed.close()
        super().close()

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise EOFError(f"it unpacks to over {MOST_UNPACKED} times its size; unpacked by hand it is read whole")
        return data


def open_binary(path: Path) -> IO[bytes]:
    """Open a transcript for reading; `.gz` and `.zst` are decompressed on the way, within bounds."""
    match path.suffix.lower():
        case ".gz":
            packed = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115 - closed with what is returned
        case ".zst" | ".zstd":
            # Archives written in several frames are one stream to us.
            packed = cast(IO[bytes], zstandard.open(path, "rb", dctx=zstandard.ZstdDecompressor()))
        case _:
            return path.open("rb")
    return cast(IO[bytes], BoundedUnpacking(packed, path.stat().st_size))


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
    with open_binary(path) as stream:
        data = _read_start(stream)
    whole = data if len(data) < HEAD else data[: data.rfind(b"\n") + 1]
    lines: list[object] = []
    for raw in whole.split(b"\n")[:200]:
        try:
            lines.append(orjson.loads(raw.removeprefix(BOM)))
        except orjson.JSONDecodeError:
            continue
    return Head(path=path, data=data, lines=lines)


def _read_start(stream: IO[bytes]) -> bytes:
    data = b""
    try:
        while len(data) < HEAD and (piece := _read_chunk(stream, HEAD - len(data))):
            data += piece
    except DAMAGE:
        if not data:
            raise
    return data


def _read_chunk(stream: IO[bytes], size: int) -> bytes:
    """Return what one read gives, so that what stands before a damage is handed out before the damage raises."""
    return cast(io.BufferedReader, stream).read1(size)


def iter_lines(stream: IO[bytes], limits: Limits) -> Iterator[tuple[int, bytes] | Rejected]:
    """Yield number and bytes of each line that is not blank, counted from 1; an over-long one as a `Rejected`."""
    number, held, dropped = 1, b"", 0
    while chunk := _read_chunk(stream, CHUNK):
        pieces = chunk.split(b"\n")
        for i, piece in enumerate(pieces):
            if dropped:
                dropped += len(piece)
            elif len(held) + len(piece) > limits.max_line_bytes:
                dropped, held = len(held) + len(piece), (held + piece[:EXCERPT])[:EXCERPT]
            else:
                held += piece
            if i == len(pieces) - 1:
                break  # the line goes on in the next chunk
            if dropped:
                yield _reject_long_line(number, dropped, held, limits)
            elif held.strip():
                yield number, held
            number, held, dropped = number + 1, b"", 0
    if dropped:
        yield _reject_long_line(number, dropped, held, limits)
    elif held.strip():
        yield number, held


def iter_json(path: Path, limits: Limits) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield each line's number and JSON object; what is no object comes as a `Rejected` that says why.

    Invalid UTF-8 is not repaired: the line is quarantined with the reason.
    """
    with open_binary(path) as stream:
        try:
            for item in iter_lines(stream, limits):
                yield item if isinstance(item, Rejected) else _parse_line(*item)
        except DAMAGE as error:
            yield Rejected(line=0, reason=f"compressed file is damaged: {error}")


def _parse_line(number: int, raw: bytes) -> tuple[int, dict[str, object]] | Rejected:
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


def _reject_long_line(number: int, size: int, start: bytes, limits: Limits) -> Rejected:
    return Rejected(number, f"line of {size} bytes is over the limit of {limits.max_line_bytes}", decode_excerpt(start))


def decode_excerpt(raw: bytes) -> str:
    """Return the start of a line as text, for the quarantine row."""
    text = raw[:EXCERPT].decode("utf-8", "replace")
    # Of a line that goes on, what the cut may have gone through is left out: half a secret looks like none.
    return text if len(raw) < EXCERPT else text[: len(text) // 2]


def iter_text(path: Path, limits: Limits) -> Iterator[tuple[int, str] | Rejected]:
    """Yield number and text of each line, blank ones too, without its line break; trailing spaces stay.

    A line that is no UTF-8 comes as a `Rejected` that says where.
    """
    with open_binary(path) as stream:
        expected = 1
        try:
            for item in iter_lines(stream, limits):
                number = item.line if isinstance(item, Rejected) else item[0]
                yield from ((blank, "") for blank in range(expected, number))
                yield item if isinstance(item, Rejected) else _decode_line(*item)
                expected = number + 1
        except DAMAGE as error:
            yield Rejected(line=0, reason=f"compressed file is damaged: {error}")


def _decode_line(number: int, raw: bytes) -> tuple[int, str] | Rejected:
    raw = raw.removeprefix(BOM) if number == 1 else raw
    try:
        return number, raw.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        return Rejected(number, f"invalid UTF-8 at byte {error.start}", decode_excerpt(raw))
