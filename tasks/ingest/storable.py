"""Repair records so that the store can hold them: valid UTF-8, lines that are numbers, times that are not in the
future, no blocks of slowwave's own.

Readers return values as they are in files. Without a repair, one value that no column can hold would stop the night.
"""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slowwave.tasks.ingest.parsing.records import (
    Block,
    Inactive,
    Message,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.text.fence import FENCED, cut_fenced_blocks

AHEAD = timedelta(days=1)
"""How far a time may be after the run's own: clocks differ, and times without a zone count as UTC."""
STEP = timedelta(microseconds=1)
BIGGEST = 2**63


def show_path(path: Path) -> str:
    """Return a path as valid UTF-8. Bytes that are not UTF-8 are written as `\\xfc`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def find_shown(name: str) -> Path:
    """Return the path that `show_path` gave this text for."""
    raw = re.sub(
        rb"\\x([0-9a-f]{2})", lambda code: bytes([int(code[1], 16)]), name.encode()
    )
    return Path(os.fsdecode(raw))


def is_utf8(text: str) -> bool:
    """Return True if the text can be encoded as UTF-8: it has no lone surrogate."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def repair_text(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD."""
    if is_utf8(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def repair_name(name: object) -> str | None:
    """Return an id or a name with each lone surrogate as its code, so that different names stay different.

    A whole number becomes text. Return None for anything else, and for an empty text.
    """
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name:
        return None
    return name if is_utf8(name) else name.encode("utf-8", "backslashreplace").decode()


def make_storable(record: Record) -> Record:
    """Return a reader's record, repaired in place; a session or message without an id as a `Rejected`."""
    match record:
        case Message():
            return _repair_message(record)
        case Session():
            native = repair_name(record.native_id)
            if native is None:
                return Rejected(
                    0, f"a session's id is {record.native_id!r:.60}: expected text"
                )
            record.native_id = native
            record.workspace = repair_name(record.workspace)
            record.parent_id = repair_name(record.parent_id)
            record.title = (
                repair_text(record.title) if isinstance(record.title, str) else None
            )
        case Inactive():
            record.session = repair_name(record.session) or ""
            record.native_id = repair_name(record.native_id) or ""
        case Rejected():
            record.line = repair_line(record.line)
            record.reason = repair_text(record.reason)
            record.excerpt = repair_text(record.excerpt)
    return record


def repair_line(line: object) -> int:
    """Return a line's number; 0 if it isn't a whole number of 64 bits."""
    if not isinstance(line, int) or isinstance(line, bool):
        return 0
    return line if -BIGGEST <= line < BIGGEST else 0


def _repair_message(message: Message) -> Message | Rejected:
    message.line = repair_line(message.line)
    session = repair_name(message.session)
    native = repair_name(message.native_id)
    if session is None or native is None:
        what, value = (
            ("session", message.session)
            if session is None
            else ("message", message.native_id)
        )
        return Rejected(
            message.line, f"the id of its {what} is {value!r:.60}: expected text"
        )
    message.session = session
    message.native_id = native
    message.parent_id = repair_name(message.parent_id)
    message.identity = repair_name(message.identity)
    message.text = repair_text(message.text)
    message.speaker = repair_name(message.speaker)
    for block in message.blocks:
        block.text = block.text and repair_text(block.text)
        block.name = repair_name(block.name)
        block.media = repair_name(block.media)
        block.call_id = repair_name(block.call_id)
    return message


OWN_BLOCKS = "what slowwave's own hook told"


def leave_out_own_blocks(record: Record) -> Record:
    """Return a message without the blocks of memory in it, in place; as skipped if it has nothing else.

    A client stores what a hook tells its model: as a message (Codex), or as a part of the prompt (Gemini CLI). Stored
    again, a memory would outlive what it was made from. What a tool returned stays, as do the messages of an export.
    """
    if not isinstance(record, Message) or record.stored:
        return record
    record.text = _cut(record.text)
    kept = list[Block]()
    for block in record.blocks:
        if block.text and block.type in ("text", "other"):
            block.text = _cut(block.text)
            if not block.text:
                continue
        kept.append(block)
    if record.blocks and not kept:
        return Skipped(OWN_BLOCKS, record.line)
    record.blocks = kept
    return record


_EMPTY = re.compile(r"<([^<>\s/]+)>\s*</\1>")
"""Tags that a client put around a hook's text."""


def _cut(text: str) -> str:
    if FENCED not in text:
        return text
    left = cut_fenced_blocks(text).strip()
    return "" if _EMPTY.fullmatch(left) else left


class Timeline:
    """Replaces times of one file's messages that are more than a day after the run's own.

    Such a message gets a time right after the message before it in its session, else in the file. Without one, it gets
    a time before the first known time of those that follow; without any, that of the file's last change, or of the run
    if that is earlier.
    """

    def __init__(
        self,
        now: datetime,
        first: Sequence[Record],
        mtime_ns: int,
    ) -> None:
        self._end = now + AHEAD
        self.count = 0
        """Messages whose time counts as unknown."""
        self.first: Rejected | None = None
        """The line of the first of them, with its time as the reason."""
        times = [
            record.ts for record in first if isinstance(record, Message) and record.ts
        ]
        known = next((n for n, at in enumerate(times) if at <= self._end), None)
        changed = datetime.fromtimestamp(
            min(mtime_ns / 1e9, self._end.timestamp()), UTC
        )
        self._latest = (
            min(changed, now) if known is None else times[known] - known * STEP - STEP
        )
        self._by_session = dict[str, datetime]()

    def place(self, message: Message) -> None:
        """Replace a message's time in place if it is in the future. Messages without a time are left alone."""
        if message.ts is None:
            return
        if message.ts > self._end:
            self.count += 1
            self.first = self.first or Rejected(message.line, message.ts.isoformat())
            message.ts = self._by_session.get(message.session, self._latest) + STEP
        self._latest = self._by_session[message.session] = message.ts

    def explain(self) -> Rejected | None:
        """Return a rejection that says how many times were replaced; None if there was none."""
        if self.first is None:
            return None
        many = f"{self.count:,} messages are" if self.count > 1 else "a message is"
        why = f"{many} dated after this run (first: {self.first.reason}): such a time counts as unknown, and"
        return Rejected(
            self.first.line, f"{why} the message is placed after the one before it"
        )
