"""Histories in Markdown: aider's and SpecStory's.

**aider** appends to one file a project. `# aider chat started at TIME` begins a session. A line that a person typed
starts with `#### `, a line of the program with `> `; all other lines are the model's answer. aider ends its own lines
with two spaces, a model does not: this distinguishes a heading or a quotation in an answer from the person and the
program. Source: `append_chat_history` and `user_input` in aider/io.py, versions 0.5 to 0.86.

**SpecStory** writes one file a session. `_**User (…)**_`, `_**Agent (model time)**_` or, in older files,
`_**Assistant**_` begin a turn. `---` separates turns, and in files of the editor's extension also the pieces of an
answer. Tool output is in `<tool-use>`; in older files it is in `<details>`, below "Tool use: **name**", or in a piece
of fenced code alone. Source: `pkg/markdown/markdown.go` of SpecStory's command (Markdown v2.1.0).
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.claude_code import extract_claude_user_text
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
)
from slowwave.tasks.ingest.parsing.values import clean_text, coerce_time

AIDER_NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_PADDED = re.compile(rb"^(?:> |####).*  \r?$", re.M)
_COMMAND = re.compile(r"[/!](\S*)\s*")
_SPOKEN = frozenset(("ask", "code", "architect", "context", "help"))
"""Commands whose argument is a prompt for the model."""


def sniff_aider(head: Head) -> bool:
    """Return True if the first line with text starts a session; in a file with aider's name, if any line does."""
    lines = [
        line
        for line in head.data.decode("utf-8", "replace")
        .removeprefix("\ufeff")
        .splitlines()
        if line.strip()
    ]
    if head.path.name == AIDER_NAME:
        # A person may have added lines above, or cut off the start.
        return any(_START.fullmatch(line) for line in lines) or any(
            line[:2] == "> " for line in lines[:1]
        )
    return bool(lines) and _START.fullmatch(lines[0]) is not None


@dataclass
class _AiderSession:
    """A session of an aider history that is being read."""

    session: Session
    time: datetime | None = None
    """The session's start: aider's messages have no times."""
    messages: int = 0
    """Messages so far; the next one has this number."""

    def parse_message(
        self,
        who: Who,
        raw: str,
        line: int,
    ) -> Message | Skipped:
        """Parse a run of lines of one speaker as the next message."""
        native = str(self.messages)
        self.messages += 1
        if who == TOOL:
            raw = "\n".join(
                line[2:] if line[:2] in ("> ", ">") else line
                for line in raw.split("\n")
            )
            return self._make_message(
                native_id=native,
                who=who,
                block=Block("tool_result", raw, "aider"),
                text="",
                line=line,
            )
        if who == HUMAN:
            raw = "\n".join(line[4:].removeprefix(" ") for line in raw.split("\n"))
        if raw.strip() in ("", "<blank>"):
            return Skipped("empty input", line)
        text = _extract_prompt(raw) if who == HUMAN else clean_text(raw)
        return self._make_message(
            native_id=native, who=who, block=Block("text", raw), text=text, line=line
        )

    def _make_message(
        self,
        native_id: str,
        who: Who,
        block: Block,
        text: str,
        line: int,
    ) -> Message:
        role, origin = who
        return Message(
            self.session.native_id,
            native_id,
            role=role,
            origin=origin,
            blocks=[block],
            text=text,
            ts=self.time,
            line=line,
        )


def read_aider(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in file order. Each message has its session's time, since aider writes no other."""
    project = path.absolute().parent if path.name == AIDER_NAME else None
    name, workspace = (
        (project.name, str(project)) if project else (path.name.split(".")[0], None)
    )
    current = _AiderSession(Session(f"{name}@", workspace))
    started = Counter[str]()
    for run in _group_lines(path, limits):
        if isinstance(run, Rejected):
            yield run
            continue
        if start := _START.fullmatch(run.lines[0][1]):
            # the order distinguishes two sessions that started in the same second
            started[start[1]] += 1
            nth = f" {started[start[1]]}" if started[start[1]] > 1 else ""
            current = _AiderSession(
                Session(f"{name}@{start[1]}{nth}", workspace), _parse_local(start[1])
            )
            continue
        raw = "\n".join(line.rstrip() for _, line in run.lines).strip("\n")
        if run.who is None or not raw:
            continue
        if not current.messages:
            yield current.session
        yield current.parse_message(run.who, raw, run.lines[0][0])


@dataclass
class _Run:
    """Consecutive lines of one speaker, each with its number; a session's start has no speaker."""

    who: Who | None = None
    lines: list[tuple[int, str]] = field(default_factory=list)

    def ends_before(self, who: Who | None, line: str) -> bool:
        """Return True if a line of this speaker begins another run.

        That is so if the speaker changes, at a session's start, and below an empty line if a person speaks: aider
        writes no empty line inside a prompt.
        """
        if who != self.who or (who is None and line.strip()):
            return True
        return who == HUMAN and bool(self.lines) and not self.lines[-1][1].strip()


def _group_lines(path: Path, limits: Limits) -> Iterator[_Run | Rejected]:
    """Yield the runs of lines of one speaker."""
    # Editors and hooks may have removed the two spaces at the end of the program's lines.
    padded = _PADDED.search(read_head(path).data) is not None
    run = _Run()
    spoken = False  # a model answers only after a person has typed something
    for item in iter_text(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line = item[1]
        who = _find_speaker(line, run, padded=padded, spoken=spoken)
        if _START.fullmatch(line):
            spoken = False
        if run.ends_before(who, line):
            if run.lines:
                yield run
            run = _Run(who)
        run.lines.append(item)
        spoken = spoken or who == HUMAN
    if run.lines:
        yield run


def _find_speaker(
    line: str,
    run: _Run,
    *,
    padded: bool,
    spoken: bool,
) -> Who | None:
    """Return the speaker of a line; None for a session's start.

    Args:
        line: the line.
        run: the run of lines before it.
        padded: True if the program's lines in this file end with two spaces.
        spoken: True if a person has typed something in this session.
    """
    is_own = line.endswith("  ") or not padded  # of aider's own lines
    if _START.fullmatch(line):
        return None
    if not line.strip():
        return run.who
    if line.startswith("####") and line[4:5] in ("", " ") and is_own:
        return HUMAN
    if line.startswith(">") and line[1:2] in ("", " "):
        is_quotation = run.who == MODEL and not is_own
        return MODEL if is_quotation else TOOL
    if padded and run.who == TOOL:
        # In a message of the program only the first line is marked, and only the last line ends with two spaces.
        last = next(line for _, line in reversed(run.lines) if line.strip())
        return MODEL if spoken and last.endswith("  ") else TOOL
    return MODEL


def _extract_prompt(typed: str) -> str:
    """Return the words of a person; of a command to the program, only a prompt that the command passes on."""
    command = _COMMAND.match(typed)
    if command and not (typed[0] == "/" and command[1] in _SPOKEN):
        return ""
    return clean_text(typed[command.end() :] if command else typed)


_TURN = re.compile(r"_\*\*(User|Assistant|Agent|)( - sidechain)?(?: \((.*)\))?\*\*_\s*")
_SESSION = re.compile(r"<!-- .+ Session (\S+) \((.*)\) -->\s*")
_MESSAGE_ID = re.compile(r"<!-- message-id: (\S+) -->\s*")
_TITLE = re.compile(r"#{1,2} (.*?)(?:\s*\(([^()]*\d[^()]*)\))?\s*")
HEADER_CHARS = 500  # a longer title is cut
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
)
_NAMED = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d)-(\d\d)(?:-(\d\d))?Z?(?:-|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_FENCED = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S
)
_TOOL_NAME = re.compile(
    r'data-tool-name="([^"]*)"|(?:Tool use: \*\*|### Rule: )([^*\n]+)'
)
_TOOL_LINES = ("Tool use: **", "### Rule: ", "Read file: ")
_SHIELDS = {
    "<tool-use ": "</tool-use>",
    "<think>": "</think>",
    "<details": "</details>",
}
"""Opening and closing tags of a block in an agent's turn. A line inside such a block never begins a turn."""


def sniff_specstory(head: Head) -> bool:
    """Return True if the file has SpecStory's header, or lies in a SpecStory folder and has a turn."""
    start = head.data[:4096].decode("utf-8", "replace").lstrip("\ufeff \r\n")
    if start.startswith(("<!-- Generated by SpecStory", "## SpecStory")):
        return True
    return _find_project(head.path) is not None and any(
        map(_TURN.fullmatch, start.splitlines())
    )


def read_specstory(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield the lines that can't be read, then records in file order; a file is one session."""
    lines: list[tuple[int, str]] = []
    for item in iter_text(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            lines.append(item)
    begin = next(
        (
            at
            for at, (_, line) in enumerate(lines)
            if (turn := _TURN.fullmatch(line)) and turn[1]
        ),
        len(lines),
    )
    session, time, strays = _parse_header(path, lines[:begin])
    if strays:
        reason = (
            "no turn in this file"
            if begin == len(lines)
            else "text before the first turn"
        )
        yield Rejected(
            strays[0][0], reason, "\n".join(line for _, line in strays)[:EXCERPT]
        )
    if begin < len(lines):
        yield session
    # Pieces are numbered through the file: if the file grows, the earlier messages keep their ids.
    for number, piece in enumerate(_PieceSplitter(lines[begin:], time).split()):
        yield _make_message(session, piece, number)


def _make_message(session: Session, piece: "_Piece", number: int) -> Message:
    """Return the message of a piece, which is named by its id or its number."""
    text = clean_text(
        "\n".join(block.text or "" for block in piece.blocks if block.type == "text")
    )
    role, origin = who = (
        TOOL
        if all(block.type == "tool_result" for block in piece.blocks)
        else piece.who
    )
    if who not in (MODEL, TOOL):
        said = text
        text = extract_claude_user_text(said)
        origin = origin if text or not said else "synthetic"
    return Message(
        session.native_id,
        piece.native_id or str(number),
        role=role,
        origin=origin,
        blocks=piece.blocks,
        text=text,
        ts=piece.time,
        line=piece.line,
    )


def _find_project(path: Path) -> Path | None:
    """Return the folder whose `.specstory/history` contains the file."""
    folders = path.absolute().parents
    return next(
        (
            f.parent.parent
            for f in folders
            if (f.parent.name, f.name) == (".specstory", "history")
        ),
        None,
    )


def _parse_header(
    path: Path, lines: list[tuple[int, str]]
) -> tuple[Session, datetime | None, list[tuple[int, str]]]:
    """Parse the lines before the first turn: return the session, its time, and the lines that are not a header."""
    project = _find_project(path)
    session = Session(
        path.name.split(".")[0], workspace=str(project) if project else None
    )
    # The header's time may be in any zone without naming it; the time in the file's name is UTC.
    time = _find_time_in_name(path.name)
    strays = []
    for number, line in lines:
        stripped = line.strip()
        if match := _SESSION.fullmatch(line[:HEADER_CHARS]):
            session.native_id = match[1]
            time = time or coerce_time(match[2].strip())
        elif (match := _TITLE.fullmatch(line[:HEADER_CHARS])) and session.title is None:
            time = time or _find_time(line)
            title = _TIME.sub("", match[1]).strip()
            session.title = None if title == "SpecStory" else title or None
        elif stripped not in ("", "---") and not (
            line.startswith("<!--") and stripped.endswith("-->")
        ):
            strays.append((number, line))
    return session, time, strays


def _find_time_in_name(name: str) -> datetime | None:
    """Return the time in a file's name, if it has one."""
    named = _NAMED.match(name)
    if not named:
        return None
    return coerce_time(f"{named[1]}T{named[2]}:{named[3]}:{named[4] or '00'}Z")


@dataclass
class _Piece:
    """A turn, or a piece of an agent's turn: its blocks, and the lines of text that are not in a block yet."""

    who: Who
    time: datetime | None
    line: int
    native_id: str | None = None
    text: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def close_text(self) -> None:
        """Make blocks of the lines of text; in an agent's turn, a tool's lines become a block of their own."""
        raw = "\n".join(line.rstrip() for line in self.text).strip("\n")
        self.text = []
        if self.who != MODEL:
            # The line between this turn and the next.
            raw = re.sub(r"(?:\A|\n)---\Z", "", raw).rstrip()
            self.blocks += [Block("text", raw)] if raw.strip() else []
        elif raw.startswith(_TOOL_LINES[:2]) or (
            _FENCED.match(raw.lstrip("\n")) and not _FENCED.sub("", raw).strip()
        ):
            name = _TOOL_NAME.match(raw)
            self.blocks.append(
                Block("tool_result", raw, name=name[2] if name else None)
            )
        else:
            marked = [line for line in raw.split("\n") if line.startswith(_TOOL_LINES)]
            spoken = "\n".join(
                line for line in raw.split("\n") if not line.startswith(_TOOL_LINES)
            ).strip("\n")
            self.blocks += [Block("text", spoken)] if spoken.strip() else []
            self.blocks += [Block("tool_result", "\n".join(marked))] if marked else []


class _PieceSplitter:
    """Splits the lines of a SpecStory file, from its first turn on, into pieces."""

    def __init__(self, lines: list[tuple[int, str]], time: datetime | None) -> None:
        """Begin at the first line, which begins a turn; `time` is used until a turn has one."""
        self._lines = lines
        self._time = time
        self._blocks = _BlockEnds(lines)
        self._piece = _Piece(HUMAN, time, 0)
        self._at = 0
        """The place of the next line."""
        self._above = "---"
        """The last line that was not blank."""
        self._fence: str | None = None
        """The fence of the code that the next line is in."""

    def split(self) -> Iterator[_Piece]:
        """Yield each turn, and each piece of an agent's turn, that is not empty.

        A turn without a time has the last time before it.
        """
        while self._at < len(self._lines):
            number, line = self._lines[self._at]
            turn = _match_turn(line, self._above, self._fence)
            is_mark = (
                self._piece.who == MODEL
                and self._fence is None
                and line.strip() == "---"
            )
            self._at += 1
            if turn or is_mark:
                ended = self._piece
                ended.close_text()
                if ended.blocks:
                    yield ended
                self._begin_piece(number, line, turn)
            else:
                self._add_line(line)
        self._piece.close_text()
        if self._piece.blocks:
            yield self._piece

    def _begin_piece(
        self,
        number: int,
        line: str,
        turn: re.Match[str] | None,
    ) -> None:
        """Begin a turn; if `turn` is None, the next piece of the agent's turn."""
        if turn is None:
            native_id = self._piece.native_id if not self._piece.blocks else None
            self._piece = _Piece(
                who=MODEL, time=self._time, line=number, native_id=native_id
            )
            self._above = line.strip()
        else:
            self._time = _find_time(turn[3] or "") or self._time
            self._piece = _Piece(_get_speaker(turn), self._time, number)
            self._above = line
        self._fence = None

    def _add_line(self, line: str) -> None:
        """Add a line to the piece; the opening line of a tool's block or of a thought adds the whole block."""
        if (comment := _MESSAGE_ID.fullmatch(line)) and _TURN.fullmatch(self._above):
            self._piece.native_id = comment[1]
            return
        self._above = line.strip() or self._above
        is_answer = self._piece.who == MODEL and self._fence is None
        opening = next(filter(line.startswith, _SHIELDS), None) if is_answer else None
        if opening:
            self._piece.close_text()
            if end := self._blocks.find_end(self._at - 1, opening):
                self._add_block(opening, end)
                return
        # a block that is never closed is text
        self._fence = _follow_fence(line, self._fence)
        self._piece.text.append(line)

    def _add_block(self, opening: str, end: int) -> None:
        """Add the block from the line before `_at` up to `end`, and go on there."""
        raw = "\n".join(text.rstrip() for _, text in self._lines[self._at - 1 : end])
        if opening == "<think>":
            block = Block("thinking", raw)
        else:
            name = _TOOL_NAME.search(raw)
            block = Block(
                "tool_result", raw, name=(name[1] or name[2]) if name else None
            )
        self._piece.blocks.append(block)
        self._at = end
        self._above = self._lines[end - 1][1].strip()


def _get_speaker(turn: re.Match[str]) -> Who:
    if turn[1] != "User":
        return MODEL
    return AGENT if turn[2] else HUMAN


def _match_turn(line: str, above: str, fence: str | None) -> re.Match[str] | None:
    """Match a line that begins a turn: one below `---` or below another such line, or one with a time to the second."""
    turn = _TURN.fullmatch(line) if line.startswith("_**") else None
    if turn is None or (turn[1] == "" and above != "---"):
        return None
    stamp = _TIME.search(turn[3] or "")
    timed = stamp is not None and stamp[0].count(":") >= 2 and fence is None
    return turn if timed or above == "---" or _TURN.fullmatch(above) else None


def _follow_fence(line: str, fence: str | None) -> str | None:
    """Return the fence that is open after a line; None outside fenced code. `fence` is open before the line."""
    match = _FENCE.match(line)
    if fence is None:
        return match and match[1]
    # in files of 2025, the fence that closes a rule's text is at the end of its last line
    is_amid = match is None and line.rstrip().endswith(fence)
    return (
        None
        if is_amid or (match and match[1].startswith(fence) and not match[2].strip())
        else fence
    )


class _BlockEnds:
    """Finds the end of a tool's block or a thought. A closing tag closes the last open block, as in HTML.

    Two rules keep an unclosed block from extending to the end of a later one. A block never contains a turn of the
    person outside fenced code. A block without a closing tag of its own ends within its piece or never.
    """

    def __init__(self, lines: list[tuple[int, str]]) -> None:
        self._lines = lines
        self._ends = dict[tuple[str, int], int]()
        """The place after a block's closing line, by its tag and the place of its opening line."""
        self._closings: dict[str, list[int]] = {opening: [] for opening in _SHIELDS}
        self._barred = {True: -1, False: -1}
        """A block that opens before this place never ends; True: with a closing tag of its own, False: without."""
        for opening, closing in _SHIELDS.items():
            opened: list[int] = []
            for at, (_, line) in enumerate(lines):
                if line.startswith(opening):
                    opened.append(at)
                if closing in line:
                    self._closings[opening].append(at + 1)
                    for _ in range(min(line.count(closing), len(opened))):
                        self._ends[opening, opened.pop()] = at + 1

    def find_end(self, start: int, opening: str) -> int | None:
        """Return the place after the end of the block that opens at `start`; None if it never ends."""
        end = self._ends.get((opening, start))
        is_closed = (opening, start) in self._ends
        if end is None:
            closings = self._closings[opening]
            after = bisect_right(closings, start)
            end = closings[after] if after < len(closings) else None
        if end is None or start < self._barred[is_closed]:
            return None
        barrier = self._find_barrier(start, end, is_closed=is_closed)
        if barrier is None:
            return end
        self._barred[is_closed] = barrier
        return None

    def _find_barrier(
        self,
        start: int,
        end: int,
        *,
        is_closed: bool,
    ) -> int | None:
        """Return the first place between `start` and `end` that a block can't extend over; None if there is none.

        Places in fenced code don't count. A fence that is still open at `end`, or when another fence opens, was never
        closed: places after it count.
        """
        # `fenced`: the first such place since the open fence.
        fence = None
        above = ""
        fenced = None
        for at in range(start + 1, end):
            line = self._lines[at][1]
            turn = _match_turn(line, above, None)
            opening = _FENCE.match(line)
            is_barrier = (turn and turn[1] == "User") or (
                not is_closed and line.strip() == "---"
            )
            if is_barrier and fence is None:
                return at
            fenced = at if is_barrier and fenced is None else fenced
            if fence is not None and fenced and opening and opening[2].strip():
                return fenced
            fence = _follow_fence(line, fence)
            above = line.strip() or above
            fenced = fenced if fence else None
        return fenced


def _parse_local(stamp: str) -> datetime | None:
    """Return a time that has no zone, as aider writes it: it is the time of this machine's zone."""
    at = coerce_time(stamp)
    return at.replace(tzinfo=None).astimezone() if at else None


def _find_time(text: str) -> datetime | None:
    """Return the first time in a text."""
    stamp = _TIME.search(text)
    return coerce_time(stamp[0]) if stamp else None


AIDER = Reader("aider", sniff_aider, read_aider, files=(AIDER_NAME,), version=2)
SPECSTORY = Reader(
    "specstory",
    sniff_specstory,
    read_specstory,
    files=(".specstory/history/*.md",),
    version=3,
)
