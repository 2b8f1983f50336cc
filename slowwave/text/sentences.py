"""Split a message into sentences, as spans of its text. Each could become a claim.

Code blocks, headings, tables, quoted lines and stack traces are left out. A list item is a unit of its own. Empty words
at a sentence's start or end ("Wow, thanks Mel! …", "…, you know?") are cut off the span, so a claim is always a
verbatim piece of its message. sentencex (Wikimedia) finds the borders, and keeps `file.py`, `3.11` and URLs whole.
Borders that it finds within `./gradlew`, ` .NET` or `System.IO` are ignored. It takes a second for 400,000 chat
messages.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sentencex import segment  # type: ignore[import-untyped]

from slowwave.text.words import MARKS, UNSPACED, find_text_language, split_words

LONGEST_NAME = 40
"""Most letters of a short form of a name."""
WRAP_COLUMNS = 60
"""A line at least this long that does not end a sentence was wrapped: the next line continues it."""

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
TRIMMED = re.compile("(?<!/\\.)\\.|[!…,:;—–\\s\U0001f300-\U0001faff☀-➿️-]")
"""A character at a sentence's end that is cut off."""
MOST_CLOSING = 200
"""Characters at a sentence's end, before those, that are searched for closing words."""
WITHIN = re.compile(r"[^\w\s/]*[\w/]")
"""Text that follows a stop within a path, a name or a number."""
LONGEST_SENTENCE = 500
"""Most characters of a sentence. A longer one, such as a page without a full stop, is cut into several."""
PAUSE = re.compile(rf"\s+|[^\w\s\x00-\x7f{MARKS}]")
"""A place where a long sentence may be cut: behind a space, or behind a sign of a script without spaces."""
MOST_PROSE = 8_000
"""Characters of a paragraph that are split together: sentencex's time grows with the square."""
NUMBER_END = re.compile(
    r"(?<![\w.])(?:[12]?\d|3[01])\.(?P<month>(?:0?[1-9]|1[0-2])\.)?\s+\Z"
)
"""A day of the month, and perhaps its month, with a dot behind each."""
AROUND = 40
"""Characters before and behind a dot that are read to decide whether it belongs to a day."""
FACE = r"(?:[:;]-?[)D(P]|<3)"


@dataclass(slots=True, frozen=True)
class Sentence:
    """A span of a message's text."""

    start: int
    end: int
    text: str
    item: bool
    """True if it is in an item of a list."""
    position: int
    """0, 1, 2… among the sentences of its message; neighbours differ by one."""


def split_sentences(text: str, names: tuple[str, ...] = ()) -> list[Sentence]:
    """Return the trimmed sentences of `text`, in order. Pieces without a letter or digit are left out.

    `names` of speakers are cut off at a sentence's start or end, if they only address somebody.
    """
    opener, closer = _compile_trimmers(names)
    sentences: list[Sentence] = []
    position = 0
    for begin, end, item in _find_paragraphs(text):
        offset = begin
        for piece in _split_prose(text[begin:end]):
            # cut off opening and closing words
            body = piece.rstrip()
            lead = opener.match(body)
            start = lead.end() if lead else 0
            stop = len(body)
            while stop > start and TRIMMED.match(body, stop - 1):
                stop -= 1
            tail = closer.search(body, max(start, stop - MOST_CLOSING), stop)
            clean = body[: tail.start()].rstrip() if tail else body[:stop]
            if any(map(str.isalnum, clean[start:])):
                sentences.append(
                    Sentence(
                        start=offset + start,
                        end=offset + len(clean),
                        text=clean[start:],
                        item=item,
                        position=position,
                    )
                )
            offset += len(piece)
            position += bool(piece.strip())
    return sentences


def _split_prose(prose: str) -> Iterator[str]:
    """Yield the prose cut into sentences of at most LONGEST_SENTENCE characters."""
    for sentence in _find_sentences(prose):
        at = 0
        while len(sentence) - at > LONGEST_SENTENCE:
            head = sentence[at : at + LONGEST_SENTENCE]
            end = _find_cut(head)
            yield head[:end]
            at += end
        yield sentence[at:]


def _find_cut(text: str) -> int:
    """Return where a text is cut: behind its last pause, else before its last word, but not in its first half.

    A run of letters without a known word is cut at the text's end.
    """
    half = len(text) // 2
    pauses = [pause.end() for pause in PAUSE.finditer(text, half)]
    if pauses:
        return pauses[-1]
    words = split_words(text[half:]) if UNSPACED.search(text, half) else []
    return len(text) - len(words[-1]) if len(words) > 1 else len(text)


def _find_sentences(prose: str) -> Iterator[str]:
    """Yield the prose cut into sentences, but not within `code` or a token, such as "%d.%m.%Y"."""
    begin = at = ticks = 0
    last = prose.rfind("`")
    parts = (prose[n : n + MOST_PROSE] for n in range(0, len(prose), MOST_PROSE))
    for piece in (piece for part in parts for piece in segment("en", part)):
        at = at + len(piece)
        ticks = ticks + piece.count("`")
        if (ticks % 2 and at <= last) or not _ends_sentence(piece, prose, at):
            continue
        if _ends_in_date(prose, begin, at):
            continue
        yield prose[begin:at]
        begin = at
        ticks = 0


def _ends_in_date(
    prose: str,
    begin: int,
    at: int,
) -> bool:
    """Return True if the sentence from `begin` goes on behind offset `at`, since the dot there belongs to a day.

    It does behind a day and month before a small letter ("on 5.7. the"), and in German behind an ordinal number
    ("am 5. Juli") where sentencex's rules for German find no end.
    """
    number = NUMBER_END.search(prose[max(begin, at - AROUND) : at])
    if number is None or at == len(prose):
        return False
    following = prose[at : at + AROUND]
    if number["month"]:
        return following[:1].islower()
    if find_text_language(prose) != "German":
        return False
    first, *_ = segment("de", f"{number[0]}{following}")
    return len(first) > len(number[0])


def _ends_sentence(
    piece: str,
    prose: str,
    at: int,
) -> bool:
    """Return True if a piece that ends at offset `at` of the prose ends a sentence.

    It does not if it ends within a token, or with a dot that stands alone, as in "git add . && git commit" or
    "cp ./. out". A stop beyond ASCII always ends a sentence, since scripts without spaces have stops of their own.
    """
    if not piece[-1].isspace():
        return not piece[-1].isascii() or not WITHIN.match(prose, at)
    last = piece.split()[-1] if piece.strip() else ""
    alone = not last.strip("./")
    return not alone or at == len(prose) or ("/" not in last and prose[at].isalnum())


def _find_paragraphs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each paragraph, and True if it is an item of a list. Wrapped lines are joined."""
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
        # True if the sentence continues on the next line
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
    """Return the names, and the beginnings of each name with 2 letters up to LONGEST_NAME.

    The limit is needed, since all beginnings of a name of 200,000 letters would fill the memory.
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
    """Return the patterns of text that is cut off a sentence's start and end, with the names and their short forms."""
    called = "|".join(sorted(map(re.escape, list_short_forms(names)), reverse=True))
    name = rf"|(?-i:{called})" if called else ""
    opening = rf"(?:{OPENERS}{name})\b(?:\s+(?:so much|a lot|again|for asking|everyone|guys{name})\b)?"
    opener = re.compile(
        rf"^(?:[^\w`\"'(#@/$~.*_-]*(?:{opening}\s*[,!.…—–:-]+(?=\s)\s*|{FACE}))*[^\w`\"'(\[#@/$~.*_-]*",
        re.I,
    )
    closer = re.compile(rf"(?:,\s{{0,9}}(?:{CLOSERS}{name})|{FACE})\Z", re.I)
    return opener, closer
