"""Find the parts of a typed message that its writer did not type: quoted, pasted and forwarded text.

Only the form decides, in any language: quotation marks and quoted lines, blocks of code, tags, the headers of a mail,
separating lines, a letter's salutation, a page's front matter, the times of a chat or log, a colon before long
prose, and many lines that are the same but for their figures. A wrong guess only lowers the trust in a text; no text
is lost.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

Bounds = tuple[int, int]

LEAST_QUOTED = 6
"""Least words of a text in quotation marks that counts as quoted; a shorter one may be a name."""
LEAST_PROSE = 25
"""Least words of prose after a colon at a line's end that count as pasted."""
LONGEST_SALUTATION = 5
"""Most words of a letter's salutation."""
TYPED_A_SECOND = 20
ALWAYS_TYPED = 1_000
"""Characters per second that nobody exceeds, and characters that count as typed however soon they come."""

FIGURE = re.compile(r"(?<![\w.:/-])[A-Za-z_.:/-]*+\d[\w.:/-]*+", re.A)
"""A word with a digit."""
OFTEN_ALIKE = 20
"""Times that nobody types a line with other figures, if these lines have more than ALWAYS_TYPED characters."""

LONGEST = 200_000
"""Characters of a message that are searched; the rest counts as not typed."""

BLOCKS = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[^\n]*\n.*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)"
    r"|(?P<triple>\"\"\"|''')(?:(?!(?P=triple)).)*(?:(?P=triple)|\Z)"
    r"|^[ \t]*>[^\n]*(?:\n[ \t]*>[^\n]*)*",
    re.M | re.S,
)
"""Blocks of code, texts in triple quotation marks, and quoted lines."""
TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>\n]*)?>")
QUOTATIONS = re.compile(
    r"“[^“”]*”|„[^“”„]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』|(?<!\w)\"[^\"\n]*\"(?!\w)"
)
HEADER = re.compile(r"[ \t*_]*[^\W\d_][\w -]{0,30}[*_]*[:：][*_]*[ \t]+\S")
"""A line with a name and a value, as in the header of a mail."""
RULE = re.compile(r"^[ \t]*([-=_~*])\1{2,}[ \t]*$", re.M)
"""A line of marks."""
PARTING = re.compile(r"[ \t]*([-=_~])\1{3}")
"""The beginning of a line of marks: "-----Original Message-----"."""
SALUTATION = re.compile(r"[ \t]*([^\n,，]+)[,，][ \t]*$")
EMPTY = re.compile(r"\n[ \t]*\r?\n")
INTRODUCED = re.compile(r"[:：][ \t]*$")
ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
FRONT_MATTER = re.compile(
    rf"^(-{{3}}|\+{{3}})[ \t]*\n(?:(?:{HEADER.pattern}|[\w-]{{1,30}}[ \t]*=)[^\n]*\n){{2,30}}\1[ \t]*$",
    re.M,
)
"""A page's names and values between two lines of marks."""
_CLOCK = (
    r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:[.,]\d{1,6})?)?(?:[ \xa0\u202f]?[AaPp]\.?[Mm]\.?)?"
)
_DATE = r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?[ T])"
_NAME = r"[^\W\d_][\w.'’-]{0,30}(?:[ ][\w.'’()-]{1,30}){0,3}"
_SECONDS = r"\d{1,2}:\d{2}:\d{2}"
_MONTH = r"[^\W\d_]{3,4}"
_MOMENT = (
    rf"(?:(?:\d{{4}}[./-]\d{{2}}[./-]\d{{2}}[ T]|\d{{1,2}}[/ -]{_MONTH}[/ -]\d{{4}}[ :]"
    rf"|(?:{_MONTH},? )?{_MONTH} [ \d]\d (?:\d{{4}} )?|\b[A-Z]\d{{4}} ){_SECONDS})"
)
"""A date and time in seconds, as ISO 8601, syslog, nginx and klog write them."""
LOGGED = re.compile(
    "^[ \t]*(?:"
    + "|".join(
        (
            # a date and time in brackets, or a time in seconds
            rf"\[{_DATE}{_CLOCK}\]|[\[(]?{_DATE}?{_SECONDS}\b",
            # a moment, perhaps with a priority or behind an address and two names
            rf"(?:<\d{{1,3}}>\d? ?)?\[?{_MOMENT}|\S+ \S+ \S+ \[{_MOMENT}[^\]\n]*\]",
            # a step of a build with its number and share, or its time
            r"#\d+ (?:\[[^\]\n]*\d/\d+\]|\d+\.\d{3}) |(?:=> )+[^\n]*\d\.\ds$",
            # a place in code, the name of a test, the head of a change
            r"File \"[^\"\n]+\", line \d+|--> \S+:\d+:\d+$|[A-Z]{4,} \S+\.\w+::\S|@@ -\d[\d,]* \+\d[\d,]* @@",
        )
    )
    + ")[^\n]*",
    re.M,
)
"""A line of a log, a build or a trace. One is enough: no person types it."""
TWICE = tuple(
    re.compile(rf"^{line}[ \t]*$", re.M)
    for line in (
        rf"(?P<name>)\S*?{_MOMENT}[^\n]*",
        r"(?P<name>)\{\"[^\n]*\}",
        r"[ \t]*(?P<name>[\w.-]+[_-]\d+) +\|[^\n]*",
        r"(?P<name>)[ \t]+\S[^\n]*\([^()\n]*[./][^()\n]*:\d+\)",
    )
)
"""Lines that follow each other, of which two have the same name, in what nobody typed: with a moment in the first word,
of an object in JSON, behind the name and number of a container, and with a place in code in brackets at the end.
"""
HEADS = re.compile(r"^[^a-z\n]*[A-Z](?:[^a-z\n]*?[ \t]{2,}[A-Z]){3}[^a-z\n]*$", re.M)
"""A line of four headings or more in capitals, with several spaces between them."""
COLUMN = re.compile(r"(?:^|(?<=\s\s))\S")
CODED = re.compile(r"\S*(?:[^\W\d_]\S*\d|\d\S*[^\W\d_])\S*")
"""A word with letters and digits."""
ALIGNED = 3
LEAST_CODED = 2
"""Columns under a heading, and words with letters and digits, that the first row of a program's table has at least."""
STAMPED = re.compile(
    rf"^[ \t]*(?:\[{_CLOCK}\][ ]{_NAME}|{_DATE}?{_CLOCK}[ ](?:-[ ])?(?:<[ @+]?[^<>\s]{{1,40}}>|{_NAME}:)"
    rf"|{_NAME}(?:[ ]{{2}}|,[ ]|[ ][—–|-][ ])[^\n.!?]{{0,20}}?\[?{_DATE}?{_CLOCK}\]?[ \t]*$)",
    re.M,
)
"""A line with a name and a time, as before each message of a chat."""


def find_foreign_parts(
    text: str,
    seconds: float | None = None,
) -> list[Bounds]:
    """Return the bounds of the parts of a message that its writer did not type, in order and without overlaps.

    Args:
        text: the message.
        seconds: the seconds since its writer's last message; None if unknown. Text beyond what can be typed in this
            time counts as not typed.
    """
    head = text[:LONGEST]
    blocks = [match.span() for match in BLOCKS.finditer(head)]
    blocks += [*_find_ruled_off(head), *_find_tagged(head)]
    found = blocks + [
        match.span()
        for match in QUOTATIONS.finditer(head)
        if _estimate_words(match[0]) >= LEAST_QUOTED
    ]
    ends = [LONGEST]
    if seconds is not None and seconds > 0:
        ends.append(max(ALWAYS_TYPED, int(TYPED_A_SECOND * seconds)))
    unmarked = cut_out(head, blocks)
    pasted = _find_pasted_end(head, unmarked, join_bounds(found))
    ends += [] if pasted is None else [pasted]
    ends += _find_copied(head, unmarked)
    found += _find_alike(unmarked)
    if min(ends) < len(text):
        found.append((min(ends), len(text)))
    return join_bounds(found)


def is_partly_typed(text: str) -> bool:
    """Return True if a message has parts that its writer did not type, and LEAST_QUOTED other words or more."""
    parts = find_foreign_parts(text)
    return bool(parts) and _estimate_words(cut_out(text, parts)) >= LEAST_QUOTED


def keep_typed(text: str) -> str:
    """Return a message with its foreign parts replaced by empty lines, without those at its end. All other offsets stay
    the same.

    A quotation within a line stays: the sentence around it is the writer's. So does what stands below an empty line
    behind the last line of a log or a chat, though nobody knows whose it is.
    """
    parts = [part for part in find_foreign_parts(text) if _fills_lines(text, *part)]
    if not parts:
        return text
    start, end = parts[-1]
    if end == len(text):
        parts[-1] = start, _find_end_of_copied(text, start)
    pieces = list[str]()
    done = 0
    for start, end in parts:
        pieces += (text[done:start], _make_gap(end - start))
        done = end
    return "".join((*pieces, text[done:])).rstrip()


def _make_gap(length: int) -> str:
    """Return so many characters as a few empty lines: a paste may have millions."""
    breaks = "\n" * min(length, 3)
    return f"{breaks[:2]}{' ' * (length - len(breaks))}{breaks[2:]}"


def _fills_lines(text: str, start: int, end: int) -> bool:
    """Return True if a part has several lines, or no word beside it in its line."""
    if "\n" in text[start:end].strip():
        return True
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    beside = text[first:start] + text[end : len(text) if last < 0 else last]
    return not any(map(str.isalnum, beside))


def _find_end_of_copied(text: str, start: int) -> int:
    """Return the end of a part that reaches to the text's end: of a log or a chat the next empty line."""
    end = len(text)
    for pattern in (LOGGED, STAMPED, *TWICE, HEADS):
        if pattern.match(text, start):
            *_, last = pattern.finditer(text, start)
            gap = EMPTY.search(text, last.end())
            end = min(end, gap.start() if gap else end)
    return end


def _find_copied(whole: str, text: str) -> list[int]:
    """Return the starts of what was copied with its form: a page with front matter, lines of a log, a program's table,
    or a chat.

    One line of a chat is not enough: a person may note a name and a time.

    Args:
        whole: the message.
        text: the message without its marked blocks.
    """
    chat = [match.start() for match in STAMPED.finditer(text)]
    firsts = [FRONT_MATTER.search(whole), LOGGED.search(text), _find_table(text)]
    firsts += [_find_run(pattern, text) for pattern in TWICE]
    return [match.start() for match in firsts if match] + chat[: len(chat) > 1]


def _find_run(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first of the lines of a form of TWICE that follow each other, if two have the same name."""
    first: re.Match[str] | None = None
    names = set[str]()
    end = -1
    for match in pattern.finditer(text):
        if match.start() != end + 1 or first is None:
            first = match
            names.clear()
        if match["name"] in names:
            return first
        names.add(match["name"])
        end = match.end()
    return None


def _find_table(text: str) -> re.Match[str] | None:
    """Return the line of headings of a table that a program wrote: its first row stands under them."""
    for match in HEADS.finditer(text):
        row = text[match.end() + 1 :].partition("\n")[0]
        heads = {one.start() for one in COLUMN.finditer(match[0])}
        cells = {one.start() for one in COLUMN.finditer(row)}
        is_coded = len(CODED.findall(row)) >= LEAST_CODED
        if len(heads & cells) >= ALIGNED and is_coded:
            return match
    return None


def _find_alike(text: str) -> list[Bounds]:
    """Return the bounds of the lines that stand often in a text, but for their figures: a program wrote them."""
    if len(text) <= ALWAYS_TYPED:
        return []
    lines = text.splitlines(keepends=True)
    forms = list(map(hide_figures, lines))
    times = Counter(forms)
    sizes = Counter[str]()
    for form, line in zip(forms, lines, strict=True):
        sizes[form] += len(line)
    found = list[Bounds]()
    at = 0
    for form, line in zip(forms, lines, strict=True):
        if form and times[form] >= OFTEN_ALIKE and sizes[form] > ALWAYS_TYPED:
            found.append((at, at + len(line)))
        at += len(line)
    return found


def _find_ruled_off(text: str) -> list[Bounds]:
    """Return the bounds of a text between two lines of marks that a colon introduces.

    Return none if there is a third line of marks, which may be the text's. Without the colon, two lines may part the
    writer's own sections.
    """
    found = [match.span() for match in RULE.finditer(text)]
    is_pair = len(found) == 2 and INTRODUCED.search(text[: found[0][0]].rstrip())
    return [(found[0][0], found[1][1])] if is_pair else []


def _find_tagged(text: str) -> list[Bounds]:
    """Return the bounds of each pair of tags, including the text between them."""
    opened = dict[str, int]()
    found = list[Bounds]()
    for tag in TAG.finditer(text):
        if not tag[1]:
            opened.setdefault(tag[2], tag.start())
        elif tag[2] in opened:
            found.append((opened.pop(tag[2]), tag.end()))
    return found


def _find_pasted_end(
    whole: str,
    text: str,
    marked: Sequence[Bounds],
) -> int | None:
    """Return the start of a part that reaches to the text's end: a mail, a letter, or long prose after a colon.

    Return None if there is none. A colon introduces the marked part that follows it, and what stands below that is the
    writer's.

    Args:
        whole: the message.
        text: the message without its marked blocks. A line of a block is not an empty one.
        marked: the bounds of all marked parts.
    """
    ends = dict(marked)
    at = 0
    headers = 0
    headers_at = 0
    was_empty = True
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        rest = at + len(line)
        is_empty = not whole[at:rest].strip()
        if is_empty and headers > 1 and text[rest : rest + 1]:
            return headers_at
        if PARTING.match(bare):
            return at
        if at and was_empty and _is_salutation(bare) and rest < len(text):
            return at
        following = text[rest : rest + 8 * LEAST_PROSE]
        is_introduced = INTRODUCED.search(bare) and _is_long_prose(following)
        if is_introduced and not _is_marked_off(text, rest, ends):
            return rest
        is_header = HEADER.match(bare) is not None
        headers_at = headers_at if headers and is_header else at
        headers = headers + 1 if is_header else 0
        at = rest
        was_empty = is_empty
    return None


def _is_marked_off(
    text: str,
    at: int,
    ends: Mapping[int, int],
) -> bool:
    """Return True if a marked part that fills its lines comes next, perhaps after empty lines.

    Args:
        text: the message.
        at: the start of a line.
        ends: the ends of the marked parts, by start.
    """
    while at < len(text):
        stop = text.find("\n", at) + 1 or len(text)
        if at in ends:
            return text[ends[at] :].partition("\n")[0].strip() == ""
        if text[at:stop].strip():
            return False
        at = stop
    return False


def _is_salutation(line: str) -> bool:
    """Return True for a line of a few words that ends in a comma."""
    match = SALUTATION.match(line)
    return match is not None and _estimate_words(match[1]) <= LONGEST_SALUTATION


def _is_long_prose(text: str) -> bool:
    """Return True for text that isn't a list and has at least LEAST_PROSE words."""
    return not ITEM.match(text) and _estimate_words(text) >= LEAST_PROSE


def _estimate_words(text: str) -> int:
    """Return about how many words a text has. In a script without spaces, two letters count as a word."""
    spaced = len(text.split())
    return max(spaced, sum(map(_is_unspaced, text)) // 2)


def _is_unspaced(letter: str) -> bool:
    """Return True for a letter of a script that puts no spaces between words."""
    return "\u3040" <= letter <= "\u9fff" or "\u0e00" <= letter <= "\u0eff"


def join_bounds(bounds: Iterable[Bounds]) -> list[Bounds]:
    """Return bounds in order. Bounds that overlap or touch are joined."""
    joined = list[Bounds]()
    for start, end in sorted(bounds):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def cut_out(
    text: str,
    bounds: Iterable[Bounds],
) -> str:
    """Return a text with these parts replaced by spaces. Line breaks and all offsets stay the same."""
    pieces = list[str]()
    done = 0
    for start, end in join_bounds(bounds):
        pieces += (text[done:start], re.sub(r"[^\n]", " ", text[start:end]))
        done = end
    return "".join((*pieces, text[done:]))


def hide_figures(line: str) -> str:
    """Return a line with a zero for each of its figures, without white space at its ends."""
    return FIGURE.sub("0", line.strip())


def find_repeated_parts(
    texts: Sequence[str],
    owners: Sequence[str],
) -> dict[int, list[int]]:
    """Return the texts of which each line stands in an earlier text of the same owner, but for its figures.

    The value has for each line the index of the first text with that line, which has a new line and so isn't a key.

    Args:
        texts: the parts of one or more messages, those of each message in order.
        owners: the id of each text's message.
    """
    seen = defaultdict[str, dict[str, int]](dict)
    repeated = dict[int, list[int]]()
    for row, (text, owner) in enumerate(zip(texts, owners, strict=True)):
        known = seen[owner]
        lines = [form for line in text.split("\n") if (form := hide_figures(line))]
        if lines and all(line in known for line in lines):
            repeated[row] = [known[line] for line in lines]
        else:
            for line in lines:
                known.setdefault(line, row)
    return repeated
