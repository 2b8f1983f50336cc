"""The word lists the guards stand on, from `words.toml` beside this file; numbers, units and months."""

import tomllib
from importlib.resources import files

_LISTS: dict[str, str] = tomllib.loads(files("slowwave.tasks.dedupe").joinpath("words.toml").read_text("utf-8"))


def _split_words(text: str) -> list[str]:
    return text.split()


def _load_words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


def _load_groups(name: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(line.split()) for line in _LISTS[name].splitlines() if line.strip())


STOP = _load_words("stop")
NEGATIONS = _load_words("negations")
RESTRICTIONS = _load_words("restrictions")
HEDGES = _load_words("hedges")
FUTURE = _load_words("future")
CHANGES = _load_words("changes")
RELATIONS = _load_words("relations")
FIRST_PERSON = _load_words("first_person")
WEEKDAYS = _load_words("weekdays")
OPPOSITES = tuple(
    (pair.split()[0], pair.split()[1])
    for line in _LISTS["opposites"].splitlines()
    for pair in line.split("|")
    if pair.strip()
)
ALTERNATIVES = _load_groups("alternatives")
SAME_WORDS = _load_groups("same_words")

NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        _split_words(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty"
        )
    )
    if word not in ("zero", "one")  # "no one", "number one", "the one": a determiner more often than a count
} | {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100", "dozen": "12", "twice": "2", "thrice": "3"}

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

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
