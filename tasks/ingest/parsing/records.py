"""What a reader yields: sessions, messages, and what could not be used.

A reader is a generator of these records, in the order of the file. It keeps no more than one open group of
messages in memory, so that a file of any size streams through.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from slowwave.schemas.errors import SlowwaveError

Role = Literal["user", "assistant", "system", "tool", "agent", "observer"]
Origin = Literal["human", "model", "tool", "synthetic"]
Who = tuple[Role, Origin]
HUMAN: Who = ("user", "human")
MODEL: Who = ("assistant", "model")
AGENT: Who = ("agent", "model")
TOOL: Who = ("tool", "tool")
SYSTEM: Who = ("system", "synthetic")
SUMMARY: Who = ("system", "model")
"""A summary that a model wrote of what is no longer there: it can be found, and nothing is distilled from it."""
SUMMARISED = "from a summary"
"""Speaker of such a summary, so that whoever finds it is told."""
BlockType = Literal["text", "thinking", "tool_call", "tool_result", "image", "other"]
SessionKind = Literal["chat", "subagent", "scheduled"]


@dataclass(slots=True)
class Block:
    """One piece of a message's content."""

    type: BlockType
    text: str | None = None
    """The text; a tool call's arguments as JSON; a tool result's output."""
    name: str | None = None
    """A tool's name."""
    call_id: str | None = None
    """Ties a tool result to its call."""
    is_error: bool | None = None
    media: str | None = None
    """An image's media type; its bytes are never kept."""


@dataclass(slots=True, frozen=True)
class StoredSession:
    """What a store knew a session by, of which this is an export."""

    session_id: str
    source: str
    inactive: tuple[str, ...] = ()
    """Ids of its messages that were taken back."""


@dataclass(slots=True, frozen=True)
class StoredMessage:
    """What a store knew a message by, of which this is an export; its content may have been redacted since."""

    message_id: str
    identity: str
    source: str
    workspace: str | None


@dataclass(slots=True)
class Session:
    """What a transcript says of its conversation. May be yielded again as more is learnt: later non-null fields win."""

    native_id: str
    workspace: str | None = None
    title: str | None = None
    kind: SessionKind | None = None
    parent_id: str | None = None
    stored: StoredSession | None = None
    former: str | None = None
    """The id that an earlier version of its reader gave it."""
    repository: str | None = None
    """The address of the repository that the workspace is a checkout of."""

    @property
    def place(self) -> str | None:
        """What its workspace is stored as: the repository if the folder is gone, as a work tree soon is."""
        gone = (
            self.repository is not None
            and self.workspace is not None
            and not Path(self.workspace).is_dir()
        )
        return self.repository if gone else self.workspace

    @property
    def key(self) -> str:
        """What its messages name it by."""
        return self.stored.session_id if self.stored else self.native_id


@dataclass(slots=True)
class Message:
    """One message, as its transcript has it.

    `identity` is what makes two copies the same message whatever file they stand in (a uuid that resumed sessions
    replay, an export's node id): of copies in different sessions the first read is stored, and a copy in the *same*
    session with other content is stored as its newer version. None means that session and native_id identify it.
    """

    session: str
    """Its session's `key`."""
    native_id: str
    role: Role
    origin: Origin
    blocks: list[Block]
    text: str
    """What was said, the tool's noise stripped; empty for tool calls, tool results and thinking."""
    ts: datetime | None = None
    """Aware, UTC."""
    parent_id: str | None = None
    speaker: str | None = None
    identity: str | None = None
    line: int = 0
    stored: StoredMessage | None = None
    former: str | None = None
    """The identity that an earlier version of its reader gave it."""


@dataclass(slots=True)
class Inactive:
    """A message (yielded or not) that its transcript took back: a rewound branch, a retraction, a provider retry."""

    session: str
    native_id: str


@dataclass(slots=True)
class Rejected:
    """A line or record that could not be used: it goes to quarantine with its reason."""

    line: int
    reason: str
    excerpt: str = ""
    unread: bool = False
    """A person's words stand in it that its reader does not know to read: another reader may."""


@dataclass(slots=True)
class Skipped:
    """A record understood and left out because it is no conversation (a mode change, a snapshot): counted by kind."""

    kind: str
    line: int = 0
    words: str = ""
    """Its start, where a person's words stand in it: if the file gives no turn of a person, it is quarantined."""


Record = Session | Message | Inactive | Rejected | Skipped
Item = TypeVar("Item")


def read_each(
    items: Iterable[tuple[int, Item] | Rejected],
    read_one: Callable[[int, Item], Iterable[Record]],
) -> Iterator[Record]:
    """Yield the records of each line or document; a `Rejected` for one on which its reader fails."""
    for item in items:
        if isinstance(item, Rejected):
            yield item
            continue
        try:
            yield from read_one(*item)
        except Exception as error:
            # Deliberately broad: whatever it is, it is this line's.
            yield Rejected(
                item[0], f"the reader can't bear it: {type(error).__name__}: {error}"
            )


@dataclass(slots=True, frozen=True)
class Limits:
    """How much a reader takes at once."""

    max_line_bytes: int = 32 * 1024 * 1024
    """A longer line is skipped without being held in memory, and quarantined."""


@dataclass(slots=True, frozen=True)
class Head:
    """The start of a file, decompressed, for sniffing."""

    path: Path
    data: bytes
    """The first 64 KiB."""
    lines: list[object] = field(default_factory=list)
    """The first complete lines that parse as JSON."""

    @property
    def objects(self) -> list[dict[str, object]]:
        """Those of the lines that are objects."""
        return [line for line in self.lines if isinstance(line, dict)]

    def is_cut(self, *keys: str) -> bool:
        """Return whether the first line is longer than the head, and what there is of it names these keys."""
        return not self.objects and all(
            f'"{key}"'.encode() in self.data for key in keys
        )


@dataclass(slots=True, frozen=True)
class Location:
    """A place where a tool keeps its transcripts on a person's machine."""

    root: Path
    pattern: str
    """A glob below root."""


def lies_below(
    folders: Iterable[str], *patterns: str
) -> Callable[[Path], list[Location]]:
    """Return the places below folders of a person's home."""
    return lambda home: [
        Location(home / folder, pattern) for folder in folders for pattern in patterns
    ]


def lies_in(
    variables: str, default: str, folders: Iterable[str], *patterns: str
) -> Callable[[Path], list[Location]]:
    """Return the places below the folder that one of a tool's own environment variables names, else its default one.

    Args:
        variables: their names, the first that is set counts.
        default: below a person's home.
        folders: below either.
        patterns: globs below each.
    """

    def list_places(home: Path) -> list[Location]:
        named = next(filter(None, map(os.environ.get, variables.split())), None)
        return lies_below(folders, *patterns)(
            Path(named).expanduser() if named else home / default
        )

    return list_places


@dataclass(slots=True, frozen=True)
class Reader:
    """One transcript format: how it is recognised, where it lies, how it is read."""

    name: str
    sniff: Callable[[Head], bool]
    read: Callable[[Path, Limits], Iterator[Record]]
    locations: Callable[[Path], list[Location]] = lambda home: []
    """Given a home folder, where this tool keeps its files."""
    files: tuple[str, ...] = ()
    """Patterns of files that are looked at in a folder, beside JSON, Parquet, Arrow and SQLite: `*.chat`."""
    suffixes: tuple[str, ...] = ("",)
    """Companion files that are part of the same source (`-wal` beside a SQLite file), for the fingerprint."""
    tool: str | None = None
    """The tool whose conversations these are, where two readers read one tool's; None: the reader's name."""
    version: int = 1
    """Raised when the reader learns something: files read under an older version are read again."""

    @property
    def source(self) -> str:
        """What `messages.source` says: a message is the same in either of a tool's storages."""
        return self.tool or self.name


class ReadError(SlowwaveError):
    """A transcript could not be read."""


class UnknownFormat(ReadError):
    """No reader recognises the file, or it is empty or cannot be opened."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(
            f"{path}: no known transcript format ({why}); the file is left out"
        )


class NoSuchPath(ReadError):
    """A path that was asked for does not exist, or is a pipe or a device."""

    exit_status = 3

    def __init__(self, path: Path, why: str = "no such file or folder") -> None:
        self.path = path
        super().__init__(f"{path}: {why}; nothing was read")
