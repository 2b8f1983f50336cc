"""Claude.ai's export, `conversations.json`: an array of conversations with `chat_messages`.

A message's `content` blocks are what was said; its `text` is a rendering that may differ, and serves only where there
are no blocks. Text extracted from an attachment is a document, not speech.
"""

import mimetypes
from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import iter_documents, starts_with
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
)
from slowwave.tasks.ingest.parsing.values import (
    active_path,
    as_dict,
    as_id,
    as_list,
    as_text,
    as_time,
    blocks_of,
    sample,
    speaker_of,
    spoken,
)


def sniff(head: Head) -> bool:
    """Whether the file starts as an array (or lines) of objects with `chat_messages`."""
    return starts_with(head, "chat_messages", "uuid")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Records of each conversation; `line` is the conversation's number in the file, from 1."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            yield from _conversation(*item)


def _conversation(number: int, conversation: dict[str, object]) -> Iterator[Record]:
    session = as_id(conversation.get("uuid"))
    if session is None or not isinstance(conversation.get("chat_messages"), list):
        missing = "uuid" if session is None else "chat_messages"
        yield Rejected(number, f"conversation without {missing}", sample(conversation))
        return
    workspace = as_text(as_dict(conversation.get("project")).get("uuid")) or as_text(conversation.get("project_uuid"))
    yield Session(session, title=as_text(conversation.get("name")), workspace=workspace)
    messages = as_list(conversation.get("chat_messages"))
    for position, message in enumerate(messages):
        yield from _message(session, position, message, number)
    yield from _aside(session, conversation, [as_dict(message) for message in messages])


def _aside(session: str, conversation: dict[str, object], messages: list[dict[str, object]]) -> Iterator[Inactive]:
    """Where the export names the current leaf, what does not lead to it was retried or edited."""
    parents = {id_: as_text(m.get("parent_message_uuid")) for m in messages if (id_ := as_id(m.get("uuid")))}
    active = set(active_path(parents, as_text(conversation.get("current_leaf_message_uuid"))))
    for native_id in parents if active else ():
        if native_id not in active:
            yield Inactive(session, native_id, "regenerated or edited")


def _message(session: str, position: int, item: object, number: int) -> Iterator[Record]:
    message = as_dict(item)
    known = speaker_of(message.get("sender"))
    if known is None:
        yield Rejected(number, f"message {position} has unknown sender {message.get('sender')!r}", sample(item))
        return
    blocks = blocks_of(message.get("content")) or blocks_of(as_text(message.get("text"))) or []
    said = spoken(blocks)
    blocks += _documents(message)
    if not blocks:
        yield Skipped("empty message", number)
        return
    yield Message(
        session=session,
        native_id=as_id(message.get("uuid")) or str(position),
        role=known[0],
        origin=known[1],
        blocks=blocks,
        text=said,
        ts=as_time(message.get("created_at")),
        parent_id=as_text(message.get("parent_message_uuid")),
        line=number,
    )


def _documents(message: dict[str, object]) -> list[Block]:
    """Attachments with their extracted text, and files by name."""
    attached = [as_dict(a) for a in as_list(message.get("attachments")) + as_list(message.get("files"))]
    return [_document(fields) for fields in attached if fields]


def _document(fields: dict[str, object]) -> Block:
    name = as_text(fields.get("file_name"))
    media = mimetypes.guess_type(name or "")[0]
    if media and media.startswith("image/"):
        return Block("image", name=name, media=media)
    return Block("other", as_text(fields.get("extracted_content")), name=name)


READER = Reader("claude-ai", 1, sniff, read)
