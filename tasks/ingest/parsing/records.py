"""The records that a reader yields: sessions, messages, and rejected or skipped input.

A reader is a generator of these records, in the order of the file. It keeps at most one open group of messages in
memory, so that a file of any size can be read.
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
"""A model's summary of messages that no longer exist. It can be recalled, but no claim is distilled from it."""
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
    """The ids of an exported session in its store."""

    session_id: str
    source: str
    inactive: tuple[str, ...] = ()
    """Ids of its messages that were taken back."""


@dataclass(slots=True, frozen=True)
class StoredMessage:
    """The ids of an exported message in its store. Its content may have been redacted since they were computed."""

    message_id: str
    identity: str
    source: str
    workspace: str | None


@dataclass(slots=True)
class Session:
    """A transcript's facts about a conversation. It may be yielded again with more facts: later non-null fields win."""

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
        """The workspace to store: the folder, or the repository's address if the folder no longer exists."""
        gone = (
            self.repository is not None
            and self.workspace is not None
            and not Path(self.workspace).is_dir()
        )
        return self.repository if gone else self.workspace

    @property
    def key(self) -> str:
        """The name by which its messages refer to it."""
        return self.stored.session_id if self.stored else self.native_id


@dataclass(slots=True)
class Message:
    """One message of a transcript.

    `identity` is the same for copies of a message in other files (a uuid that resumed sessions replay, an export's node
    id). Of copies in different sessions, the first one read is stored. A copy in the *same* session with other content
    is stored as a newer version. None means that session and native_id identify the message.
    """

    session: str
    """Its session's `key`."""
    native_id: str
    role: Role
    origin: Origin
    blocks: list[Block]
    text: str
    """The spoken text without the tool's additions; empty for tool calls, tool results and thinking."""
    ts: datetime | None = None
    """With a time zone: the speaker's UTC offset, or UTC if the transcript does not have it."""
    parent_id: str | None = None
    speaker: str | None = None
    identity: str | None = None
    line: int = 0
    stored: StoredMessage | None = None
    former: str | None = None
    """The identity that an earlier version of its reader gave it."""

    def list_names(self) -> list[str | None]:
        """Return the speaker and the ids, also those of the blocks."""
        in_blocks = (
            name for block in self.blocks for name in (block.call_id, block.media)
        )
        return [self.speaker, self.native_id, self.parent_id, *in_blocks]


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
    """True if it has a person's words in a form that its reader does not know: another reader may know it."""


@dataclass(slots=True)
class Skipped:
    """A record understood and left out, since it isn't conversation (a mode change, a snapshot): counted by kind."""

    kind: str
    line: int = 0
    words: str = ""
    """Its start if it has a person's words. It is quarantined if the file has no turn of a person."""


Record = Session | Message | Inactive | Rejected | Skipped
Item = TypeVar("Item")


def read_each(
    items: Iterable[tuple[int, Item] | Rejected],
    read_one: Callable[[int, Item], Iterable[Record]],
) -> Iterator[Record]:
    """Yield the records of each line or document; a `Rejected` if reading one raises an error."""
    for item in items:
        if isinstance(item, Rejected):
            yield item
            continue
        try:
            yield from read_one(*item)
        except Exception as error:
            # deliberately broad: any error only concerns this line
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
        """Return True if the head has no complete object, and has these keys: its first line is longer than the
        head.
        """
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
    """Return a function that lists the places below folders of a person's home, given that home."""
    return lambda home: [
        Location(home / folder, pattern) for folder in folders for pattern in patterns
    ]


@dataclass(slots=True, frozen=True)
class ToolFolder:
    """Lists the places below a tool's folder, given a person's home."""

    variables: tuple[str, ...]
    """Environment variables with the tool's folder; the first one set counts."""
    default: str
    """The tool's folder below the home, if no variable is set."""
    folders: Iterable[str]
    """Folders below the tool's folder."""
    patterns: tuple[str, ...]
    """Globs below each of them."""

    def __call__(self, home: Path) -> list[Location]:
        """Return the places."""
        named = next(filter(None, map(os.environ.get, self.variables)), None)
        return lies_below(self.folders, *self.patterns)(
            Path(named).expanduser() if named else home / self.default
        )


def lies_in(
    variables: str,
    default: str,
    folders: Iterable[str],
    *patterns: str,
) -> ToolFolder:
    """Return a function that lists the places below a tool's folder; `variables` has the names by spaces."""
    return ToolFolder(
        variables=tuple(variables.split()),
        default=default,
        folders=folders,
        patterns=patterns,
    )


@dataclass(slots=True, frozen=True)
class Reader:
    """One transcript format: how it is recognised, where it lies, how it is read."""

    name: str
    sniff: Callable[[Head], bool]
    read: Callable[[Path, Limits], Iterator[Record]]
    locations: Callable[[Path], list[Location]] = lambda home: []
    """Given a home folder, where this tool keeps its files."""
    files: tuple[str, ...] = ()
    """Patterns of further files to read in a folder, besides JSON, Parquet, Arrow and SQLite, such as `*.chat`."""
    suffixes: tuple[str, ...] = ("",)
    """Suffixes of the files that belong to a source (such as `-wal` of a SQLite file), for its fingerprint."""
    tool: str | None = None
    """The tool, if two readers read one tool's conversations; default: the reader's name."""
    version: int = 1
    """Raise it when the reader returns other records: files that an older version read are read again."""

    @property
    def source(self) -> str:
        """The value of `messages.source`. It is the same for all readers of a tool, and so are its messages."""
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
