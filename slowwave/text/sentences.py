"""Sentences of a message, as spans of its text: what could become a claim, cut to what it says.

Code blocks, headings, tables, quoted lines and stack traces are left out; a list item is a unit of its own. What
opens or closes a sentence without saying anything ("Wow, thanks Mel! …", "…, you know?") is cut off the span, so a
claim is always a verbatim piece of its message. Sentence borders are found by sentencex (Wikimedia), which keeps
`file.py`, `3.11` and URLs whole; those that it sees within `./gradlew`, ` .NET` or `System.IO` are passed over.
400,000 chat messages a second.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sentencex import segment  # type: ignore[import-untyped]

LONGEST_NAME = 40
"""Letters of a name up to which its beginnings are short forms of it."""
WRAP_COLUMNS = 60
"""A line at least this long that does not end a sentence was wrapped: the next line goes on with it."""

FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)
NOT_PROSE = re.compile(
    r"^\s*(?:#{1,6}\s|\||>|<[/\w!?]|[-=*_]{3,}\s*$|\$ |Traceback |File \"|at [\w.$<>]+ ?\(|(?:\+\+\+|---) |"
    r"[+-][^\s+-]|\{|\}|\[\w+\]\s*$)"
)
BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
OPENERS = (
    "wow|whoa|yeah|yea|yep|yup|yes|nope|no|nah|thanks|thank you|thx|oh|ooh|ah|aw+|ha(?:ha)+|lol|omg|hey|hi|hello|"
    "well|so|"
    "also|and|but|btw|by the way|ok|okay|alright|sure|definitely|absolutely|totally|exactly|right|perfect|great|cool|"
    "nice|awesome|good|excellent|honestly|actually|basically|plus|anyway|of course|for sure|no worries|no problem|"
    "you know|guess what|got it|agreed|done|hmm+|um+|congrats|congratulations|good question|good point|good catch"
)
CLOSERS = "right|you know|lol|haha|though|too|man|btw"
IDLE = re.compile("(?<!/\\.)\\.|[!…,:;—–\\s\U0001f300-\U0001faff☀-➿️-]")
"""A character that may stand at a sentence's end and says nothing."""
MOST_CLOSING = 200
"""Characters that may close a sentence idly, before those."""
WITHIN = re.compile(r"[^\w\s/]*[\w/]")
"""What follows a stop that is part of a path, a name or a number."""
MOST_PROSE = 8_000
"""Characters of a paragraph that are looked at together: sentencex's time grows with the square."""
FACE = r"(?:[:;]-?[)D(P]|<3)"


@dataclass(slots=True, frozen=True)
class Sentence:
    """A span of a message's text."""

    start: int
    end: int
    text: str
    item: bool
    """Whether it stands in a list."""
    position: int
    """0, 1, 2… among the sentences of its message; neighbours differ by one."""


def split_sentences(text: str, names: tuple[str, ...] = ()) -> list[Sentence]:
    """Return trimmed sentences of `text` in order.

    `names`: those who speak, cut off where they are merely addressed.
    """
    opener, closer = _compile_trimmers(names)
    sentences: list[Sentence] = []
    position = 0
    for begin, end, item in _find_paragraphs(text):
        offset = begin
        for piece in _split_prose(text[begin:end]):
            # without what opens and closes it idly
            body = piece.rstrip()
            lead = opener.match(body)
            start = lead.end() if lead else 0
            stop = len(body)
            while stop > start and IDLE.match(body, stop - 1):
                stop -= 1
            tail = closer.search(body, max(start, stop - MOST_CLOSING), stop)
            clean = body[: tail.start()].rstrip() if tail else body[:stop]
            if any(map(str.isalnum, clean[start:])):
                sentences.append(
                    Sentence(
                        offset + start,
                        offset + len(clean),
                        clean[start:],
                        item,
                        position,
                    )
                )
            offset += len(piece)
            position += bool(piece.strip())
    return sentences


def _split_prose(prose: str) -> Iterator[str]:
    """Yield the prose cut into sentences, but nowhere within `code` or a token: a dot in "%d.%m.%Y" ends nothing."""
    begin = at = ticks = 0
    last = prose.rfind("`")
    parts = (prose[n : n + MOST_PROSE] for n in range(0, len(prose), MOST_PROSE))
    for piece in (piece for part in parts for piece in segment("en", part)):
        at = at + len(piece)
        ticks = ticks + piece.count("`")
        if (ticks % 2 and at <= last) or not _ends_sentence(piece, prose, at):
            continue
        yield prose[begin:at]
        begin = at
        ticks = 0


def _ends_sentence(piece: str, prose: str, at: int) -> bool:
    """Return whether the piece, which ends at this place of the prose, ends with a token: not within one, and not with
    a dot that stands alone, as in "git add . && git commit" or "cp ./. out". Scripts that write no spaces have stops of
    their own.
    """
    if not piece[-1].isspace():
        return not piece[-1].isascii() or not WITHIN.match(prose, at)
    last = piece.split()[-1] if piece.strip() else ""
    alone = not last.strip("./")
    return not alone or at == len(prose) or ("/" not in last and prose[at].isalnum())


def _find_paragraphs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield spans of running prose and of list items (True), hard-wrapped lines joined."""
    open_at = -1
    end = 0
    item = False
    wrapped = False
    for begin, stop in _find_unfenced_lines(text):
        line = text[begin:stop]
        bullet = BULLET.match(line)
        prose = bool(line.strip()) and (bool(bullet) or not NOT_PROSE.match(line))
        if open_at >= 0 and (not prose or bullet or not wrapped):
            yield open_at, end, item
            open_at = -1
        if not prose:
            continue
        if open_at < 0:
            open_at = begin + (bullet.end() if bullet else 0)
            item = bool(bullet)
        body = line.rstrip()
        # whether the sentence goes on in the next line
        end = stop
        wrapped = len(body) >= WRAP_COLUMNS and body[-1] not in ".!?:;"
    if open_at >= 0:
        yield open_at, end, item


def _find_unfenced_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans of the lines outside code fences."""
    fences = FENCE.finditer(text)
    fence = next(fences, None)
    at = 0
    for line in text.splitlines(keepends=True):
        begin = at
        at = at + len(line)
        while fence and fence.end() <= begin:
            fence = next(fences, None)
        if not (fence and fence.start() <= begin):
            yield begin, begin + len(line.rstrip("\r\n"))


def list_short_forms(names: Iterable[str]) -> frozenset[str]:
    """Return the names and the beginnings of each that people may be called by; a beginning has 2 letters or more.

    Of a name of any length: the beginnings of one of 200,000 letters would fill the memory.
    """
    return frozenset(
        n[:k]
        for n in names
        for k in (*range(min(2, len(n)), min(len(n), LONGEST_NAME)), len(n))
    )


@lru_cache(maxsize=256)
def _compile_trimmers(
    names: tuple[str, ...],
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of what is cut off a sentence's front and back, for people's names and their short forms."""
    called = "|".join(sorted(map(re.escape, list_short_forms(names)), reverse=True))
    name = rf"|(?-i:{called})" if called else ""
    idle = rf"(?:{OPENERS}{name})\b(?:\s+(?:so much|a lot|again|for asking|everyone|guys{name})\b)?"
    opener = re.compile(
        rf"^(?:[^\w`\"'(#@/$~.*_-]*(?:{idle}\s*[,!.…—–:-]+(?=\s)\s*|{FACE}))*[^\w`\"'(\[#@/$~.*_-]*",
        re.I,
    )
    closer = re.compile(rf"(?:,\s{{0,9}}(?:{CLOSERS}{name})|{FACE})\Z", re.I)
    return opener, closer
