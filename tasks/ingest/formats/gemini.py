"""Google's Gemini: AI Studio prompts (`chunkedPrompt`), alone or as an exported array, and the Gemini CLI's sessions.

The CLI keeps a session as one JSON document, or, since 0.40, as lines that are appended: a header, messages (the same
id again is a newer version of the message), `$set` patches, and `$rewindTo` marks that take back a message and all
after it. AI Studio gives chunks no time, so they bear their conversation's.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from slowwave.tasks.ingest.parsing.documents import iter_documents, starts_with
from slowwave.tasks.ingest.parsing.lines import bare_suffix, iter_json
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
)
from slowwave.tasks.ingest.parsing.values import as_dict, as_id, as_list, as_text, as_time, json_text, sample, spoken

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
    """Whether the file starts as an AI Studio prompt, an array of them, or a Gemini CLI session."""
    return starts_with(head, "chunkedPrompt") or starts_with(head, "projectHash", "sessionId")


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Records of each conversation; `line` is the line, or the conversation's number in an array."""
    if bare_suffix(path) in (".jsonl", ".ndjson"):
        yield from _cli_lines(path, limits)
        return
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
        elif "chunkedPrompt" in item[1]:
            yield from _studio(path, *item)
        else:
            yield from _cli_document(*item)


def _studio(path: Path, number: int, conversation: dict[str, object]) -> Iterator[Record]:
    stem = path.name.split(".")[0]
    session = as_id(conversation.get("id")) or (stem if number == 1 else f"{stem}:{number}")
    yield Session(session, title=as_text(conversation.get("title")) or as_text(conversation.get("name")))
    begun = conversation.get("create_time") or conversation.get("createTime")
    if system := _parts(as_dict(conversation.get("systemInstruction"))):
        first = Message(session, "system", "system", "synthetic", system, spoken(system), as_time(begun), line=number)
        yield first
    for position, chunk in enumerate(as_list(as_dict(conversation.get("chunkedPrompt")).get("chunks"))):
        fields = as_dict(chunk)
        at = fields.get("createTime") or begun
        yield _message(session, str(position), fields, fields.get("role"), at, number)


def _message(
    session: str, native_id: str, fields: dict[str, object], role: object, at: object, line: int
) -> Message | Rejected | Skipped:
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        return Rejected(line, f"message {native_id} has unknown role {role!r}", sample(fields))
    blocks = [*_thoughts(fields), *_parts(fields), *_calls(fields)]
    if not blocks:
        return Skipped("empty message", line)
    return Message(session, native_id, *known, blocks, spoken(blocks), as_time(at), line=line)


def _parts(fields: dict[str, object]) -> list[Block]:
    """`parts`, or a list in `content`, or else the plain text; then what is attached beside them."""
    listed = as_list(fields.get("parts")) or as_list(fields.get("content"))
    if not listed:
        listed = [{"text": fields.get("text") or fields.get("content"), "thought": fields.get("isThought")}]
    found = chain.from_iterable(_part(part) for part in listed)
    return [*found, *_attached({k: v for k, v in fields.items() if k in _BINARY or k in _DRIVE})]


def _part(part: object) -> Iterator[Block]:
    fields: dict[str, object] = {"text": part} if isinstance(part, str) else as_dict(part)
    if text := as_text(fields.get("text")):
        yield Block("thinking" if fields.get("thought") is True else "text", text)
    if code := as_dict(fields.get("executableCode")):
        yield Block("tool_call", as_text(code.get("code")), name="code_execution")
    if ran := as_dict(fields.get("codeExecutionResult")):
        failed = ran.get("outcome") not in (None, "OUTCOME_OK")
        yield Block("tool_result", as_text(ran.get("output")), name="code_execution", is_error=failed)
    if call := as_dict(fields.get("functionCall")):
        args = json_text(as_dict(call.get("args")))
        yield Block("tool_call", args, name=as_text(call.get("name")), call_id=as_id(call.get("id")))
    if answer := as_dict(fields.get("functionResponse")):
        yield _response(answer)
    yield from _attached(fields)


def _response(answer: dict[str, object]) -> Block:
    response = as_dict(answer.get("response"))
    text = as_text(response.get("output")) or as_text(response.get("error")) or json_text(response)
    return Block("tool_result", text, name=as_text(answer.get("name")), call_id=as_id(answer.get("id")))


def _attached(fields: dict[str, object]) -> Iterator[Block]:
    """Images by their media type, other files by what they are; the bytes are left out."""
    for key in _BINARY:
        if data := as_dict(fields.get(key)):
            media = as_text(data.get("mimeType"))
            image = key == "inlineImage" or (media or "").startswith("image/")
            yield Block("image" if image else "other", name=key, media=media)
    for key in _DRIVE:
        if data := as_dict(fields.get(key)):
            yield Block("image" if key == "driveImage" else "other", json_text(data), name=key)


def _thoughts(fields: dict[str, object]) -> Iterator[Block]:
    for thought in map(as_dict, as_list(fields.get("thoughts"))):
        parts = (as_text(thought.get("subject")), as_text(thought.get("description")))
        if text := "\n".join(part for part in parts if part):
            yield Block("thinking", text)


def _calls(fields: dict[str, object]) -> Iterator[Block]:
    """The CLI's tool calls, each with its result where there is one yet."""
    for call in map(as_dict, as_list(fields.get("toolCalls"))):
        name, call_id = as_text(call.get("name")), as_id(call.get("id"))
        yield Block("tool_call", json_text(as_dict(call.get("args"))), name=name, call_id=call_id)
        answers = [as_dict(as_dict(part).get("functionResponse")) for part in as_list(call.get("result"))]
        text = "\n".join(_response(answer).text or "" for answer in answers if answer)
        if text := text or as_text(call.get("resultDisplay")) or "":
            failed = None if call.get("status") is None else call.get("status") != "success"
            yield Block("tool_result", text, name=name, call_id=call_id, is_error=failed)


def _cli_document(number: int, document: dict[str, object]) -> Iterator[Record]:
    session = as_id(document.get("sessionId"))
    if session is None or not isinstance(document.get("messages"), list):
        missing = "sessionId" if session is None else "messages"
        yield Rejected(number, f"Gemini session without {missing}", sample(document))
        return
    yield _cli_session(session, document)
    for position, item in enumerate(as_list(document.get("messages"))):
        yield _cli_message(session, str(position), item, number)


def _cli_session(session: str, fields: dict[str, object]) -> Session:
    found = Session(session, workspace=as_text(fields.get("projectHash")), title=as_text(fields.get("summary")))
    if fields.get("kind") == "subagent":
        found.kind = "subagent"
    return found


def _cli_message(session: str, position: str, item: object, line: int) -> Message | Rejected | Skipped:
    fields = as_dict(item)
    kind = fields.get("type")
    if not isinstance(kind, str):
        return Rejected(line, f"message {position} has no type", sample(item))
    if kind not in _ROLES:
        return Skipped(kind, line)  # info, error, warning: the program's own notes
    native_id = as_id(fields.get("id")) or position
    return _message(session, native_id, fields, kind, fields.get("timestamp"), line)


def _cli_lines(path: Path, limits: Limits) -> Iterator[Record]:
    session = path.name.split(".")[0]
    live: dict[str, None] = {}
    for item in iter_json(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line, fields = item
        if "projectHash" in fields and (named := as_id(fields.get("sessionId"))):
            session = named
            yield _cli_session(session, fields)
        elif back := as_id(fields.get("$rewindTo")):
            yield from _rewound(session, live, back)
        elif patch := as_dict(fields.get("$set")):
            yield from _patched(session, patch, live, line)
        else:
            message = _cli_message(session, str(line), fields, line)
            if isinstance(message, Message):
                live[message.native_id] = None
            yield message


def _rewound(session: str, live: dict[str, None], back: str) -> Iterator[Inactive]:
    """What a rewind takes back: the message it names and all after it; all there is when it names none of them."""
    ids = list(live)
    for native_id in ids[ids.index(back) if back in live else 0 :]:
        del live[native_id]
        yield Inactive(session, native_id, "rewound")


def _patched(session: str, patch: dict[str, object], live: dict[str, None], line: int) -> Iterator[Record]:
    """A patch may name the session's summary, and list its messages: those that are new are read."""
    if title := as_text(patch.get("summary")):
        yield Session(session, title=title)
    fresh = [item for item in as_list(patch.get("messages")) if as_id(as_dict(item).get("id")) not in live]
    for position, item in enumerate(fresh):
        message = _cli_message(session, f"{line}.{position}", item, line)
        if isinstance(message, Message):
            live[message.native_id] = None
        yield message
    yield Skipped("$set", line)


def locations(home: Path) -> list[Location]:
    """The Gemini CLI's recordings, of either kind."""
    root = home / ".gemini" / "tmp"
    return [Location(root, f"*/chats/**/*.{kind}", root.is_dir()) for kind in ("json", "jsonl")]


READER = Reader("gemini", 1, sniff, read, locations)
