"""Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`, `archived_sessions/`, and older flat files.

How lines become messages:

- A `response_item` (or, in the oldest files, a bare item) gives a message: text, a tool call, a tool's output, or a
  reasoning summary. `event_msg` repeats the visible text; twins are said once, and the response item, which knows
  the images, is the one kept (see `pairs.py`).
- The first `session_meta` says whose file it is. A fork begins with its parent's lines, later `session_meta` among
  them. The identity of a message is a chain over the contents since the root conversation's start, under the root's
  id: times are left out, because Codex stamps the copied lines anew. So a fork's copy is the parent's message, and
  equal words further on stay two.
- Words: user/human, assistant/model. In a sub-agent's file prompts are another agent's: agent/model. Injected context
  (`<environment_context>`, AGENTS.md, developer messages), shell commands and compaction summaries are
  system/synthetic.
- `thread_rolled_back` takes turns back: their messages come as `Inactive`.
"""

import os
import re
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.codex.blocks import (
    CALLS,
    OUTPUTS,
    extract_codex_user_text,
    extract_reasoning,
    join_codex_text,
    parse_agent_answer,
    parse_codex_call,
    parse_codex_content,
    parse_codex_output,
    stringify,
)
from slowwave.tasks.ingest.formats.agents.codex.pairs import Channel, Pairs
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
    Session,
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import coerce_time, extract_tag_body

NAME = "codex"
LINE_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"})
_FILE_NAME = re.compile(r"rollout-.*?-([0-9a-fA-F]{8}-[0-9a-fA-F-]{27})")

Json = dict[str, object]


def sniff(head: Head) -> bool:
    """Return a modern line with its payload, or one of the oldest files' bare heads and items."""
    dicts = [line for line in head.lines if isinstance(line, dict)]
    if any(isinstance(line.get("payload"), dict) and str(line.get("type")) in LINE_TYPES for line in dicts):
        return True
    if any(_is_legacy_head(line) or _is_legacy_item(line) for line in dicts):
        return True
    # A session_meta over 64 KiB (it holds all instructions) is no whole line yet.
    return not dicts and b'"session_meta"' in head.data and b'"payload"' in head.data


def _is_legacy_head(line: Json) -> bool:
    return "type" not in line and {"id", "timestamp", "instructions"} <= line.keys()


def _is_legacy_item(line: Json) -> bool:
    kind = line.get("type")
    if isinstance(kind, str) and kind in OUTPUTS | {"function_call", "local_shell_call", "reasoning"}:
        return "payload" not in line and ("call_id" in line or "summary" in line)
    content = line.get("content")
    parts = content if isinstance(content, list) else []
    texts = any(isinstance(part, dict) and part.get("type") in ("input_text", "output_text") for part in parts)
    return "role" in line and texts


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one rollout, in the order of the file; memory is a few bytes a message."""
    rollout = _Rollout(path)
    yield from read_each(iter_json(path, limits), rollout.feed)
    yield from rollout.finish()


def list_locations(home: Path) -> list[Location]:
    """Return where Codex keeps its rollouts: `CODEX_HOME`, else `~/.codex`."""
    named = os.environ.get("CODEX_HOME")
    root = Path(named).expanduser() if named else home / ".codex"
    folders = (root / "sessions", root / "archived_sessions")
    return [
        Location(folder, pattern, folder.is_dir()) for folder in folders for pattern in ("**/*.jsonl", "**/*.jsonl.zst")
    ]


class _Rollout:
    """What is known while one file is read."""

    def __init__(self, path: Path) -> None:
        found = _FILE_NAME.search(path.name)
        self._id = found[1] if found else path.name.split(".jsonl")[0]
        self._root: str | None = None
        self._session: Session | None = None
        self._announced = False
        self._subagent = False
        self._chain = b""
        self._pairs = Pairs()
        self._held: Message | None = None
        self._lines = array("Q")  # line of each message
        self._turns = array("Q")  # index of the first message of each turn a user began

    def feed(self, line: int, record: Json) -> Iterator[Record]:
        """Yield what one line gives."""
        payload, kind = record.get("payload"), record.get("type")
        if not isinstance(payload, dict):
            yield from self._handle_legacy(line, record)
            return
        match kind:
            case "response_item":
                yield from self._handle_item(line, payload, record.get("timestamp"))
            case "event_msg":
                yield from self._handle_event(line, payload, record.get("timestamp"))
            case "session_meta":
                yield from self._handle_session_meta(line, payload)
            case "turn_context":
                yield from self._set_workspace(payload.get("cwd"))
                yield Skipped("turn_context", line)
            case "compacted":
                yield from self._handle_compaction(line, payload, record.get("timestamp"))
            case "world_state" | "inter_agent_communication_metadata":
                yield Skipped(kind, line)
            case _:
                yield Skipped(f"unknown: {str(kind)[:80]}", line)

    def finish(self) -> Iterator[Record]:
        """Yield the message still held for its twin."""
        yield from self._release()

    # Lines.

    def _handle_legacy(self, line: int, record: Json) -> Iterator[Record]:
        """Yield the oldest files: a head without type, and items without envelope."""
        if _is_legacy_head(record) or ("id" in record and "git" in record):
            yield from self._handle_session_meta(line, record)
        elif "role" in record or str(record.get("type")) in CALLS | OUTPUTS | {"message", "reasoning"}:
            yield from self._handle_item(line, record, record.get("timestamp"))
        elif "record_type" in record:
            yield Skipped(f"record_type/{record['record_type']}", line)
        else:
            yield Skipped(f"unknown: {record.get('type')}", line)

    def _handle_session_meta(self, line: int, payload: Json) -> Iterator[Record]:
        """Yield the first one names the session; the next ones, before any message, are the parents a fork copied."""
        native = payload.get("id") or payload.get("session_id")
        if self._session is not None:
            if not self._chain and isinstance(native, str):
                self._root = native
            yield Skipped("session_meta of the parent", line)
            return
        source = payload.get("source")
        spawn = source.get("subagent") if isinstance(source, dict) else None
        thread = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
        spawner = thread.get("parent_thread_id") if isinstance(thread, dict) else None
        forked, parent = payload.get("forked_from_id"), payload.get("parent_thread_id")
        self._id = native if isinstance(native, str) and native else self._id
        self._subagent = spawn is not None
        self._root = forked if isinstance(forked, str) else None
        parent = next((p for p in (spawner, parent, forked) if isinstance(p, str) and p), None)
        self._session = Session(self._id, kind="subagent" if self._subagent else "chat", parent_id=parent)
        yield from self._set_workspace(payload.get("cwd"))

    def _handle_compaction(self, line: int, payload: Json, ts: object) -> Iterator[Record]:
        """Yield the summary that replaced the history; `replacement_history` repeats what the file has above."""
        text = stringify(payload.get("message"))
        if not text.strip():
            yield Skipped("compacted", line)
            return
        yield from self._emit(line, ts, "system", "synthetic", [Block("text", text)], text.strip())

    def _handle_item(self, line: int, item: Json, ts: object) -> Iterator[Record]:
        kind = str(item.get("type", "message" if "role" in item else None))
        if kind == "message":
            yield from self._handle_message(line, item, ts)
        elif kind in CALLS:
            yield from self._emit(line, ts, "assistant", "model", [parse_codex_call(item)], "")
        elif kind in OUTPUTS:
            yield from self._emit(line, ts, "tool", "tool", parse_codex_output(item), "")
        elif kind == "reasoning":
            yield from self._handle_thinking(line, extract_reasoning(item), "item", ts)
        elif kind == "agent_message":
            blocks = parse_codex_content(item.get("content"))
            author = item.get("author")
            name = author if isinstance(author, str) else None
            yield from self._emit(line, ts, "agent", "model", blocks, join_codex_text(blocks), name)
        elif kind in ("ghost_snapshot", "compaction", "compaction_summary", "other"):
            yield Skipped(f"response_item/{kind}", line)
        else:
            yield Skipped(f"unknown: response_item/{kind[:80]}", line)

    def _handle_message(self, line: int, item: Json, ts: object) -> Iterator[Record]:
        blocks = parse_codex_content(item.get("content"))
        if not blocks:
            yield Rejected(line, "message without content", stringify(item)[:2_000])
            return
        match item.get("role"):
            case "user":
                yield from self._handle_user(line, blocks, "item", ts)
            case "assistant":
                yield from self._handle_assistant(line, blocks, "item", ts)
            case "system" | "developer":
                yield from self._emit(line, ts, "system", "synthetic", blocks, join_codex_text(blocks))
            case role:
                yield Rejected(line, f"message of unknown role {role!r}", stringify(item)[:2_000])

    def _handle_event(self, line: int, event: Json, ts: object) -> Iterator[Record]:
        match event.get("type"):
            case "user_message":
                blocks = parse_codex_content(stringify(event.get("message")))
                pictures = (event.get(key) for key in ("images", "local_images"))
                blocks += [Block("image") for found in pictures if isinstance(found, list) for _ in found]
                yield from self._handle_user(line, blocks, "event", ts)
            case "agent_message":
                yield from self._handle_assistant(
                    line, parse_codex_content(stringify(event.get("message"))), "event", ts
                )
            case "agent_reasoning":
                yield from self._handle_thinking(line, [stringify(event.get("text"))], "event", ts)
            case "item_completed":
                yield from self._handle_completed_item(line, event.get("item"), ts)
            case "thread_rolled_back":
                yield from self._handle_rollback(line, event.get("num_turns"))
            case "thread_name_updated":
                yield from self._handle_rename(line, event.get("thread_name"))
            case kind:
                yield Skipped(f"event_msg/{kind}", line)

    def _handle_completed_item(self, line: int, item: object, ts: object) -> Iterator[Record]:
        """Yield a third telling of what was said. Other items (commands, changes, plans) stand in full elsewhere."""
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(item, dict) and kind in ("UserMessage", "AgentMessage"):
            parts = item.get("content")
            texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            blocks = [Block("text", text) for text in texts if isinstance(text, str)]
            if blocks and kind == "UserMessage":
                yield from self._handle_user(line, blocks, "completed", ts)
                return
            if blocks:
                yield from self._handle_assistant(line, blocks, "completed", ts)
                return
        yield Skipped(f"event_msg/item_completed/{kind}", line)

    # Who speaks.

    def _handle_user(self, line: int, blocks: list[Block], channel: Channel, ts: object) -> Iterator[Record]:
        raw = join_codex_text(blocks)
        text = extract_codex_user_text(raw)
        answer = parse_agent_answer(raw) if not text else None
        if not raw and not blocks:
            yield Skipped("empty user message", line)
        elif self._pairs.is_twin("user", text or raw, channel):
            yield from self._merge_twin(line, blocks, "user")
        elif answer is not None:
            yield from self._emit(line, ts, "agent", "model", blocks, *answer)
        elif not text and raw:
            yield from self._set_workspace(extract_tag_body(raw, "cwd"))
            yield from self._emit(line, ts, "system", "synthetic", blocks, "")
        else:
            yield from self._release()
            self._turns.append(len(self._lines))
            role: Role = "agent" if self._subagent else "user"
            origin: Origin = "model" if self._subagent else "human"
            yield from self._emit(line, ts, role, origin, blocks, text, hold=channel != "item")

    def _handle_assistant(self, line: int, blocks: list[Block], channel: Channel, ts: object) -> Iterator[Record]:
        text = join_codex_text(blocks)
        if self._pairs.is_twin("assistant", text, channel):
            yield from self._merge_twin(line, blocks, "assistant")
        else:
            yield from self._emit(line, ts, "assistant", "model", blocks, text, hold=channel != "item")

    def _handle_thinking(self, line: int, parts: list[str], channel: Channel, ts: object) -> Iterator[Record]:
        new = [part for part in parts if part.strip() and not self._pairs.is_twin("thinking", part, channel)]
        if new:
            yield from self._emit(line, ts, "assistant", "model", [Block("thinking", part) for part in new], "")
        else:
            yield Skipped("reasoning, repeated" if parts else "reasoning, encrypted", line)

    def _merge_twin(self, line: int, blocks: list[Block], role: str) -> Iterator[Record]:
        """Yield the second telling. Its blocks replace the first's where that is still held and knows less."""
        held = self._held
        same = held is not None and (held.role == "assistant") == (role == "assistant")
        if held is not None and same and len(blocks) > len(held.blocks):
            held.blocks = blocks
        yield Skipped("twin", line)

    # What was taken back, what it is called.

    def _handle_rollback(self, line: int, turns: object) -> Iterator[Record]:
        yield from self._release()
        count = min(turns, len(self._turns)) if isinstance(turns, int) else 0
        if count > 0:
            start = self._turns[-count]
            for native in self._lines[start:]:
                yield Inactive(self._id, str(native), "rolled back")
            del self._turns[-count:]
            del self._lines[start:]
        yield Skipped("event_msg/thread_rolled_back", line)

    def _handle_rename(self, line: int, name: object) -> Iterator[Record]:
        if isinstance(name, str) and name.strip():
            yield Session(self._id, title=name.strip())
        yield Skipped("event_msg/thread_name_updated", line)

    # Messages and sessions.

    def _set_workspace(self, cwd: object) -> Iterator[Record]:
        """Yield the session with its folder: the first one told."""
        if self._session is None:
            self._session = Session(self._id, kind="chat")
        if not isinstance(cwd, str) or not cwd or self._session.workspace is not None:
            return
        self._session.workspace = cwd
        self._announced = True
        yield self._session

    def _emit(
        self,
        line: int,
        ts: object,
        role: Role,
        origin: Origin,
        blocks: list[Block],
        text: str,
        speaker: str | None = None,
        *,
        hold: bool = False,
    ) -> Iterator[Record]:
        """Yield the message; an event's is held until the next message shows that no richer twin follows."""
        yield from self._release()
        if not self._announced:
            self._announced = True
            self._session = self._session or Session(self._id, kind="chat")
            yield self._session
        self._lines.append(line)
        message = Message(
            session=self._id,
            native_id=str(line),
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=coerce_time(ts),
            speaker=speaker,
            identity=self._compute_identity(blocks),
            line=line,
        )
        if hold:
            self._held = message
        else:
            yield message

    def _release(self) -> Iterator[Record]:
        if self._held is not None:
            held, self._held = self._held, None
            yield held

    def _compute_identity(self, blocks: list[Block]) -> str:
        """Return hash of the root conversation and of everything said up to here.

        Images are left out: of two tellings only one has them.
        """
        digest = blake2b(self._chain or (self._root or self._id).encode(), digest_size=16)
        for block in blocks:
            if block.type != "image":
                digest.update(f"{block.type}\0{block.name}\0{block.text}\0".encode("utf-8", "surrogatepass"))
        self._chain = digest.digest()
        return f"{NAME}/{self._chain.hex()}"


READER = Reader(name=NAME, version=1, sniff=sniff, read=read, locations=list_locations)
