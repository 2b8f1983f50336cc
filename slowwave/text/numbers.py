"""Numbers that are spelt out, and units of measure."""

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
