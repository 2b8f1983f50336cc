"""Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`, `archived_sessions/`, and older flat files.

How lines become messages:

- A `response_item` (or, in the oldest files, an item without envelope) gives a message: text, a tool call, a tool's
  output, or a reasoning summary. `event_msg` repeats the visible text. Of such twins one is kept: the response item,
  which has the images (see `Twins`).
- The first `session_meta` identifies the file's session. A fork begins with its parent's lines, including later
  `session_meta`; since 0.171 it only points to them (`history_base`). The identity of a message is a hash chain over
  the contents since the root conversation's start, with the root's id. Times are left out, since Codex gives copied
  lines new ones. So a fork's copy is the parent's message, and equal words later stay two messages. Messages that were
  rolled back are not part of the chain, since `codex migrate-rollouts` drops them from the files that it rewrites.
- Words: user/human, assistant/model. In a sub-agent's file, and in a session that a program began (Codex's SDK, Codex's
  own tasks), prompts are another agent's: agent/model. Injected context
  (`<environment_context>`, AGENTS.md, developer messages), shell commands, text piped in and compaction summaries are
  system/synthetic, or left out of a prompt's text. A summary above which nobody spoke can be recalled.
- `thread_rolled_back` takes turns back: their messages come as `Inactive`.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import orjson

from slowwave.schemas.vocabulary import SUMMARISED
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
from slowwave.tasks.ingest.parsing.redacted import redact_blocks
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    coerce_bool,
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    cut_between,
    drop_base64,
    extract_tag_body,
    extract_typed,
    join_text_blocks,
    parse_blocks,
    parse_tool_call,
    shift_to_zone,
    stringify,
    strip_tags,
)

Json = dict[str, object]

NOISE_TAGS = (
    *(
        "environment_context",
        "user_instructions",
        "INSTRUCTIONS",
        "user_shell_command",
        "turn_aborted",
        "image",
    ),
    *(
        "permissions instructions",
        "collaboration_mode",
        "skill",
        "skills_instructions",
        "apps_instructions",
    ),
    *(
        "plugins_instructions",
        "personality_spec",
        "model_switch",
        "user_action",
        "subagent_notification",
    ),
    *(
        "environments_instructions",
        "realtime_conversation",
        "system-reminder",
        "recommended_plugins",
    ),
)
PIPED = "<stdin>", "</stdin>"
"""The tags around text that was piped into `codex exec` with a prompt: the prompt's last part."""
GOAL = re.compile(
    r'<codex_internal_context source="user_goal">\s*User set the goal: (".*")$',
    re.MULTILINE,
)
"""What a person set by the command `/goal`, as JSON."""
AGENTS_MD = "# AGENTS.md instructions"
IDE_CONTEXT = ("# Context from my IDE setup:", "# Files mentioned by the user:")
IDE_REQUEST = "## My request for Codex:"

SDK = "codex_sdk"
"""Start of the originator of sessions that a program began through Codex's SDK."""
OWN_THREADS = ("guardian_review", "memory_consolidation", "automation")
"""Sources of threads that Codex began by itself or by the clock."""
CALL = ("_call",)
OUTPUT = ("_output", "tool_result")
"""Suffixes of the types of items that are a tool call, or a tool's output."""
_INNER = ("content", "output", "text")
"""Fields of an output without a type that have its text or its parts."""


def parse_agent_answer(text: str) -> tuple[str, str | None] | None:
    """Return the answer and the id of a sub-agent if the text is the tool's notification of it, else None."""
    body = extract_tag_body(text, "subagent_notification")
    if body is None:
        return None
    notification = _parse_json(body)
    if not isinstance(notification, dict):
        return body, None
    status = notification.get("status")
    words = (
        status.get("completed") or status.get("errored")
        if isinstance(status, dict)
        else status
    )
    return stringify(words), coerce_text(notification.get("agent_id"))


def _parse_json(text: str) -> object:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return text


def extract_codex_user_text(raw: str) -> str:
    """Return the typed part of a user's message, without injected context, instructions, piped text and shell
    output. Of a goal that was set by a command it is the goal.
    """
    if goal := GOAL.match(raw.lstrip()):
        return stringify(_parse_json(goal[1])).strip()
    text = cut_between(raw, *PIPED) if raw.rstrip().endswith(PIPED[1]) else raw
    tagged = "<INSTRUCTIONS>" in text
    if "<" in text:
        text = strip_tags(text, NOISE_TAGS).strip()
    if text.startswith(IDE_CONTEXT) and IDE_REQUEST in text:
        text = text.partition(IDE_REQUEST)[2].strip()
    if text.startswith(AGENTS_MD):
        # of a preamble with tags only the heading is left; without tags all of the text is the file
        text = text.partition("\n")[2].strip() if tagged else ""
    return extract_typed(text)


def extract_reasoning(item: Json) -> list[str]:
    """Return the readable parts of a reasoning item: its summary, else its content, else none."""
    for key in ("summary", "content"):
        texts = [
            stringify(part.get("text"))
            for part in coerce_list(item.get(key))
            if isinstance(part, dict)
        ]
        if any(texts):
            return [text for text in texts if text]
    return []


def _is_compaction_output(record: Json) -> bool:
    """Return True if an item is the model's summary with which the client compacts its history."""
    return coerce_dict(record.get("metadata")).get("compaction_output") is True


def _parse_output(item: Json) -> list[Block]:
    """Return a tool's output as one block, then its images. Older versions have it as JSON with the exit code."""
    keys = ("output", "result", "tools")
    given = next((item[key] for key in keys if item.get(key) is not None), "")
    if isinstance(given, str) and given.startswith('{"output"'):
        given = _parse_json(given)
    parts = list(_parse_output_parts(given))
    text = "\n".join(block.text for block in parts if block.text)
    call_id = coerce_text(item.get("call_id"))
    images = [
        Block("image", media=block.media, call_id=call_id)
        for block in parts
        if block.type == "image"
    ]
    name = coerce_text(item.get("name"))
    failed = _detect_failure(given)
    return [
        Block(
            type="tool_result", text=text, name=name, call_id=call_id, is_error=failed
        ),
        *images,
    ]


def _parse_output_parts(given: object) -> Iterator[Block]:
    if isinstance(given, list):
        for part in given:
            yield from _parse_output_parts(part)
    elif isinstance(given, dict) and isinstance(given.get("type"), str):
        yield from parse_blocks([given]) or ()
    elif inner := [
        given[key]
        for key in _INNER
        if isinstance(given, dict) and isinstance(given.get(key), str | list)
    ]:
        yield from _parse_output_parts(inner[0])
    else:
        streams = [
            stringify(value)
            for key in ("stdout", "stderr")
            if (value := coerce_dict(given).get(key))
        ]
        yield Block("text", drop_base64("\n".join(streams) or stringify(given)))


def _detect_failure(given: object) -> bool | None:
    """Return True if the output says that the call failed, False if it says that it succeeded; None if it says
    neither.
    """
    fields = coerce_dict(given)
    success = coerce_bool(fields.get("success"))
    if success is not None:
        return not success
    codes = (
        fields.get("exitCode"),
        fields.get("exit_code"),
        coerce_dict(fields.get("metadata")).get("exit_code"),
    )
    code = next((code for code in codes if isinstance(code, int)), None)
    return None if code is None else code != 0


NAME = "codex"
LINE_TYPES = frozenset(
    {
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "world_state",
    }
)
_REMEMBERED = 16
"""Number of last texts of each kind among which a twin is searched."""
_FILE_NAME = re.compile(r"rollout-.*?-([0-9a-fA-F]{8}-[0-9a-fA-F-]{27})")

Channel = Literal["item", "event", "completed"]


def sniff(head: Head) -> bool:
    """Return True if there is a modern line with its payload, or a head or an item of the oldest files."""
    if any(
        isinstance(line.get("payload"), dict) and str(line.get("type")) in LINE_TYPES
        for line in head.objects
    ):
        return True
    # a session_meta has all instructions, and may be longer than the head
    is_old = any(
        _is_legacy_head(line) or _is_legacy_item(line) for line in head.objects
    )
    return is_old or head.is_cut("session_meta", "payload")


def _is_legacy_head(line: Json) -> bool:
    return "type" not in line and {"id", "timestamp", "instructions"} <= line.keys()


def _is_legacy_item(line: Json) -> bool:
    kind = line.get("type")
    if isinstance(kind, str) and (
        kind == "reasoning" or kind.endswith((*CALL, *OUTPUT))
    ):
        return "payload" not in line and ("call_id" in line or "summary" in line)
    kinds = [coerce_dict(part).get("type") for part in coerce_list(line.get("content"))]
    return "role" in line and ("input_text" in kinds or "output_text" in kinds)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of one rollout, in the order of the file. Memory holds a few bytes a message."""
    rollout = _Rollout(path)
    yield from read_each(iter_json(path, limits), rollout.feed)
    yield from rollout.finish()


class Twins:
    """The latest texts of each kind (user, assistant, thinking), each with the channels that had it.

    A rollout has a text up to three times: as `response_item` (the model's context), as `event_msg` (the screen) and,
    in newer versions, as `item_completed`. The twins are next to each other, in any order, with only bookkeeping
    between them. A text that was really said twice has twice as many twins, so it is kept twice.
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[tuple[int, set[Channel]]]] = {}

    def is_twin(
        self,
        kind: str,
        text: str,
        channel: Channel,
    ) -> bool:
        """Return True if the text was read already from another channel. Remember the text and its channel."""
        texts = self._texts.setdefault(kind, [])
        key = hash(text)
        for earlier, channels in texts:
            if earlier == key and channel not in channels:
                channels.add(channel)
                return True
        texts.append((key, {channel}))
        del texts[:-_REMEMBERED]
        # twins are neighbours: when one side speaks, no twin of the other side's earlier texts can follow
        for other in {"user": ("assistant", "thinking"), "assistant": ("user",)}.get(
            kind, ()
        ):
            self._texts.pop(other, None)
        return False


class _Rollout:
    """The state of reading one file, with the current line."""

    def __init__(self, path: Path) -> None:
        named = _FILE_NAME.search(path.name)
        self._id = named[1] if named else path.name.split(".jsonl")[0]
        self._root: str | None = None  # the conversation this one was forked from
        self._session: Session | None = None
        self._announced = False
        self._chain = self._former = b""
        """Hashes of all messages so far: redacted, as they are stored, and unredacted."""
        self._twins = Twins()
        self._spoken = False
        # kept back until the next message shows that no twin with more blocks follows
        self._held: Message | None = None
        self._natives: list[str] = []  # native id of each message
        self._chains: list[bytes] = []  # the chain above each message, as it is stored
        self._formers: list[bytes] = []  # and as it was before it was redacted
        # The index of the first message of each turn that a user began.
        self._turns: list[int] = []
        # The identity of each message that was taken back, and its native id.
        self._rolled_back: dict[str, str] = {}
        self._line = 0
        self._stamp: object = None
        self._zone: object = None

    def feed(self, line: int, record: Json) -> Iterator[Record]:
        """Yield the records of one line."""
        self._line = line
        self._stamp = record.get("timestamp")
        payload = record.get("payload")
        if not isinstance(payload, dict):
            yield from self._handle_bare(record)
            return
        match kind := record.get("type"):
            case "response_item" if _is_compaction_output(record):
                blocks = parse_blocks(payload.get("content")) or []
                yield from self._emit_summary(blocks, join_text_blocks(blocks))
            case "response_item":
                yield from self._handle_item(payload)
            case "event_msg":
                yield from self._handle_event(payload)
            case "session_meta":
                yield from self._handle_session_meta(payload)
            case "turn_context":
                self._zone = payload.get("timezone") or self._zone
                yield from self._set_workspace(payload.get("cwd"))
                yield self._skip("turn_context")
            case "compacted":
                yield from self._handle_compacted(payload)
            case (
                "world_state"
                | "inter_agent_communication_metadata"
                | "token_usage_record"
            ):
                yield self._skip(kind)
            case _:
                yield leave_out(f"unknown: {str(kind)[:80]}", line, record)

    def _handle_bare(self, record: Json) -> Iterator[Record]:
        """Yield the records of a line of the oldest files: a head without a type, or an item without an envelope."""
        kind = str(record.get("type"))
        if _is_legacy_head(record) or ("id" in record and "git" in record):
            yield from self._handle_session_meta(record)
        elif "role" in record or kind.endswith(
            (*CALL, *OUTPUT, "message", "reasoning")
        ):
            yield from self._handle_item(record)
        elif "record_type" in record:
            told = f"record_type/{record['record_type']}"
            yield leave_out(told, self._line, record)
        else:
            yield leave_out(f"unknown: {kind[:80]}", self._line, record)

    def _handle_compacted(self, payload: Json) -> Iterator[Record]:
        """Yield the summary that replaced the history. `replacement_history` repeats messages that are above it."""
        message = stringify(payload.get("message"))
        if message.strip():
            yield from self._emit_summary([Block("text", message)], message.strip())
        else:
            yield self._skip("compacted")

    def finish(self) -> Iterator[Record]:
        """Yield the message that waits for its twin, if any, and an `Inactive` for each message that was rolled
        back.
        """
        yield from self._release()
        yield from (Inactive(self._id, native) for native in self._rolled_back.values())

    def _release(self) -> Iterator[Record]:
        if self._held is not None:
            yield self._held
            self._held = None

    def _skip(self, kind: str) -> Skipped:
        return Skipped(kind, self._line)

    # Lines.

    def _handle_session_meta(self, payload: Json) -> Iterator[Record]:
        """Yield the session of the first head.

        Later heads before any message are those of parents that a fork copied.
        """
        native = coerce_text(payload.get("id") or payload.get("session_id"))
        forked = payload.get("forked_from_id")
        if self._session is not None:
            if not self._chain and native:
                self._root = native
            yield self._skip("session_meta of the parent")
            return
        spawn = coerce_dict(payload.get("source")).get("subagent")
        spawner = coerce_dict(coerce_dict(spawn).get("thread_spawn")).get(
            "parent_thread_id"
        )
        parents = map(coerce_text, (spawner, payload.get("parent_thread_id"), forked))
        copied = forked if payload.get("history_base") is None else None
        self._id = native or self._id
        self._root = coerce_text(copied)
        kind: SessionKind = "scheduled" if _is_by_program(payload) else "chat"
        kind = kind if spawn is None else "subagent"
        self._session = Session(
            self._id, kind=kind, parent_id=next(filter(None, parents), None)
        )
        # the repository's address without a password; its last part is like the name of a checkout's folder
        url = coerce_text(coerce_dict(payload.get("git")).get("repository_url")) or ""
        self._session.repository = (
            re.sub(r"(?<=://)[^@/\s]*@", "", url).removesuffix(".git") or None
        )
        yield from self._set_workspace(payload.get("cwd"))

    def _handle_item(self, item: Json) -> Iterator[Record]:
        kind = str(item.get("type", "message" if "role" in item else None))
        if kind == "message":
            yield from self._handle_message(item)
        elif kind.endswith(CALL):
            call = parse_tool_call(item)
            name = call.name or str(item.get("type")).removesuffix("_call")
            yield from self._emit(
                MODEL, [replace(call, text=call.text or "", name=name)]
            )
        elif kind.endswith(OUTPUT):
            yield from self._emit(TOOL, _parse_output(item))
        elif kind == "reasoning":
            yield from self._handle_thinking(extract_reasoning(item), "item")
        elif kind == "agent_message":
            blocks = parse_blocks(item.get("content")) or []
            author = coerce_text(item.get("author"))
            yield from self._emit(
                who=AGENT, blocks=blocks, text=join_text_blocks(blocks), speaker=author
            )
        elif kind in ("ghost_snapshot", "compaction", "compaction_summary", "other"):
            yield self._skip(f"response_item/{kind}")
        else:
            yield leave_out(f"unknown: response_item/{kind[:80]}", self._line, item)

    def _handle_message(self, item: Json) -> Iterator[Record]:
        blocks = parse_blocks(item.get("content")) or []
        role = item.get("role")
        excerpt = stringify(item)[:2_000]
        if not blocks:
            yield Rejected(self._line, "message without content", excerpt)
        elif role == "user":
            yield from self._handle_user(blocks, "item")
        elif role == "assistant":
            yield from self._handle_assistant(blocks, "item")
        elif role in ("system", "developer"):
            yield from self._emit(SYSTEM, blocks, join_text_blocks(blocks))
        else:
            yield Rejected(self._line, f"message of unknown role {role!r}", excerpt)

    def _handle_event(self, event: Json) -> Iterator[Record]:
        match kind := event.get("type"):
            case "user_message":
                images = coerce_list(event.get("images"))
                local_images = coerce_list(event.get("local_images"))
                blocks = parse_blocks(stringify(event.get("message"))) or []
                pictures = [Block("image") for _ in (*images, *local_images)]
                yield from self._handle_user(blocks + pictures, "event")
            case "agent_message":
                blocks = parse_blocks(stringify(event.get("message"))) or []
                yield from self._handle_assistant(blocks, "event")
            case "agent_reasoning":
                text = stringify(event.get("text"))
                yield from self._handle_thinking([text], "event")
            case "item_completed":
                yield from self._handle_completed(event)
            case "thread_rolled_back":
                yield from self._handle_rollback(event)
            case "thread_name_updated":
                if title := (coerce_text(event.get("thread_name")) or "").strip():
                    yield Session(self._id, title=title)
                yield self._skip("event_msg/thread_name_updated")
            case _:
                yield leave_out(f"event_msg/{kind}", self._line, event, known=True)

    def _handle_completed(self, event: Json) -> Iterator[Record]:
        """Handle a message's third copy. Other items (commands, changes, plans) are complete in other lines."""
        item = coerce_dict(event.get("item"))
        parts = map(coerce_dict, coerce_list(item.get("content")))
        texts = [part.get("text") for part in parts]
        blocks = [Block("text", text) for text in texts if isinstance(text, str)]
        kind = item.get("type")
        if blocks and kind == "UserMessage":
            yield from self._handle_user(blocks, "completed")
        elif blocks and kind == "AgentMessage":
            yield from self._handle_assistant(blocks, "completed")
        else:
            told = f"event_msg/item_completed/{kind}"
            yield leave_out(told, self._line, event, known=True)

    def _handle_rollback(self, event: Json) -> Iterator[Record]:
        """Take back the last `num_turns` turns; all turns if there are fewer."""
        turns = event.get("num_turns")
        yield from self._release()
        count = min(turns, len(self._turns)) if isinstance(turns, int) else 0
        if count > 0:
            self._roll_back(self._turns[-count])
            del self._turns[-count:]
        yield self._skip("event_msg/thread_rolled_back")

    # Who speaks.

    def _handle_user(self, blocks: list[Block], channel: Channel) -> Iterator[Record]:
        raw = join_text_blocks(blocks)
        text = extract_codex_user_text(raw)
        answer = parse_agent_answer(raw) if not text else None
        if not raw and not blocks:
            yield self._skip("empty user message")
        elif self._twins.is_twin("user", text or raw, channel):
            yield self._merge_twin(blocks, "user")
        elif answer is not None:
            said, speaker = answer
            yield from self._emit(AGENT, blocks, text=said, speaker=speaker)
        elif not text and raw:
            yield from self._set_workspace(extract_tag_body(raw, "cwd"))
            yield from self._emit(SYSTEM, blocks)
        else:
            yield from self._release()
            self._turns.append(len(self._natives))
            by_agent = self._session is not None and self._session.kind != "chat"
            yield from self._emit(
                AGENT if by_agent else HUMAN, blocks, text, hold=channel != "item"
            )

    def _handle_assistant(
        self, blocks: list[Block], channel: Channel
    ) -> Iterator[Record]:
        text = join_text_blocks(blocks)
        if self._twins.is_twin("assistant", text, channel):
            yield self._merge_twin(blocks, "assistant")
        else:
            yield from self._emit(MODEL, blocks, text, hold=channel != "item")

    def _handle_thinking(self, parts: list[str], channel: Channel) -> Iterator[Record]:
        new = [
            part
            for part in parts
            if part.strip() and not self._twins.is_twin("thinking", part, channel)
        ]
        if new:
            yield from self._emit(MODEL, [Block("thinking", part) for part in new])
        else:
            yield self._skip("reasoning, repeated" if parts else "reasoning, encrypted")

    def _roll_back(self, start: int) -> None:
        """Take back the messages from this index on. The chain continues from the message before."""
        chains = [*self._chains[start + 1 :], self._chain]
        self._rolled_back |= {
            f"{NAME}/{chain.hex()}": native
            for chain, native in zip(chains, self._natives[start:], strict=True)
        }
        self._chain = self._chains[start]
        self._former = self._formers[start]
        del self._natives[start:], self._chains[start:], self._formers[start:]

    def _emit_summary(self, blocks: list[Block], text: str) -> Iterator[Record]:
        """Yield a compaction's summary. It can be recalled only if nobody spoke above it in this file."""
        alone = not self._spoken
        yield from self._emit(
            who=SUMMARY if alone else SYSTEM,
            blocks=blocks,
            text=text,
            speaker=SUMMARISED if alone else None,
        )

    def _merge_twin(self, blocks: list[Block], role: str) -> Skipped:
        """Return the second copy of a message as skipped. If the first one is still kept back and has fewer blocks, it
        gets the blocks of the second.
        """
        first = self._held
        if (
            first
            and (first.role == "assistant") == (role == "assistant")
            and len(blocks) > len(first.blocks)
        ):
            first.blocks = blocks
        return self._skip("twin")

    # Messages and sessions.

    def _set_workspace(self, cwd: object) -> Iterator[Record]:
        """Yield the session with its folder, if it has none yet; only the first folder counts."""
        self._session = self._session or Session(self._id, kind="chat")
        if isinstance(cwd, str) and cwd and self._session.workspace is None:
            self._session.workspace = cwd
            self._announced = True
            yield self._session

    def _emit(
        self,
        who: Who,
        blocks: list[Block],
        text: str = "",
        speaker: str | None = None,
        *,
        hold: bool = False,
    ) -> Iterator[Record]:
        """Yield the session if it is new, then the message. With `hold`, the message waits for its twin instead."""
        yield from self._release()
        if not self._announced:
            self._announced = True
            self._session = self._session or Session(self._id, kind="chat")
            yield self._session
        self._chains.append(self._chain)
        self._formers.append(self._former)
        root = (self._root or self._id).encode()
        self._chain = _hash_blocks(self._chain or root, redact_blocks(blocks))
        self._former = _hash_blocks(self._former or root, blocks)
        identity = f"{NAME}/{self._chain.hex()}"
        former = f"{NAME}/{self._former.hex()}"
        ts = shift_to_zone(coerce_time(self._stamp), self._zone)
        # a message that was rolled back and is said again at the same place is that message
        native = self._rolled_back.pop(identity, str(self._line))
        self._natives.append(native)
        self._spoken = self._spoken or who in (HUMAN, MODEL)
        role, origin = who
        message = Message(
            session=self._id,
            native_id=native,
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=ts,
            speaker=speaker,
            identity=identity,
            line=self._line,
        )
        message.former = None if former == identity else former
        if hold:
            self._held = message
        else:
            yield message


def _is_by_program(head: Json) -> bool:
    """Return True if a program began a session: by Codex's SDK, or Codex itself for a task of its own."""
    is_own = "internal" in coerce_dict(head.get("source"))
    return (
        is_own
        or str(head.get("originator")).startswith(SDK)
        or head.get("thread_source") in OWN_THREADS
    )


def _hash_blocks(before: bytes, blocks: Iterable[Block]) -> bytes:
    """Return a hash of the hash before and the blocks without images, since only one of two twins has the images."""
    digest = blake2b(before, digest_size=16)
    for block in blocks:
        if block.type != "image":
            digest.update(
                f"{block.type}\0{block.name}\0{block.text}\0".encode(
                    "utf-8", "surrogatepass"
                )
            )
    return digest.digest()


_PLACES = lies_in(
    "CODEX_HOME",
    ".codex",
    ("sessions", "archived_sessions"),
    "**/*.jsonl",
    "**/*.jsonl.zst",
)
READER = Reader(name=NAME, sniff=sniff, read=read, locations=_PLACES, version=6)
