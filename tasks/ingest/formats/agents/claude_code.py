"""Claude Code: `~/.claude/projects/<cwd>/<sessionId>.jsonl` and its sub-agents' `agent-*.jsonl`.

How records become messages:

- One answer of the API is streamed as several records that share `message.id`. They become ONE message, whose
  native id, parent and time are those of the first record. Tool results that arrive in between follow it.
- The identity of a message is its uuid: a resumed session replays earlier records under a new session id, and those
  replays are the same messages.
- Role and origin: text that a person typed is user/human, also after a slash command, and when it steered a running
  turn (`queued_command`, whose time is when it was typed; here it is never before the record above it). A record with
  nothing but tool results is tool/tool. What a person typed when refusing a call stands in its result, and is a message
  of theirs beside it. An answer is assistant/model. A sub-agent's prompt, its notification, a team
  mate's message and a program's prompt (`entrypoint` `sdk-…`) are agent/model. The tool's own records (meta records,
  compaction summaries, local commands, API errors) are synthetic, and system unless they replace an answer. If no
  message is above a compaction summary, the summary is all that is left of the session, so it can be recalled.
- A session that a program began is `scheduled`. In it two things are synthetic, since observers of other memory tools
  talk so: a prompt with a block whose name a program made, and an answer that consists of blocks.
- A record's session is its `sessionId`; a sub-agent's file is the session `<sessionId>/<agentId>` with that parent.
  Sidechains that older versions wrote into the session's own file stay in it.
- Rewound branches (see `Tree`), retracted, superseded and refused messages come as `Inactive`. Warm-up sidechains,
  and records outside the conversation, are `Skipped` by kind.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from slowwave.schemas.vocabulary import SAID, SUMMARISED
from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import (
    AGENT,
    HUMAN,
    MODEL,
    SUMMARY,
    SYSTEM,
    TOOL,
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    SessionKind,
    Skipped,
    Who,
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.unread import holds_turn, leave_out
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    extract_tag_attribute,
    extract_tag_body,
    extract_typed,
    has_named_block,
    is_only_blocks,
    join_text,
    parse_blocks,
    strip_tags,
)

Json = dict[str, object]

AGENT_TAGS = ("task-notification", "teammate-message")
"""Tags around another agent's words in a turn of the user."""

NOISE_TAGS = (
    *("command-name", "command-message", "command-contents"),
    *("local-command-stdout", "local-command-stderr", "local-command-caveat"),
    *(
        "bash-input",
        "bash-stdout",
        "bash-stderr",
        "user-memory-input",
        "user-prompt-submit-hook",
    ),
    *(
        "system-reminder",
        "ide_opened_file",
        "ide_selection",
        "ide_diagnostics",
        "new-diagnostics",
    ),
    *AGENT_TAGS,
)
COMMAND = "command-args"
"""The tag around the words that a person typed after a slash command."""
CAVEAT = "Caveat: The messages below"
REFUSED = "The user doesn't want to proceed with this tool use."
"""Start of the result of a call that a person refused."""
REFUSED_BECAUSE = "the user said:\n"
"""Before the words that the person typed with it."""
SERVER_TOOL = "mcp__"
"""Start of the names of tools that a server brings: their results may say anything."""
INTERRUPTED = "[Request interrupted by user"
CONTINUED = "This session is being continued from a previous conversation"

_AGENT_KINDS = frozenset(
    {"task-notification", "coordinator", "peer", "teammate", "agent", "subagent"}
)


# Content.


def get_content(record: Json) -> object:
    """Return the message's content, also if `message` is a plain string; None if there is none.

    A single block becomes a list of one. Other tools with the same records keep their blocks in `parts`.
    """
    message = record.get("message")
    if isinstance(message, str):
        return message
    fields = coerce_dict(message)
    content = (
        fields.get("parts") if fields.get("content") is None else fields["content"]
    )
    return [content] if isinstance(content, dict) else content


def _has_content(record: Json, kind: str) -> bool:
    """Return True if a message has content; a user's must be text or a list of blocks."""
    content = get_content(record)
    return content is not None and (kind != "user" or isinstance(content, str | list))


def join_claude_text(blocks: list[Block]) -> str:
    """Return the text of the text blocks, cleaned."""
    return clean_text(join_text(blocks, "\n\n"))


def extract_claude_user_text(text: str) -> str:
    """Return the text that the person typed, without the tool's tags, caveats and interruption marks."""
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(CAVEAT):
        text = text.partition("\n")[2].strip()
    if text.startswith(INTERRUPTED):
        text = text.partition("]")[2].strip()
    arguments = extract_tag_body(text, COMMAND)
    if arguments is not None:
        text = "\n".join(
            filter(None, (strip_tags(text, (COMMAND,)).strip(), arguments))
        )
    return extract_typed(text)


# Whose turn it is.


@dataclass(slots=True)
class Sender:
    """Another agent that wrote (a part of) a turn of the user."""

    words: str
    name: str | None
    enveloped: bool
    """True if the words are in a tag, so that a person's words may be beside them."""


def detect_sender(record: Json, text: str) -> Sender | None:
    """Return the agent that wrote (a part of) a turn of the user; None if a person or the tool did."""
    for tag in AGENT_TAGS:
        body = extract_tag_body(text, tag)
        if body is not None:
            # a notification has the sub-agent's answer in <result>, and a short form of it in <summary>
            words = (
                extract_tag_body(body, "result")
                or extract_tag_body(body, "summary")
                or body
            )
            return Sender(
                words, extract_tag_attribute(text, tag, "teammate_id"), enveloped=True
            )
    origin = coerce_dict(record.get("origin"))
    if str(origin.get("kind")) in _AGENT_KINDS or "senderTaskId" in origin:
        return Sender("", coerce_text(origin.get("from")), enveloped=False)
    return None


NAME = "claude-code"
TYPES = frozenset(
    {
        *(
            "user",
            "assistant",
            "system",
            "summary",
            "attachment",
            "progress",
            "started",
            "result",
            "mode",
            "relocated",
        ),
        *(
            "custom-title",
            "ai-title",
            "last-prompt",
            "agent-name",
            "pr-link",
            "frame-link",
            "worktree-state",
        ),
        *(
            "queue-operation",
            "file-history-snapshot",
            "permission-mode",
            "bridge-session",
            "atis-latch",
        ),
        # Claude Code 2.1.332: copies of what was sent to the model, and sums of it
        *(
            "api-request",
            "api-request-shape",
            "api-request-blob",
            "tools-used",
            "cost-state",
        ),
    }
)
_TEXT_SUBTYPES = (None, "away_summary", "local_command", "informational")
_TITLES = {
    "custom-title": (3, "customTitle"),
    "ai-title": (2, "aiTitle"),
    "summary": (1, "summary"),
}
"""By record type: the rank of the title (the highest wins, a person's own) and its field."""
_MAX_GROUP = 256  # records in one answer; a longer "answer" is a broken id


def sniff(head: Head) -> bool:
    """Return True if a line has Claude Code's session id and one of its record types."""
    return any(map(_is_claude_record, head.objects)) or head.is_cut(
        "sessionId", "parentUuid"
    )


def _is_claude_record(line: Json) -> bool:
    match line.get("type"):
        case "summary":
            return "leafUuid" in line
        case "started" | "result":
            return "agentId" in line and "key" in line
        case "user" | "assistant" as kind if line.get("sessionId") is None:
            # a part of a session without ids: a message of the API is enough
            message = coerce_dict(line.get("message"))
            return message.get("role") == kind and isinstance(
                message.get("content"), str | list
            )
        case str() as kind if kind in TYPES:
            return line.get("sessionId") is not None
        case _:
            return {"sessionId", "uuid", "parentUuid"} <= line.keys()


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of one transcript, in the order of the file. Memory holds one answer and all messages' ids."""
    transcript = ClaudeTranscript(path, NAME)
    yield from read_each(iter_json(path, limits), transcript.feed)
    yield from transcript.finish()


class Tree:
    """The tree of a transcript's records, in the order of the file."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str | None, str | None]] = []
        """The uuid and parent of each record, and the session of its message (None without a message)."""
        self._typed_children: dict[str, list[int]] = {}
        self._root: int | None = None
        """The last prompt without a parent, while no answer follows it."""
        self._root_has_child = False

    def add(
        self,
        record: Json,
        session: str | None = None,
        *,
        typed: bool = False,
    ) -> None:
        """Add a record; one without a uuid is ignored.

        Args:
            record: the record. Without a message it is needed too, since it connects its children to its parent.
            session: the session of its message; None without a message.
            typed: True if a person wrote it.
        """
        uuid = record.get("uuid")
        parent = _get_parent(record)
        if isinstance(uuid, str):
            if typed and parent:
                self._typed_children.setdefault(parent, []).append(len(self.records))
            elif typed:
                self._add_root(session)
            elif self._root is not None and parent == self.records[self._root][0]:
                self._root_has_child = True
            self.records.append((uuid, parent, session))
        if record.get("type") == "assistant":
            self._root = None

    def _add_root(self, session: str | None) -> None:
        """Add a prompt without a parent. It replaces the root before it in its session if that was never answered.

        A person interrupted the first prompt before its answer began, and sent it again. Only in a file whose records
        name their parents, since in others each prompt is a root.
        """
        number = len(self.records)
        last = self._root
        if last is not None and self._root_has_child:
            uuid, _, of = self.records[last]
            if of == session:
                group = self._typed_children.setdefault(f"root {uuid}", [last])
                group.append(number)
        self._root = number
        self._root_has_child = False

    def find_rewound(self) -> Iterator[Inactive]:
        """Yield each message on an abandoned branch as inactive.

        Only two typed messages under the same parent are a rewind, and the later one is kept. Parallel tool calls,
        retries and sidechains fork too, but are not taken back. A record that is replayed with the same uuid is not its
        own sibling. One pass in the order of the file is enough, since a child follows its parent. So a cycle or a
        missing parent does no harm.
        """
        records = self.records
        siblings = self._typed_children.values()
        replaced = [
            i
            for group in siblings
            for i in group
            if records[i][0] != records[group[-1]][0]
        ]
        dead = {records[i][0] for i in replaced}
        for uuid, parent, session in records[min(replaced, default=len(records)) :]:
            if uuid in dead or parent in dead:
                dead.add(uuid)
                if session:
                    yield Inactive(session, uuid)


def _read_agent_type(path: Path, stem: str) -> str | None:
    """Return the type of a sub-agent, from the small file beside its transcript; None without that file."""
    meta = path.with_name(f"{stem}.meta.json")
    if not meta.is_file():  # opening a pipe would wait
        return None
    with suppress(OSError, orjson.JSONDecodeError), meta.open("rb") as stream:
        about = coerce_dict(orjson.loads(stream.read(64 * 1024)))
        return coerce_text(about.get("agentType"))
    return None


def _name_session(path: Path, stem: str) -> str:
    """Return the session that a file is named after; of a sub-agent's the folder above `subagents`."""
    parts = path.parts
    at = parts.index("subagents") if "subagents" in parts else 0
    return parts[at - 1] if at else stem


class ClaudeTranscript:
    """The state of reading one file. `name` is the tool; it is part of each message's identity, which copies share."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._newest: datetime | None = None  # the latest time of the records above
        self._spoken = False
        stem = path.name.split(".jsonl")[0]
        self._agent = stem.removeprefix("agent-") if stem.startswith("agent-") else None
        self._speaker: str | None = None
        if self._agent is not None:
            self._speaker = _read_agent_type(path, stem)
        self._tree = Tree()
        self._last_session = _name_session(path, stem)
        self._folders: dict[str, str | None] = {}  # of each session that was announced
        self._titles: dict[str, tuple[int, str]] = {}
        self._summaries: list[tuple[str, str]] = []
        self._warm: set[str] = set()
        # Uuid of an answer's later record -> native id of the answer.
        self._alias: dict[str, str] = {}
        self._answer: Message | None = None
        self._answer_key: tuple[object, ...] | None = None
        self._for_program = False
        self._tools: dict[str, str] = {}  # name of the tool by call
        self._waiting: list[Message] = []
        self._handlers: dict[str, Callable[[int, Json], Iterator[Record]]] = {
            "user": self._handle_user,
            "assistant": self._handle_assistant,
            "system": self._handle_system,
            "attachment": self._handle_attachment,
            **dict.fromkeys(_TITLES, self._handle_title),
        }

    def feed(self, line: int, record: Json) -> Iterator[Record]:
        """Yield the records of one line."""
        yield from self._feed(line, record)
        at = coerce_time(record.get("timestamp"))
        if at:
            self._newest = max(at, self._newest or at)

    def _feed(self, line: int, record: Json) -> Iterator[Record]:
        # Messages that this record takes back.
        superseded, retracted = (
            coerce_list(record.get(f"{name}Uuids"))
            for name in ("supersedes", "retractedMessage")
        )
        for uuid in (*superseded, *retracted, record.get("refusedUserMessageUuid")):
            if isinstance(uuid, str):
                yield Inactive(self._find_session(record), self._alias.get(uuid, uuid))
        kind = str(record.get("type"))
        handler = self._handlers.get(kind)
        if handler is None or self._is_warm_up(record):
            self._tree.add(record)
            known = handler is not None or kind in TYPES
            if handler:
                kind = "warm-up"
            elif not known:
                kind = f"unknown: {kind[:80]}"
            yield Skipped(kind, line) if known else leave_out(kind, line, record)
        elif kind in ("user", "assistant") and not _has_content(record, kind):
            self._tree.add(record)
            why = f"{kind} record without message content"
            yield Rejected(
                line=line,
                reason=why,
                excerpt=str(record.get("message"))[:2_000],
                unread=holds_turn(record),
            )
        else:
            yield from handler(line, record)

    def finish(self) -> Iterator[Record]:
        """Yield the records that are known only at the end: the open answer, titles, and messages of rewound
        branches.
        """
        yield from self._close_answer()
        here = {uuid for uuid, _, _ in self._tree.records} if self._summaries else set()
        for leaf, text in self._summaries:
            if leaf in here and self._folders:
                self._keep_best_title(next(reversed(self._folders)), 1, text)
        for session, (_, title) in self._titles.items():
            if session in self._folders:
                yield Session(native_id=session, title=title)
        yield from self._tree.find_rewound()

    # The record types.

    def _handle_user(self, line: int, record: Json) -> Iterator[Record]:
        blocks = parse_blocks(get_content(record)) or []
        if blocks and all(
            b.type == "tool_result" or (b.type == "image" and b.call_id) for b in blocks
        ):
            if len(blocks) == 1 and not blocks[0].text:
                # the record has the output in another field
                result = record.get("toolUseResult")
                streams = (
                    coerce_text(coerce_dict(result).get(name))
                    for name in ("stdout", "stderr", "content")
                )
                blocks[0].text = coerce_text(result) or "\n".join(filter(None, streams))
            yield from self._emit(line=line, record=record, who=TOOL, blocks=blocks)
            yield from self._emit_refusal(line, record, blocks)
            return
        yield from self._close_answer()  # a turn of the user ends the answer before it
        if not blocks:
            self._tree.add(record)
            yield leave_out("empty message", line, record)
            return
        yield from self._emit_turn(line, record, blocks)

    def _handle_assistant(self, line: int, record: Json) -> Iterator[Record]:
        blocks = parse_blocks(get_content(record)) or []
        self._tools |= {b.call_id: b.name for b in blocks if b.call_id and b.name}
        message = coerce_dict(record.get("message"))
        key = (self._find_session(record), record.get("agentId"), message.get("id"))
        if (
            self._answer
            and isinstance(message.get("id"), str)
            and key == self._answer_key
        ):
            # A further record of the same answer.
            if not blocks:
                yield Skipped("part without content", line)
            self._answer.blocks += blocks
            self._tree.add(record)
            uuid = record.get("uuid")
            if isinstance(uuid, str):
                self._alias[uuid] = self._answer.native_id
            if len(self._answer.blocks) > _MAX_GROUP:
                self._answer_key = None  # the next record starts a message of its own
            return
        yield from self._close_answer()
        yield from self._announce(record)
        synthetic = (
            record.get("isApiErrorMessage") is True
            or message.get("model") == "<synthetic>"
        )
        # it is kept back until its last record was read
        self._answer = self._make_message(
            line=line,
            record=record,
            who=("assistant", "synthetic") if synthetic else MODEL,
            blocks=blocks,
            text="",
        )
        self._answer.speaker = self._speaker
        self._for_program = _is_by_program(record)
        self._answer_key = key

    def _handle_system(self, line: int, record: Json) -> Iterator[Record]:
        subtype = record.get("subtype")
        content = record.get("content")
        if subtype == "compact_boundary":
            yield from self._close_answer()
        if subtype in _TEXT_SUBTYPES and isinstance(content, str) and content.strip():
            blocks = parse_blocks(content) or []
            yield from self._emit(
                line=line,
                record=record,
                who=SYSTEM,
                blocks=blocks,
                text=extract_claude_user_text(join_claude_text(blocks)),
            )
            return
        self._tree.add(record)
        yield Skipped(
            f"system/{subtype}" if isinstance(subtype, str) else "system", line
        )

    def _handle_attachment(self, line: int, record: Json) -> Iterator[Record]:
        attachment = record.get("attachment")
        fields = coerce_dict(attachment)
        kind = fields.get("type")
        if kind == "queued_command" and fields.get("prompt"):
            notified = fields.get("commandMode") == "task-notification"
            origin = {"kind": "task-notification"} if notified else fields.get("origin")
            typed = coerce_time(record.get("timestamp"))
            late = typed and max(typed, self._newest or typed).isoformat()
            turn = {
                **record,
                "origin": origin,
                "isMeta": fields.get("isMeta"),
                "timestamp": late,
            }
            yield from self._emit_turn(line, turn, parse_blocks(fields["prompt"]) or [])
            return
        self._tree.add(record)
        yield Skipped(f"attachment/{kind}", line)

    def _handle_title(self, line: int, record: Json) -> Iterator[Record]:
        """Keep a title. A summary is often of ANOTHER session: at the end of the file, its leaf shows of which."""
        rank, name = _TITLES[str(record["type"])]
        text = record.get(name)
        leaf = record.get("leafUuid")
        if isinstance(text, str) and text.strip():
            if rank > 1:
                self._keep_best_title(self._find_session(record), rank, text)
            elif isinstance(leaf, str):
                self._summaries.append((leaf, text))
        yield Skipped(str(record["type"]), line)

    def _keep_best_title(
        self,
        session: str,
        rank: int,
        text: str,
    ) -> None:
        if rank >= self._titles.get(session, (0, ""))[0]:
            self._titles[session] = (rank, text.strip())

    # Turns of the user's side, and messages.

    def _emit_turn(
        self,
        line: int,
        record: Json,
        blocks: list[Block],
    ) -> Iterator[Record]:
        """Yield the messages of a turn without tool results: a person's, another agent's, or the tool's own.

        A turn with a person's words and another agent's becomes two messages.
        """
        raw = join_claude_text(blocks)
        text = extract_claude_user_text(raw)
        sender = detect_sender(record, raw)
        if _is_by_tool(record, text, sender):
            yield from self._emit_by_tool(
                line=line, record=record, blocks=blocks, text=text
            )
        elif sender is not None and not (text and sender.enveloped):
            yield from self._emit(
                line=line,
                record=record,
                who=AGENT,
                blocks=blocks,
                text=sender.words or text,
                speaker=sender.name,
            )
        elif text or any(block.type == "image" for block in blocks):
            # A prompt: the person's, or in a sidechain the main model's, or that of a program that runs the tool.
            by_other = self._is_sidechain(record) or _is_by_program(record)
            by_person = (
                coerce_dict(record.get("origin")).get("kind") == "human" or not by_other
            )
            who = HUMAN if by_person else AGENT
            if who is AGENT and _is_by_program(record) and has_named_block(text):
                who = SYSTEM
            yield from self._emit(
                line=line, record=record, who=who, blocks=blocks, text=text
            )
            if sender is not None:
                # A person wrote beside another agent's words: two messages.
                uuid = record.get("uuid")
                other: Json = {
                    **record,
                    "uuid": f"{uuid}/agent" if uuid else None,
                    "parentUuid": uuid,
                }
                yield from self._emit(
                    line=line,
                    record=other,
                    who=AGENT,
                    blocks=[Block("text", sender.words)],
                    text=sender.words,
                    speaker=sender.name,
                )
        else:
            yield from self._emit(line=line, record=record, who=SYSTEM, blocks=blocks)

    def _emit_refusal(
        self,
        line: int,
        record: Json,
        blocks: list[Block],
    ) -> Iterator[Record]:
        """Yield the message that a person typed when refusing a call."""
        said = [self._find_refusal(block) for block in blocks]
        text = next(filter(None, said), "")
        if not text or _is_by_program(record):
            return
        uuid = record.get("uuid")
        beside: Json = {
            **record,
            "uuid": f"{uuid or f'line-{line}'}{SAID}",
            "parentUuid": uuid,
            "type": "refusal",
        }
        yield from self._emit(
            line=line, record=beside, who=HUMAN, blocks=[Block("text", text)], text=text
        )

    def _find_refusal(self, block: Block) -> str:
        """Return the words with which a person refused the call of a result; else an empty string."""
        tool = self._tools.get(block.call_id or "", SERVER_TOOL)
        result = block.text or ""
        is_refused = block.is_error and result.startswith(REFUSED)
        if not is_refused or tool.startswith(SERVER_TOOL):
            return ""
        return clean_text(result.partition(REFUSED_BECAUSE)[2]).strip()

    def _emit_by_tool(
        self,
        line: int,
        record: Json,
        blocks: list[Block],
        text: str,
    ) -> Iterator[Record]:
        """Yield a turn that the tool wrote.

        A summary above which nobody spoke gets a role by which it can be recalled.
        """
        summary = record.get("isCompactSummary") or text.startswith(CONTINUED)
        alone = bool(summary and text and not self._spoken)
        yield from self._emit(
            line=line,
            record=record,
            who=SUMMARY if alone else SYSTEM,
            blocks=blocks,
            text=text,
            speaker=SUMMARISED if alone else None,
        )

    def _emit(
        self,
        line: int,
        record: Json,
        who: Who,
        blocks: list[Block],
        text: str = "",
        speaker: str | None = None,
    ) -> Iterator[Record]:
        """Yield a message, after its session if that is new. While an answer is open, the message is kept back."""
        yield from self._announce(record)
        message = self._make_message(
            line=line, record=record, who=who, blocks=blocks, text=text
        )
        message.speaker = speaker
        if self._answer is None:
            yield message
            return
        self._waiting.append(message)
        if len(self._waiting) > _MAX_GROUP:
            yield from self._close_answer()

    def _make_message(
        self,
        line: int,
        record: Json,
        who: Who,
        blocks: list[Block],
        text: str,
    ) -> Message:
        session = self._find_session(record)
        parent = _get_parent(record)
        uuid = coerce_text(record.get("uuid"))
        native = uuid or f"line-{line}"
        self._spoken = self._spoken or who in (HUMAN, MODEL)
        typed = (
            who == HUMAN
            and record.get("type") == "user"
            and record.get("isSidechain") is not True
        )
        self._tree.add({**record, "uuid": native}, session, typed=typed)
        role, origin = who
        return Message(
            session=session,
            native_id=native,
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=coerce_time(record.get("timestamp")),
            parent_id=self._alias.get(parent, parent) if parent else None,
            identity=f"{self._name}/{uuid}" if uuid else None,
            line=line,
        )

    def _close_answer(self) -> Iterator[Record]:
        """Yield the open answer, if any, and then the messages that were kept back."""
        if self._answer is not None:
            self._answer.text = join_claude_text(self._answer.blocks)
            if self._for_program and is_only_blocks(self._answer.text):
                self._answer.origin = "synthetic"
            yield self._answer
            yield from self._waiting
            self._answer = None
            self._answer_key = None
            self._waiting = []

    # Sessions and sidechains.

    def _find_session(self, record: Json) -> str:
        """Return the session of a record. A record without a session belongs to that of the record before it."""
        self._last_session = coerce_text(record.get("sessionId")) or self._last_session
        if self._agent is None:
            return self._last_session
        return (
            f"{self._last_session}/{coerce_text(record.get('agentId')) or self._agent}"
        )

    def _announce(self, record: Json) -> Iterator[Record]:
        """Yield the session of a record when it is new, and once more when its first folder is known: its workspace."""
        session = self._find_session(record)
        folder = coerce_text(record.get("cwd"))
        if session in self._folders and (self._folders[session] or not folder):
            return
        self._folders[session] = folder
        kind: SessionKind = "scheduled" if _is_by_program(record) else "chat"
        is_main = self._agent is None
        yield Session(
            native_id=session,
            workspace=folder,
            kind=kind if is_main else "subagent",
            parent_id=None if is_main else session.rpartition("/")[0],
        )

    def _is_sidechain(self, record: Json) -> bool:
        return self._agent is not None or record.get("isSidechain") is True

    def _is_warm_up(self, record: Json) -> bool:
        """Return True if a record is of a sidechain that warms the cache: the prompt `Warmup`, or an answer to it."""
        if not self._is_sidechain(record):
            return False
        uuid = record.get("uuid")
        parent = record.get("parentUuid")
        prompt = (
            record.get("type") == "user"
            and join_claude_text(parse_blocks(get_content(record)) or []) == "Warmup"
        )
        warm = prompt or (isinstance(parent, str) and parent in self._warm)
        if warm and isinstance(uuid, str):
            self._warm.add(uuid)
        return warm


def _is_by_tool(record: Json, text: str, sender: Sender | None) -> bool:
    """Return True if the tool itself wrote a turn: a summary, the expansion of a command, or a note of its own."""
    if any(
        record.get(name)
        for name in ("isCompactSummary", "isMeta", "isVisibleInTranscriptOnly")
    ):
        return True
    return sender is None and (
        record.get("turnCompanion") is True or text.startswith(CONTINUED)
    )


def _is_by_program(record: Json) -> bool:
    """Return True if a program ran the tool: by its SDK, or as `claude -p`."""
    return str(record.get("entrypoint")).startswith("sdk")


def _get_parent(record: Json) -> str | None:
    """Return the parent's uuid; for a new root after a compaction, the logical parent's; else None."""
    parent = record.get("parentUuid") or record.get("logicalParentUuid")
    return parent if isinstance(parent, str) else None


READER = Reader(
    name=NAME,
    sniff=sniff,
    read=read,
    locations=lies_in("CLAUDE_CONFIG_DIR", ".claude", ("projects",), "**/*.jsonl"),
    version=7,
)
