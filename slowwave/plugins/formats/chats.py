"""Readers of chats that are lists of messages: OpenAI's lines, Claude.ai, Grok, Gemini and Cursor.

Each format is a `ChatFormat`: `open` finds a conversation's messages, fields name the places of a message's role, id
and time, and `parse` makes its blocks. The code of each format is below a comment of its own. `READERS`, at the end,
lists the formats: the first whose `sniff` accepts a file reads it.
"""

import mimetypes
import re
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import chain, count
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.lines import (
    format_excerpt,
    get_inner_suffix,
    has_keys_in_head,
    iter_documents,
    iter_json,
)
from slowwave.tasks.ingest.parsing.records import (
    AGENT,
    HUMAN,
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
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.redacted import encode_redacted
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    REFERENCED,
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    extract_outer_body,
    extract_typed,
    join_text_blocks,
    parse_blocks,
    parse_role,
    parse_tool_call,
    parse_tool_result,
    strip_tags,
    trace_active_path,
)

Fields = dict[str, object]


def drop_injected(said: str, role: Role) -> str:
    """Return the typed part of a user's prompt; the text of other roles is unchanged."""
    return extract_typed(said) if role == "user" else said


@dataclass(frozen=True)
class Chat:
    """A conversation that was opened."""

    session: Session
    messages: object = ()
    began: object = None
    """The time of messages without a time."""
    positions: Iterable[str] = ()
    """Ids of the messages by place, for messages without an id; if empty, their numbers from 0."""
    inactive: Iterable[str] = ()
    """Ids of messages that were replaced, for example by a regenerated answer."""
    text: Callable[[str, Role], str] = drop_injected
    """Returns the spoken part of the text of a message's blocks. If it is empty, the message is synthetic."""


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """The places of a message's fields in a format. A dot in a name leads into an object."""

    parse: Callable[[Fields, Role], list[Block] | None]
    """Returns a message's blocks, or None if its content is of no known type."""
    open: Callable[[Path, int, Fields], Chat | None] = lambda path, number, fields: None
    """Returns the conversation in a document, given its number in the file; None if it has no id."""
    id: str = "id"
    role: str = "role"
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles by other names than the common ones."""
    time: tuple[str, ...] = ()
    speaker: str = ""
    parent: str = ""
    hides: Callable[[Fields], bool] = lambda fields: False
    """Returns True if a message was never shown, so that it is synthetic."""
    adapt: Callable[[Fields], Fields | str] = lambda fields: fields
    """Returns an item with its fields as this row names them, or the kind of an item that isn't a message."""
    copies: str = ""
    """Start of the identities of messages, if a fork's copies keep their ids; empty if ids differ."""
    notes: Sequence[str] = ()
    """The kinds that are known to hold no message."""

    def read(self, path: Path, limits: Limits) -> Iterator[Record]:
        """Yield records of each conversation; `line` is its number in the file, from 1."""
        return read_each(
            iter_documents(path, limits), partial(self.read_document, path)
        )

    def read_document(
        self,
        path: Path,
        number: int,
        fields: Fields,
    ) -> Iterator[Record]:
        """Yield a conversation's session, its messages, and its inactive messages.

        Yield only a rejection if the conversation has no id or no list of messages.
        """
        chat = self.open(path, number, fields)
        if chat is None or not isinstance(chat.messages, list):
            missing = "a list of messages" if chat else "an id"
            yield Rejected(
                number, f"conversation without {missing}", format_excerpt(fields)
            )
            return
        yield chat.session
        for position, item in zip(
            chat.positions or map(str, count()), chat.messages, strict=False
        ):
            yield self.parse_message(
                chat=chat, position=position, item=item, line=number
            )
        yield from (Inactive(chat.session.native_id, gone) for gone in chat.inactive)

    def _parse_role(self, fields: Fields) -> Who | None:
        role = get(fields, self.role)
        named = self.roles.get(str(role).strip().lower())
        return parse_role(role) or parse_role(named)

    def _find_identity(self, fields: Fields) -> str | None:
        """Return the identity that a message has in all sessions with a copy of it; None if it has one per session."""
        named = get_id(fields, self.id)
        return f"{self.copies}{named}" if self.copies and named else None

    def _find_time(self, fields: Fields, chat: Chat) -> datetime | None:
        """Return when a message was written, or else when its chat began."""
        times = (get(fields, key) for key in self.time)
        return coerce_time(next(filter(None, times), chat.began))

    def parse_message(
        self,
        chat: Chat,
        position: str,
        item: object,
        line: int,
    ) -> Message | Rejected | Skipped:
        """Return an item as a message, or why it is rejected or skipped. `position` is its id if it has none."""
        fields = self.adapt(coerce_dict(item))
        if isinstance(fields, str):
            return leave_out(fields, line, item, known=fields in self.notes)
        parsed = self._parse_role(fields)
        if parsed is None:
            why = f"message {position}: unknown role {get(fields, self.role)!r}"
            return Rejected(line, why, format_excerpt(item))
        blocks = self.parse(fields, parsed[0])
        if blocks is None:
            why = f"message {position}: content is neither text nor a list"
            return Rejected(line, why, format_excerpt(item))
        if not blocks:
            return leave_out("empty message", line, {**fields, "role": parsed[0]})
        parsed = _attribute_results(parsed, blocks)
        said = join_text_blocks(blocks)
        text = chat.text(said, parsed[0])
        is_hidden = self.hides(fields) or bool(said and not text)
        role, origin = _resolve_who(parsed, chat.session.kind, is_hidden)
        return Message(
            session=chat.session.native_id,
            native_id=get_id(fields, self.id) or position,
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=self._find_time(fields, chat),
            parent_id=get_text(fields, self.parent),
            speaker=get_text(fields, self.speaker) if role != "tool" else None,
            identity=self._find_identity(fields),
            line=line,
        )


def _attribute_results(who: Who, blocks: Sequence[Block]) -> Who:
    """Return the role and origin of a message. A user's turn with nothing but tool results is a tool's."""
    is_result = all(block.type == "tool_result" for block in blocks)
    return ("tool", "tool") if who[0] == "user" and is_result else who


def _resolve_who(who: Who, kind: str | None, is_hidden: bool) -> Who:
    """Return role and origin. Hidden words are synthetic; a program starts sub-agents and scheduled sessions."""
    if who[1] != "tool" and is_hidden:
        return (who[0], "synthetic")
    if who == HUMAN and kind in ("subagent", "scheduled"):
        return AGENT
    return who


def get(fields: Fields, path: str) -> object:
    """Return the value at a path of keys, joined by dots; None if there is none."""
    value: object = fields
    for key in path.split("."):
        value = coerce_dict(value).get(key)
    return value


def get_text(fields: Fields, *paths: str) -> str | None:
    """Return the first text at one of the paths, or None."""
    return next(filter(None, (coerce_text(get(fields, path)) for path in paths)), None)


def get_id(fields: Fields, *paths: str) -> str | None:
    """Return the first id at one of the paths, or None."""
    return next(filter(None, (coerce_id(get(fields, path)) for path in paths)), None)


def get_objects(fields: Fields, path: str) -> list[Fields]:
    """Return the list at a path. Items other than objects become empty ones."""
    return list(map(coerce_dict, coerce_list(get(fields, path))))


def name_by_file(path: Path, number: int = 1) -> str:
    """Return the file's name without its suffixes, with a conversation's number from the second on."""
    stem = path.name.split(".")[0]
    return stem if number == 1 else f"{stem}:{number}"


def starts_with(*alternatives: str) -> Callable[[Head], bool]:
    """Return a function that returns True if a file's head has all keys of one of the alternatives (keys by spaces)."""
    return lambda head: any(
        has_keys_in_head(head, *keys.split()) for keys in alternatives
    )


# OpenAI's chat lines: `{"messages": [{"role", "content"}, …]}`, one conversation a line. A hash of its content
# identifies a conversation without an id, so it stays the same when other lines are added or removed.

_TIMES = ("created_at", "created", "timestamp", "ts")
_NOT_OPENAI = frozenset(
    ("sessionId", "projectHash", "mapping", "chat_messages", "payload")
)


def _sniff_openai(head: Head) -> bool:
    """Return True if most of the first lines are objects whose `messages` start with a message with a role."""
    first = [
        get_objects(line, "messages")[:1]
        for line in head.objects
        if not _NOT_OPENAI & line.keys()
    ]
    return 2 * sum(
        isinstance(message.get("role"), str) for opening in first for message in opening
    ) > len(head.objects)


def _open_openai(path: Path, number: int, fields: Fields) -> Chat:
    messages = fields.get("messages")
    began = next((fields[key] for key in _TIMES if fields.get(key)), None)
    named = get_id(fields, "session_id", "conversation_id", "id")
    former = None
    if named is None:
        named, former = _hash_turns(messages)
    return Chat(
        Session(named, title=get_text(fields, "title"), former=former), messages, began
    )


def _hash_turns(turns: object) -> tuple[str, str | None]:
    """Return an id from a hash of the redacted messages, and the former id from the unredacted ones, if it differs."""
    now, former = (
        compute_content_id(encode(turns)) for encode in (encode_redacted, encode_json)
    )
    return now, None if former == now else former


def _parse_openai(fields: Fields, role: Role) -> list[Block] | None:
    content = parse_blocks(fields.get("content"))
    if content is None:
        return None
    if role == "tool":
        called = get_id(fields, "tool_call_id") or coerce_id(
            next(iter(coerce_list(fields.get("tool_call_ids"))), None)
        )
        return parse_tool_result(
            {
                "content": fields.get("content"),
                "name": fields.get("name"),
                "call_id": called,
            }
        )
    thoughts = [
        get_text(thought, "thinking")
        for thought in get_objects(fields, "thinking_blocks")
    ]
    thoughts = thoughts or [get_text(fields, "reasoning_content", "reasoning")]
    calls = get_objects(fields, "tool_calls") or [
        coerce_dict(fields.get("function_call"))
    ]
    thinking = [Block("thinking", thought) for thought in thoughts if thought]
    return [*thinking, *content, *(parse_tool_call(call) for call in calls if call)]


OPENAI = ChatFormat(
    open=_open_openai,
    parse=_parse_openai,
    time=_TIMES,
    speaker="name",
)


# Claude.ai's export. A message's `content` has its words. Its `text` is a rendering that may differ, and is used only
# if there is no content. Text extracted from an attachment is a document, not speech.

_PARENT = "parent_message_uuid"


def _open_claude_ai(path: Path, number: int, fields: Fields) -> Chat | None:
    """Return the conversation. If the export names the current leaf, messages that do not lead to it are inactive."""
    messages = get_objects(fields, "chat_messages")
    parents = {
        key: get_text(message, _PARENT)
        for message in messages
        if (key := get_id(message, "uuid"))
    }
    active = set(
        trace_active_path(parents, get_text(fields, "current_leaf_message_uuid"))
    )
    gone = [key for key in parents if active and key not in active]
    if (named := get_id(fields, "uuid")) is None:
        return None
    about = Session(
        named,
        get_text(fields, "project.uuid", "project_uuid"),
        get_text(fields, "name"),
    )
    return Chat(about, fields.get("chat_messages"), inactive=gone)


def _parse_claude_ai(fields: Fields, role: Role) -> list[Block]:
    blocks = (
        parse_blocks(fields.get("content"))
        or parse_blocks(get_text(fields, "text"))
        or []
    )
    for document in filter(
        None, [*get_objects(fields, "attachments"), *get_objects(fields, "files")]
    ):
        name = get_text(document, "file_name")
        text = get_text(document, "extracted_content")
        media = mimetypes.guess_type(name or "")[0] or ""
        image = media.startswith("image/")
        blocks.append(
            Block("image", name=name, media=media)
            if image
            else Block("other", text, name)
        )
    return blocks


CLAUDE_AI = ChatFormat(
    open=_open_claude_ai,
    parse=_parse_claude_ai,
    id="uuid",
    role="sender",
    time=("created_at",),
    parent=_PARENT,
)


# Grok's export, `prod-grok-backend.json`: one object with all conversations, each with its responses. Its times have
# MongoDB's form.


def _read_grok(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is its number."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            talks = enumerate(get_objects(item[1], "conversations"), 1)
            yield from read_each(talks, partial(GROK.read_document, path))


def _open_grok(path: Path, number: int, fields: Fields) -> Chat | None:
    if (named := get_id(fields, "conversation.id")) is None:
        return None
    messages = [entry.get("response") for entry in get_objects(fields, "responses")]
    about = Session(named, title=get_text(fields, "conversation.title"))
    return Chat(about, messages, get(fields, "conversation.create_time"))


GROK = ChatFormat(
    open=_open_grok,
    parse=lambda fields, role: parse_blocks(fields.get("message")),
    id="_id",
    role="sender",
    time=("create_time.$date.$numberLong", "create_time.$date", "create_time"),
    parent="parent_response_id",
)


# Gemini: AI Studio's prompts, and the Gemini CLI's sessions. The CLI keeps a session as one document or, since 0.40, as
# lines that are appended: a header, messages (the same id again is a newer version), `$set` patches, and `$rewindTo`
# marks that take back a message and all after it. A patch that replaces the history is a compaction.

CONTEXT = "<session_context>"
"""Start of what the CLI says to the model before the first prompt."""
_BINARY = ("inlineData", "inlineImage", "inlineAudio", "inlineVideo", "inlineFile")
_DRIVE = (
    "driveDocument",
    "driveImage",
    "driveAudio",
    "driveVideo",
    "youtubeVideo",
    "fileData",
)


def _open_studio(path: Path, number: int, fields: Fields) -> Chat:
    """Return the prompt as a conversation, named by its file if it has no id. Its chunks have no times."""
    instruction = {**coerce_dict(fields.get("systemInstruction")), "role": "system"}
    first = [instruction] if parse_gemini(instruction, "system") else []
    about = Session(
        get_id(fields, "id") or name_by_file(path, number),
        title=get_text(fields, "title", "name"),
    )
    positions = chain(["system"] if first else [], map(str, count()))
    chunks = coerce_list(get(fields, "chunkedPrompt.chunks"))
    return Chat(
        session=about,
        messages=[*first, *chunks],
        began=fields.get("create_time") or fields.get("createTime"),
        positions=positions,
    )


def _open_cli(path: Path, number: int, fields: Fields) -> Chat | None:
    """Return the session; None if it has no id. A sub-agent's file is in a folder named after its parent session."""
    if (named := get_id(fields, "sessionId")) is None:
        return None
    about = Session(
        named,
        _find_project(path) or get_text(fields, "projectHash"),
        get_text(fields, "summary"),
    )
    if fields.get("kind") == "subagent":
        about.kind = "subagent"
        about.parent_id = (
            path.parent.name if path.parent.parent.name == "chats" else None
        )
    return Chat(about, fields.get("messages"))


def _find_project(path: Path) -> str | None:
    """Return the folder of the project that a file's `chats` folder belongs to; None if it is unknown.

    The file itself has only a hash of the project's path.
    """
    chats = next(
        (folder for folder in list(path.parents)[:2] if folder.name == "chats"), None
    )
    if chats is None:
        return None
    try:
        return (chats.parent / ".project_root").read_text(
            encoding="utf-8"
        ).strip() or None
    except (OSError, ValueError):
        return None


def parse_gemini(fields: Fields, role: Role) -> list[Block]:
    """Return thoughts, then `parts` (or a list in `content`, or the plain text), attachments and the CLI's calls."""
    parts = coerce_list(fields.get("parts")) or coerce_list(fields.get("content"))
    text = None if parts else fields.get("text") or fields.get("content")
    parts, attached = split_attached(parts, coerce_list(fields.get("displayContent")))
    thoughts = [
        [get_text(entry, "subject"), get_text(entry, "description")]
        for entry in get_objects(fields, "thoughts")
    ]
    blocks = [
        Block("thinking", "\n".join(filter(None, thought)))
        for thought in thoughts
        if any(thought)
    ]
    for part in (*parts, {**fields, "text": text, "thought": fields.get("isThought")}):
        blocks += _parse_part(
            {"text": part} if isinstance(part, str) else coerce_dict(part)
        )
    for call in get_objects(fields, "toolCalls"):
        blocks += _parse_call(call)
    return [
        *blocks,
        *(Block("other", encode_json(part), "attached") for part in attached),
    ]


def _parse_call(call: Fields) -> Iterator[Block]:
    """Yield the blocks of a call of the CLI's: the call, and its result if there is one."""
    answers = [
        coerce_dict(entry.get("functionResponse"))
        for entry in get_objects(call, "result")
    ]
    yield from _parse_part({"functionCall": call})
    if text := "\n".join(map(_get_answer, filter(None, answers))) or get_text(
        call, "resultDisplay"
    ):
        failed = None if call.get("status") is None else call.get("status") != "success"
        yield Block(
            type="tool_result",
            text=text,
            name=get_text(call, "name"),
            call_id=get_id(call, "id"),
            is_error=failed,
        )


def split_attached(
    parts: list[object], shown: list[object]
) -> tuple[list[object], list[object]]:
    """Return the typed parts of a prompt, and the texts that the program added.

    If `shown` has what the screen showed, it is the typed text, and all other texts were added. Else the texts between
    the program's marks around the contents of files were added.
    """
    texts = [coerce_text(part) or get_text(coerce_dict(part), "text") for part in parts]
    if shown:
        added = {n for n, text in enumerate(texts) if text}
    else:
        added = _find_referenced([(text or "").strip() for text in texts])
    kept: list[object] = [
        part for n, part in enumerate(parts) if n not in added or not texts[n]
    ]
    return [*shown, *kept], [
        texts[n] for n in sorted(added) if texts[n] and parts[n] not in shown
    ]


def _find_referenced(texts: list[str]) -> set[int]:
    """Return the indices of the texts from the mark before the contents of files to the last mark after them.

    Return none if a mark is missing.
    """
    if not set(REFERENCED) <= set(texts):
        return set()
    return set(
        range(texts.index(REFERENCED[0]), len(texts) - texts[::-1].index(REFERENCED[1]))
    )


def _parse_part(part: Fields) -> Iterator[Block]:
    """Yield the blocks of a part. An attachment's block has its media type, never its bytes."""
    if text := get_text(part, "text"):
        yield Block("thinking" if part.get("thought") is True else "text", text)
    if code := coerce_dict(part.get("executableCode")):
        yield Block("tool_call", get_text(code, "code"), "code_execution")
    if ran := coerce_dict(part.get("codeExecutionResult")):
        failed = ran.get("outcome") not in (None, "OUTCOME_OK")
        yield Block(
            "tool_result", get_text(ran, "output"), "code_execution", is_error=failed
        )
    if call := coerce_dict(part.get("functionCall")):
        yield Block(
            type="tool_call",
            text=encode_json(coerce_dict(call.get("args"))),
            name=get_text(call, "name"),
            call_id=get_id(call, "id"),
        )
    if answer := coerce_dict(part.get("functionResponse")):
        yield Block(
            type="tool_result",
            text=_get_answer(answer),
            name=get_text(answer, "name"),
            call_id=get_id(answer, "id"),
        )
    for key in (*_BINARY, *_DRIVE):
        if data := coerce_dict(part.get(key)):
            media = get_text(data, "mimeType") if key in _BINARY else None
            image = key in ("inlineImage", "driveImage") or (media or "").startswith(
                "image/"
            )
            yield Block(
                "image" if image else "other",
                None if key in _BINARY else encode_json(data),
                key,
                media=media,
            )


def _get_answer(answer: Fields) -> str:
    return get_text(answer, "response.output", "response.error") or encode_json(
        coerce_dict(answer.get("response"))
    )


def _skip_note(fields: Fields) -> Fields | str:
    """Return the fields of a message; of one of the CLI's own notes (info, error, warning), its type."""
    kind = get_text(fields, "type")
    return kind if kind and kind != "gemini" and not parse_role(kind) else fields


STUDIO = ChatFormat(
    open=_open_studio,
    parse=parse_gemini,
    id="",
    time=("createTime",),
)
CLI = ChatFormat(
    open=_open_cli,
    parse=parse_gemini,
    role="type",
    roles={"gemini": "assistant"},
    time=("timestamp",),
    adapt=_skip_note,
)


def _read_gemini(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is the line, or the conversation's number in an array."""
    if get_inner_suffix(path) in (".jsonl", ".ndjson"):
        return _read_cli_lines(path, limits)
    return read_each(
        iter_documents(path, limits),
        lambda number, fields: (
            STUDIO if "chunkedPrompt" in fields else CLI
        ).read_document(path, number, fields),
    )


class _Restored:
    """Finds the messages that `/chat resume` restored: the CLI appends them again, with new ids and one new time.

    The first of them has the session's context in one message with a prompt. Such a message is a copy if its words are
    outside of restored messages in this file, or in another session of the project.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._began: datetime | None = None
        self._said: set[tuple[str, str]] = set()

    def is_copy(self, message: Message) -> bool:
        """Return True if a message is a copy; remember it if it is not restored."""
        key = message.role, message.text
        return self._is_restored(message) and (
            key in self._said or key in self._elsewhere
        )

    def _is_restored(self, message: Message) -> bool:
        """Return True if a message is restored; remember it if it is not."""
        texts = [block.text or "" for block in message.blocks if block.type == "text"]
        opens = len(texts) > 1 and texts[0].lstrip().startswith(CONTEXT)
        if opens and self._said:
            self._began = message.ts
        if self._began is not None and message.ts == self._began:
            return True
        self._began = None
        self._said.add((message.role, message.text))
        return False

    @cached_property
    def _elsewhere(self) -> set[tuple[str, str]]:
        """Role and words of the messages of the project's other sessions that are not restored there."""
        found: set[tuple[str, str]] = set()
        for path in sorted(self._path.parent.glob("session-*.jsonl")):
            if path == self._path:
                continue
            other = _Restored(path, self._limits)
            for record in _parse_cli_lines(path, self._limits):
                if isinstance(record, Message):
                    other._is_restored(record)
            found |= other._said
        return found


def _read_cli_lines(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of a session of lines, without restored copies."""
    restored = _Restored(path, limits)
    for record in _parse_cli_lines(path, limits):
        if isinstance(record, Message) and restored.is_copy(record):
            yield Skipped("restored message", record.line)
        else:
            yield record


def _parse_cli_lines(path: Path, limits: Limits) -> Iterator[Record]:
    chat = Chat(Session(name_by_file(path)))
    live: dict[str, bool] = {}
    for item in iter_json(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line, fields = item
        if "projectHash" in fields and (header := _open_cli(path, line, fields)):
            chat = header
            yield chat.session
        elif back := get_id(fields, "$rewindTo"):
            for gone in _list_from(back, live):
                del live[gone]
                yield Inactive(chat.session.native_id, gone)
        elif patch := coerce_dict(fields.get("$set")):
            yield from _parse_cli_patch(chat, patch, line, live=live)
        else:
            record = CLI.parse_message(
                chat=chat, position=str(line), item=fields, line=line
            )
            if isinstance(record, Message):
                live[record.native_id] = record.origin != "synthetic"
            yield record


def _parse_cli_patch(
    chat: Chat, patch: Fields, line: int, *, live: dict[str, bool]
) -> Iterator[Record]:
    """Yield the title and the new messages that a line sets, and add the messages to `live`."""
    if title := get_text(patch, "summary"):
        yield Session(chat.session.native_id, title=title)
    summary = _list_summary(patch, live)
    for position, message in _list_new(patch, line, live).items():
        record = CLI.parse_message(
            chat=chat, position=position, item=message, line=line
        )
        if isinstance(record, Message):
            if record.native_id in summary:
                record.origin = "synthetic"
            live[record.native_id] = record.origin != "synthetic"
        yield record
    yield Skipped("$set", line)


def _list_new(patch: Fields, line: int, live: Container[str]) -> dict[str, object]:
    """Return the messages of a patch whose ids are not in `live`, by line and place."""
    new = [
        message
        for message in coerce_list(patch.get("messages"))
        if get_id(coerce_dict(message), "id") not in live
    ]
    return {f"{line}.{at}": message for at, message in enumerate(new)}


def _list_summary(patch: Fields, live: Mapping[str, bool]) -> set[str | None]:
    """Return the ids of the messages in a patch that stand for those that it drops: the new ones above what was said.

    Args:
        patch: the fields that a line sets.
        live: the messages so far, each with whether somebody said it.
    """
    ids = [get_id(message, "id") for message in get_objects(patch, "messages")]
    if not ids or live.keys() <= set(ids):
        return set()
    kept = next((at for at, key in enumerate(ids) if key and live.get(key)), len(ids))
    return set(ids[:kept]) - live.keys()


def _list_from(native: str, live: Iterable[str]) -> list[str]:
    """Return the ids from `native` on; all ids if it is not among them."""
    ids = list(live)
    return ids[ids.index(native) :] if native in ids else ids


# Cursor's agent transcripts: lines of `{role, message: {content: […]}}` for messages, and of `{type, …}` for the rest.
# They have no ids and no times: the file is the session, and a line's number is a message's id.

_NOT_CURSOR = frozenset(("uuid", "sessionId", "type", "payload", "parentUuid"))
_PROJECT = re.compile(r"/projects/([^/]+)/agent-transcripts/")
_ADDED = (
    "attached_files",
    "open_and_recently_viewed_files",
    "user_info",
    "system_reminder",
    "external_links",
)


def _sniff_cursor(head: Head) -> bool:
    """Return True if the first object has a role and a message with content, and no key of another tool."""
    first = next(iter(head.objects), {})
    plain_role = isinstance(first.get("role"), str) and not _NOT_CURSOR & first.keys()
    return plain_role and isinstance(get(first, "message.content"), (str, list))


def _read_cursor(path: Path, limits: Limits) -> Iterator[Record]:
    project = _PROJECT.search(path.as_posix())
    about = Session(name_by_file(path), project[1] if project else None)
    if path.parent.name == "subagents":
        about.kind = "subagent"
        about.parent_id = path.parent.parent.name
    chat = Chat(about, text=_extract_prompt)
    yield chat.session
    yield from read_each(
        iter_json(path, limits),
        lambda n, fields: [
            CURSOR.parse_message(chat=chat, position=str(n), item=fields, line=n)
        ],
    )


def _extract_prompt(text: str, role: Role) -> str:
    """Return the person's text without the context that the editor put around it."""
    if role != "user":
        return text
    return extract_outer_body(text, "user_query") or extract_typed(
        strip_tags(text, _ADDED).strip()
    )


CURSOR = ChatFormat(
    parse=lambda fields, role: parse_blocks(get(fields, "message.content")),
    id="",
    adapt=lambda fields: (
        fields if "role" in fields else get_text(fields, "type") or fields
    ),
)


READERS = (
    Reader(
        name="cursor",
        sniff=_sniff_cursor,
        read=_read_cursor,
        locations=lies_below((".cursor/projects",), "*/agent-transcripts/**/*.jsonl"),
        version=6,
    ),
    Reader("claude-ai", starts_with("chat_messages uuid"), CLAUDE_AI.read, version=4),
    Reader(
        name="gemini",
        sniff=starts_with("chunkedPrompt", "projectHash sessionId"),
        read=_read_gemini,
        locations=lies_in(
            "GEMINI_CLI_HOME",
            "",
            (".gemini/tmp",),
            "*/chats/**/*.json",
            "*/chats/**/*.jsonl",
        ),
        version=6,
    ),
    Reader(
        "grok",
        starts_with("conversations conversation responses sender"),
        _read_grok,
        version=2,
    ),
    Reader("openai-chat", _sniff_openai, OPENAI.read, version=4),
)
