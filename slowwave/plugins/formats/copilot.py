"""GitHub Copilot CLI: `~/.copilot/session-state/<sessionId>/events.jsonl`, or below `COPILOT_HOME`.

How events become messages:

- `user.message` is a person's unless it names a `source`: `agent-…` is a prompt that another agent wrote, any other
  (`skill-…`) is the program's own. `content` is the typed text. `transformedContent`, which has additions for the
  model, is left out.
- `assistant.message` is the model's text and its tool calls, `tool.execution_complete` a tool's output.
- Events with an `agentId` are a sub-agent's, in the same file: the session `<sessionId>/<agentId>` with that parent.
- `session.compaction_complete` has a summary, which is synthetic, since the summarised messages are above it.
"""

from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import (
    AGENT,
    HUMAN,
    MODEL,
    SYSTEM,
    TOOL,
    Block,
    Head,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
    Who,
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_bool,
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    drop_base64,
    encode_json,
    extract_tag_body,
    extract_typed,
    join_text_blocks,
    parse_blocks,
    shift_to_clock,
    stringify,
)

Json = dict[str, object]
NAME = "copilot-cli"
ENVELOPE = {"type", "data", "id", "timestamp"}
OWN_EVENTS = (
    "session.",
    "assistant.",
    "tool.",
    "subagent.",
    "system.",
    "model.",
    "hook.",
    "permission.",
    "command.",
)
"""Prefixes of the types of events that are known to have no person's turn."""


def sniff(head: Head) -> bool:
    """Return True if a line is an event of a session's start or of a turn."""
    return any(
        line.keys() >= ENVELOPE
        and isinstance(line["data"], dict)
        and line["type"] in ("session.start", "user.message", "assistant.message")
        for line in head.objects
    )


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of one file, in the order of its events. Each sub-agent has a session of its own."""
    events = _Events(path)
    yield from read_each(iter_json(path, limits), events.feed)


class _Events:
    """The state of reading one file."""

    def __init__(self, path: Path) -> None:
        # every session's file has the same name, and its folder is named after the session
        self._id = (
            path.parent.name
            if path.name.startswith("events.jsonl")
            else path.name.split(".jsonl")[0]
        )
        self._folder: str | None = None
        self._clock: str | None = None
        """The local time of the last prompt, from its `current_datetime`."""
        self._begun: set[str] = set()
        self._tools: dict[str, str | None] = {}

    def feed(self, line: int, event: Json) -> Iterator[Record]:
        """Yield the records of one event."""
        kind = str(event.get("type"))
        data = coerce_dict(event.get("data"))
        match kind:
            case "session.start" | "session.resume" | "session.context_changed":
                self._note_session(data)
                yield Skipped(kind, line)
            case "user.message":
                yield from self._handle_user(line, event, data)
            case "assistant.message":
                yield from self._handle_assistant(line, event, data)
            case "tool.execution_complete":
                yield from self._handle_tool(line, event, data)
            case "session.compaction_complete" if summary := coerce_text(
                data.get("summaryContent")
            ):
                yield from self._emit(
                    line=line,
                    event=event,
                    who=SYSTEM,
                    blocks=[Block("text", summary)],
                    text=clean_text(summary),
                )
            case "tool.execution_start":
                self._tools[str(data.get("toolCallId"))] = coerce_text(
                    data.get("toolName")
                )
                yield Skipped(kind, line)
            case _:
                yield leave_out(
                    kind[:80], line, event, known=kind.startswith(OWN_EVENTS)
                )

    def _note_session(self, data: Json) -> None:
        self._id = coerce_text(data.get("sessionId")) or self._id
        context = coerce_dict(data.get("context")) or data
        self._folder = self._folder or coerce_text(context.get("cwd"))

    def _handle_user(
        self,
        line: int,
        event: Json,
        data: Json,
    ) -> Iterator[Record]:
        blocks = parse_blocks(data.get("content")) or []
        source = coerce_text(data.get("source"))
        said = join_text_blocks(blocks)
        text = extract_typed(said)
        sent = stringify(data.get("transformedContent"))
        self._clock = extract_tag_body(sent, "current_datetime") or self._clock
        blocks += [
            Block("other", encode_json(item), "attachment")
            for item in coerce_list(data.get("attachments"))
        ]
        if not blocks:
            yield Rejected(
                line=line,
                reason="user.message without content",
                excerpt=encode_json(data)[:2_000],
                unread=True,
            )
        elif event.get("agentId") or (source or "").startswith("agent-"):
            yield from self._emit(
                line=line, event=event, who=AGENT, blocks=blocks, text=said
            )
        elif (
            source in (None, "user")
            and data.get("isAutopilotContinuation") is not True
            and text
        ):
            yield from self._emit(
                line=line, event=event, who=HUMAN, blocks=blocks, text=text
            )
        else:
            yield from self._emit(
                line=line, event=event, who=SYSTEM, blocks=blocks, text=said
            )

    def _handle_assistant(
        self,
        line: int,
        event: Json,
        data: Json,
    ) -> Iterator[Record]:
        thought = coerce_text(data.get("reasoningText"))
        text = coerce_text(data.get("content"))
        blocks = [Block("thinking", drop_base64(thought))] if thought else []
        blocks += parse_blocks(text) or []
        for call in map(coerce_dict, coerce_list(data.get("toolRequests"))):
            given = stringify(call.get("arguments"))
            blocks.append(
                Block(
                    type="tool_call",
                    text=given,
                    name=coerce_text(call.get("name")),
                    call_id=coerce_text(call.get("toolCallId")),
                )
            )
        if blocks:
            yield from self._emit(
                line=line,
                event=event,
                who=MODEL,
                blocks=blocks,
                text=clean_text(text or ""),
            )
        else:
            yield Skipped("assistant.message without content", line)

    def _handle_tool(
        self,
        line: int,
        event: Json,
        data: Json,
    ) -> Iterator[Record]:
        call = coerce_text(data.get("toolCallId"))
        success = coerce_bool(data.get("success"))
        result = coerce_dict(data.get("result"))
        error = coerce_dict(data.get("error"))
        output = stringify(
            result.get("content") or error.get("message") or data.get("error")
        )
        failed = None if success is None else not success
        block = Block(
            type="tool_result",
            text=drop_base64(output),
            name=self._tools.get(str(call)),
            call_id=call,
            is_error=failed,
        )
        yield from self._emit(line=line, event=event, who=TOOL, blocks=[block])

    def _emit(
        self,
        line: int,
        event: Json,
        who: Who,
        blocks: list[Block],
        text: str = "",
    ) -> Iterator[Record]:
        agent = coerce_text(event.get("agentId"))
        session = f"{self._id}/{agent}" if agent else self._id
        if session not in self._begun:
            self._begun.add(session)
            yield Session(
                native_id=session,
                workspace=self._folder,
                title=None,
                kind="subagent" if agent else "chat",
                parent_id=self._id if agent else None,
            )
        native = coerce_text(event.get("id"))
        parent = coerce_text(event.get("parentId"))
        role, origin = who
        yield Message(
            session=session,
            native_id=native or f"line-{line}",
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=shift_to_clock(coerce_time(event.get("timestamp")), self._clock),
            parent_id=parent,
            identity=f"{NAME}/{native}" if native else None,
            line=line,
        )


READER = Reader(
    name=NAME,
    sniff=sniff,
    read=read,
    locations=lies_in("COPILOT_HOME", ".copilot", ("session-state",), "*/events.jsonl"),
    version=3,
)
