"""What was said, out of what stands in the file: terminal codes, tool tags and embedded images taken out.

Every function looks for its marker character first, so that plain text (nearly all of it) costs one scan.
"""

import re
from collections.abc import Iterable
from functools import cache

# CSI, OSC (ended by BEL or ST) and the two-byte escapes of ECMA-48.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def strip_ansi(text: str) -> str:
    """Return the text without terminal escape sequences."""
    if "\x1b" not in text and "\x9b" not in text:
        return text
    return _ANSI.sub("", text)


def drop_base64(text: str) -> str:
    """Return the text with each `data:…;base64,…` URI replaced by `[image/png]` or whatever it holds."""
    if ";base64," not in text:
        return text
    return _DATA_URI.sub(lambda match: f"[{match[1] or 'data'}]", text)


def drop_control(text: str) -> str:
    """Return the text without control characters other than tab, newline and carriage return."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def strip_tags(text: str, names: Iterable[str]) -> str:
    """Return the text without `<name …>…</name>`, for each of the names.

    A tag that is never closed stays: it is a mention.
    """
    if "<" not in text:
        return text
    return _cut_tags(text, _compile_opening_tag(tuple(names)))


def extract_tag_body(text: str, name: str) -> str | None:
    """Return what stands between the first `<name …>` and its `</name>`; None where there is none."""
    if "<" not in text:
        return None
    opening = _compile_opening_tag((name,)).search(text)
    end = text.find(f"</{name}>", opening.end()) if opening else -1
    return text[opening.end() : end].strip() if opening and end >= 0 else None


def extract_tag_attribute(text: str, name: str, attribute: str) -> str | None:
    """Return the value of an attribute in the first `<name …>`; None where it has none."""
    opening = _compile_opening_tag((name,)).search(text) if "<" in text else None
    found = re.search(rf'\s{re.escape(attribute)}="([^"]*)"', opening[0]) if opening else None
    return found[1] if found else None


def clean_text(text: str) -> str:
    """Return the text without terminal codes, embedded images and control characters, white space trimmed."""
    return drop_control(drop_base64(strip_ansi(text))).strip()


@cache
def _compile_opening_tag(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"<({'|'.join(map(re.escape, names))})(?:\\s[^<>]*)?>")


def _cut_tags(text: str, opening: re.Pattern[str]) -> str:
    """Cut from each opening tag to its end. Linear: a closing tag found missing once is not looked for again."""
    kept: list[str] = []
    at, open_ended = 0, set[str]()
    for match in opening.finditer(text):
        name = match[1]
        if match.start() < at or name in open_ended:
            continue
        end = text.find(f"</{name}>", match.end())
        if end < 0:
            open_ended.add(name)
            continue
        kept.append(text[at : match.start()])
        at = end + len(name) + 3
    kept.append(text[at:])
    return "".join(kept)
