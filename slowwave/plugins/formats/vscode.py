"""VS Code's own chat (Copilot's): `workspaceStorage/<id>/chatSessions/<sessionId>.json`, or `.jsonl` since 1.109.

A `.json` file is one document with the session. A `.jsonl` file is a log of changes to that document: its first line
has the whole of it (kind 0), later lines set a value (1), append to a list that they may cut first (2), or delete one
(3). A chat that is exported has no session id.

Read from the source of the writer (microsoft/vscode: `chatModel.ts`, `chatSessionOperationLog.ts`,
`objectMutationLog.ts`); the editor was not run. A request has the prompt and the answer. The folder is in
`workspace.json` beside `chatSessions`. What a checkpoint takes away is taken back, and so is what a log cuts off.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import orjson

from slowwave.plugins.formats.chats import (
    Chat,
    ChatFormat,
    Fields,
    get,
    get_id,
    get_objects,
    get_text,
    name_by_file,
)
from slowwave.tasks.ingest.parsing.lines import (
    format_excerpt,
    has_keys_in_head,
    iter_documents,
    iter_json,
    read_head,
)
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Location,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    lies_below,
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    encode_json,
    parse_blocks,
)

NAME = "vscode-chat"
BIGGEST_STATE = 1 << 20
"""Most bytes of `workspace.json` that are read."""
LOG = b'{"kind":0,"v":{'
"""With which a log begins."""
WHOLE, SET, PUSH, DELETE = range(4)
"""Kinds of a log's lines."""
EDITORS = ("Code", "Code - Insiders", "VSCodium")
PATTERNS = (
    "workspaceStorage/*/chatSessions/*.json",
    "workspaceStorage/*/chatSessions/*.jsonl",
    "globalStorage/emptyWindowChatSessions/*.json",
    "globalStorage/emptyWindowChatSessions/*.jsonl",
)
OWN_FIELDS = ("response", "result", "variableData", "agent", "slashCommand")
"""Fields of a request that hold nothing a person typed."""
DRIVE = 3
"""Characters of `/c:`, with which the path of a folder on Windows begins."""


# The file.


def sniff(head: Head) -> bool:
    """Return True if a file is a session, or a log that begins with one."""
    if _is_log(head):
        return True
    return has_keys_in_head(head, "responderUsername", "requests")


def _is_log(head: Head) -> bool:
    first = next(iter(head.objects), None)
    if first is None:  # longer than the head
        return head.data.startswith(LOG) and b'"responderUsername"' in head.data
    return first.get("kind") == WHOLE and isinstance(get(first, "v.requests"), list)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of a session; memory is one session."""
    if _is_log(read_head(path)):
        yield from _read_log(path, limits)
        return
    yield from read_each(
        iter_documents(path, limits),
        lambda number, fields: FORMAT.read_document(path, number, fields),
    )


def _read_log(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of the session that a log ends with, and the requests that were cut off before."""
    log = Log()
    last = 1
    for item in iter_json(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        last, entry = item
        if not log.apply(entry):
            yield Rejected(last, "a change of nothing known", format_excerpt(entry))
    live = {get_id(one, "requestId") for one in get_objects(log.state, "requests")}
    gone = [one for key, one in log.cut.items() if key not in live]
    requests = [{**one, "isHidden": True} for one in gone]
    requests += get_objects(log.state, "requests")
    yield from FORMAT.read_document(path, last, {**log.state, "requests": requests})


class Log:
    """A session that is made by the lines of a log."""

    def __init__(self) -> None:
        self.state: Fields = {}
        self.cut: dict[str | None, Fields] = {}
        """Requests that were taken out of the list, by id."""

    def apply(self, entry: Fields) -> bool:
        """Change the session as a line says; return False if the line names no place in it."""
        kind = entry.get("kind")
        path = coerce_list(entry.get("k"))
        if kind == WHOLE:
            self.state = coerce_dict(entry.get("v"))
            return bool(self.state)
        if not path or kind not in (SET, PUSH, DELETE):
            return False
        place = _follow(self.state, path[:-1])
        if kind == PUSH:
            return self._push(place, path, entry)
        return _put(place, path[-1], entry.get("v"))

    def _push(
        self,
        place: object,
        path: list[object],
        entry: Fields,
    ) -> bool:
        """Cut a list where the line says so, and append to it, in its place."""
        found = _follow(place, path[-1:])
        stored = found if isinstance(found, list) else []
        start = entry.get("i")
        if isinstance(start, int) and start >= 0:
            if path == ["requests"]:
                for request in map(coerce_dict, stored[start:]):
                    self.cut[get_id(request, "requestId")] = request
            del stored[start:]
        stored.extend(coerce_list(entry.get("v")))
        return found is stored or _put(place, path[-1], stored)


def _follow(place: object, path: list[object]) -> object:
    """Return the value at a path of keys and numbers; None if there is nothing."""
    for key in path:
        if isinstance(place, list):
            place = (
                place[key] if isinstance(key, int) and 0 <= key < len(place) else None
            )
        else:
            place = coerce_dict(place).get(str(key))
    return place


def _put(place: object, key: object, value: object) -> bool:
    """Set a value in an object or a list; return False if it has no such place."""
    if isinstance(place, dict):
        place[str(key)] = value
        return True
    if isinstance(place, list) and isinstance(key, int) and 0 <= key <= len(place):
        place[key : key + 1] = [value]
        return True
    return False


# The session.


def _open(path: Path, number: int, fields: Fields) -> Chat:
    requests = get_objects(fields, "requests")
    about = Session(
        get_id(fields, "sessionId") or name_by_file(path, number),
        _find_folder(path),
        get_text(fields, "customTitle", "computedTitle"),
    )
    return Chat(
        about,
        [message for one in requests for message in _list_messages(one)],
        fields.get("creationDate"),
        inactive=[
            str(message["id"])
            for one in requests
            if one.get("shouldBeRemovedOnSend") or one.get("isHidden")
            for message in _list_messages(one)
        ],
    )


def _find_folder(path: Path) -> str | None:
    """Return the folder that the window showed, as `workspace.json` names it."""
    state = path.parent.with_name("workspace.json")
    with suppress(OSError, ValueError):
        if not state.is_symlink() and state.stat().st_size <= BIGGEST_STATE:
            named = coerce_dict(orjson.loads(state.read_bytes())).get("folder")
            return _read_folder(coerce_text(named) or "") or None
    return None


def _read_folder(address: str) -> str:
    """Return the path of an address: `file:///c%3A/x` is `c:/x`, and of another machine's the path there."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.scheme == "file" and parts.netloc:
        return f"//{unquote(parts.netloc)}{path}"
    return path[1:] if path[2:DRIVE] == ":" else path


def _list_messages(request: Fields) -> list[Fields]:
    """Return prompt and answer of a request, in Anthropic's form."""
    named = get_id(request, "requestId") or ""
    message = request.get("message")
    typed = message if isinstance(message, str) else get_text(request, "message.text")
    by_program = request.get("confirmation") or request.get("isSystemInitiated")
    prompt = {
        "id": named,
        "role": "user",
        "content": typed or "",
        "ts": request.get("timestamp"),
        "hidden": bool(by_program),
        # in a form that is not known: what is left of it is looked through
        "request": {} if typed else _drop_read(request),
    }
    answer = {
        "id": get_id(request, "responseId") or f"{named}/answer",
        "role": "assistant",
        "content": _list_parts(coerce_list(request.get("response"))),
        "ts": get(request, "modelState.completedAt") or request.get("timestamp"),
        "parent": named,
    }
    return [prompt, answer] if answer["content"] else [prompt]


def _drop_read(request: Fields) -> Fields:
    """Return a request without the fields that are read, or are the program's."""
    return {key: value for key, value in request.items() if key not in OWN_FIELDS}


def _list_parts(parts: list[object]) -> list[Fields]:
    """Return the parts of an answer: pieces of one text are joined."""
    listed: list[Fields] = []
    for item in parts:
        part = coerce_dict(item)
        words = item if isinstance(item, str) else _read_words(part)
        if words is None:
            listed += _list_other(part)
        elif listed and listed[-1]["type"] == "text":
            listed[-1]["text"] = f"{listed[-1]['text']}{words}"
        else:
            listed.append({"type": "text", "text": words})
    return listed


def _read_words(part: Fields) -> str | None:
    """Return the text of a part that is text, or a name in it; None for another."""
    kind = part.get("kind")
    if kind == "inlineReference":
        place = coerce_dict(part.get("inlineReference"))
        path = get_text(place, "path", "uri.path", "location.uri.path") or ""
        return (
            get_text(part, "name")
            or get_text(place, "name")
            or PurePosixPath(path).name
        )
    if kind in ("markdownContent", "markdownVuln"):
        return _read_markdown(part.get("content"))
    return _read_markdown(part) if kind is None else None


def _read_markdown(text: object) -> str:
    """Return a text that stands alone or in an object."""
    return text if isinstance(text, str) else str(coerce_dict(text).get("value") or "")


def _list_other(part: Fields) -> list[Fields]:
    """Return the items of a part other than text: thinking, tool calls, or the name of another kind."""
    kind = str(part.get("kind"))
    if kind == "thinking":
        value = part.get("value")
        thought = "\n".join(map(str, value)) if isinstance(value, list) else value
        return [{"type": "thinking", "thinking": str(thought or "")}]
    if kind == "toolInvocationSerialized":
        return _list_tool_parts(part)
    return [{"type": "other", "name": kind}]


def _list_tool_parts(part: Fields) -> list[Fields]:
    """Return the call of a tool and its result."""
    data, details = (
        coerce_dict(part.get(name)) for name in ("toolSpecificData", "resultDetails")
    )
    line = get_text(data, *(f"commandLine.{by}" for by in ("userEdited", "toolEdited")))
    line = line or get_text(data, "commandLine.original", "command", "commandLine")
    given: object = {"command": line} if line else data.get("rawInput")
    given = (
        given or details.get("input") or _read_markdown(part.get("invocationMessage"))
    )
    outputs = [_read_markdown(one) for one in get_objects(details, "output")]
    output = get_text(data, "terminalCommandOutput.text") or "\n".join(outputs)
    output = output or _read_markdown(part.get("pastTenseMessage"))
    status = get(data, "terminalCommandState.exitCode")
    named = get_id(part, "toolCallId")
    failed = bool(details.get("isError")) or (isinstance(status, int) and status != 0)
    return [
        {
            "type": "tool_use",
            "id": named,
            "name": get_text(part, "toolId"),
            "input": given if isinstance(given, str | dict) else encode_json(given),
        },
        {
            "type": "tool_result",
            "tool_use_id": named,
            "content": output,
            "is_error": failed,
        },
    ]


def _parse(fields: Fields, role: Role) -> list[Block] | None:
    return parse_blocks(fields.get("content"))


def _list_places(home: Path) -> list[Location]:
    """Return where editors keep their chats on Linux, macOS and Windows."""
    users = [f"{editor}/User" for editor in EDITORS]
    return [
        *lies_in("XDG_CONFIG_HOME", ".config", users, *PATTERNS)(home),
        *lies_below(
            [
                f"{folder}/{user}"
                for folder in ("Library/Application Support", "AppData/Roaming")
                for user in users
            ],
            *PATTERNS,
        )(home),
    ]


FORMAT = ChatFormat(
    open=_open,
    parse=_parse,
    time=("ts",),
    parent="parent",
    hides=lambda fields: bool(fields.get("hidden")),
)
READER = Reader(name=NAME, sniff=sniff, read=read, locations=_list_places, version=3)
