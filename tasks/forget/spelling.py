"""Find words in texts in whatever way they are spelt: as they are stored, and as a page or a terminal shows them."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from unicodedata import category, normalize
from urllib.parse import unquote

from slowwave.text.fence import CONTROLS, SHAPELESS, neutralize_template_marks

ESCAPED = re.compile(r'\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|["\\/bfnrt])')
"""An escape of JSON. Consecutive `\\u` escapes are matched together, since two may form one character."""
BORDER = "\x02"
"""Marks the borders of words in camel case; folded texts do not contain it."""
NO_LETTER = re.compile(r"[\W_]+")
WORD_OR_GAP = re.compile(r"[^\W_]+|[\W_]+")
NO_ASCII_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
# A hyphen may have a space after it.
GLUE = rf"(?:[^\w\s.,;:!?/@=+]|_|{BORDER}|[-‐‑] ?)"
COLOUR = re.compile(r"\x1b\[[0-?]{0,30}[ -/]{0,9}[@-~]")
"""A terminal's code."""
NEVER_SHOWN = re.compile(
    r"<!--.{0,2000}?-->"  # a comment of HTML
    r"""|</?[A-Za-z](?:[^<>"']|"[^"<]{0,200}"|'[^'<]{0,200}'){0,200}+>"""
    r"|</?[A-Za-z][^<>]{0,200}>"
    r"|\[\^[^\[\]\s]{1,60}\]"  # a footnote's number
    rf"|{COLOUR.pattern}",
    re.DOTALL,
)
LINK = re.compile(r"\](?:\((?:[^()]|\([^()]{0,200}\)){0,2000}+\)|\[[^\[\]]{0,200}\])")
BROKEN = re.compile(r"[-‐‑\xad][ \t]{0,20}\r?\n[^\w\n]{0,20}")
"""A word's hyphen at the end of a line, with the marks before the rest of it: of a quotation or a comment."""
ITEM = re.compile(
    r"^[ \t>]{0,20}(?:[-*+]|\d{1,9}[.)])[ \t]{1,9}(?:\[[ xX]\][ \t])?", re.MULTILINE
)
"""The mark of an item of a list."""
MARKUP = re.compile(
    rf"[&<%\x1b]|\]\(|\]\[|\[\^|{BROKEN.pattern}|{ITEM.pattern}", re.MULTILINE
)
PASSES = 3
"""Most times that markup in markup is read: an entity's `&` may be an entity itself."""
PAIRED = (
    re.compile(r"<([A-Za-z]\w{0,20})\b[^<>]{0,200}>(.{0,2000}?)</\1>", re.DOTALL),
    re.compile(
        r"(?<!\w)(!?)\[([^\[\]]{1,2000})\](?:\((?:[^()\s]|\([^()\s]{0,200}\)){0,2000}+\)|\[[^\[\]]*\])"
    ),
    re.compile(r"(\*{1,3}|~~|`+)(?=[^\W\d_])([^\n]{1,2000}?)\1"),
)
"""Markup around words, as the second group: tags, links and emphasis. Single marks may be code, as in `List<int>`."""


class Words:
    """Finds words in texts, both as they are written and as recall shows them.

    It ignores case, letter forms, white space, escapes, invisible characters, marks, markup, links, entities, hyphens,
    the marks of lists and camel case, in the texts and in the words.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self.folded = {_fold(phrase) for phrase in phrases}
        shown = [text for phrase in phrases if (text := _show_phrase(phrase)).strip()]
        self.folded.update(filter(None, map(_fold, shown)))
        self.width = 12 * max(
            len(phrase.encode("utf-8", "replace")) for phrase in self.folded
        )
        spelt = {_fold(phrase, BORDER) for phrase in [*phrases, *shown]}
        self._letters = [
            (letters, _build_pattern(phrase))
            for phrase in spelt
            if (letters := NO_LETTER.sub("", phrase))
        ]
        """A phrase of signs alone has no other spelling."""

    def stand_in(self, texts: Sequence[str | None]) -> list[bool]:
        """Return for each text True if it contains one of the words. An empty or missing text contains none."""
        return [self._stands_in(text) if text else False for text in texts]

    def _stands_in(self, text: str) -> bool:
        for spelling in _iter_spellings(text):
            parts = _fold(spelling, BORDER)
            if any(phrase in parts.replace(BORDER, "") for phrase in self.folded):
                return True
            letters = _keep_letters(parts)
            if any(
                phrase in letters and pattern.search(parts)
                for phrase, pattern in self._letters
            ):
                return True
        return False

    def find(self, data: bytes | memoryview) -> set[str]:
        """Return all the words if the bytes, read as UTF-8, contain one of them; else an empty set."""
        return (
            self.folded if self.stand_in([str(data, "utf-8", "ignore")])[0] else set()
        )


def _build_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase, for a text; both are folded with borders.

    Marks and hyphens may occur within a word. Between words there must be one or more characters other than letters
    and digits. At a border in a phrase of camel case there may be such characters, but only if it begins a word: else
    `taxiService` would be found in "a maxi service".
    """
    pieces = WORD_OR_GAP.findall(phrase)
    first = 0 if pieces[0][0].isalnum() else 1
    last = len(pieces)
    last -= not pieces[-1][0].isalnum()
    pattern = ""
    for piece in pieces[first:last]:
        if piece == BORDER:
            pattern += r"[\W_]*"
        elif NO_LETTER.fullmatch(piece):
            pattern += r"[\W_]+"
        else:
            pattern += f"{GLUE}*".join(map(re.escape, piece))
    return re.compile(rf"(?<![^\W_]){pattern}" if BORDER in phrase else pattern)


def _keep_letters(text: str) -> str:
    """Return the letters and digits of a text."""
    if not text.isascii():
        return NO_LETTER.sub("", text)
    # This is about twenty times as fast as the pattern.
    return text.encode().translate(None, NO_ASCII_LETTERS).decode()


def _iter_spellings(text: str) -> Iterator[str]:
    """Yield a text, and what is shown of it once its markup is read: once, and again for markup in markup.

    A tag may stand within a word (`<b>`) or between two (`<br>`), so both are yielded.
    """
    yield text
    for _ in range(PASSES):
        if not MARKUP.search(text):
            return
        before = text
        text = _show(text)
        if text == before:
            return
        yield text
        if "<" in before:
            yield _show(before, " ")


def _show(text: str, gap: str = "") -> str:
    """Return a text as Markdown, HTML, a link and a terminal show it.

    With `gap` for tags, without links' targets, hyphens at the ends of lines and marks of lists, and with entities
    as characters.
    """
    text = LINK.sub("]", NEVER_SHOWN.sub(gap, ITEM.sub("", BROKEN.sub("", text))))
    return unquote(unescape(text))


def _show_phrase(phrase: str) -> str:
    """Return a phrase without markup around words; other signs stay, since fewer words would be found more often."""
    phrase = COLOUR.sub("", BROKEN.sub("", phrase))
    for marks in PAIRED:
        phrase = marks.sub(r"\2", phrase)
    return unquote(unescape(phrase))


def _fold(text: str, border: str = "") -> str:
    """Return a text in the form in which it is compared, with `border` before each word inside camel case."""
    while "\\" in text and text != (
        text := ESCAPED.sub(lambda match: json.loads(f'"{match[0]}"'), text)
    ):
        pass
    if not text.isprintable():  # most texts are, and need no look at each letter
        unseen = {
            ord(char): None
            for char in set(text)
            if category(char) in CONTROLS and not char.isspace()
        }
        text = text.translate(unseen)
    if not text.isascii():
        text = normalize("NFKC", SHAPELESS.sub("", text))
    if border:
        text = _compile_camel().sub(border, text)
    folded = neutralize_template_marks(text).casefold()
    if not folded.isascii():
        folded = normalize("NFKC", folded)
    return " ".join(folded.split())


@cache
def _compile_camel() -> re.Pattern[str]:
    """Return the pattern of the places before words inside camel case, in any script that has capitals."""
    capitals = "".join(char for code in range(0x10000) if (char := chr(code)).isupper())
    capital = f"[{capitals}]"
    other = rf"[^\W_{capitals}]"
    return re.compile(rf"(?<={other})(?={capital})|(?<={capital})(?={capital}{other})")
