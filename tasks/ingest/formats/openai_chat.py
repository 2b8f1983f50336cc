"""OpenAI's chat lines: `{"messages": [{"role", "content"}, …]}`, one conversation a line.

A conversation without an id is known by its content, so that a line keeps its identity when others come or go.
"""

from collections.abc import Iterator
from pathlib import Path

from slowwave.schemas.ids import content_id
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
)
from slowwave.tasks.ingest.parsing.values import (
    as_dict,
    as_id,
    as_list,
    as_text,
    as_time,
    blocks_of,
    call_block,
    flat_text,
    json_text,
    sample,
    speaker_of,
    spoken,
)

_IDS = ("session_id", "conversation_id", "id")
_TIMES = ("created_at", "created", "timestamp", "ts")
_FOREIGN = frozenset(("sessionId", "projectHash", "mapping", "chat_messages", "payload"))


def sniff(head: Head) -> bool:
    """Whether most of the first lines are objects whose `messages` start with one that has a role."""
    lines = [line for line in head.lines if isinstance(line, dict)]
    return 2 * sum(map(_is_chat, lines)) > len(lines)


def _is_chat(line: dict[str, object]) -> bool:
    first = as_dict(next(iter(as_list(line.get("messages"))), None))
    return isinstance(first.get("role"), str) and not _FOREIGN & line.keys()


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Records of each conversation; `line` is its line."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            yield from _conversation(*item)


def _conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    messages = conversation.get("messages")
    if not isinstance(messages, list):
        yield Rejected(number, "line without a list of messages", sample(conversation))
        return
    named = next((found for key in _IDS if (found := as_id(conversation.get(key)))), None)
    session = named or content_id(json_text(messages))
    yield Session(session, title=as_text(conversation.get("title")))
    begun = next((conversation[key] for key in _TIMES if conversation.get(key)), None)
    for position, message in enumerate(messages):
        yield _message(session, position, message, begun, number)


def _message(session: str, position: int, item: object, begun: object, line: int) -> Message | Rejected | Skipped:
    message = as_dict(item)
    known, content = speaker_of(message.get("role")), blocks_of(message.get("content"))
    if known is None or content is None:
        why = f"unknown role {message.get('role')!r}" if known is None else "content is neither text nor a list"
        return Rejected(line, f"message {position}: {why}", sample(item))
    blocks = _result(message) if known[0] == "tool" else [*_reasoning(message), *content, *_calls(message)]
    if not blocks:
        return Skipped("empty message", line)
    at = next((message[key] for key in _TIMES if message.get(key)), begun)
    native_id, speaker = as_id(message.get("id")) or str(position), as_text(message.get("name"))
    spoken_by = speaker if known[0] != "tool" else None
    return Message(session, native_id, *known, blocks, spoken(blocks), as_time(at), speaker=spoken_by, line=line)


def _reasoning(message: dict[str, object]) -> list[Block]:
    thought = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    return [Block("thinking", thought)] if thought else []


def _calls(message: dict[str, object]) -> list[Block]:
    calls = as_list(message.get("tool_calls")) or [message.get("function_call")]
    return [call_block(fields) for call in calls if (fields := as_dict(call))]


def _result(message: dict[str, object]) -> list[Block]:
    text = flat_text(message.get("content"))
    return [Block("tool_result", text, as_text(message.get("name")), as_id(message.get("tool_call_id")))]


READER = Reader("openai-chat", 1, sniff, read)
