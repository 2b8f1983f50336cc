"""Claude.ai's export, `conversations.json`: an array of conversations with `chat_messages`.

A message's `content` blocks are what was said; its `text` is a rendering that may differ, and serves only where there
are no blocks. Text extracted from an attachment is a document, not speech.
"""

import mimetypes
from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
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
    format_excerpt,
    join_text_blocks,
    parse_blocks,
    parse_role,
    trace_active_path,
)


def sniff(head: Head) -> bool:
    """Return whether the file starts as an array (or lines) of objects with `chat_messages`."""
    return has_leading_keys(head, "chat_messages", "uuid")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is the conversation's number in the file, from 1."""
    return read_each(iter_documents(path, limits), _read_conversation)


def _read_conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    session = coerce_id(conversation.get("uuid"))
    if session is None or not isinstance(conversation.get("chat_messages"), list):
        missing = "uuid" if session is None else "chat_messages"
        yield Rejected(number, f"conversation without {missing}", format_excerpt(conversation))
        return
    workspace = coerce_text(coerce_dict(conversation.get("project")).get("uuid")) or coerce_text(
        conversation.get("project_uuid")
    )
    yield Session(session, title=coerce_text(conversation.get("name")), workspace=workspace)
    messages = coerce_list(conversation.get("chat_messages"))
    for position, message in enumerate(messages):
        yield from _read_message(session, position, message, number)
    yield from _find_inactive(session, conversation, [coerce_dict(message) for message in messages])


def _find_inactive(
    session: str, conversation: dict[str, object], messages: list[dict[str, object]]
) -> Iterator[Inactive]:
    """Yield where the export names the current leaf, what does not lead to it was retried or edited."""
    parents = {id_: coerce_text(m.get("parent_message_uuid")) for m in messages if (id_ := coerce_id(m.get("uuid")))}
    active = set(trace_active_path(parents, coerce_text(conversation.get("current_leaf_message_uuid"))))
    for native_id in parents if active else ():
        if native_id not in active:
            yield Inactive(session, native_id, "regenerated or edited")


def _read_message(session: str, position: int, item: object, number: int) -> Iterator[Record]:
    message = coerce_dict(item)
    known = parse_role(message.get("sender"))
    if known is None:
        yield Rejected(number, f"message {position} has unknown sender {message.get('sender')!r}", format_excerpt(item))
        return
    blocks = parse_blocks(message.get("content")) or parse_blocks(coerce_text(message.get("text"))) or []
    said = join_text_blocks(blocks)
    blocks += _parse_documents(message)
    if not blocks:
        yield Skipped("empty message", number)
        return
    yield Message(
        session=session,
        native_id=coerce_id(message.get("uuid")) or str(position),
        role=known[0],
        origin=known[1],
        blocks=blocks,
        text=said,
        ts=coerce_time(message.get("created_at")),
        parent_id=coerce_text(message.get("parent_message_uuid")),
        line=number,
    )


def _parse_documents(message: dict[str, object]) -> list[Block]:
    """Return attachments with their extracted text, and files by name."""
    attached = [coerce_dict(a) for a in coerce_list(message.get("attachments")) + coerce_list(message.get("files"))]
    return [_parse_document(fields) for fields in attached if fields]


def _parse_document(fields: dict[str, object]) -> Block:
    name = coerce_text(fields.get("file_name"))
    media = mimetypes.guess_type(name or "")[0]
    if media and media.startswith("image/"):
        return Block("image", name=name, media=media)
    return Block("other", coerce_text(fields.get("extracted_content")), name=name)


READER = Reader("claude-ai", 1, sniff, read)
