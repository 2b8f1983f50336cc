"""Content words: what is left of a text without the words that stand in every text; and the quantities among them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

WORD = re.compile(r"\w+(?:['’]\w+)?")
STOP = frozenset(
    WORD.findall(
        """
    a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few
    for from further get gets got had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers
    herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's like me
    more most mustn't my myself no nor not of off on once only or other ought our ours ourselves out over own same
    shan't she she'd she'll she's should shouldn't so some such than that that's the their theirs them themselves
    then there there's these they they'd they'll they're they've this those through to too under until up very was
    wasn't we we'd we'll we're we've were weren't what what's when when's where where's which while who who's whom
    why why's will with won't would wouldn't yes you you'd you'll you're you've your yours yourself yourselves
    """
    )
)


def extract_content_words(text: str) -> list[str]:
    """Return lower-cased words of a text that say something, in order, each once."""
    words = (word.lower().replace("’", "'") for word in WORD.findall(text))
    return list(dict.fromkeys(word for word in words if word not in STOP and (len(word) > 1 or word.isdigit())))


SPELT: dict[str, float] = {
    **{
        "two": 2,
        "three": 3,
        "four": 4,
        "five": 5,
        "six": 6,
        "seven": 7,
        "eight": 8,
        "nine": 9,
        "ten": 10,
        "eleven": 11,
    },
    **{"twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "sixty": 60, "hundred": 100, "twice": 2},
}
PIECE = re.compile(r"(?P<number>\d+(?:[.,]\d+)*)|(?P<word>[^\W\d]+|%)")
SECONDS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
SECONDS |= {"day": 86_400.0, "week": 604_800.0, "month": 2_592_000.0, "year": 31_536_000.0}
MEGABYTES = {"kb": 0.001, "mb": 1.0, "mib": 1.0, "gb": 1000.0, "gib": 1000.0, "tb": 1e6}
SCALES = {"time": SECONDS, "size": MEGABYTES, "share": {"percent": 1.0, "%": 1.0}}
STEM = 5
"""Letters that tell a word: "deletions" and "delete" are one."""
AROUND = 4
"""Words before and after a number that may say what it counts."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it counts."""

    value: float
    """In seconds, megabytes or percent where it is one of these."""
    scale: str | None
    near: frozenset[str]
    """Stems of the content words around it."""
    slots: frozenset[str]
    """Those right before and after it: "zoom 14", "14 retries"."""
    start: int = 0
    end: int = 0
    """Where it stands in the text, with its unit."""

    def is_contradicted_by(self, other: "Quantity") -> bool:
        """Return whether both give another value to what is one thing, as far as the words around them tell."""
        if self.value == other.value or self.scale != other.scale:
            return False
        return bool(self.near & other.near) if self.scale else bool(self.slots & other.slots)


def stem_words(words: Iterable[str]) -> frozenset[str]:
    """Return the words' beginnings, without the s of a plural."""
    return frozenset(word.removesuffix("'s").removesuffix("s")[:STEM] for word in words)


def extract_quantities(text: str) -> list[Quantity]:
    """Return numbers of a text, in digits or spelt out from two on, in order."""
    spans = [match.span() for match in PIECE.finditer(text)]
    pieces = [text[start:end].lower() for start, end in spans]
    found = []
    for at, piece in enumerate(pieces):
        number = float(piece.replace(",", "").rstrip(".")) if _is_plain_number(piece) else SPELT.get(piece)
        if number is None:
            continue
        unit = pieces[at + 1] if at + 1 < len(pieces) else ""
        scale, factor = _find_scale(unit)
        around = [*pieces[max(0, at - AROUND) : at], *pieces[at + 1 : at + 1 + AROUND]]
        beside = [*pieces[max(0, at - 1) : at], unit]
        start, end = spans[at][0], spans[at + 1 if scale else at][1]
        found.append(
            Quantity(number * factor, scale, _stem_content_words(around), _stem_content_words(beside), start, end)
        )
    return found


def _is_plain_number(piece: str) -> bool:
    return piece.replace(",", "").replace(".", "", 1).isdecimal()


def _find_scale(unit: str) -> tuple[str | None, float]:
    for name, units in SCALES.items():
        for one in (unit, unit.removesuffix("s")):
            if one in units:
                return name, units[one]
    return None, 1.0


def _stem_content_words(words: Iterable[str]) -> frozenset[str]:
    """Return stems of words that are neither numbers, units nor idle."""
    kept = (
        w for w in words if len(w) > 2 and w.isalpha() and w not in STOP and w not in SPELT and not _find_scale(w)[0]
    )
    return stem_words(kept)
