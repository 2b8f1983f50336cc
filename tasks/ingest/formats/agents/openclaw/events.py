"""Session events of OpenClaw and pi as records: one event JSON, whether it stood in a JSONL line or a SQLite row.

OpenClaw grew out of pi and writes the same events: a header, messages by role, compactions, changes of mode. A
`Dialect` says what differs. Rewound branches and provider retries are told at the end of each session.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.formats.agents.openclaw.blocks import (
    join_openclaw_text,
    parse_bash_execution,
    parse_openclaw_content,
    parse_openclaw_result,
)
from slowwave.tasks.ingest.formats.agents.openclaw.text import UnwrappedText
from slowwave.tasks.ingest.formats.agents.openclaw.tree import Kind, SessionTree
from slowwave.tasks.ingest.parsing.lines import EXCERPT
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Inactive,
    Message,
    Origin,
    Record,
    Rejected,
    Role,
    Session,
    Skipped,
    read_each,
)
from slowwave.tasks.ingest.parsing.values import clean_text, coerce_text, coerce_time, dump_json

Event = dict[str, Any]

KINDS = {"user": Kind.USER, "assistant": Kind.MODEL, "toolResult": Kind.TOOL, "bashExecution": Kind.TOOL}
SYSTEM_ROLES = frozenset(
    {"system", "developer", "custom", "hookMessage", "branchSummary", "compactionSummary", "notification"}
)
SUMMARIES = frozenset({"compaction", "branch_summary"})
GATEWAY = ("gateway-injected", "delivery-mirror")
"""Models of assistant rows that no model wrote: the gateway's own notices, and copies of what was delivered."""


@dataclass(slots=True, frozen=True)
class Dialect:
    """How the two tools differ."""

    name: str
    user: Callable[[str], UnwrappedText]
    model: Callable[[str], UnwrappedText]
    ids_are_stable: bool
    """Whether a copied event keeps its id: pi gives old events new ids when it migrates a file."""
    retries: bool
    """Whether a user message is stored again for each attempt at a provider."""


def read_events(
    items: Iterable[tuple[int, Event] | Rejected], session: Session, dialect: Dialect, *, pinned: bool = False
) -> Iterator[Record]:
    """Yield records of numbered events. `session` is what is known before the first header.

    Pinned: it outranks headers.
    """
    current = Transcript(session, dialect, pinned)
    for item in items:
        event = {} if isinstance(item, Rejected) else item[1]
        if event.get("type") == "session" and current.is_new_session(event):
            yield from current.finish()
            current = Transcript(Session(str(event["id"])), dialect, pinned)
        yield from read_each([item], current.feed)
    yield from current.finish()


class Transcript:
    """One session on its way from events to records."""

    def __init__(self, session: Session, dialect: Dialect, pinned: bool) -> None:
        self.session = session
        self.dialect = dialect
        self.pinned = pinned
        self.tree = SessionTree(session.native_id)
        self.begun = False
        self.automatic = session.kind == "scheduled"  # the turn under way is one no person asked for
        self.failed = True  # no model has answered the last user message
        self.last_user: tuple[str, str, int] | None = None  # text, id and number in the tree
        self.last_reply = ""
        self.mirrored: list[str] = []

    def is_new_session(self, header: Event) -> bool:
        """Return whether a header in mid-file begins another session."""
        other = isinstance(header.get("id"), str) and header["id"] != self.session.native_id
        return self.begun and other and not self.pinned

    def feed(self, line: int, event: Event) -> Iterator[Record]:
        """Yield records of one event."""
        kind = event.get("type")
        if kind == "session":
            yield from self._handle_header(line, event)
            return
        if not self.begun:
            self.begun = True
            yield self.session
        if kind == "message" or (kind is None and "message" in event):
            yield from self._handle_message(line, event)
            return
        self._add_to_tree(line, event, Kind.LEAF if kind == "leaf" else Kind.OTHER)
        yield from self._handle_other(line, event, kind)

    def finish(self) -> Iterator[Record]:
        """Yield what the session took back."""
        for native_id, reason in self.tree.find_inactive():
            yield Inactive(self.session.native_id, native_id, reason)
        for native_id in self.mirrored:
            yield Inactive(self.session.native_id, native_id, "delivery mirror: a copy of the reply before it")

    def _handle_header(self, line: int, event: Event) -> Iterator[Record]:
        if self.begun:
            yield Skipped("session", line)
            return
        self.begun = True
        known = self.session
        own = coerce_text(event.get("id")) or known.native_id
        self.tree = SessionTree(own)
        known.native_id = known.native_id if self.pinned else own
        parent = event.get("parentSession") or event.get("branchedFrom")
        known.workspace = coerce_text(event.get("cwd")) or known.workspace
        known.parent_id = known.parent_id or (parse_session_id(parent) if isinstance(parent, str) else None)
        known.title = coerce_text(event.get("title")) or known.title
        yield known

    def _handle_other(self, line: int, event: Event, kind: object) -> Iterator[Record]:
        name = kind if isinstance(kind, str) else "no type"
        if kind == "session_info" and coerce_text(event.get("name")):
            yield Session(self.session.native_id, title=clean_text(event["name"]))
        key = "summary" if str(kind) in SUMMARIES else "content" if kind == "custom_message" else ""
        yield self._handle_system(line, event, event.get(key), name)

    def _handle_system(self, line: int, event: Event, content: object, kind: str) -> Record:
        """Return a summary or an injected note: kept, and nobody's words."""
        blocks = parse_openclaw_content(content)
        if not any(block.text for block in blocks):
            return Skipped(kind, line)
        return self._make_message(line, event, "system", "synthetic", blocks, clean_text(join_openclaw_text(blocks)))

    def _handle_message(self, line: int, event: Event) -> Iterator[Record]:
        message = event.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(role, str):
            self._add_to_tree(line, event, Kind.OTHER)
            yield reject_event(line, "message without a role", event)
            return
        number = self._add_to_tree(line, event, KINDS.get(role, Kind.OTHER))
        if role == "user":
            yield from self._handle_user(line, event, message, number)
        elif role == "assistant":
            yield self._handle_assistant(line, event, message)
        elif role == "toolResult":
            yield self._make_message(line, event, "tool", "tool", parse_openclaw_result(message), "")
        elif role == "bashExecution":
            yield self._make_message(line, event, "tool", "tool", parse_bash_execution(message), "")
        elif role in SYSTEM_ROLES:
            yield self._handle_system(line, event, message.get("content") or message.get("summary"), role)
        else:
            yield reject_event(line, f"unknown role {role[:64]!r}", event)

    def _handle_user(self, line: int, event: Event, message: Event, number: int) -> Iterator[Record]:
        blocks = parse_openclaw_content(message.get("content"))
        if not blocks:
            yield Skipped("user message without content", line)
            return
        said = self.dialect.user(join_openclaw_text(blocks))
        if said.session and self.session.kind is None:
            self.session.kind = said.session
            yield Session(self.session.native_id, kind=said.session)
        kind = self.session.kind
        role: Role
        origin: Origin
        self.automatic = said.automatic or kind == "scheduled"
        provenance = _get_provenance(message)
        if said.synthetic or self.automatic or provenance == "internal_system":
            role, origin = "user", "synthetic"
        elif said.agent or kind == "subagent" or provenance == "inter_session":
            role, origin = "agent", "model"
        else:
            role, origin = "user", "human"
        record = self._make_message(line, event, role, origin, blocks, said.text, said.speaker)
        self._track_retries(said.text, record.native_id, number)
        yield record

    def _track_retries(self, text: str, native_id: str, number: int) -> None:
        """Tell a message that is stored again because no provider answered it from one that is said again."""
        last = self.last_user
        if self.dialect.retries and last and text == last[0] and self.failed and native_id != last[1]:
            self.tree.mark_retry(last[2], number)
        elif text:
            self.last_user = text, native_id, number
        self.failed = True

    def _handle_assistant(self, line: int, event: Event, message: Event) -> Record:
        blocks = parse_openclaw_content(message.get("content"))
        stop, model = message.get("stopReason"), message.get("model")
        if not any(block.type != "text" or (block.text or "").strip() for block in blocks):
            self.failed = True
            return Skipped(f"assistant without content ({coerce_text(stop) or 'no stop reason'})", line)
        said = self.dialect.model(join_openclaw_text(blocks))
        synthetic = said.synthetic or self.automatic or model == GATEWAY[0]
        record = self._make_message(line, event, "assistant", "synthetic" if synthetic else "model", blocks, said.text)
        if model in GATEWAY:
            if model == GATEWAY[1] and said.text == self.last_reply:
                self.mirrored.append(record.native_id)
            return record
        self.failed = stop in ("error", "aborted")
        self.last_reply = said.text or self.last_reply
        return record

    def _add_to_tree(self, line: int, event: Event, kind: Kind) -> int:
        parent = event.get("targetId", False) if kind == Kind.LEAF else event.get("parentId", False)
        return self.tree.add(_get_native_id(line, event), parent, kind, side=event.get("appendMode") == "side")

    def _make_message(
        self,
        line: int,
        event: Event,
        role: Role,
        origin: Origin,
        blocks: list[Block],
        text: str,
        speaker: str | None = None,
    ) -> Message:
        message = event.get("message")
        own_time = message.get("timestamp") if isinstance(message, dict) else None
        return Message(
            session=self.session.native_id,
            native_id=_get_native_id(line, event),
            role=role,
            origin=origin,
            blocks=blocks,
            text=text,
            ts=coerce_time(event.get("timestamp")) or coerce_time(own_time),
            parent_id=coerce_text(event.get("parentId")),
            speaker=speaker,
            identity=self._compute_identity(event, own_time, role, blocks),
            line=line,
        )

    def _compute_identity(self, event: Event, own_time: object, role: Role, blocks: list[Block]) -> str | None:
        """Return times and content, and the event's id where copies keep it: the same in a fork, an archive, a
        database.

        Not the session, since forks copy events; not the id alone, since it has 32 bits. None without a time: then
        session and id have to do.
        """
        if event.get("timestamp") is None and own_time is None:
            return None
        if self.dialect.ids_are_stable:
            own_id, times = coerce_text(event.get("id")), f"{event.get('timestamp')}/{own_time}"
        else:
            own_id, times = None, str(event.get("timestamp") if own_time is None else own_time)
        content = [(b.type, b.name, b.call_id, b.text) for b in blocks]
        return compute_content_id(self.dialect.name, dump_json([own_id, times, role, content]))


def _get_provenance(message: Event) -> object:
    """Return where OpenClaw says a user message came from: `external_user`, `inter_session`, `internal_system`."""
    provenance = message.get("provenance")
    return provenance.get("kind") if isinstance(provenance, dict) else None


def parse_session_id(path: str) -> str:
    """Return the session id in a path: OpenClaw's `<id>.jsonl…`, pi's `<time>_<id>.jsonl`; an id stays as it is."""
    name = PurePosixPath(path.replace("\\", "/")).name
    stem = name.partition(".jsonl")[0]
    return stem.rpartition("_")[2] if stem[:2] == "20" and "T" in stem.partition("_")[0] else stem


def reject_event(line: int, reason: str, event: Event) -> Rejected:
    """Return an event for the quarantine."""
    return Rejected(line, reason, dump_json(event)[:EXCERPT])


def _get_native_id(line: int, event: Event) -> str:
    own = event.get("id")
    return own if isinstance(own, str) and own else str(line)
