"""slowwave's own interchange format, one message a line or a row, for any source without a reader of its own.

It is JSON lines, or Parquet or Arrow IPC (Feather v2, file or stream) with columns of these names, read batch by batch:

    {"session_id": "s1", "message_id": "m1", "role": "user", "content": "…", "ts": "2026-03-01T09:00:00Z",
     "workspace": "shop", "speaker": "Ann", "title": "Checkout", "tags": ["release"]}

Only `role` and `content` are required. Tagged blocks at the head of a user's turn are not part of its text, since a
program put them there. A turn with nothing but such blocks or a command's tags (`<command-name>`, a caveat) is
synthetic.

- `role`: user/human, assistant/model/ai/bot, system/developer, tool/function, agent, observer, in any case.
- `content`: a string, or a list of blocks `{"type": "text" | "thinking" | "tool_call" | "tool_result" | "image" |
  "other", "text", "name", "call_id", "is_error", "media"}`; Anthropic's and OpenAI's names are understood too.
- `ts`: ISO 8601 (UTC if it has no zone), or seconds, ms, µs or ns since 1970. An invalid time counts as missing.
- `session_id`: by default the file's name without its suffixes.
- `message_id`: by default a hash of session, role, ts, content and the number of equal messages before it. So a second
  export gives the same message, and "ok" said twice is two messages.
- `tags`: a list of words, kept in a block of the message and not in its text.

A line `{"session_id", "title", "workspace"}` without role and content only describes its session. As a column
`content` is a string, or a list of structs with the fields of a block. Compressed copies (`.gz`, `.zst`) of Parquet and
Arrow are unpacked into a temporary file first, because both are read from their end.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.dataset

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.formats.agents.claude_code import extract_claude_user_text
from slowwave.tasks.ingest.parsing.lines import (
    DAMAGE,
    decompress_file,
    format_excerpt,
    iter_json,
)
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.redacted import redact_blocks
from slowwave.tasks.ingest.parsing.values import (
    coerce_id,
    coerce_text,
    coerce_time,
    dump_json,
    encode_json,
    extract_typed,
    join_text_blocks,
    make_tag_blocks,
    parse_blocks,
    parse_role,
)

_FOREIGN = frozenset(
    (
        "uuid",
        "parentUuid",
        "sessionId",
        "payload",
        "message",
        "messages",
        "mapping",
        "type",
    )
)


def sniff(head: Head) -> bool:
    """Return True if most of the first lines are objects with role and content, and none has keys of another tool."""
    lines = head.objects
    if not lines:  # a first line too long for the head may start as one of ours
        others = any(f'"{key}"'.encode() in head.data for key in _FOREIGN - {"type"})
        return (
            head.data.lstrip()[:1] == b"{"
            and head.is_cut("role", "content")
            and not others
        )
    own = [
        line
        for line in lines
        if isinstance(line.get("role"), str) and "content" in line
    ]
    return 2 * len(own) > len(lines) and not any(
        _FOREIGN & line.keys() for line in lines
    )


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the lines."""
    yield from build_records(iter_json(path, limits), path.name.split(".")[0])


def build_records(
    rows: Iterator[tuple[int, dict[str, object]] | Rejected], stem: str
) -> Iterator[Record]:
    """Yield the records of numbered rows with the columns above. `stem` is the session of rows without one."""
    announced: tuple[object, object, object] | None = None
    seen = Counter[str]()
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        line, fields = row
        session = coerce_id(fields.get("session_id")) or stem
        now = (session, fields.get("workspace"), fields.get("title"))
        if now != announced:
            announced = now
            yield Session(session, coerce_text(now[1]), coerce_text(now[2]))
        if "role" in fields or "content" in fields or "session_id" not in fields:
            yield _parse_message(session=session, fields=fields, seen=seen, line=line)


def _parse_message(
    session: str,
    fields: dict[str, object],
    seen: Counter[str],
    line: int,
) -> Message | Rejected | Skipped:
    parsed = parse_role(fields.get("role"))
    blocks = parse_blocks(fields.get("content"))
    if parsed is None or blocks is None or fields.get("content") is None:
        return Rejected(line, _explain(fields), format_excerpt(fields))
    if not blocks:
        return Skipped("empty message", line)
    role, origin = parsed
    native = former = coerce_id(fields.get("message_id"))
    if native is None:
        native, former = _make_ids(
            seen=seen, session=session, fields=fields, blocks=blocks
        )
    if role == "tool" and isinstance(fields["content"], str):
        blocks = [_make_tool_result(fields, fields["content"])]
    text = join_text_blocks(blocks)
    if text and origin == "human" and not extract_claude_user_text(text):
        # a program put a command or a caveat into the person's turn
        origin = "synthetic"
    elif origin == "human":
        text = extract_typed(text)
    return Message(
        session=session,
        native_id=native,
        role=role,
        origin=origin,
        blocks=[*blocks, *make_tag_blocks(fields.get("tags"))],
        text=text,
        ts=coerce_time(fields.get("ts")),
        speaker=coerce_text(fields.get("speaker")),
        line=line,
        former=None if former == native else f"{session}/{former}",
    )


def _make_tool_result(fields: dict[str, object], text: str) -> Block:
    ids = (fields.get("call_id"), fields.get("tool_call_id"))
    call_id = next(filter(None, map(coerce_id, ids)), None)
    return Block(
        type="tool_result",
        text=text,
        name=coerce_text(fields.get("name")),
        call_id=call_id,
    )


def _explain(fields: dict[str, object]) -> str:
    """Return why a row isn't a message."""
    for key in ("role", "content"):
        if fields.get(key) is None:
            return f"{key} is missing"
    if parse_role(fields["role"]) is None:
        return f"unknown role {fields['role']!r}"
    kind = type(fields["content"]).__name__
    return f"content is {kind}, neither text nor a list of blocks"


def _make_ids(
    seen: Counter[str],
    session: str,
    fields: dict[str, object],
    blocks: list[Block],
) -> tuple[str, str]:
    """Return an id for a message without one, from a hash of its redacted content; and the former id from the
    unredacted content. `seen` counts equal messages, and is updated.
    """
    at = coerce_time(fields.get("ts"))
    stored = redact_blocks(blocks)
    when = at.astimezone(UTC).isoformat() if at else None
    about = session, str(fields["role"]).strip().lower(), when
    former = encode_json(fields["content"])
    said = (
        former if stored == blocks else dump_json([asdict(block) for block in stored])
    )
    return _count_id(seen, "", compute_content_id(*about, said)), _count_id(
        seen, "former ", compute_content_id(*about, former)
    )


def _count_id(seen: Counter[str], kind: str, base: str) -> str:
    """Count an id, and return it; from its second occurrence on, return a hash of it and the count."""
    seen[kind + base] += 1
    return (
        base
        if seen[kind + base] == 1
        else compute_content_id(base, str(seen[kind + base]))
    )


# The same in columns.

COLUMNS = (
    *(
        "session_id",
        "message_id",
        "role",
        "content",
        "ts",
        "workspace",
        "speaker",
        "title",
    ),
    *("name", "call_id", "tool_call_id", "tags"),
)
ROWS = 4096
FORMATS = {b"PAR1": "parquet", b"ARRO": "ipc", b"\xff\xff\xff\xff": "stream"}
"""Formats by the first four bytes of a file."""
DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, *DAMAGE)


def sniff_columns(head: Head) -> bool:
    """Return True if the file is a Parquet or Arrow file with columns role and content.

    Return True too for a damaged file other than an Arrow stream, so that reading it reports the damage.
    """
    try:
        return {"role", "content"} <= set(read_column_names(head))
    except DAMAGED:
        return FORMATS[head.data[:4]] != "stream"


def read_column_names(head: Head) -> list[str]:
    """Return the names of a Parquet or Arrow file's columns; none for another file.

    Raises:
        OSError, pa.ArrowInvalid and others of `DAMAGED`: the file is damaged.
    """
    if head.data[:4] not in FORMATS:
        return []
    with _open_dataset(head.path) as dataset:
        return list(dataset.schema.names)


def read_columns(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the rows; `line` is the row, from 1."""
    yield from build_records(read_rows(path, COLUMNS), path.name.split(".")[0])


def read_rows(
    path: Path, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield the number (from 1) and the values of each row, in those of the columns that the file has, without nulls.

    Yield a rejection for a bad row, and one where the file is damaged.
    """
    number = 0
    try:
        with _open_dataset(path) as dataset:
            names = [name for name in columns if name in dataset.schema.names]
            for batch in dataset.to_batches(
                columns=names, batch_size=ROWS, batch_readahead=1
            ):
                # times are rounded to µs, since Python's datetime has no nanoseconds
                types = [
                    pa.timestamp("us", f.type.tz)
                    if pa.types.is_timestamp(f.type)
                    else f.type
                    for f in batch.schema
                ]
                rounded = batch.cast(
                    pa.schema(zip(batch.schema.names, types, strict=True)), safe=False
                )
                for row in _convert_batch(rounded):
                    number += 1
                    yield (
                        Rejected(number, row) if isinstance(row, str) else (number, row)
                    )
    except DAMAGED as error:
        why = str(error).rpartition("': ")[2]  # behind the path, which may be a copy's
        yield Rejected(number + 1, f"file is damaged after row {number}: {why}")


@contextmanager
def _open_dataset(path: Path) -> Iterator[Any]:
    """Yield a file, or a Lance table, as a dataset with `schema` and `to_batches`."""
    if path.is_dir():
        yield lance.dataset(str(path))
        return
    with decompress_file(path) as plain, plain.open("rb") as stream:
        kind = FORMATS[stream.read(4)]
        if kind == "stream":
            stream.seek(0)
            yield pyarrow.dataset.dataset(pa.ipc.open_stream(stream).read_all())
        else:
            yield pyarrow.dataset.dataset(plain, format=kind)


def _convert_batch(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
    """Yield each row as a dict without nulls; for a row that can't be read, the reason.

    An impossible time is left out.
    """
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError) as bad:
        if batch.num_rows > 1:
            for i in range(batch.num_rows):
                yield from _convert_batch(batch.slice(i, 1))
        elif isinstance(bad, UnicodeDecodeError):
            yield f"invalid UTF-8 at byte {bad.start} of a column"
        elif kept := [
            n
            for n, kind in enumerate(batch.schema.types)
            if not pa.types.is_temporal(kind)
        ]:
            # a time outside the calendar counts as unknown
            yield from _convert_batch(batch.select(kept))
        else:
            yield f"a value can't be read: {bad}"
    else:
        yield from map(_drop_nulls, rows)


def _drop_nulls(value: Any) -> Any:
    """Return a value without null fields, also inside lists and objects."""
    if isinstance(value, list):
        return [_drop_nulls(item) for item in value]
    return (
        {k: _drop_nulls(v) for k, v in value.items() if v is not None}
        if isinstance(value, dict)
        else value
    )


READER = Reader("generic", sniff, read, version=7)
COLUMNS_READER = Reader("columnar", sniff_columns, read_columns, version=5)
