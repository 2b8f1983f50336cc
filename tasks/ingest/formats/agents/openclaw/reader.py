"""Session files of OpenClaw, and of pi, on which it is based.

OpenClaw stored sessions in files before 2026.7.2, and its archives still have this form:
`~/.openclaw/agents/<agent>/sessions/<id>[-topic-<thread>].jsonl`, and deleted (`.jsonl.deleted.<time>[.zst]`), reset
(`.jsonl.reset.<time>`) and cold (`cold/<sha256>.jsonl.zst`) files. `sessions.json` beside them has each session's key
and title. Newer versions have the same events in SQLite: see `slowwave.tasks.ingest.formats.agents.openclaw.sqlite`.

pi's: `~/.pi/agent/sessions/--<cwd>--/<time>_<uuid>.jsonl`, versions 1 (a list), 2 and 3 (a tree). A branched file
begins with copies of its parent's lines, and pi rewrites a version 1 file with new ids when it opens it again. So the
identity of a message of pi is its times and its content, never its place or its id.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import SUMMARISED
from slowwave.tasks.ingest.formats.agents.openclaw.content import (
    UnwrappedText,
    parse_bash_execution,
    parse_model_text,
    parse_openclaw_result,
    parse_user_text,
    unwrap_typed,
)
from slowwave.tasks.ingest.parsing.lines import EXCERPT, iter_json
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
    lies_below,
    lies_in,
    read_each,
)
from slowwave.tasks.ingest.parsing.redacted import redact_blocks
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    clean_text,
    coerce_dict,
    coerce_text,
    coerce_time,
    dump_json,
    join_text,
    parse_blocks,
)
from slowwave.text.times.days import localise

Event = dict[str, Any]

SPOKEN = ("user", "assistant")
TOOLS = ("toolResult", "bashExecution")
COMPACTIONS = ("compaction", "compactionSummary")
"""Kinds of a summary of what stood above."""
SYSTEM_ROLES = frozenset(
    {
        "system",
        "developer",
        "custom",
        "hookMessage",
        "branchSummary",
        "compactionSummary",
        "notification",
    }
)
NO_TURNS = frozenset(
    {
        *(
            "compaction",
            "reset",
            "branch_summary",
            "custom",
            "custom_message",
            "model_change",
        ),
        *("thinking_level_change", "label", "session_info", "leaf"),
    }
)
"""Types of events other than turns."""
GATEWAY = ("gateway-injected", "delivery-mirror")
"""Models of assistant rows that no model wrote: the gateway's own notices, and copies of what was delivered."""


@dataclass(slots=True, frozen=True)
class Dialect:
    """How the two tools differ."""

    name: str
    user: Callable[[str], UnwrappedText]
    model: Callable[[str], UnwrappedText]
    ids_are_stable: bool
    """True if a copied event keeps its id; pi gives old events new ids when it migrates a file."""
    retries: bool
    """True if a user message is stored again for each attempt at a provider."""


class SessionTree:
    """The tree of a session: entries by id and parent, in the order of the file.

    Every entry names its parent. A person who goes back to an earlier entry starts a branch, and nothing is deleted.
    The rules are those of the tools, but cautious: an entry without a parent, or with an unknown one, follows the last
    one.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._ids: list[str] = []
        self._roles: list[object] = []
        self._side: list[bool] = []
        self._parents: list[int] = []  # -1: none
        self._first: dict[str, int] = {}  # the first entry with an id
        self._leaf = -1  # the entry the session goes on from
        self.retries: dict[int, list[int]] = {}
        """The numbers of an entry and its copies, by the entry's number: one message that was sent again."""

    def add(
        self,
        entry_id: str,
        event: Event,
        role: object,
    ) -> int:
        """Add an entry and return its number.

        An event of type `leaf` names the entry from which the session continues.
        """
        number = len(self._ids)
        is_leaf = event.get("type") == "leaf"
        parent = event.get("targetId" if is_leaf else "parentId", False)
        if parent is None or parent == self._root:
            parent_number = -1
        else:
            parent_number = (
                self._first.get(parent, self._leaf)
                if isinstance(parent, str)
                else self._leaf
            )
        self._ids.append(entry_id)
        self._roles.append(role)
        self._side.append(event.get("appendMode") == "side")
        self._parents.append(parent_number)
        self._first.setdefault(entry_id, number)
        if is_leaf:
            self._leaf = parent_number
        elif not self._side[number]:
            self._leaf = number
        return number

    def find_inactive(self) -> Iterator[str]:
        """Yield the id of each entry on an abandoned branch, and of each further copy, in the order of the file."""
        branches = self._find_branches()
        # results of parallel tool calls fork too, but are not taken back
        spoken = {branch for i, branch in branches.items() if self._roles[i] in SPOKEN}
        # if answers are roots, the writer stored no parents, so a root is not a sign of a rewind
        answers = ("assistant", *TOOLS)
        if any(
            parent < 0 and role in answers
            for parent, role in zip(self._parents, self._roles, strict=True)
        ):
            spoken = {branch for branch in spoken if self._parents[branch] >= 0}
        roles = (*SPOKEN, *TOOLS)
        left = {
            i
            for i, branch in branches.items()
            if branch in spoken and self._roles[i] in roles
        }
        # if an entry is in the file twice, an abandoned copy does not take the other one back
        standing = {entry for i, entry in enumerate(self._ids) if i not in left}
        gone = {i for i in left if self._ids[i] not in standing}
        # of a message that was sent again, the first copy that is not abandoned is kept
        for group in self.retries.values():
            live = next((i for i in group if i not in gone), None)
            gone.update(i for i in group if i != live)
        yield from (self._ids[i] for i in sorted(gone))

    def _find_branches(self) -> dict[int, int]:
        """Return the branch of each entry that is not on the path from the last leaf to the root.

        A branch is named by its first entry, whose parent is on the path.
        """
        path = set[int]()
        at = self._leaf
        while at >= 0:
            path.add(at)
            at = self._parents[at]
        branches: dict[int, int] = {}
        for i, parent in enumerate(self._parents):
            if path and i not in path and not self._side[i]:
                branches[i] = branches.get(parent, i)
        return branches


def read_events(
    items: Iterable[tuple[int, Event] | Rejected],
    session: Session,
    dialect: Dialect,
    *,
    pinned: bool = False,
) -> Iterator[Record]:
    """Yield the records of numbered events.

    Args:
        items: the events.
        session: what is known of the session before its header.
        dialect: of the tool.
        pinned: keep this session's id, whatever headers say; else a header with another id begins another session.
    """
    current = EventFold(session, dialect, pinned)
    for item in items:
        event = {} if isinstance(item, Rejected) else item[1]
        # A header in mid-file may begin another session.
        is_other = (
            isinstance(event.get("id"), str)
            and event["id"] != current.session.native_id
        )
        if event.get("type") == "session" and current.begun and is_other and not pinned:
            yield from current.finish()
            current = EventFold(Session(str(event["id"])), dialect, pinned)
        yield from read_each([item], current.feed)
    yield from current.finish()


class EventFold:
    """The state of reading one session, with the current event."""

    def __init__(
        self,
        session: Session,
        dialect: Dialect,
        pinned: bool,
    ) -> None:
        self.session = session
        self.dialect = dialect
        self.pinned = pinned
        self.tree = SessionTree(session.native_id)
        self.begun = False
        self.spoken = False
        # True if no person asked for the current turn
        self.automatic = session.kind == "scheduled"
        self.failed = True  # no model has answered the last user message
        # its text, its id and its number in the tree
        self.last_user: tuple[str, str, int] | None = None
        self.last_reply = ""
        self.utc_offset: int | None = None
        self.mirrored: list[str] = []
        self.line = 0
        self.event: Event = {}
        self.message: Event = {}

    def feed(self, line: int, event: Event) -> Iterator[Record]:
        """Yield the records of one event, with the session before the first one."""
        self.line = line
        self.event = event
        self.message = coerce_dict(event.get("message"))
        kind = event.get("type")
        if kind == "session":
            yield self._handle_header()
            return
        if not self.begun:
            self.begun = True
            yield self.session
        if kind == "message" or (kind is None and "message" in event):
            yield from self._handle_message()
            return
        self._add_to_tree(None)
        if kind == "session_info" and coerce_text(event.get("name")):
            yield Session(self.session.native_id, title=clean_text(event["name"]))
        summary = kind in ("compaction", "branch_summary")
        if summary:
            content = event.get("summary")
        elif kind == "custom_message":
            content = event.get("content")
        else:
            content = None
        kind = kind if isinstance(kind, str) else "no type"
        if kind in NO_TURNS:
            yield self._handle_system(content, kind)
        else:
            yield leave_out(kind[:80], line, event)

    def finish(self) -> Iterator[Record]:
        """Yield the messages that the session took back."""
        for native_id in (*self.tree.find_inactive(), *self.mirrored):
            yield Inactive(self.session.native_id, native_id)

    def _handle_header(self) -> Record:
        if self.begun:
            return Skipped("session", self.line)
        self.begun = True
        event = self.event
        session = self.session
        own = coerce_text(event.get("id")) or session.native_id
        self.tree = SessionTree(own)
        session.native_id = session.native_id if self.pinned else own
        parent = event.get("parentSession") or event.get("branchedFrom")
        session.workspace = coerce_text(event.get("cwd")) or session.workspace
        session.parent_id = session.parent_id or (
            parse_session_id(parent) if isinstance(parent, str) else None
        )
        session.title = coerce_text(event.get("title")) or session.title
        return session

    def _handle_message(self) -> Iterator[Record]:
        message = self.message
        role = self.message.get("role")
        if not isinstance(role, str):
            self._add_to_tree(None)
            yield self._reject("message without a role")
            return
        number = self._add_to_tree(role)
        if role == "user":
            yield from self._handle_user(number)
        elif role == "assistant":
            yield self._handle_assistant()
        elif role in TOOLS:
            parse = (
                parse_openclaw_result if role == "toolResult" else parse_bash_execution
            )
            yield self._make_message(TOOL, parse(message))
        elif role in SYSTEM_ROLES:
            yield self._handle_system(
                message.get("content") or message.get("summary"), role
            )
        else:
            yield self._reject(f"unknown role {role[:64]!r}")

    def _handle_system(self, content: object, kind: str) -> Record:
        """Return a summary or an injected note as a synthetic message; skipped if it has no text.

        A compaction's summary above which nobody spoke gets a role by which it can be recalled.
        """
        blocks = parse_blocks(content) or []
        if not any(block.text for block in blocks):
            return Skipped(kind, self.line)
        text = clean_text(join_text(blocks, "\n\n"))
        if kind in COMPACTIONS and not self.spoken:
            return self._make_message(
                who=SUMMARY, blocks=blocks, text=text, speaker=SUMMARISED
            )
        return self._make_message(SYSTEM, blocks, text)

    def _handle_user(self, number: int) -> Iterator[Record]:
        blocks = self._parse_content()
        if not blocks:
            yield leave_out("user message without content", self.line, self.message)
            return
        unwrapped = self.dialect.user(join_text(blocks, "\n\n"))
        self.utc_offset = unwrapped.utc_offset or self.utc_offset
        if unwrapped.session and self.session.kind is None:
            self.session.kind = unwrapped.session
            yield Session(self.session.native_id, kind=unwrapped.session)
        kind = self.session.kind
        self.automatic = unwrapped.automatic or kind == "scheduled"
        provenance = coerce_dict(self.message.get("provenance")).get("kind")
        who = HUMAN
        if unwrapped.synthetic or self.automatic or provenance == "internal_system":
            who = ("user", "synthetic")
        elif unwrapped.agent or kind == "subagent" or provenance == "inter_session":
            who = AGENT
        message = self._make_message(
            who=who, blocks=blocks, text=unwrapped.text, speaker=unwrapped.speaker
        )
        # a message that is stored again since no provider answered it was said only once
        last = self.last_user
        text = message.text
        if (
            self.dialect.retries
            and last
            and text == last[0]
            and self.failed
            and message.native_id != last[1]
        ):
            self.tree.retries.setdefault(last[2], [last[2]]).append(number)
        elif text:
            self.last_user = text, message.native_id, number
        self.failed = True
        yield message

    def _handle_assistant(self) -> Record:
        blocks = self._parse_content()
        stop = self.message.get("stopReason")
        model = self.message.get("model")
        if not any(
            block.type != "text" or (block.text or "").strip() for block in blocks
        ):
            self.failed = True
            return Skipped(
                f"assistant without content ({coerce_text(stop) or 'no stop reason'})",
                self.line,
            )
        unwrapped = self.dialect.model(join_text(blocks, "\n\n"))
        synthetic = unwrapped.synthetic or self.automatic or model == GATEWAY[0]
        message = self._make_message(
            ("assistant", "synthetic") if synthetic else MODEL, blocks, unwrapped.text
        )
        if model not in GATEWAY:
            self.failed = stop in ("error", "aborted")
            self.last_reply = unwrapped.text or self.last_reply
        elif model == GATEWAY[1] and unwrapped.text == self.last_reply:
            self.mirrored.append(message.native_id)
        return message

    def _parse_content(self) -> list[Block]:
        """Return the message's blocks. A single block counts as a list of one."""
        content = self.message.get("content")
        return parse_blocks([content] if isinstance(content, dict) else content) or []

    @property
    def _native_id(self) -> str:
        return coerce_text(self.event.get("id")) or str(self.line)

    def _add_to_tree(self, role: object) -> int:
        return self.tree.add(self._native_id, self.event, role)

    def _reject(self, reason: str) -> Rejected:
        return Rejected(self.line, reason, dump_json(self.event)[:EXCERPT])

    def _make_message(
        self,
        who: Who,
        blocks: list[Block],
        text: str = "",
        speaker: str | None = None,
    ) -> Message:
        self.spoken = self.spoken or who in (HUMAN, MODEL)
        identity = self._compute_identity(who, redact_blocks(blocks))
        former = self._compute_identity(who, blocks)
        role, origin = who
        return Message(
            session=self.session.native_id,
            native_id=self._native_id,
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=localise(
                coerce_time(self.event.get("timestamp"))
                or coerce_time(self.message.get("timestamp")),
                self.utc_offset,
            ),
            parent_id=coerce_text(self.event.get("parentId")),
            speaker=speaker,
            identity=identity,
            line=self.line,
            former=None if former == identity else former,
        )

    def _compute_identity(self, who: Who, blocks: list[Block]) -> str | None:
        """Return a hash of an event's times, content and, if copies keep it, id. It is the same in a fork, an archive
        and a database.

        The session is not part of it, since forks copy events. The id alone would be too short (32 bits). Return None
        for an event without a time, which session and id identify.
        """
        stamp = self.event.get("timestamp")
        own_time = self.message.get("timestamp")
        if stamp is None and own_time is None:
            return None
        own_id = None
        times = str(stamp if own_time is None else own_time)
        if self.dialect.ids_are_stable:
            own_id = coerce_text(self.event.get("id"))
            times = f"{stamp}/{own_time}"
        content = [(b.type, b.name, b.call_id, b.text) for b in blocks]
        return compute_content_id(
            self.dialect.name, dump_json([own_id, times, who[0], content])
        )


def parse_session_id(path: str) -> str:
    """Return the session id in a path: OpenClaw's `<id>.jsonl…`, pi's `<time>_<id>.jsonl`. An id is returned
    unchanged.
    """
    name = PurePosixPath(path.replace("\\", "/")).name
    stem = name.partition(".jsonl")[0]
    return (
        stem.rpartition("_")[2]
        if stem[:2] == "20" and "T" in stem.partition("_")[0]
        else stem
    )


Entries = dict[str, dict[str, Any]]
"""Entries of a session index by key."""


def _extract_prompt(raw: str) -> UnwrappedText:
    return unwrap_typed(clean_text(raw))


def _clean_words(raw: str) -> UnwrappedText:
    return UnwrappedText(clean_text(raw))


OPENCLAW = Dialect(
    "openclaw", parse_user_text, parse_model_text, ids_are_stable=True, retries=True
)
PI = Dialect("pi", _extract_prompt, _clean_words, ids_are_stable=False, retries=False)
HOMES = (".openclaw", ".clawdbot", ".moltbot")
"""OpenClaw's folder, and its earlier names."""
ARCHIVES = (
    "session-sqlite-import-archive/**/*.jsonl*",
    "agents/*/session-sqlite-import-archive/**/*.jsonl*",
)

# Texts that only OpenClaw writes. Its name alone is not a sign, since a pi session about OpenClaw has it too.
_MARKS = re.compile(
    rb'"customType":\s*"(?:openclaw|model-snapshot)|"model":\s*"(?:gateway-injected|delivery-mirror)"'
    rb'|"provider":\s*"openclaw|\(untrusted metadata\):|\xe2\x9f\xa6openclaw:ctx|\[\[reply_to_current\]\]'
    rb'|"(?:text|content)":\s*"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d'
    rb'|"(?:text|content)":\s*"(?:\[cron:|NO_REPLY"|HEARTBEAT_OK")'
    rb"|Read HEARTBEAT\.md|Pre-compaction memory flush|BEGIN_OPENCLAW_INTERNAL_CONTEXT"
)


def sniff(head: Head) -> bool:
    """Return True if the file has session events, and they are OpenClaw's, not pi's."""
    if not any(is_event(line) for line in head.lines[:20]):
        return False
    folders = [part.lower() for part in head.path.parts]
    if ".pi" in folders:
        return False
    first = coerce_dict(head.lines[0])
    named = first.get("type") == "session" and head.path.name.startswith(
        str(first.get("id"))
    )
    return (
        named
        or any(part in ("openclaw", *HOMES) for part in folders)
        or bool(_MARKS.search(head.data))
    )


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the records of one session file.

    Its kind, title and parent come from the index beside it, if there is one.
    """
    native_id = parse_session_id(path.name).partition("-topic-")[0]
    yield from read_events(
        iter_json(path, limits), load_indexed_session(path, native_id), OPENCLAW
    )


def sniff_pi(head: Head) -> bool:
    """Return True if the file has session events. OpenClaw's reader, which has the same events, is tried before."""
    return any(is_event(line) for line in head.lines[:20])


def read_pi(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one session file of pi."""
    return read_events(
        iter_json(path, limits), Session(parse_session_id(path.name), kind="chat"), PI
    )


def is_event(line: object) -> bool:
    """Return True if a JSON value is a session's header or one of its messages."""
    fields = coerce_dict(line)
    if fields.get("type") == "session":
        return isinstance(fields.get("id"), str) and bool(
            {"cwd", "version", "provider"} & fields.keys()
        )
    role = coerce_dict(fields.get("message")).get("role")
    is_known = fields.get("type") == "message" and role in (*SPOKEN, *TOOLS)
    return is_known and not {"sessionId", "uuid", "payload"} & fields.keys()


def parse_session_kind(key: str) -> SessionKind:
    """Return the kind of a session by its key: `agent:<id>:main`, `cron:<job>`, `hook:<uuid>`, `…:subagent:…`."""
    parts = key.split(":")
    if "subagent" in parts:
        return "subagent"
    return "scheduled" if {"cron", "hook", "heartbeat"} & set(parts) else "chat"


def load_indexed_session(path: Path, native_id: str) -> Session:
    """Return a session by its entry in `sessions.json`; only with its id if there is no entry."""
    index = path.parent / "sessions.json"
    entries: Entries = {}
    with suppress(OSError):
        status = index.stat()
        if status.st_size <= 64 * 1024 * 1024 and index.is_file():
            entries = _load_index(index, status.st_mtime_ns, status.st_size)
    for key, entry in reversed(entries.items()):
        if str(entry["sessionId"]) == native_id:
            titles = (
                entry[name]
                for name in ("label", "displayName", "subject")
                if isinstance(entry.get(name), str)
            )
            parent = entries.get(
                str(entry.get("spawnedBy") or entry.get("parentSessionKey")), {}
            ).get("sessionId")
            return Session(
                native_id=native_id,
                workspace=None,
                title=next(titles, None),
                kind=parse_session_kind(key),
                parent_id=parent,
            )
    return Session(native_id)


@lru_cache(maxsize=4)
def _load_index(index: Path, mtime_ns: int, size: int) -> Entries:
    """Return the entries of an index; none if it can't be read, since messages must not be lost for a title."""
    with suppress(OSError, orjson.JSONDecodeError):
        entries = coerce_dict(orjson.loads(index.read_bytes()))
        return {
            key: entry
            for key, entry in entries.items()
            if isinstance(entry, dict) and entry.get("sessionId")
        }
    return {}


_PLACES = lies_below(HOMES, "agents/*/sessions/**/*.jsonl*", *ARCHIVES)
READER = Reader(name="openclaw", sniff=sniff, read=read, locations=_PLACES, version=6)
_PI_PLACES = lies_in("PI_CODING_AGENT_DIR", ".pi/agent", ("sessions",), "**/*.jsonl")
PI_READER = Reader(
    name="pi", sniff=sniff_pi, read=read_pi, locations=_PI_PLACES, version=6
)
