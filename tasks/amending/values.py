"""Where two claims about one thing differ in value: a number, a date, a name, one of several alternatives, a no."""

from collections.abc import Set

from tasks.deduping.guards import OPPOSITE_OF, SETS_OF
from tasks.deduping.normalise import Claim, carries, stem
from tasks.deduping.words import MONTHS, WEEKDAYS

EXCLUSIVE = "alternative"
FEASTS = frozenset("easter christmas halloween thanksgiving ramadan pentecost hanukkah diwali carnival".split())  # noqa: SIM905
SPANS = frozenset("day week month year night morning afternoon evening weekend today tomorrow yesterday".split())  # noqa: SIM905
"""Of "next month" and "last week", which date an event, and are no values of a thing."""
SEASONS = frozenset("spring summer autumn winter".split())  # noqa: SIM905
CALENDAR = WEEKDAYS | MONTHS.keys() | FEASTS | SEASONS


def conflict(old: Claim, new: Claim) -> str | None:
    """The first kind of value that both claims give and give differently, with the two values; None where none is."""
    return (
        _values("number", _amounts(old, new), _amounts(new, old))
        or _values("date", _dates(old), _dates(new))
        or _identifiers(old, new)
        or _alternatives(old, new)
        or _values("name", old.names - CALENDAR, new.names - CALENDAR)
    )


def settles(old: Claim, new: Claim, value: str) -> bool:
    """Whether two claims differ in what they say of a thing, rather than in the thing: "Login with Google loops"."""
    if value.split()[0] in ("number", "date"):
        return True
    return _ends_apart(old, new) or _ends_apart(new, old)


def _ends_apart(one: Claim, other: Claim) -> bool:
    """Whether most of the words of one that the other has too come before the last that it lacks."""
    words = [w for w in one.words if carries(w)]
    apart = [
        at
        for at, w in enumerate(words)
        if w not in other.words and (w in one.names | one.identifiers or w in SETS_OF or w in OPPOSITE_OF)
    ]
    common = [at for at, w in enumerate(words) if w in other.words]
    return bool(apart) and 2 * sum(at < apart[-1] for at in common) >= len(common)


def widened(old: Claim, new: Claim) -> str | None:
    """What the later one says beside the earlier one's only value of a kind: "Node 18 is old, so we are on Node 22"."""
    for kind, left, right in (
        ("number", _amounts(old, new), _amounts(new, old)),
        ("identifier", old.identifiers, new.identifiers),
        ("date", _dates(old), _dates(new)),
    ):
        if len(left) == 1 and len(right) == 2 and left < right:
            return f"{kind} {_listed(left)} → {_listed(right - left)}"
    return None


def _values(kind: str, old: Set[str], new: Set[str]) -> str | None:
    left, right = old - new, new - old
    return f"{kind} {_listed(left)} → {_listed(right)}" if left and right else None


def _amounts(claim: Claim, other: Claim) -> set[str]:
    """Numbers in units that the other has a number in too."""
    units = {unit(f) for f in other.figures}
    return {f for f in claim.figures if unit(f) in units}


def unit(figure: str) -> str:
    """A figure less its number: "ms" of "150ms", nothing of "8080"."""
    return figure.lstrip("$€£v0123456789.+e-:") + figure[:1].strip("0123456789.v")


def _dates(claim: Claim) -> set[str]:
    days = {f"{month:02}-{day:02}" for _, month, day in claim.dates}
    return days | (CALENDAR & set(claim.words))


def _identifiers(old: Claim, new: Claim) -> str | None:
    """One name in code in the place of one other; claims that name several tell of several things."""
    left, right = old.identifiers - new.identifiers, new.identifiers - old.identifiers
    return _values("identifier", left, right) if len(left) == len(right) == 1 else None


def _alternatives(old: Claim, new: Claim) -> str | None:
    only_old = {w for w in old.words if w not in new.words and carries(w)} - SPANS
    only_new = {w for w in new.words if w not in old.words and carries(w)} - SPANS
    for left in sorted(only_old):
        for right in sorted(only_new):
            exclusive = SETS_OF.get(left, frozenset()) & SETS_OF.get(right, frozenset()) and stem(left) != stem(right)
            if exclusive or right in OPPOSITE_OF.get(left, ()):
                return f"{EXCLUSIVE} {left} → {right}"
    return None


def reversal(old: Claim, new: Claim) -> str | None:
    """That one says no to what the other says; None where neither does."""
    if bool(old.negated) == bool(new.negated):
        return None
    scope = set(old.negated or new.negated) - {""}
    return f"a no on {_listed(scope)}" if scope & set(old.content) & set(new.content) else None


def _listed(values: Set[str]) -> str:
    return ", ".join(sorted(values))
