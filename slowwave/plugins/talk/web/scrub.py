"""Remove personal data from a text that leaves this machine: a web query does not need it.

Redaction in the vault keeps a text readable and, in doubt, keeps a word. This module removes a word in doubt: a query
that lacks a word still finds its answer. Secrets, cards and IBANs are found by redaction and as words that look
machine-made; addresses, numbers and paths by their form.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from unicodedata import normalize

from slowwave.text.redact import redact
from slowwave.text.words import TERM

PLACEHOLDER = re.compile(r"\[redacted:[a-z-]+\]")
EMAIL = re.compile(
    r"(?<![^\s(<\[\"',;:])(?:[^\s@(<\[\"',;:]{1,64}[^\s@]{0,64}|'{1,64})@[^\s@]{1,253}\.[^\s@,;:!?)>\]]+"
)
CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^\s/@]+@")
URL_TAIL = re.compile(r"(?<=\w)(?:\?|#)[^\s]*(?<=\S)(?=\s|$)")
URL = re.compile(r"\bhttps?://\S+", re.I)
SSN = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
PHONE = re.compile(r"(?<![\w.,:/-])(?:\+|00)?\(?\d[\d ()/.-]{6,20}\d(?![\w-])")
IP = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",
    re.I,
)
MAC = re.compile(r"(?<![\w:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:])", re.I)
HOME = re.compile(r"(?:/home/|/Users/|~|[A-Za-z]:\\Users\\)[\w.\\/@-]*")
PATH = re.compile(
    r"(?<![\w./:<>-])/[\w.@-]+(?:/[\w.@-]+)+/?|(?<!\w)[A-Za-z]:\\[\w.\\@-]+"
)
ASSIGNED = re.compile(
    r"(?i)\b([\w-]*(?:passw(?:or)?d|passphrase|passcode|pwd|pin|secret|token|api[ _-]?key|credentials?|kennwort))"
    r"(?:[\"']?\s*[:=]+\s*|\s+(?:is|was|ist|lautet)\s+)[\"'`]?[^\s\"'`]+[\"'`]?"
)
NUMBERED = re.compile(
    r"(?i)\b((?:account|customer|passport|policy|invoice|order|ssn|tax id|id)(?: (?:no\.?|number))?)"
    r"[ :#]+[A-Z]{0,3}\d[\w-]{3,}"
)
WORD_OF_A_MACHINE = re.compile(
    r"(?<![\w/+=-])(?=[\w/+=-]*\d)(?=[\w/+=-]*[A-Za-z])[\w/+=-]{20,}(?![\w/+=-])"
)
DATE = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{2,4}|(?:1[89]|20)\d\d ?[-–/] ?(?:1[89]|20)\d\d"
)
FORMS = (
    ("email", EMAIL),
    ("social-security", SSN),
    ("hardware", MAC),
    ("ip", IP),
    ("path", HOME),
    ("path", PATH),
)


@dataclass(frozen=True, slots=True)
class ScrubResult:
    """A text without personal data, and how many items of each kind were removed."""

    text: str
    removed: Counter[str]


def scrub_personal_data(
    text: str, never: Iterable[str] = (), names: Iterable[str] = ()
) -> ScrubResult:
    """Remove personal data from a text, and return the rest on one line.

    Removed are secrets, e-mail addresses, phone, card, account and social security numbers, IBANs, IP and hardware
    addresses, and absolute paths; in a URL, the part after `?` or `#` and before `@`.

    Args:
        text: the text.
        never: words and phrases to remove, in any case and with any spaces or signs between words.
        names: people's names to remove, likewise; each part of a name is removed if it is capitalised.
    """
    removed: Counter[str] = Counter()
    text = normalize("NFC", text)
    text = _replace(
        pattern=URL,
        text=text,
        kind="url",
        removed=removed,
        keep=lambda url: URL_TAIL.sub("", CREDENTIALS_IN_URL.sub("", url[0])),
    )
    text = _remove_names(text=text, never=never, names=names, removed=removed)
    text = _remove_forms(text, removed)
    return ScrubResult(" ".join(text.split()), removed)


def _remove_names(
    text: str,
    never: Iterable[str],
    names: Iterable[str],
    removed: Counter[str],
) -> str:
    """Remove words and names, the longest first: removing "Ann" first would leave the rest of "Ann Lee"."""
    for phrase in sorted(never, key=len, reverse=True):
        text = _remove_phrase(
            phrase=phrase, text=text, kind="private word", removed=removed
        )
    for name in sorted(names, key=len, reverse=True):
        parts = name.split()
        text = (
            _remove_phrase(phrase=name, text=text, kind="name", removed=removed)
            if len(parts) > 1
            else text
        )
        for part in (
            part[0].upper() + part[1:] for part in parts if len(part.strip(".")) > 1
        ):
            text = _remove_phrase(
                phrase=part, text=text, kind="name", removed=removed, flags=re.NOFLAG
            )
    return text


def _remove_forms(text: str, removed: Counter[str]) -> str:
    """Remove secrets, and words and numbers whose form shows that they are personal."""
    for kind, pattern in FORMS:
        text = _replace(pattern=pattern, text=text, kind=kind, removed=removed)
    text, counts = redact(text)
    removed.update(counts)
    text = _replace(
        pattern=ASSIGNED,
        text=PLACEHOLDER.sub(" ", text),
        kind="secret",
        removed=removed,
        keep=lambda match: match[1],
    )
    text = _replace(
        pattern=WORD_OF_A_MACHINE, text=text, kind="secret", removed=removed
    )
    text = _replace(
        pattern=NUMBERED,
        text=text,
        kind="number",
        removed=removed,
        keep=lambda match: match[1],
    )
    return _replace(
        pattern=PHONE,
        text=text,
        kind="phone",
        removed=removed,
        keep=lambda match: " " if _is_phone(match[0]) else match[0],
    )


def _replace(
    pattern: re.Pattern[str],
    text: str,
    kind: str,
    removed: Counter[str],
    keep: Callable[[re.Match[str]], str] = lambda match: " ",
) -> str:
    """Replace each match with what `keep` returns for it; count the matches that this changes."""

    def cut(match: re.Match[str]) -> str:
        text = keep(match)
        if text != match[0]:
            removed[kind] += 1
        return text

    return pattern.sub(cut, text)


def _remove_phrase(
    phrase: str,
    text: str,
    kind: str,
    removed: Counter[str],
    flags: re.RegexFlag = re.IGNORECASE,
) -> str:
    """Remove a phrase from a text, with any signs between its words.

    In a script without capitals, the phrase is also removed inside a word: such scripts put no spaces between words.
    """
    phrase = normalize("NFC", phrase)
    if not (words := TERM.findall(phrase)):
        return text
    is_apart = phrase.isascii() or phrase.lower() != phrase.upper()
    within = r"\W+".join(words)
    return _replace(
        pattern=re.compile(rf"(?<!\w){within}(?!\w)" if is_apart else within, flags),
        text=text,
        kind=kind,
        removed=removed,
    )


def _is_phone(number: str) -> bool:
    """Return True if digits are a phone number, not a date, a span of years or a short number."""
    plain = number.strip()
    if DATE.fullmatch(plain) or sum(c.isdigit() for c in plain) < 7:
        return False
    return (
        plain.startswith(("+", "00", "0", "("))
        or bool(re.search(r"[ ()/.-]", plain))
        or len(plain) >= 9
    )
