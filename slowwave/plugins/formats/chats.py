"""Chats that are lists of messages: OpenAI's lines, Claude.ai, Gemini and Cursor.

Each format is a `ChatFormat`: `open` finds the messages of a conversation, the fields name where a message has its
role, id and time, and `parse` makes its blocks. The functions of a format are below its heading. `READERS`, at the end,
has a row for each format: the first one whose `sniff` accepts a file reads it.
"""

import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.lines import (
    format_excerpt,
    get_inner_suffix,
    has_leading_keys,
    iter_documents,
    iter_json,
)
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    Skipped,
    Who,
    lies_below,
    read_each,
)
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    extract_tag_body,
    join_text_blocks,
    parse_blocks,
    parse_role,
    parse_tool_call,
    parse_tool_result,
    strip_tags,
    trace_active_path,
)

Fields = dict[str, object]


@dataclass(frozen=True)
class Chat:
    """A conversation that was opened."""

    session: Session
    messages: object = ()
    began: object = None
    """The time used for messages without a time."""
    positions: Iterable[str] = ()
    """Ids used for messages without an id; if empty, their numbers from 0."""
    inactive: Iterable[str] = ()
    """Ids of messages that were regenerated or edited."""
    text: Callable[[str, Role], str] = lambda text, role: text
    """Returns the words of the speaker in a message's text blocks."""


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """Names the fields of a format's messages; a dot in a name leads into an object."""

    parse: Callable[[Fields, Role], list[Block] | None]
    """Returns the blocks of a message; None if its content is of an unknown type."""
    open: Callable[[Path, int, Fields], Chat | None] = lambda path, number, fields: None
    """Returns the conversation in a document of a file, given its number; None if it has no id."""
    id: str = "id"
    role: str = "role"
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles of names that `parse_role` does not know."""
    time: tuple[str, ...] = ()
    speaker: str = ""
    parent: str = ""
    hides: Callable[[Fields], bool] = lambda fields: False
    """Returns True if a message was never shown to anybody; its origin is then `synthetic`."""
    adapt: Callable[[Fields], Fields | str] = lambda fields: fields
    """Returns an item with the field names of this format, or its kind if it is not a message."""
    notes: Sequence[str] = ()
    """Kinds of items that are known not to be messages."""

    def read(self, path: Path, limits: Limits) -> Iterator[Record]:
        """Yield the records of each conversation; `line` is the conversation's number in the file, from 1."""
        return read_each(iter_documents(path, limits), partial(self.read_document, path))

    def read_document(self, path: Path, number: int, fields: Fields) -> Iterator[Record]:
        """Yield a conversation's session, its messages, and an `Inactive` for each message that was taken back."""
        chat = self.open(path, number, fields)
        if chat is None or not isinstance(chat.messages, list):
            missing = "a list of messages" if chat else "an id"
            yield Rejected(number, f"conversation without {missing}", format_excerpt(fields))
            return
        yield chat.session
        for position, item in zip(chat.positions or map(str, count()), chat.messages, strict=False):
            yield self.parse_message(chat, position, item, number)
        yield from (Inactive(chat.session.native_id, gone) for gone in chat.inactive)

    def parse_message(self, chat: Chat, position: str, item: object, line: int) -> Message | Rejected | Skipped:
        """Parse an item as a message; `position` is its id if it has none."""
        fields = self.adapt(coerce_dict(item))
        if isinstance(fields, str):
            return leave_out(fields, line, item, known=fields in self.notes)
        role = get(fields, self.role)
        parsed = parse_role(role) or parse_role(self.roles.get(str(role).strip().lower()))
        blocks = self.parse(fields, parsed[0]) if parsed else None
        if parsed is None or blocks is None:
            why = f"unknown role {role!r}" if parsed is None else "content is neither text nor a list"
            return Rejected(line, f"message {position}: {why}", format_excerpt(item))
        if not blocks:
            return leave_out("empty message", line, {**fields, "role": parsed[0]})
        role, origin = self._attribute(fields, parsed, blocks)
        return Message(
            chat.session.native_id,
            get_id(fields, self.id) or position,
            role=role,
            origin=origin,
            blocks=blocks,
            text=chat.text(join_text_blocks(blocks), role),
            ts=coerce_time(next(filter(None, (get(fields, key) for key in self.time)), chat.began)),
            parent_id=get_text(fields, self.parent),
            speaker=get_text(fields, self.speaker) if role != "tool" else None,
            line=line,
        )

    def _attribute(self, fields: Fields, who: Who, blocks: list[Block]) -> Who:
        """Return the role and origin of a message: tool results in a user's turn are the tool's, hidden ones nobody's.

        Args:
            fields: the message.
            who: its role and origin by its role alone.
            blocks: its content.
        """
        role, origin = who
        if role == "user" and all(block.type == "tool_result" for block in blocks):
            return "tool", "tool"
        if origin != "tool" and self.hides(fields):
            return role, "synthetic"
        return role, origin


def get(fields: Fields, path: str) -> object:
    """Return the value at a path of keys with dots between them; None if there is no such key."""
    value: object = fields
    for key in path.split("."):
        value = coerce_dict(value).get(key)
    return value


def get_text(fields: Fields, *paths: str) -> str | None:
    """Return the first text at one of the paths."""
    return next(filter(None, (coerce_text(get(fields, path)) for path in paths)), None)


def get_id(fields: Fields, *paths: str) -> str | None:
    """Return the first identifier at one of the paths."""
    return next(filter(None, (coerce_id(get(fields, path)) for path in paths)), None)


def get_objects(fields: Fields, path: str) -> list[Fields]:
    """Return the list at a path; entries that are not objects become empty ones."""
    return list(map(coerce_dict, coerce_list(get(fields, path))))


def name_by_file(path: Path, number: int = 1) -> str:
    """Return the file's name without its suffixes; from the second conversation on, with its number."""
    stem = path.name.split(".")[0]
    return stem if number == 1 else f"{stem}:{number}"


def starts_with(*alternatives: str) -> Callable[[Head], bool]:
    """Return a test: True if a file starts as an array, an object or lines with all keys of one alternative."""
    return lambda head: any(has_leading_keys(head, *keys.split()) for keys in alternatives)


# OpenAI's chat lines: `{"messages": [{"role", "content"}, …]}`, one conversation a line. If a conversation has no id,
# the hash of its content is its id: a line keeps its identity when other lines are added or removed.

_TIMES = ("created_at", "created", "timestamp", "ts")
_NOT_OPENAI = frozenset(("sessionId", "projectHash", "mapping", "chat_messages", "payload"))


def _sniff_openai(head: Head) -> bool:
    """Return True if most of the first lines are objects whose first entry in `messages` has a role."""
    first = [get_objects(line, "messages")[:1] for line in head.objects if not _NOT_OPENAI & line.keys()]
    return 2 * sum(isinstance(message.get("role"), str) for opening in first for message in opening) > len(head.objects)


def _open_openai(path: Path, number: int, fields: Fields) -> Chat:
    messages, began = fields.get("messages"), next((fields[key] for key in _TIMES if fields.get(key)), None)
    named = get_id(fields, "session_id", "conversation_id", "id") or compute_content_id(encode_json(messages))
    return Chat(Session(named, title=get_text(fields, "title")), messages, began)


def _parse_openai(fields: Fields, role: Role) -> list[Block] | None:
    content = parse_blocks(fields.get("content"))
    if content is None:
        return None
    if role == "tool":
        called = get_id(fields, "tool_call_id") or coerce_id(next(iter(coerce_list(fields.get("tool_call_ids"))), None))
        return parse_tool_result({"content": fields.get("content"), "name": fields.get("name"), "call_id": called})
    thoughts = [get_text(thought, "thinking") for thought in get_objects(fields, "thinking_blocks")]
    thoughts = thoughts or [get_text(fields, "reasoning_content", "reasoning")]
    calls = get_objects(fields, "tool_calls") or [coerce_dict(fields.get("function_call"))]
    thinking = [Block("thinking", thought) for thought in thoughts if thought]
    return [*thinking, *content, *(parse_tool_call(call) for call in calls if call)]


OPENAI = ChatFormat(open=_open_openai, parse=_parse_openai, time=_TIMES, speaker="name")


# Claude.ai's export. A message's words are its `content`. Its `text` is a rendering that may differ: it is used only if
# there is no content. Text extracted from an attachment is a document, not speech.

_PARENT = "parent_message_uuid"


def _open_claude_ai(path: Path, number: int, fields: Fields) -> Chat | None:
    """Return the conversation; if the export names the current leaf, messages off the path to it are inactive."""
    messages = get_objects(fields, "chat_messages")
    parents = {key: get_text(message, _PARENT) for message in messages if (key := get_id(message, "uuid"))}
    active = set(trace_active_path(parents, get_text(fields, "current_leaf_message_uuid")))
    gone = [key for key in parents if active and key not in active]
    if (named := get_id(fields, "uuid")) is None:
        return None
    about = Session(named, get_text(fields, "project.uuid", "project_uuid"), get_text(fields, "name"))
    return Chat(about, fields.get("chat_messages"), inactive=gone)


def _parse_claude_ai(fields: Fields, role: Role) -> list[Block]:
    blocks = parse_blocks(fields.get("content")) or parse_blocks(get_text(fields, "text")) or []
    for document in filter(None, [*get_objects(fields, "attachments"), *get_objects(fields, "files")]):
        name, text = get_text(document, "file_name"), get_text(document, "extracted_content")
        media = mimetypes.guess_type(name or "")[0] or ""
        image = media.startswith("image/")
        blocks.append(Block("image", name=name, media=media) if image else Block("other", text, name))
    return blocks


CLAUDE_AI = ChatFormat(
    open=_open_claude_ai, parse=_parse_claude_ai, id="uuid", role="sender", time=("created_at",), parent=_PARENT
)


# Gemini: AI Studio's prompts, and the Gemini CLI's sessions. The CLI keeps a session as one document or, since 0.40, as
# appended lines: a header, messages (a repeated id is a newer version), `$set` patches, and `$rewindTo` marks that take
# back a message and all later ones.

_BINARY = ("inlineData", "inlineImage", "inlineAudio", "inlineVideo", "inlineFile")
_DRIVE = ("driveDocument", "driveImage", "driveAudio", "driveVideo", "youtubeVideo", "fileData")


def _open_studio(path: Path, number: int, fields: Fields) -> Chat:
    """Return the prompt; if it has no id, its file's name is used. Its chunks have no times."""
    instruction = {**coerce_dict(fields.get("systemInstruction")), "role": "system"}
    first = [instruction] if _parse_gemini(instruction, "system") else []
    about = Session(get_id(fields, "id") or name_by_file(path, number), title=get_text(fields, "title", "name"))
    positions = chain(["system"] if first else [], map(str, count()))
    chunks = coerce_list(get(fields, "chunkedPrompt.chunks"))
    return Chat(about, [*first, *chunks], fields.get("create_time") or fields.get("createTime"), positions)


def _open_cli(path: Path, number: int, fields: Fields) -> Chat | None:
    if (named := get_id(fields, "sessionId")) is None:
        return None
    about = Session(named, get_text(fields, "projectHash"), get_text(fields, "summary"))
    about.kind = "subagent" if fields.get("kind") == "subagent" else None
    return Chat(about, fields.get("messages"))


def _parse_gemini(fields: Fields, role: Role) -> list[Block]:
    """Return blocks in this order: thoughts, `parts` (or a list in `content`, or the plain text), the CLI's calls."""
    parts = coerce_list(fields.get("parts")) or coerce_list(fields.get("content"))
    text = None if parts else fields.get("text") or fields.get("content")
    thoughts = [
        [get_text(entry, "subject"), get_text(entry, "description")] for entry in get_objects(fields, "thoughts")
    ]
    blocks = [Block("thinking", "\n".join(filter(None, thought))) for thought in thoughts if any(thought)]
    for part in (*parts, {**fields, "text": text, "thought": fields.get("isThought")}):
        blocks += _parse_part({"text": part} if isinstance(part, str) else coerce_dict(part))
    for call in get_objects(fields, "toolCalls"):
        answers = [coerce_dict(entry.get("functionResponse")) for entry in get_objects(call, "result")]
        blocks += _parse_part({"functionCall": call})
        if text := "\n".join(map(_get_answer, filter(None, answers))) or get_text(call, "resultDisplay"):
            failed = None if call.get("status") is None else call.get("status") != "success"
            blocks.append(Block("tool_result", text, get_text(call, "name"), get_id(call, "id"), failed))
    return blocks


def _parse_part(part: Fields) -> Iterator[Block]:
    """Yield the blocks of a part; an attachment's media type is kept, never its bytes."""
    if text := get_text(part, "text"):
        yield Block("thinking" if part.get("thought") is True else "text", text)
    if code := coerce_dict(part.get("executableCode")):
        yield Block("tool_call", get_text(code, "code"), "code_execution")
    if ran := coerce_dict(part.get("codeExecutionResult")):
        failed = ran.get("outcome") not in (None, "OUTCOME_OK")
        yield Block("tool_result", get_text(ran, "output"), "code_execution", is_error=failed)
    if call := coerce_dict(part.get("functionCall")):
        yield Block("tool_call", encode_json(coerce_dict(call.get("args"))), get_text(call, "name"), get_id(call, "id"))
    if answer := coerce_dict(part.get("functionResponse")):
        yield Block("tool_result", _get_answer(answer), get_text(answer, "name"), get_id(answer, "id"))
    for key in (*_BINARY, *_DRIVE):
        if data := coerce_dict(part.get(key)):
            media = get_text(data, "mimeType") if key in _BINARY else None
            image = key in ("inlineImage", "driveImage") or (media or "").startswith("image/")
            yield Block("image" if image else "other", None if key in _BINARY else encode_json(data), key, media=media)


def _get_answer(answer: Fields) -> str:
    return get_text(answer, "response.output", "response.error") or encode_json(coerce_dict(answer.get("response")))


def _skip_note(fields: Fields) -> Fields | str:
    """Return the type of a note by the CLI itself (info, error, warning); any other item as it is."""
    kind = get_text(fields, "type")
    return kind if kind and kind != "gemini" and not parse_role(kind) else fields


STUDIO = ChatFormat(open=_open_studio, parse=_parse_gemini, id="", time=("createTime",))
CLI = ChatFormat(
    open=_open_cli,
    parse=_parse_gemini,
    role="type",
    roles={"gemini": "assistant"},
    time=("timestamp",),
    adapt=_skip_note,
)


def _read_gemini(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of each conversation; `line` is the line, or the conversation's number in an array."""
    if get_inner_suffix(path) in (".jsonl", ".ndjson"):
        return _read_cli_lines(path, limits)
    return read_each(
        iter_documents(path, limits),
        lambda number, fields: (STUDIO if "chunkedPrompt" in fields else CLI).read_document(path, number, fields),
    )


def _read_cli_lines(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of a session that the CLI keeps as appended lines."""
    session, live = Session(name_by_file(path)), dict[str, None]()
    for item in iter_json(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line, fields = item
        if "projectHash" in fields and (header := _open_cli(path, line, fields)):
            session = header.session
            yield session
        elif back := get_id(fields, "$rewindTo"):
            yield from _rewind(session, live, back)
        elif patch := coerce_dict(fields.get("$set")):
            yield from _apply_patch(session, live, patch, line)
        else:
            yield from _append_messages(session, live, {str(line): fields}, line)
        if coerce_dict(fields.get("$set")):
            yield Skipped("$set", line)


def _rewind(session: Session, live: dict[str, None], back: str) -> Iterator[Inactive]:
    """Take back the message `back` and all later ones; all messages if it is unknown. `live` has the ids in order."""
    ids = list(live)
    first = ids.index(back) if back in live else 0
    for taken_back in ids[first:]:
        del live[taken_back]
        yield Inactive(session.native_id, taken_back)


def _apply_patch(session: Session, live: dict[str, None], patch: Fields, line: int) -> Iterator[Record]:
    """Yield the title and the new messages of a `$set` patch."""
    if title := get_text(patch, "summary"):
        yield Session(session.native_id, title=title)
    new = [message for message in coerce_list(patch.get("messages")) if get_id(coerce_dict(message), "id") not in live]
    yield from _append_messages(
        session, live, {f"{line}.{position}": message for position, message in enumerate(new)}, line
    )


def _append_messages(
    session: Session, live: dict[str, None], messages: Mapping[str, object], line: int
) -> Iterator[Record]:
    """Yield each message, by its position, and add its id to `live`."""
    for position, message in messages.items():
        record = CLI.parse_message(Chat(session), position, message, line)
        if isinstance(record, Message):
            live[record.native_id] = None
        yield record


# Cursor's agent transcripts: lines of `{role, message: {content: […]}}`; `{type, …}` for anything but a message.
# They have neither ids nor times: the file's name is the session's id, the line's number the message's.

_NOT_CURSOR = frozenset(("uuid", "sessionId", "type", "payload", "parentUuid"))
_PROJECT = re.compile(r"/projects/([^/]+)/agent-transcripts/")
_ADDED = ("attached_files", "open_and_recently_viewed_files", "user_info", "system_reminder", "external_links")


def _sniff_cursor(head: Head) -> bool:
    """Return True if the first object has a role and a message with content, and no field of another tool's format."""
    first = next(iter(head.objects), {})
    plain_role = isinstance(first.get("role"), str) and not _NOT_CURSOR & first.keys()
    return plain_role and isinstance(get(first, "message.content"), (str, list))


def _read_cursor(path: Path, limits: Limits) -> Iterator[Record]:
    project = _PROJECT.search(path.as_posix())
    chat = Chat(Session(name_by_file(path), project[1] if project else None), text=_extract_prompt)
    yield chat.session
    yield from read_each(iter_json(path, limits), lambda n, fields: [CURSOR.parse_message(chat, str(n), fields, n)])


def _extract_prompt(text: str, role: Role) -> str:
    """Return the person's text without the context that the editor put around it."""
    return (extract_tag_body(text, "user_query") or strip_tags(text, _ADDED).strip()) if role == "user" else text


CURSOR = ChatFormat(
    parse=lambda fields, role: parse_blocks(get(fields, "message.content")),
    id="",
    adapt=lambda fields: fields if "role" in fields else get_text(fields, "type") or fields,
)


READERS = (
    Reader(
        "cursor",
        _sniff_cursor,
        _read_cursor,
        lies_below((".cursor/projects",), "*/agent-transcripts/**/*.jsonl"),
        version=2,
    ),
    Reader("claude-ai", starts_with("chat_messages uuid"), CLAUDE_AI.read, version=2),
    Reader(
        "gemini",
        starts_with("chunkedPrompt", "projectHash sessionId"),
        _read_gemini,
        lies_below((".gemini/tmp",), "*/chats/**/*.json", "*/chats/**/*.jsonl"),
        version=2,
    ),
    Reader("openai-chat", _sniff_openai, OPENAI.read, version=2),
)
