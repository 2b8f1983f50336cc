"""Explain what a file looks like that no reader recognises, so that a person knows what to do."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from slowwave.tasks.ingest.parsing.lines import DAMAGE, iter_documents
from slowwave.tasks.ingest.parsing.records import Head, Limits, Rejected
from slowwave.tasks.ingest.parsing.unread import holds_turn

HOW = (
    'write it as generic JSONL, a line a message: {"role": "user", "content": "…", "ts": "2026-03-01T09:00:00Z"} '
    "(docs/formats.md)"
)
LEAST = 2
MOST_FIELDS = 6
LOOKED_AT = 20
"""Objects of an array that are looked at."""


def explain_unknown(head: Head) -> str:
    """Describe a file: its fields, the format with which it shares most of them, and how to make it readable."""
    lines = head.objects or _read_first(head)
    if not lines:
        return f"it is not JSON lines: {HOW}"
    fields = sorted({name for line in lines for name in list_fields(line)})
    named = ", ".join(fields[:MOST_FIELDS])
    likeness = {name: len(known.intersection(fields)) for name, known in FIELDS.items()}
    nearest = max(likeness, key=lambda name: likeness[name])
    like = f", most like those of {nearest}" if likeness[nearest] >= LEAST else ""
    talk = (
        "it holds what somebody said"
        if holds_turn(lines)
        else "nothing in it says who speaks"
    )
    return f"{talk} (fields {named}{like}): {HOW}"


def _read_first(head: Head) -> list[dict[str, object]]:
    """Return the first objects of a file that is one JSON document or an array; none if too large or invalid."""
    items = list[dict[str, object]]()
    limits = Limits()
    with suppress(OSError, ValueError, *DAMAGE):
        if head.path.stat().st_size > limits.max_line_bytes:
            return items
        for item in islice(iter_documents(head.path, limits), LOOKED_AT):
            items += [] if isinstance(item, Rejected) else [item[1]]
    return items


def list_fields(line: dict[str, object]) -> Iterator[str]:
    """Yield the names of a line's fields, and of the fields in these as `field.inner`."""
    for name, value in line.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "claude-code": "type uuid parentUuid sessionId cwd message message.role message.content",
        "codex": "timestamp type payload payload.type payload.role payload.content",
        "pi": "type id parentId timestamp message message.role message.content",
        "cursor": "role message message.content",
        "copilot-cli": "type data id timestamp parentId data.content",
        "gemini": "sessionId projectHash messages kind content type",
        "chatgpt": "conversation_id title mapping current_node create_time",
        "claude-ai": "uuid name chat_messages created_at",
        "openai-chat": "messages model",
        "sharegpt": "id conversations",
        "generic": "role content session_id message_id ts workspace speaker",
    }.items()
}
"""Fields by which the lines of a format are recognised, by its name."""
