"""Google's Gemini: AI Studio prompts (`chunkedPrompt`), alone or as an exported array, and the Gemini CLI's sessions.

The CLI keeps a session as one JSON document, or, since 0.40, as lines that are appended: a header, messages (the same
id again is a newer version of the message), `$set` patches, and `$rewindTo` marks that take back a message and all
after it. AI Studio gives chunks no time, so they bear their conversation's.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.lines import get_inner_suffix, iter_json
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
    Limits,
    Location,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
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
    format_excerpt,
    join_text_blocks,
)

_ROLES: dict[str, tuple[Role, Origin]] = {
    "user": ("user", "human"),
    "model": ("assistant", "model"),
    "gemini": ("assistant", "model"),
    "assistant": ("assistant", "model"),
    "system": ("system", "synthetic"),
}
_BINARY = ("inlineData", "inlineImage", "inlineAudio", "inlineVideo", "inlineFile")
_DRIVE = ("driveDocument", "driveImage", "driveAudio", "driveVideo", "youtubeVideo", "fileData")


def sniff(head: Head) -> bool:
    """Return whether the file starts as an AI Studio prompt, an array of them, or a Gemini CLI session."""
    return has_leading_keys(head, "chunkedPrompt") or has_leading_keys(head, "projectHash", "sessionId")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each conversation; `line` is the line, or the conversation's number in an array."""
    if get_inner_suffix(path) in (".jsonl", ".ndjson"):
        return _read_cli_lines(path, limits)
    return read_each(iter_documents(path, limits), partial(_read_document, path))


def _read_document(path: Path, number: int, conversation: dict[str, object]) -> Iterator[Record]:
    if "chunkedPrompt" in conversation:
        return _read_studio_prompt(path, number, conversation)
    return _read_cli_document(number, conversation)


def _read_studio_prompt(path: Path, number: int, conversation: dict[str, object]) -> Iterator[Record]:
    stem = path.name.split(".")[0]
    session = coerce_id(conversation.get("id")) or (stem if number == 1 else f"{stem}:{number}")
    yield Session(session, title=coerce_text(conversation.get("title")) or coerce_text(conversation.get("name")))
    begun = conversation.get("create_time") or conversation.get("createTime")
    if system := _parse_parts(coerce_dict(conversation.get("systemInstruction"))):
        first = Message(
            session, "system", "system", "synthetic", system, join_text_blocks(system), coerce_time(begun), line=number
        )
        yield first
    for position, chunk in enumerate(coerce_list(coerce_dict(conversation.get("chunkedPrompt")).get("chunks"))):
        fields = coerce_dict(chunk)
        at = fields.get("createTime") or begun
        yield _parse_message(session, str(position), fields, fields.get("role"), at, number)


def _parse_message(
    session: str, native_id: str, fields: dict[str, object], role: object, at: object, line: int
) -> Message | Rejected | Skipped:
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        return Rejected(line, f"message {native_id} has unknown role {role!r}", format_excerpt(fields))
    blocks = [*_parse_thoughts(fields), *_parse_parts(fields), *_parse_calls(fields)]
    if not blocks:
        return Skipped("empty message", line)
    return Message(session, native_id, *known, blocks, join_text_blocks(blocks), coerce_time(at), line=line)


def _parse_parts(fields: dict[str, object]) -> list[Block]:
    """Return `parts`, or a list in `content`, or else the plain text; then what is attached beside them."""
    listed = coerce_list(fields.get("parts")) or coerce_list(fields.get("content"))
    if not listed:
        listed = [{"text": fields.get("text") or fields.get("content"), "thought": fields.get("isThought")}]
    found = chain.from_iterable(_parse_part(part) for part in listed)
    return [*found, *_parse_attachments({k: v for k, v in fields.items() if k in _BINARY or k in _DRIVE})]


def _parse_part(part: object) -> Iterator[Block]:
    fields: dict[str, object] = {"text": part} if isinstance(part, str) else coerce_dict(part)
    if text := coerce_text(fields.get("text")):
        yield Block("thinking" if fields.get("thought") is True else "text", text)
    if code := coerce_dict(fields.get("executableCode")):
        yield Block("tool_call", coerce_text(code.get("code")), name="code_execution")
    if ran := coerce_dict(fields.get("codeExecutionResult")):
        failed = ran.get("outcome") not in (None, "OUTCOME_OK")
        yield Block("tool_result", coerce_text(ran.get("output")), name="code_execution", is_error=failed)
    if call := coerce_dict(fields.get("functionCall")):
        args = encode_json(coerce_dict(call.get("args")))
        yield Block("tool_call", args, name=coerce_text(call.get("name")), call_id=coerce_id(call.get("id")))
    if answer := coerce_dict(fields.get("functionResponse")):
        yield _parse_response(answer)
    yield from _parse_attachments(fields)


def _parse_response(answer: dict[str, object]) -> Block:
    response = coerce_dict(answer.get("response"))
    text = coerce_text(response.get("output")) or coerce_text(response.get("error")) or encode_json(response)
    return Block("tool_result", text, name=coerce_text(answer.get("name")), call_id=coerce_id(answer.get("id")))


def _parse_attachments(fields: dict[str, object]) -> Iterator[Block]:
    """Yield images by their media type, other files by what they are; the bytes are left out."""
    for key in _BINARY:
        if data := coerce_dict(fields.get(key)):
            media = coerce_text(data.get("mimeType"))
            image = key == "inlineImage" or (media or "").startswith("image/")
            yield Block("image" if image else "other", name=key, media=media)
    for key in _DRIVE:
        if data := coerce_dict(fields.get(key)):
            yield Block("image" if key == "driveImage" else "other", encode_json(data), name=key)


def _parse_thoughts(fields: dict[str, object]) -> Iterator[Block]:
    for thought in map(coerce_dict, coerce_list(fields.get("thoughts"))):
        parts = (coerce_text(thought.get("subject")), coerce_text(thought.get("description")))
        if text := "\n".join(part for part in parts if part):
            yield Block("thinking", text)


def _parse_calls(fields: dict[str, object]) -> Iterator[Block]:
    """Yield the CLI's tool calls, each with its result where there is one yet."""
    for call in map(coerce_dict, coerce_list(fields.get("toolCalls"))):
        name, call_id = coerce_text(call.get("name")), coerce_id(call.get("id"))
        yield Block("tool_call", encode_json(coerce_dict(call.get("args"))), name=name, call_id=call_id)
        answers = [coerce_dict(coerce_dict(part).get("functionResponse")) for part in coerce_list(call.get("result"))]
        text = "\n".join(_parse_response(answer).text or "" for answer in answers if answer)
        if text := text or coerce_text(call.get("resultDisplay")) or "":
            failed = None if call.get("status") is None else call.get("status") != "success"
            yield Block("tool_result", text, name=name, call_id=call_id, is_error=failed)


def _read_cli_document(number: int, document: dict[str, object]) -> Iterator[Record]:
    session = coerce_id(document.get("sessionId"))
    if session is None or not isinstance(document.get("messages"), list):
        missing = "sessionId" if session is None else "messages"
        yield Rejected(number, f"Gemini session without {missing}", format_excerpt(document))
        return
    yield _parse_cli_session(session, document)
    for position, item in enumerate(coerce_list(document.get("messages"))):
        yield _parse_cli_message(session, str(position), item, number)


def _parse_cli_session(session: str, fields: dict[str, object]) -> Session:
    found = Session(session, workspace=coerce_text(fields.get("projectHash")), title=coerce_text(fields.get("summary")))
    if fields.get("kind") == "subagent":
        found.kind = "subagent"
    return found


def _parse_cli_message(session: str, position: str, item: object, line: int) -> Message | Rejected | Skipped:
    fields = coerce_dict(item)
    kind = fields.get("type")
    if not isinstance(kind, str):
        return Rejected(line, f"message {position} has no type", format_excerpt(item))
    if kind not in _ROLES:
        return Skipped(kind, line)  # info, error, warning: the program's own notes
    native_id = coerce_id(fields.get("id")) or position
    return _parse_message(session, native_id, fields, kind, fields.get("timestamp"), line)


def _read_cli_lines(path: Path, limits: Limits) -> Iterator[Record]:
    session = path.name.split(".")[0]
    live: dict[str, None] = {}
    for item in iter_json(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line, fields = item
        if "projectHash" in fields and (named := coerce_id(fields.get("sessionId"))):
            session = named
            yield _parse_cli_session(session, fields)
        elif back := coerce_id(fields.get("$rewindTo")):
            yield from _apply_rewind(session, live, back)
        elif patch := coerce_dict(fields.get("$set")):
            yield from _apply_patch(session, patch, live, line)
        else:
            message = _parse_cli_message(session, str(line), fields, line)
            if isinstance(message, Message):
                live[message.native_id] = None
            yield message


def _apply_rewind(session: str, live: dict[str, None], back: str) -> Iterator[Inactive]:
    """Yield what a rewind takes back: the message it names and all after it.

    All there is when it names none of them.
    """
    ids = list(live)
    for native_id in ids[ids.index(back) if back in live else 0 :]:
        del live[native_id]
        yield Inactive(session, native_id, "rewound")


def _apply_patch(session: str, patch: dict[str, object], live: dict[str, None], line: int) -> Iterator[Record]:
    """Yield a patch may name the session's summary, and list its messages: those that are new are read."""
    if title := coerce_text(patch.get("summary")):
        yield Session(session, title=title)
    fresh = [item for item in coerce_list(patch.get("messages")) if coerce_id(coerce_dict(item).get("id")) not in live]
    for position, item in enumerate(fresh):
        message = _parse_cli_message(session, f"{line}.{position}", item, line)
        if isinstance(message, Message):
            live[message.native_id] = None
        yield message
    yield Skipped("$set", line)


def list_locations(home: Path) -> list[Location]:
    """Return the Gemini CLI's recordings, of either kind."""
    root = home / ".gemini" / "tmp"
    return [Location(root, f"*/chats/**/*.{kind}", root.is_dir()) for kind in ("json", "jsonl")]


READER = Reader("gemini", 1, sniff, read, list_locations)
