"""Lines out of plain, gzip and Zstandard files: what is torn, damaged or too long is told, the rest is read."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from slowwave.tasks.ingest.parsing import lines
from slowwave.tasks.ingest.parsing.lines import (
    iter_documents,
    iter_json,
    open_binary,
    read_head,
)
from slowwave.tasks.ingest.parsing.records import Limits, Rejected

TWO = b'{"a":1}\n{"b":2}\n'


def items(
    path: Path, limits: Limits | None = None
) -> list[tuple[int, dict[str, object]] | Rejected]:
    return list(iter_json(path, limits or Limits()))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_small_file_that_unpacks_without_end_is_read_no_further_than_talk_can_be_packed(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FREE_UNPACKED", 1 << 20)
    line = b'{"a":"' + b"x" * 10_000 + b'"}\n'
    pack = gzip.compress if suffix == ".gz" else zstandard.compress
    calm = written(tmp_path / f"calm.jsonl{suffix}", pack(line * 100))
    assert len(items(calm)) == 100
    *read, last = items(written(tmp_path / f"bomb.jsonl{suffix}", pack(line * 2_000)))
    assert 100 < len(read) < 2_000
    assert isinstance(last, Rejected)
    assert "unpacks to over 200 times its size" in last.reason


PACKED = [
    b'{"a":1}\n{"b"',
    b":2}\n" + b"".join(b'{"n":%d}\n' % n for n in range(200_000)) + b'{"c"',
    b":3}\n",
]
"""A file in pieces that end in mid-line, the middle one larger than what is read at once."""
NO_OBJECT = "expected a JSON object, got"
FILES: list[tuple[str, bytes, list[object]]] = [
    ("blank.jsonl", b'{"a":1}\r\n\n  \n{"b":2}', [(1, {"a": 1}), (4, {"b": 2})]),
    ("mark.jsonl", b"\xef\xbb\xbf" + TWO, [(1, {"a": 1}), (2, {"b": 2})]),
    (
        "torn.jsonl",
        b'{"a":1}\n{"b":"half a wor',
        [(1, {"a": 1}), (2, "torn line: the JSON object does not end")],
    ),
    (
        "bytes.jsonl",
        b'{"a":"\xff\xfe"}\n{"b":2}\n',
        [(1, "invalid UTF-8 at byte 6"), (2, {"b": 2})],
    ),
    (
        "text.jsonl",
        b'"massive error"\n{"b":2}\n',
        [(1, f"{NO_OBJECT} str"), (2, {"b": 2})],
    ),
    (
        "null.jsonl",
        b"null\n[1]",
        [(1, f"{NO_OBJECT} NoneType"), (2, f"{NO_OBJECT} list")],
    ),
    (
        "constant.jsonl",
        b'{"a":NaN,"b":"\\ud83d\\ude00"}\n{"b":2}\n',
        [
            (1, "invalid JSON: unexpected character, expected a JSON value"),
            (2, {"b": 2}),
        ],
    ),
    (
        "pieces.jsonl.gz",
        b"".join(map(gzip.compress, PACKED)),
        [(1, {"a": 1}), (200_003, {"c": 3})],
    ),
    (
        "pieces.jsonl.zst",
        b"".join(map(zstandard.compress, PACKED)),
        [(1, {"a": 1}), (200_003, {"c": 3})],
    ),
]


@pytest.mark.parametrize(
    ("name", "data", "expected"), FILES, ids=[name for name, _, _ in FILES]
)
def test_what_is_a_line_is_read_and_what_is_none_says_why(
    tmp_path: Path, name: str, data: bytes, expected: list[object]
) -> None:
    first, *_, last = items(written(tmp_path / name, data))
    assert [
        (i.line, i.reason) if isinstance(i, Rejected) else i for i in (first, last)
    ] == expected


@pytest.mark.parametrize("size", [100, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_over_long_line_is_quarantined_and_its_neighbours_read(
    tmp_path: Path, size: int
) -> None:
    long = b'{"x":"' + b"y" * (size - 8) + b'"}'
    path = written(tmp_path / "a.jsonl", b'{"a":1}\n' + long + b'\n{"b":2}\n')
    first, bad, last = items(path, Limits(max_line_bytes=99))
    assert first == (1, {"a": 1})
    assert isinstance(bad, Rejected)
    assert bad.reason == f"line of {size} bytes is over the limit of 99"
    assert bad.excerpt.startswith('{"x":"yyy')
    assert len(bad.excerpt) <= 2_000
    assert last == (3, {"b": 2})


def test_a_line_of_the_limit_is_read_and_an_over_long_last_one_without_newline_told(
    tmp_path: Path,
) -> None:
    first, bad = items(
        written(tmp_path / "a.jsonl", b'{"a":1}\n{"b":"' + b"y" * 50),
        Limits(max_line_bytes=7),
    )
    assert first == (1, {"a": 1})
    assert isinstance(bad, Rejected)
    assert bad.line == 2


def test_line_of_100_mb_is_never_held(tmp_path: Path) -> None:
    """At the default limit of 32 MiB; the bound is twice the limit (line held, and its copy while it grows)."""
    path = tmp_path / "a.jsonl"
    with path.open("wb") as out:
        out.write(b'{"a":1}\n{"x":"')
        for _ in range(100):
            out.write(b"y" * 1_000_000)
        out.write(b'"}\n{"b":2}\n')
    tracemalloc.start()
    found = items(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [item if isinstance(item, tuple) else item.line for item in found] == [
        (1, {"a": 1}),
        2,
        (3, {"b": 2}),
    ]
    assert peak < 72 * 1024 * 1024


@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-400], lambda data: data[:90_000] + bytes(40) + data[90_040:]],
)
def test_what_stands_before_a_damage_is_read(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    data = gzip.compress(b"".join(b'{"n":%d}\n' % (n * n) for n in range(100_000)))
    found = items(written(tmp_path / "a.jsonl.gz", spoil(data)))
    assert found[0] == (1, {"n": 0})
    assert isinstance(found[-1], Rejected)
    assert "compressed file is damaged" in found[-1].reason or len(found) > 1
    assert read_head(tmp_path / "a.jsonl.gz").lines[0] == {"n": 0}
    (bad,) = items(
        written(tmp_path / "a.jsonl.zst", b"not compressed, whatever its name says\n")
    )
    assert isinstance(bad, Rejected)
    assert "damaged" in bad.reason


def test_head_holds_whole_lines_only(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        b'{"a":1}\nbroken\n' + b'{"b":"' + b"y" * 100_000 + b'"}\n',
    )
    head = read_head(path)
    assert head.lines == [{"a": 1}]
    assert len(head.data) == 1 << 16


def test_stream_closes_when_the_reader_stops_early(tmp_path: Path) -> None:
    lines = iter_json(written(tmp_path / "a.jsonl", TWO), Limits())
    next(lines)
    del lines  # a file left open would be a ResourceWarning, and so an error
    with open_binary(tmp_path / "a.jsonl") as stream:
        assert stream.readline() == b'{"a":1}\n'


@pytest.mark.parametrize("frames", [1, 3])
def test_a_zstandard_file_that_breaks_off_is_told_and_what_came_before_is_read(
    tmp_path: Path, frames: int
) -> None:
    rows = [
        b"".join(b'{"n":"%032x"}\n' % hash((n, frame)) for n in range(500))
        for frame in range(frames)
    ]
    packed = b"".join(map(zstandard.compress, rows))
    assert len(items(written(tmp_path / "whole.jsonl.zst", packed))) == 500 * frames
    *read, last = items(written(tmp_path / "cut.jsonl.zst", packed[:-200]))
    assert isinstance(last, Rejected)
    assert last.reason == "compressed file is damaged: it breaks off within a frame"
    assert len(read) >= 500 * (frames - 1)


def test_lines_behind_a_byte_order_mark_are_read_whatever_the_file_is_called(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "log.json", b"\xef\xbb\xbf" + TWO)
    assert list(iter_documents(path, Limits())) == [(1, {"a": 1}), (2, {"b": 2})]


def test_a_number_of_any_size_ends_no_file_of_conversations(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.json",
        b'[{"a":9223372036854775808},{"a":123456789012345678901234},{"a":1.5},{"a":2}]',
    )
    assert [
        item[1]["a"]
        for item in iter_documents(path, Limits())
        if not isinstance(item, Rejected)
    ] == [
        2**63,
        123456789012345678901234,
        1.5,
        2,
    ]
