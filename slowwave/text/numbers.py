"""Numbers: those spelt out, units of measure, and the quantities that a text gives."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slowwave.text.words import STOP, stem_words

_ONES = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS = {word: 10 * n for n, word in enumerate(_TENS.split(), 2)}
COUNTS = {word: n for n, word in enumerate(_ONES.split(), 2)} | TENS
COUNTS |= {"hundred": 100, "dozen": 12, "twice": 2, "thrice": 3}
"""Without "one" and "zero": in "no one", "the one" and "number one" they are no counts."""
UNITS: dict[str, tuple[str, float]] = {
    name: (base, factor)
    for base, factor, names in (
        ("s", 1e-6, "microsecond microseconds"),
        ("s", 1e-3, "ms millisecond milliseconds msec"),
        ("s", 1.0, "s sec secs second seconds"),
        ("s", 60.0, "min mins minute minutes"),
        ("s", 3600.0, "h hr hrs hour hours"),
        ("s", 86400.0, "day days"),
        ("s", 604800.0, "week weeks"),
        ("month", 1.0, "month months"),
        ("month", 12.0, "year years yr yrs"),
        ("B", 1.0, "byte bytes"),
        ("B", 1e3, "kb"),
        ("B", 1e6, "mb"),
        ("B", 1e9, "gb"),
        ("B", 1e12, "tb"),
        ("B", 1024.0, "kib"),
        ("B", 1024.0**2, "mib"),
        ("B", 1024.0**3, "gib"),
        ("%", 1.0, "% percent pct"),
        ("m", 1e-3, "mm millimeter millimeters millimetres"),
        ("m", 1e-2, "cm centimeter centimeters centimetres"),
        ("m", 1.0, "m meter meters metre metres"),
        ("m", 1e3, "km kilometer kilometers kilometre kilometres"),
        ("m", 1609.344, "mile miles mi"),
        ("g", 1.0, "g gram grams"),
        ("g", 1e3, "kg kilogram kilograms kilos"),
        ("lb", 1.0, "lb lbs pound pounds"),
    )
    for name in names.split()
}
"""Unit -> (base unit, factor): 60 seconds and 1 minute are one figure."""

SCALES = {"k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
PIECE = re.compile(r"(?P<number>\d+(?:[.,]\d+)*)|(?P<word>[^\W\d]+|%)")
AROUND = 4
"""Words before and after a number that may say what it counts."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it counts."""

    value: float
    """In base units."""
    scale: str | None
    """The base unit ("s", "B", "%"), where it has one."""
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


def extract_quantities(text: str) -> list[Quantity]:
    """Return numbers of a text, in digits or spelt out from two on, in order."""
    spans = [match.span() for match in PIECE.finditer(text)]
    pieces = [text[start:end].lower() for start, end in spans]
    found = []
    for at, piece in enumerate(pieces):
        number = float(piece.replace(",", "").rstrip(".")) if _is_plain_number(piece) else COUNTS.get(piece)
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
    return UNITS.get(unit, (None, 1.0))


def _stem_content_words(words: Iterable[str]) -> frozenset[str]:
    """Return stems of words that are neither numbers, units nor idle."""
    kept = (
        w for w in words if len(w) > 2 and w.isalpha() and w not in STOP and w not in COUNTS and not _find_scale(w)[0]
    )
    return stem_words(kept)
