"""slowwave's own interchange format: JSON lines, one message a line, for any source without a reader of its own.

    {"session_id": "s1", "message_id": "m1", "role": "user", "content": "…", "ts": "2026-03-01T09:00:00Z",
     "workspace": "shop", "speaker": "Ann", "title": "Checkout", "tags": ["release"]}

Only `role` and `content` are required. A command's envelope in a user's turn (`<command-name>`, a caveat) is nobody's
words.

- `role`: user/human, assistant/model/ai/bot, system/developer, tool/function, agent, observer, in any case.
- `content`: a string, or a list of blocks `{"type": "text" | "thinking" | "tool_call" | "tool_result" | "image" |
  "other", "text", "name", "call_id", "is_error", "media"}`; Anthropic's and OpenAI's names are understood too.
- `ts`: ISO 8601 (UTC where it names no zone), or seconds, ms, µs or ns since 1970; one that can't be read is absent.
- `session_id`: where it is missing, the file's name without its suffixes.
- `message_id`: where it is missing, a hash of session, role, ts, content and how often the same came before, so that
  a re-export is the same message and "ok" said twice is two.

- `tags`: a list of words; kept in a block of the message's, no part of what was said.

A line `{"session_id", "title", "workspace"}` without role and content tells of its session alone.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.formats.agents.claude_code import extract_claude_user_text
from slowwave.tasks.ingest.parsing.lines import format_excerpt, iter_json
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
from slowwave.tasks.ingest.parsing.values import (
    coerce_id,
    coerce_text,
    coerce_time,
    encode_json,
    join_text_blocks,
    make_tag_blocks,
    parse_blocks,
    parse_role,
)

_FOREIGN = frozenset(("uuid", "parentUuid", "sessionId", "payload", "message", "messages", "mapping", "type"))


def sniff(head: Head) -> bool:
    """Return whether most of the first lines are objects with role and content, and none bears another tool's keys."""
    lines = head.objects
    if not lines:  # a first line too long for the head may start as one of ours
        others = any(f'"{key}"'.encode() in head.data for key in _FOREIGN - {"type"})
        return head.data.lstrip()[:1] == b"{" and head.is_cut("role", "content") and not others
    own = [line for line in lines if isinstance(line.get("role"), str) and "content" in line]
    return 2 * len(own) > len(lines) and not any(_FOREIGN & line.keys() for line in lines)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the lines."""
    yield from build_records(iter_json(path, limits), path.name.split(".")[0])


def build_records(rows: Iterator[tuple[int, dict[str, object]] | Rejected], stem: str) -> Iterator[Record]:
    """Yield records from numbered rows that have the columns above; `stem` is the session of rows that name none."""
    told: tuple[object, object, object] | None = None
    seen = Counter[str]()
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        line, fields = row
        session = coerce_id(fields.get("session_id")) or stem
        now = (session, fields.get("workspace"), fields.get("title"))
        if now != told:
            told = now
            yield Session(session, coerce_text(now[1]), coerce_text(now[2]))
        if "role" in fields or "content" in fields or "session_id" not in fields:
            yield _parse_message(session, fields, seen, line)


def _parse_message(
    session: str, fields: dict[str, object], seen: Counter[str], line: int
) -> Message | Rejected | Skipped:
    known, blocks = parse_role(fields.get("role")), parse_blocks(fields.get("content"))
    if why := _explain_rejection(fields, known is None, blocks is None):
        return Rejected(line, why, format_excerpt(fields))
    if known is None or not blocks:
        return Skipped("empty message", line)
    role, origin = known
    if role == "tool" and isinstance(fields["content"], str):
        call_id = coerce_id(fields.get("call_id")) or coerce_id(fields.get("tool_call_id"))
        blocks = [Block("tool_result", fields["content"], coerce_text(fields.get("name")), call_id)]
    text = join_text_blocks(blocks)
    if text and origin == "human" and not extract_claude_user_text(text):
        origin = "synthetic"  # a command or a caveat that a program put in the person's turn
    return Message(
        session=session,
        native_id=coerce_id(fields.get("message_id")) or _make_id(seen, session, fields),
        role=role,
        origin=origin,
        blocks=[*blocks, *make_tag_blocks(fields.get("tags"))],
        text=text,
        ts=coerce_time(fields.get("ts")),
        speaker=coerce_text(fields.get("speaker")),
        line=line,
    )


def _explain_rejection(fields: dict[str, object], bad_role: bool, bad_content: bool) -> str | None:
    """Return why a row is no message; None when it is one."""
    for key in ("role", "content"):
        if fields.get(key) is None:
            return f"{key} is missing"
    if bad_role:
        return f"unknown role {fields['role']!r}"
    return f"content is {type(fields['content']).__name__}, neither text nor a list of blocks" if bad_content else None


def _make_id(seen: Counter[str], session: str, fields: dict[str, object]) -> str:
    """Return the id of a message that bears none; `seen` counts those that are alike."""
    at = coerce_time(fields.get("ts"))
    when = at.isoformat() if at else None
    base = compute_content_id(session, str(fields["role"]).strip().lower(), when, encode_json(fields["content"]))
    seen[base] += 1
    return base if seen[base] == 1 else compute_content_id(base, str(seen[base]))


READER = Reader("generic", 3, sniff, read)
