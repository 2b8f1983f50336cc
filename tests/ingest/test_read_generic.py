"""The interchange format as JSON lines, Parquet and Arrow: the same rows give the same records in each."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import zstandard

from slowwave.tasks.ingest.formats.own import generic
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Limits, Rejected
from slowwave.tasks.ingest.parsing.values import coerce_time
from tests.transcript_rows import read, read_messages, select_messages

ROWS: list[dict[str, object]] = [
    {
        "session_id": "s1",
        "message_id": "m1",
        "role": "user",
        "content": "We moved the deploy to Friday.",
        "ts": "2026-03-01T09:00:00Z",
        "workspace": "shop",
        "speaker": "Ann",
        "title": "Deploys",
    },
    {
        "session_id": "s1",
        "role": "assistant",
        "content": "Noted.",
        "ts": "2026-03-01T10:00:05+01:00",
    },
    {"session_id": "s2", "role": "tool", "content": "exit 0"},
]


def lines_of(path: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_message_without_an_id_is_the_same_in_a_re_export_and_its_repetition_is_another(
    tmp_path: Path,
) -> None:
    said = [
        {"session_id": s, "role": "user", "content": c}
        for s, c in [("a", "ok"), ("b", "ok"), ("a", "ok")]
    ]
    first = read_messages(lines_of(tmp_path / "x.jsonl", said))
    again = read_messages(
        lines_of(
            tmp_path / "y.jsonl",
            [{"session_id": "c", "role": "user", "content": "n"}, *said],
        )
    )
    assert [m.native_id for m in first] == [m.native_id for m in again[1:]]
    assert len({(m.session, m.native_id) for m in first}) == 3


NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
TIMES: list[object] = [
    "2026-03-01T09:00:00Z",
    "2026-03-01T09:00:00",
    "2026-03-01 10:00:00+01:00",
    1772355600,
    1772355600.0,
    1772355600_000,
    1772355600_000_000,
    1772355600_000_000_000,
    "1772355600",
    datetime(2026, 3, 1, 9),
    datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=1))),
]


@pytest.mark.parametrize("value", TIMES)
def test_times_in_every_unit(value: object) -> None:
    assert coerce_time(value) == NINE


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "",
        None,
        True,
        0,
        -1,
        [],
        {},
        1e300,
        10**400,
        float("inf"),
        float("nan"),
        "9" * 22,
    ],
)
def test_what_is_no_time_is_absent(value: object) -> None:
    assert coerce_time(value) is None


# --- the same rows in other containers -------------------------------------------------------------------------------


def as_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=2)


def as_stream(table: pa.Table, path: Path) -> None:
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)


CONTAINERS: list[tuple[str, Callable[[pa.Table, Path], None]]] = [
    ("talk.parquet", as_parquet),
    (
        "talk.feather",
        lambda table, path: feather.write_feather(table, str(path), chunksize=2),
    ),
    ("talk.arrow", as_stream),
]


@pytest.mark.parametrize(("name", "write"), CONTAINERS)
def test_columns_give_the_records_that_lines_give(
    name: str, write: Callable[[pa.Table, Path], None], tmp_path: Path
) -> None:
    columns = pa.Table.from_pylist(
        ROWS, schema=pa.schema([(key, pa.string()) for key in ROWS[0]])
    )
    write(columns, tmp_path / name)
    assert read(tmp_path / name) == read(lines_of(tmp_path / "talk.jsonl"))


def test_parquet_with_native_times_and_struct_blocks(tmp_path: Path) -> None:
    times = pa.array([1772355600_000_000_001, None], pa.timestamp("ns"))
    blocks = [
        [{"type": "text", "text": "hello", "name": None}],
        [{"type": "image", "text": None, "name": "a.png"}],
    ]
    pq.write_table(
        pa.table({"role": ["user", "user"], "content": blocks, "ts": times}),
        tmp_path / "t.parquet",
    )
    first, second = read_messages(tmp_path / "t.parquet")
    assert (first.ts, first.text, first.session, second.blocks[0].type) == (
        NINE,
        "hello",
        "t",
        "image",
    )


def test_parquet_row_with_invalid_utf8_and_one_without_role(tmp_path: Path) -> None:
    words = pa.array([b"one", b"\xff", b"two"], pa.binary()).view(pa.utf8())
    pq.write_table(
        pa.table({"role": ["user", "user", None], "content": words}),
        tmp_path / "t.parquet",
    )
    records = read(tmp_path / "t.parquet")
    assert [m.text for m in select_messages(records)] == ["one"]
    assert [(r.line, r.reason) for r in records if isinstance(r, Rejected)] == [
        (2, "invalid UTF-8 at byte 0 of a column"),
        (3, "role is missing"),
    ]


def test_a_damaged_or_foreign_parquet(tmp_path: Path) -> None:
    as_parquet(pa.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:-10])
    (rejected,) = read(tmp_path / "cut.parquet")
    assert isinstance(rejected, Rejected)
    assert rejected.reason.startswith("file is damaged after row 0")
    pq.write_table(pa.table({"price": [1]}), tmp_path / "other.parquet")
    assert not generic.COLUMNS_READER.sniff(read_head(tmp_path / "other.parquet"))


PACKERS = [(".gz", gzip.compress), (".zst", zstandard.compress)]


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
@pytest.mark.parametrize("name", ["talk.jsonl", "talk.parquet"])
def test_compressed_files_read_the_same(
    name: str, suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    plain = lines_of(tmp_path / "talk.jsonl")
    as_parquet(pa.Table.from_pylist(ROWS), tmp_path / "talk.parquet")
    packed = tmp_path / (name + suffix)
    packed.write_bytes(pack((tmp_path / name).read_bytes()))
    assert read(packed) == read(plain)


def test_a_first_line_longer_than_the_head_is_recognised_and_over_the_limit_rejected(
    tmp_path: Path,
) -> None:
    path = lines_of(
        tmp_path / "long.jsonl", [{"role": "user", "content": "x" * 100_000}, ROWS[0]]
    )
    assert generic.READER.sniff(read_head(path))
    records = list(generic.READER.read(path, Limits(max_line_bytes=1_000)))
    assert [(r.line, r.reason) for r in records if isinstance(r, Rejected)] == [
        (1, "line of 100031 bytes is over the limit of 1000")
    ]
    assert [m.native_id for m in select_messages(records)] == ["m1"]
