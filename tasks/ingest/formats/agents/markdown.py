"""Histories in Markdown: aider's and SpecStory's.

**aider** appends to one file a project: `# aider chat started at TIME` begins a session, `#### ` stands before each
line a person typed, `> ` before what the program says; the rest is the model's answer. aider ends its own lines with
two spaces, a model does not: so a heading or a quotation in an answer is told from the person and the program. Method:
`append_chat_history` and `user_input` in aider/io.py, versions 0.5 to 0.86.

**SpecStory** writes a file a session. `_**User (…)**_`, `_**Agent (model time)**_` or, in older files,
`_**Assistant**_` begin a turn; `---` stands between turns, and in files of the editor's extension between the pieces of
an answer. What a tool did stands in `<tool-use>`, or in older files in `<details>`, below "Tool use: **name**", or as a
piece that is nothing but fenced code. Method: `pkg/markdown/markdown.go` of SpecStory's command (Markdown v2.1.0).
"""

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.claude_code import NOISE_TAGS
from slowwave.tasks.ingest.parsing.lines import EXCERPT, iter_text, read_head
from slowwave.tasks.ingest.parsing.records import (
    AGENT,
    HUMAN,
    MODEL,
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
    read_each,
)
from slowwave.tasks.ingest.parsing.values import clean_text, coerce_time, strip_tags

AIDER_NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_PADDED = re.compile(rb"^(?:> |####).*  \r?$", re.M)
_COMMAND = re.compile(r"[/!](\S*)\s*")
_SPOKEN = frozenset(("ask", "code", "architect", "context", "help"))
"""Commands whose argument is a prompt for the model."""


def sniff_aider(head: Head) -> bool:
    """Return whether the first line that says anything is the program's start; in a file of its name, any is."""
    lines = [line for line in head.data.decode("utf-8", "replace").removeprefix("\ufeff").splitlines() if line.strip()]
    if head.path.name == AIDER_NAME:  # a person may have written above, and cut off the start
        return any(_START.fullmatch(line) for line in lines) or any(line[:2] == "> " for line in lines[:1])
    return bool(lines) and _START.fullmatch(lines[0]) is not None


def read_aider(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the file; times are of the session, whose messages have none of their own."""
    project = path.absolute().parent if path.name == AIDER_NAME else None
    # Editors and hooks may have taken the two spaces off that the program's lines end with.
    padded = _PADDED.search(read_head(path).data) is not None
    name = project.name if project else path.name.split(".")[0]
    history = _AiderHistory(name, str(project) if project else None, padded)
    yield from read_each(iter_text(path, limits), history.take)
    yield from history.flush()


@dataclass
class _AiderHistory:
    """Where reading stands: the session, and the run of lines of one kind that is being gathered."""

    name: str
    workspace: str | None
    padded: bool
    session: str = ""
    time: datetime | None = None
    told: bool = False
    kind: Who | None = None
    lines: list[str] = field(default_factory=list)
    first: int = 0
    messages: int = 0
    spoken: bool = False
    started: Counter[str] = field(default_factory=Counter)

    def take(self, number: int, line: str) -> Iterator[Record]:
        """Take a line; yields what it ends."""
        if start := _START.fullmatch(line):
            yield from self.flush()
            # Two sessions that started in one second are told apart by their order.
            self.started[start[1]] += 1
            nth = f" {self.started[start[1]]}" if self.started[start[1]] > 1 else ""
            self.session, self.time = f"{self.name}@{start[1]}{nth}", coerce_time(start[1])
            self.told, self.messages, self.spoken = False, 0, False
            return
        kind = self._detect_kind(line)
        again = kind == HUMAN and bool(self.lines) and not self.lines[-1].strip()  # inside an input no line is empty
        if kind != self.kind or again:
            yield from self.flush()
            self.kind, self.first = kind, number
        self.lines.append(line)
        self.spoken = self.spoken or kind == HUMAN

    def _detect_kind(self, line: str) -> Who | None:
        if not line.strip():
            return self.kind
        own = line.endswith("  ") or not self.padded
        if line.startswith("####") and line[4:5] in ("", " ") and own:
            return HUMAN
        if line.startswith(">") and line[1:2] in ("", " "):
            return TOOL if own or self.kind != MODEL else MODEL  # an answer's quotation
        if self.padded and self.kind == TOOL:
            # Of the program's message of several lines only the first is marked, and only the last ends with two
            # spaces. Before a person has spoken there is nothing a model could answer.
            last = next(line for line in reversed(self.lines) if line.strip())
            return MODEL if self.spoken and last.endswith("  ") else TOOL
        return MODEL

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
        # Of the program its output, of a model its answer, of a person the typed lines.
        raw, native = "\n".join(line.rstrip() for line in lines).strip("\n"), str(self.messages)
        self.messages += 1
        if kind == TOOL:
            lines = raw.split("\n")
            raw = "\n".join(line[2:] if line.startswith("> ") else "" if line == ">" else line for line in lines)
            block, text = Block("tool_result", raw, name="aider"), ""
        elif kind == MODEL:
            block, text = Block("text", raw), clean_text(raw)
        else:
            raw = "\n".join(line[4:].removeprefix(" ") for line in raw.split("\n"))
            if raw.strip() in ("", "<blank>"):
                yield Skipped("empty input", self.first)
                return
            block, text = Block("text", raw), _extract_prompt(raw)
        yield Message(self.session, native, *kind, [block], text, self.time, line=self.first)


def _extract_prompt(typed: str) -> str:
    """Return a person's words; of a command to the program only a prompt that it passes on."""
    command = _COMMAND.match(typed)
    if command and not (typed[0] == "/" and command[1] in _SPOKEN):
        return ""
    return clean_text(typed[command.end() :] if command else typed)


_TURN = re.compile(r"_\*\*(User|Assistant|Agent|)( - sidechain)?(?: \((.*)\))?\*\*_\s*")
_SESSION = re.compile(r"<!-- .+ Session (\S+) \((.*)\) -->\s*")
_MESSAGE_ID = re.compile(r"<!-- message-id: (\S+) -->\s*")
_TITLE = re.compile(r"#{1,2} (.*?)(?:\s*\(([^()]*\d[^()]*)\))?\s*")
HEADER_CHARS = 500  # a longer title is cut
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_NAMED = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d)-(\d\d)(?:-(\d\d))?Z?(?:-|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_TOOL_NAME = re.compile(r'data-tool-name="([^"]*)"|(?:Tool use: \*\*|### Rule: )([^*\n]+)')
_TOOL_LINES = ("Tool use: **", "### Rule: ", "Read file: ")
_SHIELDS = {"<tool-use ": "</tool-use>", "<think>": "</think>", "<details": "</details>"}
"""What opens and closes a block in an agent's turn, whose lines are nobody's turns whatever they look like."""


def sniff_specstory(head: Head) -> bool:
    """Return whether the file says that SpecStory made it, and holds a turn or its header alone."""
    start = head.data[:4096].decode("utf-8", "replace").lstrip("\ufeff \r\n")
    if start.startswith(("<!-- Generated by SpecStory", "## SpecStory")):
        return True
    return _find_project(head.path) is not None and any(map(_TURN.fullmatch, start.splitlines()))


def read_specstory(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the file. A turn without a time of its own bears the last one before it."""
    project, named = _find_project(path), _NAMED.match(path.name)
    # The header's time may be of any zone and not say which; that of the file's name is UTC.
    time = coerce_time(f"{named[1]}T{named[2]}:{named[3]}:{named[4] or '00'}Z") if named else None
    turns = _SpecStoryTurns(path.name.split(".")[0], str(project) if project else None, time)
    yield from read_each(iter_text(path, limits), turns.take)
    yield from turns.finish()


def _find_project(path: Path) -> Path | None:
    """Return the folder whose `.specstory/history` the file lies in."""
    folders = path.absolute().parents
    return next((f.parent.parent for f in folders if (f.parent.name, f.name) == (".specstory", "history")), None)


@dataclass
class _SpecStoryTurns:
    """Where reading stands: the header's facts, the turn, and the block of a tool or a thought that is open."""

    session: str
    workspace: str | None
    time: datetime | None
    title: str | None = None
    role: str | None = None
    sidechain: bool = False
    native_id: str | None = None
    first: int = 0
    messages: int = 0
    above: str = ""
    """The last line that was not blank."""
    fence: str | None = None
    text: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    preamble: list[tuple[int, str]] = field(default_factory=list)
    held: list[tuple[int, str]] = field(default_factory=list)
    depth: int = 0
    shields: dict[str, tuple[str, bool]] = field(default_factory=lambda: {a: (b, True) for a, b in _SHIELDS.items()})
    """By opening, what closes it, and whether one may stand in another."""

    def take(self, number: int, line: str) -> Iterator[Record]:
        """Take a line; yields what it ends."""
        if self.held:
            self._hold(number, line)
        elif turn := self._match_turn(line):
            yield from self.flush()
            if self.role is None:
                yield from self._reject_preamble("text before the first turn")
                yield Session(self.session, workspace=self.workspace, title=self.title)
            self.role, self.sidechain = "user" if turn[1] == "User" else "assistant", bool(turn[2])
            self.time = _find_time(turn[3] or "") or self.time
            self.native_id, self.first, self.fence, self.above = None, number, None, line
        elif self.role is None:
            # The header: the session, its time and its title; other text is rejected once a turn begins.
            if found := _SESSION.fullmatch(line[:HEADER_CHARS]):
                self.session = found[1]
                self.time = self.time or coerce_time(found[2].strip())
            elif (found := _TITLE.fullmatch(line[:HEADER_CHARS])) and self.title is None:
                self.time = self.time or _find_time(line)
                title = _TIME.sub("", found[1]).strip()
                self.title = None if title == "SpecStory" else title or None
            elif (
                line.strip()
                and line.strip() != "---"
                and not (line.startswith("<!--") and line.rstrip().endswith("-->"))
            ):
                self.preamble.append((number, line))
        else:
            yield from self._take_said(number, line)

    def _match_turn(self, line: str) -> re.Match[str] | None:
        """Return the match of a line that begins a turn: the first, one below `---`, or one that bears its second."""
        turn = _TURN.fullmatch(line) if line.startswith("_**") else None
        if turn is None or (turn[1] == "" and self.above != "---"):
            return None
        stamp = _TIME.search(turn[3] or "")
        timed = stamp is not None and stamp[0].count(":") >= 2 and self.fence is None
        return turn if self.role is None or timed or self.above == "---" or _TURN.fullmatch(self.above) else None

    def _reject_preamble(self, reason: str) -> Iterator[Record]:
        if self.preamble:
            yield Rejected(self.preamble[0][0], reason, "\n".join(line for _, line in self.preamble)[:EXCERPT])
        self.preamble = []

    def _take_said(self, number: int, line: str) -> Iterator[Record]:
        stripped = line.strip()
        if (match := _MESSAGE_ID.fullmatch(line)) and _TURN.fullmatch(self.above):
            self.native_id = match[1]
            return
        self.above = stripped or self.above
        if self.role == "assistant" and self.fence is None and stripped == "---":
            yield from self.flush()
            self.first = number
            return
        if self.role == "assistant" and self.fence is None and line.startswith(tuple(self.shields)):
            self._hold(number, line)
            return
        match = _FENCE.match(line)
        if self.fence is None:
            self.fence = match and match[1]
        elif match is None and line.rstrip().endswith(self.fence):
            self.fence = None  # files of 2025 end a rule's text amid its last line
        elif match and match[1].startswith(self.fence) and not match[2].strip():
            self.fence = None
        self.text.append(line)

    def _hold(self, number: int, line: str) -> None:
        """Add a line to the open block, and close it where it ends."""
        if not self.held:
            self._keep_text()
            self.depth = 0
        self.held.append((number, line))
        opening = next(key for key in self.shields if self.held[0][1].startswith(key))
        closing, nests = self.shields[opening]
        if line.startswith(opening) and (nests or len(self.held) == 1):
            self.depth += 1
        self.depth -= line.count(closing) if nests else closing in line
        if self.depth > 0:
            return
        raw = "\n".join(text.rstrip() for _, text in self.held)
        name = _TOOL_NAME.search(raw)
        tool = Block("tool_result", raw, name=(name[1] or name[2]) if name else None)
        self.blocks.append(Block("thinking", raw) if opening == "<think>" else tool)
        self.above, self.held = self.held[-1][1].strip(), []

    def finish(self) -> Iterator[Record]:
        """Yield the open message at the end of the file; a block that never closed is read again as text."""
        while self.held:
            opening = next(key for key in self.shields if self.held[0][1].startswith(key))
            closing, nests = self.shields.pop(opening)
            if nests:
                self.shields[opening] = (closing, False)
            again, self.held = deque(self.held), []
            while again:
                yield from self.take(*again.popleft())
        yield from self.flush()
        yield from self._reject_preamble("no turn in this file")

    def _keep_text(self) -> None:
        """Close the run of text: in an agent's turn lines that a tool wrote are told from what was said."""
        raw = "\n".join(line.rstrip() for line in self.text).strip("\n")
        self.text = []
        if self.role == "user":
            raw = re.sub(r"(?:\A|\n)---\Z", "", raw).rstrip()  # what stands between this turn and the next
            self.blocks += [Block("text", raw)] if raw.strip() else []
        elif raw.startswith(_TOOL_LINES[:2]) or (_FENCED.match(raw.lstrip("\n")) and not _FENCED.sub("", raw).strip()):
            name = _TOOL_NAME.match(raw)
            self.blocks.append(Block("tool_result", raw, name=name[2] if name else None))
        else:
            marked = [line for line in raw.split("\n") if line.startswith(_TOOL_LINES)]
            spoken = "\n".join(line for line in raw.split("\n") if not line.startswith(_TOOL_LINES)).strip("\n")
            self.blocks += [Block("text", spoken)] if spoken.strip() else []
            self.blocks += [Block("tool_result", "\n".join(marked))] if marked else []

    def flush(self) -> Iterator[Record]:
        """Yield the turn, or the piece of an answer, that was gathered."""
        self._keep_text()
        blocks, self.blocks, self.fence = self.blocks, [], None
        if not blocks:
            return
        # Pieces of one turn are numbered on, so that a file that grows keeps the names of what it held.
        native, self.native_id = self.native_id or str(self.messages), None
        self.messages += 1
        said = clean_text("\n".join(block.text or "" for block in blocks if block.type == "text"))
        who = MODEL
        if self.role == "user":
            said = strip_tags(said, NOISE_TAGS).strip()
            who = AGENT if self.sidechain else HUMAN
        elif all(block.type == "tool_result" for block in blocks):
            who = TOOL
        yield Message(self.session, native, *who, blocks, said, self.time, line=self.first)


def _find_time(text: str) -> datetime | None:
    """Return the first time in a text."""
    stamp = _TIME.search(text)
    return coerce_time(stamp[0]) if stamp else None


AIDER = Reader("aider", 1, sniff_aider, read_aider, files=(AIDER_NAME,))
SPECSTORY = Reader("specstory", 1, sniff_specstory, read_specstory, files=(".specstory/history/*.md",))
