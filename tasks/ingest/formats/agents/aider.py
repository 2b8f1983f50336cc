"""aider's chat history: one `.aider.chat.history.md` a project, to which every start of the program appends.

`# aider chat started at TIME` begins a session, `#### ` stands before each line a person typed, `> ` before what the
program says; what is left is the model's answer. aider ends its own lines with two spaces, a model does not: so a
heading or a quotation in an answer is told from the person and the program (aider's own reader takes them for these).
Method: `append_chat_history` and `user_input` in aider/io.py, versions 0.5 to 0.86.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from slowwave.tasks.ingest.parsing.lines import iter_text, read_head
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.values import clean_text, coerce_time

NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_PADDED = re.compile(rb"^(?:> |####).*  \r?$", re.M)
_COMMAND = re.compile(r"[/!](\S*)\s*")
_SPOKEN = frozenset(("ask", "code", "architect", "context", "help"))
"""Commands whose argument is a prompt for the model."""

Kind = Literal["human", "tool", "model"]


def sniff(head: Head) -> bool:
    """Return whether the first line that says anything is the program's start; in a file of its name, any is."""
    lines = [line for line in head.data.decode("utf-8", "replace").removeprefix("\ufeff").splitlines() if line.strip()]
    if head.path.name == NAME:  # a person may have written above, and cut off the start
        return any(_START.fullmatch(line) for line in lines) or any(line[:2] == "> " for line in lines[:1])
    return bool(lines) and _START.fullmatch(lines[0]) is not None


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the file; times are of the session, whose messages have none of their own."""
    project = path.absolute().parent if path.name == NAME else None
    history = _History(project.name if project else path.name.split(".")[0], str(project) if project else None)
    with_padding = _is_padded(path)
    for item in iter_text(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        number, line = item
        if start := _START.fullmatch(line):
            yield from history.flush()
            history.start(start[1])
        else:
            yield from history.add(number, line, with_padding)
    yield from history.flush()


def _is_padded(path: Path) -> bool:
    """Return whether the program's lines still end with its two spaces, which editors and hooks may have taken off."""
    return _PADDED.search(read_head(path).data) is not None


@dataclass
class _History:
    """Where reading stands: the session, and the run of lines of one kind that is being gathered."""

    name: str
    workspace: str | None
    session: str = ""
    time: datetime | None = None
    told: bool = False
    kind: Kind | None = None
    lines: list[str] = field(default_factory=list)
    first: int = 0
    messages: int = 0
    spoken: bool = False
    started: dict[str, int] = field(default_factory=dict)

    def start(self, stamp: str) -> None:
        """Begin a session. Two that started in one second are told apart by their order."""
        self.started[stamp] = self.started.get(stamp, 0) + 1
        again = f" {self.started[stamp]}" if self.started[stamp] > 1 else ""
        self.session, self.time = f"{self.name}@{stamp}{again}", coerce_time(stamp)
        self.told, self.messages, self.spoken = False, 0, False

    def add(self, number: int, line: str, with_padding: bool) -> Iterator[Record]:
        """Take a line; yields what it ends."""
        kind = self._detect_kind(line, with_padding)
        again = kind == "human" and bool(self.lines) and not self.lines[-1].strip()  # inside an input no line is empty
        if kind != self.kind or again:
            yield from self.flush()
            self.kind, self.first = kind, number
        if self.kind is not None:
            self.lines.append(line)
        self.spoken = self.spoken or kind == "human"

    def _detect_kind(self, line: str, with_padding: bool) -> Kind | None:
        if not line.strip():
            return self.kind
        own = line.endswith("  ") or not with_padding
        if line.startswith("####") and line[4:5] in ("", " ") and own:
            return "human"
        if line.startswith(">") and line[1:2] in ("", " "):
            return "tool" if own or self.kind != "model" else "model"  # an answer's quotation
        return "tool" if with_padding and self._is_unfinished() else "model"

    def _is_unfinished(self) -> bool:
        """Return whether the program is still speaking: of a message of several lines only the first is marked, and
        only the last ends with two spaces. Before a person has spoken there is nothing a model could answer.
        """
        if self.kind != "tool":
            return False
        last = next(line for line in reversed(self.lines) if line.strip())
        return not self.spoken or not last.endswith("  ")

    def flush(self) -> Iterator[Record]:
        """Yield the message that was gathered, if any, and before a session's first its session."""
        kind, lines = self.kind, self.lines
        self.kind, self.lines = None, []
        if kind is None or not any(line.strip() for line in lines):
            return
        if not self.told:
            self.session = self.session or f"{self.name}@"
            yield Session(self.session, workspace=self.workspace)
            self.told = True
        raw = "\n".join(line.rstrip() for line in lines).strip("\n")
        native = str(self.messages)
        self.messages += 1
        if kind == "tool":
            said = "\n".join(line[2:] if line.startswith("> ") else line.removeprefix(">") for line in raw.split("\n"))
            block = Block("tool_result", said, name="aider")
            yield Message(self.session, native, "tool", "tool", [block], "", self.time, line=self.first)
            return
        if kind == "model":
            text = clean_text(raw)
            yield Message(
                self.session, native, "assistant", "model", [Block("text", raw)], text, self.time, line=self.first
            )
            return
        typed = "\n".join(line[4:].removeprefix(" ") for line in raw.split("\n"))
        if typed.strip() in ("", "<blank>"):
            yield Skipped("empty input", self.first)
            return
        yield Message(
            self.session,
            native,
            "user",
            "human",
            [Block("text", typed)],
            _extract_prompt(typed),
            self.time,
            line=self.first,
        )


def _extract_prompt(typed: str) -> str:
    """Return what a person said: nothing of a command to the program, but for those that pass on a prompt."""
    command = _COMMAND.match(typed)
    if command is None:
        return clean_text(typed)
    return clean_text(typed[command.end() :]) if typed[0] == "/" and command[1] in _SPOKEN else ""


READER = Reader("aider", 1, sniff, read, files=(NAME,))
