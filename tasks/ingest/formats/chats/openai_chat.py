"""OpenAI's chat lines: `{"messages": [{"role", "content"}, …]}`, one conversation a line.

A conversation without an id is known by its content, so that a line keeps its identity when others come or go.
"""

from collections.abc import Iterator
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.documents import iter_documents
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
    read_each,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    flatten_text,
    format_excerpt,
    join_text_blocks,
    parse_blocks,
    parse_role,
    parse_tool_call,
)

_IDS = ("session_id", "conversation_id", "id")
_TIMES = ("created_at", "created", "timestamp", "ts")
_FOREIGN = frozenset(("sessionId", "projectHash", "mapping", "chat_messages", "payload"))


def sniff(head: Head) -> bool:
    """Return whether most of the first lines are objects whose `messages` start with one that has a role."""
    lines = [line for line in head.lines if isinstance(line, dict)]
    return 2 * sum(map(_is_chat, lines)) > len(lines)


def _is_chat(line: dict[str, object]) -> bool:
    first = coerce_dict(next(iter(coerce_list(line.get("messages"))), None))
    return isinstance(first.get("role"), str) and not _FOREIGN & line.keys()


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is its line."""
    return read_each(iter_documents(path, limits), _read_conversation)


def _read_conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    messages = conversation.get("messages")
    if not isinstance(messages, list):
        yield Rejected(number, "line without a list of messages", format_excerpt(conversation))
        return
    named = next((found for key in _IDS if (found := coerce_id(conversation.get(key)))), None)
    session = named or compute_content_id(encode_json(messages))
    yield Session(session, title=coerce_text(conversation.get("title")))
    begun = next((conversation[key] for key in _TIMES if conversation.get(key)), None)
    for position, message in enumerate(messages):
        yield _parse_message(session, position, message, begun, number)


def _parse_message(session: str, position: int, item: object, begun: object, line: int) -> Message | Rejected | Skipped:
    message = coerce_dict(item)
    known, content = parse_role(message.get("role")), parse_blocks(message.get("content"))
    if known is None or content is None:
        why = f"unknown role {message.get('role')!r}" if known is None else "content is neither text nor a list"
        return Rejected(line, f"message {position}: {why}", format_excerpt(item))
    blocks = (
        _parse_result(message) if known[0] == "tool" else [*_parse_reasoning(message), *content, *_parse_calls(message)]
    )
    if not blocks:
        return Skipped("empty message", line)
    at = next((message[key] for key in _TIMES if message.get(key)), begun)
    native_id, speaker = coerce_id(message.get("id")) or str(position), coerce_text(message.get("name"))
    spoken_by = speaker if known[0] != "tool" else None
    return Message(
        session, native_id, *known, blocks, join_text_blocks(blocks), coerce_time(at), speaker=spoken_by, line=line
    )


def _parse_reasoning(message: dict[str, object]) -> list[Block]:
    thought = coerce_text(message.get("reasoning_content")) or coerce_text(message.get("reasoning"))
    return [Block("thinking", thought)] if thought else []


def _parse_calls(message: dict[str, object]) -> list[Block]:
    calls = coerce_list(message.get("tool_calls")) or [message.get("function_call")]
    return [parse_tool_call(fields) for call in calls if (fields := coerce_dict(call))]


def _parse_result(message: dict[str, object]) -> list[Block]:
    text = flatten_text(message.get("content"))
    return [Block("tool_result", text, coerce_text(message.get("name")), coerce_id(message.get("tool_call_id")))]


READER = Reader("openai-chat", 1, sniff, read)
