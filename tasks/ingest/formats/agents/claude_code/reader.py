"""Claude Code: `~/.claude/projects/<cwd>/<sessionId>.jsonl` and its sub-agents' `agent-*.jsonl`.

How records become messages:

- One answer of the API is streamed as several records that share `message.id`. They become ONE message, whose
  native id, parent and time are those of the first record. Tool results that arrive in between follow it.
- The identity of a message is its uuid: a resumed session replays earlier records under a new session id, and those
  replays are the same messages.
- Whose words: text a person typed is user/human, also when it steered a running turn (`queued_command`); a record
  with nothing but tool results is tool/tool; an answer is assistant/model. A sub-agent's prompt, its notification and
  a team mate's message are agent/model. What the tool wrote itself (meta records, compaction summaries, local
  commands, API errors) is synthetic, and system unless it stands in for an answer.
- A record's session is its `sessionId`; a sub-agent's file is the session `<sessionId>/<agentId>` with that parent.
  Sidechains that older versions wrote into the session's own file stay in it.
- Rewound branches (see `tree`), retracted, superseded and refused messages come as `Inactive`. Warm-up sidechains,
  and records that are no conversation, are `Skipped` by kind.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.claude_code.blocks import (
    CONTINUED,
    extract_claude_user_text,
    join_claude_text,
    parse_claude_content,
)
from slowwave.tasks.ingest.formats.agents.claude_code.sessions import Sessions
from slowwave.tasks.ingest.formats.agents.claude_code.turns import (
    Sender,
    detect_sender,
    fill_results,
    get_content,
    get_origin_kind,
    is_warm_up_prompt,
    read_agent_type,
)
from slowwave.tasks.ingest.parsing.lines import iter_json
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
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.tree import MESSAGE, TYPED, Tree
from slowwave.tasks.ingest.parsing.values import coerce_time

NAME = "claude-code"
TYPES = frozenset(
    {
        *("user", "assistant", "system", "summary", "attachment", "progress", "started", "result", "mode", "relocated"),
        *("custom-title", "ai-title", "last-prompt", "agent-name", "pr-link", "frame-link", "worktree-state"),
        *("queue-operation", "file-history-snapshot", "permission-mode", "bridge-session", "atis-latch"),
    }
)
_TEXT_SUBTYPES = frozenset({"away_summary", "local_command", "informational", "None"})
_MAX_GROUP = 256  # records in one answer; a longer "answer" is a broken id
_MAX_GROUP_CHARS = 64 * 1024 * 1024

Json = dict[str, object]


def sniff(head: Head) -> bool:
    """Return whether a line has Claude Code's session id and one of its record types."""
    dicts = [line for line in head.lines if isinstance(line, dict)]
    if any(_is_claude_record(line) for line in dicts):
        return True
    # A first line over 64 KiB is no whole line yet.
    return not dicts and b'"sessionId"' in head.data and b'"parentUuid"' in head.data


def _is_claude_record(line: Json) -> bool:
    match line.get("type"):
        case "summary":
            return "leafUuid" in line
        case "started" | "result":
            return "agentId" in line and "key" in line
        case str() as kind if kind in TYPES:
            return "sessionId" in line and line.get("sessionId") is not None
        case _:
            return "sessionId" in line and "uuid" in line and "parentUuid" in line


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one transcript, in the order of the file; memory is one answer and a few bytes a record."""
    transcript = _Transcript(path)
    yield from read_each(iter_json(path, limits), transcript.feed)
    yield from transcript.finish()


def list_locations(home: Path) -> list[Location]:
    """Return where Claude Code keeps its transcripts."""
    root = home / ".claude" / "projects"
    return [Location(root, "**/*.jsonl", root.is_dir())]


class _Transcript:
    """What is known while one file is read."""

    def __init__(self, path: Path) -> None:
        stem = path.name.split(".jsonl")[0]
        self._agent = stem if stem.startswith("agent-") else None
        self._speaker = read_agent_type(path) if self._agent else None
        self._tree = Tree()
        self._sessions = Sessions(path, self._agent)
        self._warm: set[str] = set()
        self._alias: dict[str, str] = {}
        self._group: Message | None = None
        self._group_id: tuple[object, ...] | None = None
        self._group_chars = 0
        self._waiting: list[Message] = []
        self._handlers: dict[str, Callable[[int, Json], Iterator[Record]]] = {
            "user": self._handle_user,
            "assistant": self._handle_assistant,
            "system": self._handle_system,
            "attachment": self._handle_attachment,
            "summary": self._handle_title,
            "custom-title": self._handle_title,
            "ai-title": self._handle_title,
        }

    def feed(self, line: int, record: Json) -> Iterator[Record]:
        """Yield what one line gives."""
        if record.get("supersedesUuids") or record.get("retractedMessageUuids") or record.get("refusedUserMessageUuid"):
            yield from self._emit_retractions(record)
        kind = record.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler and self._is_warm_up(record):
            self._add_to_tree(record, 0)
            yield Skipped("warm-up", line)
        elif handler:
            yield from handler(line, record)
        else:
            self._add_to_tree(record, 0)
            known = isinstance(kind, str) and kind in TYPES
            yield Skipped(str(kind) if known else f"unknown: {str(kind)[:80]}", line)

    def finish(self) -> Iterator[Record]:
        """Yield what is known only at the end: titles and rewound branches."""
        yield from self._close_answer()
        yield from self._sessions.collect_titles(self._tree)
        names = self._sessions.list_session_ids()
        for number, uuid in self._tree.find_rewound():
            yield Inactive(names[number], uuid, "rewound")

    # The record types.

    def _handle_user(self, line: int, record: Json) -> Iterator[Record]:
        content = get_content(record)
        if content is None:
            self._add_to_tree(record, 0)
            yield _reject_without_content(line, record)
            return
        blocks = parse_claude_content(content)
        if blocks and all(b.type == "tool_result" or (b.type == "image" and b.call_id) for b in blocks):
            fill_results(blocks, record.get("toolUseResult"))
            yield from self._emit(line, record, "tool", "tool", blocks, "")
            return
        yield from self._close_answer()  # a turn of the user ends the answer before it
        yield from self._emit_turn(line, record, blocks)

    def _handle_assistant(self, line: int, record: Json) -> Iterator[Record]:
        content = get_content(record)
        if content is None:
            self._add_to_tree(record, 0)
            yield _reject_without_content(line, record)
            return
        message = record["message"]
        key = message.get("id") if isinstance(message, dict) else None
        blocks = parse_claude_content(content)
        group = (self._sessions.find_session_id(record), record.get("agentId"), key)
        if isinstance(key, str) and group == self._group_id and self._group is not None:
            self._extend_answer(record, blocks)
            return
        yield from self._close_answer()
        model = message.get("model") if isinstance(message, dict) else None
        synthetic = record.get("isApiErrorMessage") is True or model == "<synthetic>"
        made = list(self._emit(line, record, "assistant", "synthetic" if synthetic else "model", blocks, ""))
        yield from made[:-1]
        self._open_answer(group, made[-1])

    def _handle_system(self, line: int, record: Json) -> Iterator[Record]:
        subtype, content = record.get("subtype"), record.get("content")
        if subtype == "compact_boundary":
            yield from self._close_answer()
        if str(subtype) in _TEXT_SUBTYPES and isinstance(content, str) and content.strip():
            blocks = parse_claude_content(content)
            yield from self._emit(
                line, record, "system", "synthetic", blocks, extract_claude_user_text(join_claude_text(blocks))
            )
            return
        self._add_to_tree(record, 0)
        yield Skipped(f"system/{subtype}" if isinstance(subtype, str) else "system", line)

    def _handle_attachment(self, line: int, record: Json) -> Iterator[Record]:
        attachment = record.get("attachment")
        kind = attachment.get("type") if isinstance(attachment, dict) else None
        if isinstance(attachment, dict) and kind == "queued_command" and attachment.get("prompt"):
            merged = {**record, "origin": attachment.get("origin"), "isMeta": attachment.get("isMeta")}
            if attachment.get("commandMode") == "task-notification":
                merged["origin"] = {"kind": "task-notification"}
            yield from self._emit_turn(line, merged, parse_claude_content(attachment["prompt"]))
            return
        self._add_to_tree(record, 0)
        yield Skipped(f"attachment/{kind}", line)

    def _handle_title(self, line: int, record: Json) -> Iterator[Record]:
        self._sessions.note_title(record)
        yield Skipped(str(record["type"]), line)

    # Turns of the user's side.

    def _emit_turn(self, line: int, record: Json, blocks: list[Block]) -> Iterator[Record]:
        """Yield a turn that is no tool result: a person's, another agent's, or the tool's own."""
        raw = join_claude_text(blocks)
        text = extract_claude_user_text(raw)
        if record.get("isCompactSummary") or record.get("isMeta") or record.get("isVisibleInTranscriptOnly"):
            yield from self._emit(line, record, "system", "synthetic", blocks, text)
            return
        sender = detect_sender(record, raw)
        if sender is None and (record.get("turnCompanion") is True or text.startswith(CONTINUED)):
            yield from self._emit(line, record, "system", "synthetic", blocks, text)
        elif sender is not None and not (text and sender.enveloped):
            yield from self._emit(line, record, "agent", "model", blocks, sender.words or text, sender.name)
        elif text or any(block.type == "image" for block in blocks):
            yield from self._emit_prompt(line, record, blocks, text)
            if sender is not None:  # a person wrote beside another agent's words: two messages
                yield from self._emit_agent_message(line, record, sender)
        else:
            yield from self._emit(line, record, "system", "synthetic", blocks, "")

    def _emit_prompt(self, line: int, record: Json, blocks: list[Block], text: str) -> Iterator[Record]:
        """Yield a prompt: the person's, or in a sidechain the main model's."""
        in_sidechain = self._agent is not None or record.get("isSidechain") is True
        if in_sidechain and get_origin_kind(record) != "human":
            yield from self._emit(line, record, "agent", "model", blocks, text)
        else:
            yield from self._emit(line, record, "user", "human", blocks, text)

    def _emit_agent_message(self, line: int, record: Json, sender: Sender) -> Iterator[Record]:
        uuid = record.get("uuid")
        other: Json = {**record, "uuid": f"{uuid}/agent" if uuid else None, "parentUuid": uuid}
        yield from self._emit(line, other, "agent", "model", [Block("text", sender.words)], sender.words, sender.name)

    # Messages, in order.

    def _emit(
        self,
        line: int,
        record: Json,
        role: Role,
        origin: Origin,
        blocks: list[Block],
        text: str,
        speaker: str | None = None,
    ) -> Iterator[Record]:
        """Yield the message, with its session before it where that is new; held back while an answer is open."""
        session = self._sessions.find_session_id(record)
        yield from self._sessions.announce(session, record)
        uuid, parent = record.get("uuid"), _get_parent(record)
        native = uuid if isinstance(uuid, str) and uuid else f"line-{line}"
        typed = origin == "human" and record.get("type") == "user" and record.get("isSidechain") is not True
        self._tree.add(native, parent, self._sessions.get_number(session), MESSAGE | (TYPED if typed else 0))
        message = Message(
            session=session,
            native_id=native,
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=coerce_time(record.get("timestamp")),
            parent_id=self._alias.get(parent, parent) if parent else None,
            speaker=speaker or (self._speaker if role == "assistant" else None),
            identity=f"{NAME}/{uuid}" if isinstance(uuid, str) and uuid else None,
            line=line,
        )
        if self._group is None or role == "assistant":
            yield message
            return
        self._waiting.append(message)
        self._group_chars += _count_chars(blocks)
        if len(self._waiting) > _MAX_GROUP or self._group_chars > _MAX_GROUP_CHARS:
            yield from self._close_answer()

    def _open_answer(self, key: tuple[object, ...], message: Record) -> None:
        """Hold an answer until its last record has been seen."""
        if isinstance(message, Message):
            self._group, self._group_id = message, key
            self._group_chars = _count_chars(message.blocks)

    def _extend_answer(self, record: Json, blocks: list[Block]) -> None:
        group = self._group
        if group is None:
            return
        group.blocks += blocks
        self._add_to_tree(record, 0)
        uuid = record.get("uuid")
        if isinstance(uuid, str):
            if len(self._alias) >= _MAX_GROUP:
                self._alias.clear()
            self._alias[uuid] = group.native_id
        self._group_chars += _count_chars(blocks)
        if len(group.blocks) > _MAX_GROUP or self._group_chars > _MAX_GROUP_CHARS:
            self._group_id = None  # the next record starts a message of its own

    def _close_answer(self) -> Iterator[Record]:
        """Yield the open answer, whole, and what arrived while it was open."""
        if self._group is None:
            return
        self._group.text = join_claude_text(self._group.blocks)
        yield self._group
        yield from self._waiting
        self._group, self._group_id, self._waiting = None, None, []

    # The tree.

    def _add_to_tree(self, record: Json, flags: int) -> None:
        """Add a record to the tree: one that gives no message still ties its children to its parent."""
        uuid = record.get("uuid")
        if isinstance(uuid, str):
            self._tree.add(uuid, _get_parent(record), 0, flags)

    def _is_warm_up(self, record: Json) -> bool:
        """Return a sidechain the tool starts to warm its cache: the prompt `Warmup` and what answers it."""
        if not (self._agent or record.get("isSidechain") is True):
            return False
        uuid, parent = record.get("uuid"), record.get("parentUuid")
        warm = (isinstance(parent, str) and parent in self._warm) or (
            record.get("type") == "user" and is_warm_up_prompt(get_content(record))
        )
        if warm and isinstance(uuid, str):
            self._warm.add(uuid)
        return warm

    def _emit_retractions(self, record: Json) -> Iterator[Record]:
        session = self._sessions.find_session_id(record)
        for key, reason in (("supersedesUuids", "superseded"), ("retractedMessageUuids", "retracted")):
            uuids = record.get(key)
            for uuid in uuids if isinstance(uuids, list) else []:
                if isinstance(uuid, str):
                    yield Inactive(session, self._alias.get(uuid, uuid), reason)
        refused = record.get("refusedUserMessageUuid")
        if isinstance(refused, str):
            yield Inactive(session, refused, "refused")


def _get_parent(record: Json) -> str | None:
    """Return the parent; across a compaction, where a new root stands, the logical one."""
    parent = record.get("parentUuid") or record.get("logicalParentUuid")
    return parent if isinstance(parent, str) else None


def _count_chars(blocks: list[Block]) -> int:
    return sum(len(block.text) for block in blocks if block.text)


def _reject_without_content(line: int, record: Json) -> Rejected:
    return Rejected(line, f"{record.get('type')} record without message content", str(record.get("message"))[:2_000])


READER = Reader(name=NAME, version=1, sniff=sniff, read=read, locations=list_locations)
