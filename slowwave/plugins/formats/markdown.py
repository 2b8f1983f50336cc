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
from bisect import bisect_right
from collections import Counter
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
    name, workspace = (project.name, str(project)) if project else (path.name.split(".")[0], None)
    session, time, messages, started = Session(f"{name}@", workspace), None, 0, Counter[str]()
    for run in _group_lines(path, limits):
        if isinstance(run, Rejected):
            yield run
            continue
        who, lines = run
        number, raw = lines[0][0], "\n".join(line.rstrip() for _, line in lines).strip("\n")
        if start := _START.fullmatch(lines[0][1]):
            # Two sessions that started in one second are told apart by their order.
            started[start[1]] += 1
            nth = f" {started[start[1]]}" if started[start[1]] > 1 else ""
            session, time, messages = Session(f"{name}@{start[1]}{nth}", workspace), coerce_time(start[1]), 0
            continue
        if who is None or not raw:
            continue
        if not messages:
            yield session
        native, messages = str(messages), messages + 1
        # Of the program its output, of a model its answer, of a person the typed lines.
        if who == TOOL:
            raw = "\n".join(line[2:] if line[:2] in ("> ", ">") else line for line in raw.split("\n"))
            yield Message(session.native_id, native, *who, [Block("tool_result", raw, "aider")], "", time, line=number)
            continue
        if who == HUMAN:
            raw = "\n".join(line[4:].removeprefix(" ") for line in raw.split("\n"))
        if raw.strip() in ("", "<blank>"):
            yield Skipped("empty input", number)
            continue
        text = _extract_prompt(raw) if who == HUMAN else clean_text(raw)
        yield Message(session.native_id, native, *who, [Block("text", raw)], text, time, line=number)


def _group_lines(path: Path, limits: Limits) -> Iterator[tuple[Who | None, list[tuple[int, str]]] | Rejected]:
    """Yield whose words and lines, of each run of lines that are one's; a session's start is a run of nobody's."""
    # Editors and hooks may have taken the two spaces off that the program's lines end with.
    padded = _PADDED.search(read_head(path).data) is not None
    who: Who | None = None
    run: list[tuple[int, str]] = []
    spoken = False  # before a person has spoken there is nothing a model could answer
    for item in iter_text(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        line, above, own = item[1], run[-1][1] if run else "", item[1].endswith("  ") or not padded
        now: Who | None = MODEL
        if _START.fullmatch(line):
            now, spoken = None, False
        elif not line.strip():
            now = who
        elif line.startswith("####") and line[4:5] in ("", " ") and own:
            now = HUMAN
        elif line.startswith(">") and line[1:2] in ("", " "):
            now = TOOL if own or who != MODEL else MODEL  # an answer's quotation
        elif padded and who == TOOL:
            # Of a message of the program only the first line is marked, and only the last ends with two spaces.
            last = next(line for _, line in reversed(run) if line.strip())
            now = MODEL if spoken and last.endswith("  ") else TOOL
        # A run ends where another speaks, at a session's start, and at an empty line of a person's, who types none.
        if now != who or (now is None and line.strip()) or (now == HUMAN and run and not above.strip()):
            if run:
                yield who, run
            who, run = now, []
        run.append(item)
        spoken = spoken or now == HUMAN
    if run:
        yield who, run


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
    """Yield records in order of the file, after the lines that can't be read; a file is one session."""
    lines: list[tuple[int, str]] = []
    for item in iter_text(path, limits):
        if isinstance(item, Rejected):
            yield item
        else:
            lines.append(item)
    begin = next((at for at, (_, line) in enumerate(lines) if (turn := _TURN.fullmatch(line)) and turn[1]), len(lines))
    session, time, strays = _parse_header(path, lines[:begin])
    if strays:
        reason = "no turn in this file" if begin == len(lines) else "text before the first turn"
        yield Rejected(strays[0][0], reason, "\n".join(line for _, line in strays)[:EXCERPT])
    if begin < len(lines):
        yield session
    # Pieces of one turn are numbered on, so that a file that grows keeps the names of what it held.
    for number, piece in enumerate(_split_pieces(lines[begin:], time)):
        text = clean_text("\n".join(block.text or "" for block in piece.blocks if block.type == "text"))
        who = TOOL if all(block.type == "tool_result" for block in piece.blocks) else piece.who
        text = text if who in (MODEL, TOOL) else strip_tags(text, NOISE_TAGS).strip()
        native = piece.native_id or str(number)
        yield Message(session.native_id, native, *who, piece.blocks, text, piece.time, line=piece.line)


def _find_project(path: Path) -> Path | None:
    """Return the folder whose `.specstory/history` the file lies in."""
    folders = path.absolute().parents
    return next((f.parent.parent for f in folders if (f.parent.name, f.name) == (".specstory", "history")), None)


def _parse_header(path: Path, lines: list[tuple[int, str]]) -> tuple[Session, datetime | None, list[tuple[int, str]]]:
    """Return the session that the lines before the first turn tell of, its time, and the lines that are none of it."""
    project, named = _find_project(path), _NAMED.match(path.name)
    session = Session(path.name.split(".")[0], workspace=str(project) if project else None)
    # The header's time may be of any zone and not say which; that of the file's name is UTC.
    time = coerce_time(f"{named[1]}T{named[2]}:{named[3]}:{named[4] or '00'}Z") if named else None
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
        elif stripped not in ("", "---") and not (line.startswith("<!--") and stripped.endswith("-->")):
            strays.append((number, line))
    return session, time, strays


@dataclass
class _Piece:
    """A turn, or a piece of an agent's: its lines of text that are not yet a block, and its blocks."""

    who: Who
    time: datetime | None
    line: int
    native_id: str | None = None
    text: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def close_text(self) -> None:
        """Make blocks of the lines of text: in an agent's turn those that a tool wrote are told from what was said."""
        raw = "\n".join(line.rstrip() for line in self.text).strip("\n")
        self.text = []
        if self.who != MODEL:
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


def _split_pieces(lines: list[tuple[int, str]], time: datetime | None) -> Iterator[_Piece]:
    """Yield each turn, and each piece of an agent's turn, that holds something; the first line begins a turn.

    A turn without a time of its own bears the last one before it.
    """
    piece = _Piece(HUMAN, time, 0)
    blocks = _Blocks(lines)
    at, above, fence = 0, "---", None  # `above`: the last line that was not blank
    while at < len(lines):
        number, line = lines[at]
        stripped, at = line.strip(), at + 1
        turn = _match_turn(line, above, fence)
        is_mark = piece.who == MODEL and fence is None and stripped == "---"
        if turn or is_mark:
            piece.close_text()
            if piece.blocks:
                yield piece
            native_id = piece.native_id if is_mark and not piece.blocks else None
            if turn:
                time = _find_time(turn[3] or "") or time
                piece = _Piece(MODEL if turn[1] != "User" else AGENT if turn[2] else HUMAN, time, number)
            else:
                piece = _Piece(MODEL, time, number, native_id)
            above, fence = line if turn else stripped, None
            continue
        if (comment := _MESSAGE_ID.fullmatch(line)) and _TURN.fullmatch(above):
            piece.native_id = comment[1]
            continue
        above = stripped or above
        # A block of a tool or a thought, up to the line that closes it; one that never closes is text.
        opening = next(filter(line.startswith, _SHIELDS), None) if piece.who == MODEL and fence is None else None
        if opening:
            piece.close_text()
            if end := blocks.find_end(at - 1, opening):
                raw = "\n".join(text.rstrip() for _, text in lines[at - 1 : end])
                name = _TOOL_NAME.search(raw)
                tool = Block("tool_result", raw, name=(name[1] or name[2]) if name else None)
                piece.blocks.append(Block("thinking", raw) if opening == "<think>" else tool)
                at, above = end, lines[end - 1][1].strip()
                continue
        fence = _follow_fence(line, fence)
        piece.text.append(line)
    piece.close_text()
    if piece.blocks:
        yield piece


def _match_turn(line: str, above: str, fence: str | None) -> re.Match[str] | None:
    """Return the match of a line that begins a turn: one below `---` or another, or one that bears its second."""
    turn = _TURN.fullmatch(line) if line.startswith("_**") else None
    if turn is None or (turn[1] == "" and above != "---"):
        return None
    stamp = _TIME.search(turn[3] or "")
    timed = stamp is not None and stamp[0].count(":") >= 2 and fence is None
    return turn if timed or above == "---" or _TURN.fullmatch(above) else None


def _follow_fence(line: str, fence: str | None) -> str | None:
    """Return the fence that is open after a line, None outside fenced code; `fence` is the one open before it."""
    match = _FENCE.match(line)
    if fence is None:
        return match and match[1]
    # files of 2025 end a rule's text amid its last line
    is_amid = match is None and line.rstrip().endswith(fence)
    return None if is_amid or (match and match[1].startswith(fence) and not match[2].strip()) else fence


class _Blocks:
    """Where the blocks of tools and thoughts end: a closing tag closes the last one open, as in HTML.

    A block that is never closed would take everything up to the end of a later one. So no block holds a turn of the
    person that stands outside fenced code, and one without a closing tag of its own ends within its piece or never.
    """

    def __init__(self, lines: list[tuple[int, str]]) -> None:
        self._lines = lines
        self._ends = dict[tuple[str, int], int]()
        """By tag and place of its opening line, the place after the line that closes a block."""
        self._closings: dict[str, list[int]] = {opening: [] for opening in _SHIELDS}
        self._barred = {True: -1, False: -1}
        """Up to where openings are known to be cut off, those with a closing tag of their own and those without."""
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
        """Return the place after the end of the block that opens here; None where it never ends."""
        end, is_closed = self._ends.get((opening, start)), (opening, start) in self._ends
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

    def _find_barrier(self, start: int, end: int, *, is_closed: bool) -> int | None:
        """Return the first place outside fenced code that no such block goes beyond.

        Code that is still fenced at the end of the block, or where another fence opens, was never closed.
        """
        fence, above, fenced = None, "", None  # `fenced`: the first such place in the code under way
        for at in range(start + 1, end):
            line = self._lines[at][1]
            turn, opening = _match_turn(line, above, None), _FENCE.match(line)
            is_barrier = (turn and turn[1] == "User") or (not is_closed and line.strip() == "---")
            if is_barrier and fence is None:
                return at
            fenced = at if is_barrier and fenced is None else fenced
            if fence is not None and fenced and opening and opening[2].strip():
                return fenced
            fence, above = _follow_fence(line, fence), line.strip() or above
            fenced = fenced if fence else None
        return fenced


def _find_time(text: str) -> datetime | None:
    """Return the first time in a text."""
    stamp = _TIME.search(text)
    return coerce_time(stamp[0]) if stamp else None


AIDER = Reader("aider", sniff_aider, read_aider, files=(AIDER_NAME,))
SPECSTORY = Reader("specstory", sniff_specstory, read_specstory, files=(".specstory/history/*.md",), version=2)
