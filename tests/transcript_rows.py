"""A transcript in, lines of text for each record out: for tests of readers."""

import json
from datetime import UTC
from pathlib import Path

from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Inactive,
    Limits,
    Message,
    Record,
    Rejected,
    Session,
)
from slowwave.text.times.days import get_utc_offset


def put(path: Path, content: object) -> Path:
    """Write bytes or text as they are, a tuple as JSON lines, and anything else as one JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, tuple):
        content = "".join(json.dumps(line) + "\n" for line in content)
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path) -> list[Record]:
    """The records that the file's own reader yields."""
    return list(detect_reader(path).read(path, Limits()))


def select_messages(records: list[Record]) -> list[Message]:
    return [record for record in records if isinstance(record, Message)]


def read_messages(path: Path) -> list[Message]:
    return select_messages(read(path))


def read_rows(path: Path) -> str:
    """All that is told of each record, a line or more each; paths are relative to the file's folder or one above."""
    told, session = "", ""
    for record in read(path):
        if isinstance(record, Message) and record.session != session:
            told += f"in {record.session}\n"
        session = getattr(record, "key", None) or getattr(record, "session", session)
        told += spell(record) + "\n"
    for folder in path.parents[:4]:
        told = told.replace(f"{folder}/", "")
    return told


def spell(record: Record) -> str:
    match record:
        case Session():
            fields = ("workspace", "title", "kind", "parent_id")
            return " ".join(
                [
                    "session",
                    record.key,
                    *(f"{f}={v}" for f in fields if (v := getattr(record, f))),
                ]
            )
        case Message():
            who, identity = f"{record.role}/{record.origin}", record.identity
            about = [
                record.native_id,
                who,
                record.speaker,
                record.ts and record.ts.astimezone(UTC).isoformat()[:19],
                f"{record.ts:%z}" if get_utc_offset(record.ts) else None,
                record.parent_id and f"after {record.parent_id}",
                identity
                and not identity.endswith(f"/{record.native_id}")
                and f"as {identity[-8:]}",
            ]
            said = [
                block for block in record.blocks if block != Block("text", record.text)
            ]
            return "\n".join(
                [
                    f"{' '.join(filter(None, about))}: {record.text}",
                    *map(spell_block, said),
                ]
            )
        case Inactive():
            return f"inactive {record.native_id}"
        case Rejected():
            return f"rejected {record.line}: {record.reason}"
        case _:
            return f"skipped {record.line}: {record.kind}"


def spell_block(block: Block) -> str:
    about = [
        block.type,
        block.name,
        block.call_id,
        block.media,
        {True: "failed", False: "done"}.get(block.is_error),
    ]  # type: ignore[arg-type]
    return f"    {' '.join(filter(None, about))}: {block.text or ''}"
