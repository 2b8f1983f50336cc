"""Cursor's agent transcripts: lines of `{role, message: {content: […]}}`, and of `{type, …}` for what is no message.

The lines bear no ids and no times; the session is the file, and a message is known by its line.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import (
    Head,
    Limits,
    Location,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_text,
    extract_tag_body,
    format_excerpt,
    join_text_blocks,
    parse_blocks,
    parse_role,
    strip_tags,
)

_FOREIGN = frozenset(("uuid", "sessionId", "type", "payload", "parentUuid"))
_PROJECT = re.compile(r"/projects/([^/]+)/agent-transcripts/")
_ADDED = ("attached_files", "open_and_recently_viewed_files", "user_info", "system_reminder", "external_links")


def sniff(head: Head) -> bool:
    """Return whether the first object is a role and a message with content, and nothing of another tool's."""
    first = next((line for line in head.lines if isinstance(line, dict)), {})
    plain_role = isinstance(first.get("role"), str) and not _FOREIGN & first.keys()
    return plain_role and isinstance(coerce_dict(first.get("message")).get("content"), (str, list))


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the lines."""
    session = path.name.split(".")[0]
    project = _PROJECT.search(path.as_posix())
    yield Session(session, workspace=project[1] if project else None)
    for item in iter_json(path, limits):
        yield item if isinstance(item, Rejected) else _parse_record(session, *item)


def _parse_record(session: str, line: int, fields: dict[str, object]) -> Record:
    kind = coerce_text(fields.get("type"))
    if kind and "role" not in fields:
        return Skipped(kind, line)
    known, blocks = parse_role(fields.get("role")), parse_blocks(coerce_dict(fields.get("message")).get("content"))
    if known is None or blocks is None:
        why = f"unknown role {fields.get('role')!r}" if known is None else "content is neither text nor a list"
        return Rejected(line, why, format_excerpt(fields))
    if not blocks:
        return Skipped("empty message", line)
    role, origin = known
    if role == "user" and all(block.type == "tool_result" for block in blocks):
        role, origin = "tool", "tool"
    said = join_text_blocks(blocks)
    return Message(
        session, str(line), role, origin, blocks, _extract_prompt(said) if role == "user" else said, line=line
    )


def _extract_prompt(said: str) -> str:
    """Return what the person typed, out of the context that the editor put around it."""
    return extract_tag_body(said, "user_query") or strip_tags(said, _ADDED).strip()


def list_locations(home: Path) -> list[Location]:
    """Return cursor's transcripts, by project."""
    root = home / ".cursor" / "projects"
    return [Location(root, "*/agent-transcripts/**/*.jsonl", root.is_dir())]


READER = Reader("cursor", 1, sniff, read, list_locations)
