"""Whether two claims give one thing two values: by slots, by figures and names in each other's place, by a no.

Some properties have one value at a time: where somebody lives, what is a favourite, what a thing is called. A slot is
what it is about and what it says; two claims of one speaker that fill the same slot in two ways exclude each other,
however few words they share.
"""

import re
from collections.abc import Set

from slowwave.tasks.dedupe.normalise import Claim, normalise_claim
from slowwave.tasks.dedupe.words import OPPOSITE_OF, SETS_OF
from slowwave.text.dates import MONTHS, WEEKDAYS
from slowwave.text.words import is_content_word, stem

_VALUE = r"(?P<value>[^,.;:!?()]{2,60})"
_THING = r"(?P<thing>[a-z][\w -]{1,40}?)"
_WHO = r"(?:(?:i|we)(?:'m|'re|'ve)?|(?P<thing>[A-Z]\w+))"
_PATTERNS = (
    ("favourite {thing}", rf"\bfavou?rite {_THING} (?:is|are|was|has become|became)(?: now)? {_VALUE}"),
    ("name", r"\b(?:call me|my name is|i go by) (?P<value>[A-Z][\w'-]+)"),
    ("home", rf"\b{_WHO} (?:now )?(?:live|lives|living) (?:now )?(?:in|on|at|near) {_VALUE}"),
    (
        "home",
        rf"\b{_WHO} (?:have |has )?(?:now )?(?:moved|relocated|settled) (?:from [^,.;]+? to|to|in) "
        rf"(?!last |next |this |with |yesterday|on |at ){_VALUE}",
    ),
    (
        "home",
        rf"\b{_WHO} (?:have |has |'ve )?(?:found|bought|rented|got) (?:a|an|my|our|the) (?:new )?"
        rf"(?:place|flat|house|apartment|home|room)\b[^,.;]*? (?:in|on|at|near) {_VALUE}",
    ),
    ("work", rf"\b{_WHO} (?:(?:now|am|'m|is) )*(?:work|works|working) (?:now )?(?:as|at|for|in) {_VALUE}"),
    (
        "work",
        rf"\b{_WHO} (?:(?:now|am|'m|is) )*(?:teach(?:es|ing)?|stud(?:y|ies|ying)) (?:\w+ )?(?:at|in) {_VALUE}",
    ),
    ("work", rf"\b{_WHO} (?:started|start|got|took) (?:a |my )?(?:new )?(?:job|work|position)(?: as| at)? {_VALUE}"),
    (
        "work",
        rf"\b{_WHO} (?:(?:now|am|'m|is|are) )*(?:training|studying|learning|retraining) "
        rf"(?:to be|to become|as) (?:a|an) {_VALUE}",
    ),
    ("{thing}", rf"\b(?:my|our|the|his|her|their) {_THING} (?:is|are|'s)(?: now| called| named| about)* {_VALUE}"),
    (
        "{thing}",
        r"\b(?P<value>[\w'-]+(?: [\w'-]+){0,3}?) (?:took over )?as (?:my|our|the|his|her|their) (?P<thing>[a-z][\w-]+)",
    ),
    (
        "use for {thing}",
        r"\b(?:we|i)(?:'ll| will| now| are|'re|'ve| have)* "
        r"(?:use|using|used|go|going|went|gone|switch|switched|switching|moved|migrated)(?: with| to| over to)? "
        r"(?P<value>[\w.+#-]+(?: [\w.+#-]+)?) (?:for|as) (?:the |our |my )?(?P<thing>[\w -]{3,40})",
    ),
)
SELF = "am "
"""Begins the slots of what somebody is, of which the words exclude each other: vegetarian or pescatarian."""
BARE = "of "
"""Begins the slots of what some things are, in few words."""
AM = re.compile(r"\b(?:i|we)(?:'m|'re| am| are) (?:now |a |an )*(?P<value>[\w-]+)", re.I)
THINGS = re.compile(
    r"^(?P<thing>[A-Z][a-z]+(?: [a-z]+)?s) (?:are|is|go|run|live) (?P<value>(?:[\w.-]+ ){0,3}[\w.-]+)[.!]?$"
)
MOSTLY_OTHER = 0.34
"""Share of words in common under which two values are two."""
SLOTS = tuple((name, re.compile(pattern, re.I)) for name, pattern in _PATTERNS)
"""Name of the slot, and how a sentence fills it."""


def extract_slots(text: str) -> dict[str, frozenset[str]]:
    """Return slot -> stems of the value it is filled with."""
    found: dict[str, frozenset[str]] = {}
    for name, pattern in SLOTS:
        for match in pattern.finditer(text.replace("’", "'")):
            thing = " ".join(sorted(normalise_claim(match.groupdict().get("thing") or "").content))
            value = frozenset(normalise_claim(match["value"]).content)
            if value and (thing or "{thing}" not in name):
                found.setdefault(f"{name.replace('{thing}', '').strip()} {thing}".strip(), value)
    for match in AM.finditer(text.replace("’", "'")):
        if group := SETS_OF.get(match["value"].casefold()):
            found.setdefault(f"{SELF}{min(group)}", frozenset(normalise_claim(match["value"]).content))
    if told := THINGS.match(text):
        thing = " ".join(sorted(normalise_claim(told["thing"]).content))
        found.setdefault(f"{BARE}{thing}", frozenset(normalise_claim(told["value"]).content))
    return found


def find_slot_conflict(old: dict[str, frozenset[str]], new: dict[str, frozenset[str]], old_claim: Claim) -> str | None:
    """Return the first slot that both fill, with little in common."""
    for slot in old.keys() & new.keys():
        shared = len(old[slot] & new[slot]) / len(old[slot] | new[slot])
        if shared < MOSTLY_OTHER and not new[slot] <= set(old_claim.content):
            return f"{slot}: {' '.join(sorted(old[slot]))} → {' '.join(sorted(new[slot]))}"
    return None


EXCLUSIVE = "alternative"
FEASTS = frozenset("easter christmas halloween thanksgiving ramadan pentecost hanukkah diwali carnival".split())  # noqa: SIM905
SPANS = frozenset("day week month year night morning afternoon evening weekend today tomorrow yesterday".split())  # noqa: SIM905
"""Of "next month" and "last week", which date an event, and are no values of a thing."""
SEASONS = frozenset("spring summer autumn winter".split())  # noqa: SIM905
CALENDAR = WEEKDAYS.keys() | MONTHS.keys() | FEASTS | SEASONS


def find_conflict(old: Claim, new: Claim) -> str | None:
    """Return the first kind of value that both claims give and give differently, with the two values.

    None where none is.
    """
    return (
        _compare_values("number", _filter_comparable_figures(old, new), _filter_comparable_figures(new, old))
        or _compare_values("date", _collect_dates(old), _collect_dates(new))
        or _compare_identifiers(old, new)
        or _find_alternative(old, new)
        or _compare_values("name", old.names - CALENDAR, new.names - CALENDAR)
    )


def is_value_change(old: Claim, new: Claim, value: str) -> bool:
    """Return whether two claims differ in what they say of a thing, rather than in the thing: "Login with Google
    loops".
    """
    if value.split()[0] in ("number", "date"):
        return True
    return _has_late_difference(old, new) or _has_late_difference(new, old)


def _has_late_difference(one: Claim, other: Claim) -> bool:
    """Return whether most of the words of one that the other has too come before the last that it lacks."""
    words = [w for w in one.words if is_content_word(w)]
    apart = [
        at
        for at, w in enumerate(words)
        if w not in other.words and (w in one.names | one.identifiers or w in SETS_OF or w in OPPOSITE_OF)
    ]
    common = [at for at, w in enumerate(words) if w in other.words]
    return bool(apart) and 2 * sum(at < apart[-1] for at in common) >= len(common)


def find_added_value(old: Claim, new: Claim) -> str | None:
    """Return what the later one says beside the earlier one's only value of a kind: "Node 18 is old, so we are on
    Node 22".
    """
    for kind, left, right in (
        ("number", _filter_comparable_figures(old, new), _filter_comparable_figures(new, old)),
        ("identifier", old.identifiers, new.identifiers),
        ("date", _collect_dates(old), _collect_dates(new)),
    ):
        if len(left) == 1 and len(right) == 2 and left < right:
            return f"{kind} {_join_sorted(left)} → {_join_sorted(right - left)}"
    return None


def _compare_values(kind: str, old: Set[str], new: Set[str]) -> str | None:
    left, right = old - new, new - old
    return f"{kind} {_join_sorted(left)} → {_join_sorted(right)}" if left and right else None


def _filter_comparable_figures(claim: Claim, other: Claim) -> set[str]:
    """Return numbers in units that the other has a number in too."""
    units = {extract_unit(f) for f in other.figures}
    return {f for f in claim.figures if extract_unit(f) in units}


def extract_unit(figure: str) -> str:
    """Return a figure less its number: "ms" of "150ms", nothing of "8080"."""
    return figure.lstrip("$€£v0123456789.+e-:") + figure[:1].strip("0123456789.v")


def _collect_dates(claim: Claim) -> set[str]:
    days = {f"{month:02}-{day:02}" for _, month, day in claim.dates}
    return days | (CALENDAR & set(claim.words))


def _compare_identifiers(old: Claim, new: Claim) -> str | None:
    """Return one name in code in the place of one other; claims that name several tell of several things."""
    left, right = old.identifiers - new.identifiers, new.identifiers - old.identifiers
    return _compare_values("identifier", left, right) if len(left) == len(right) == 1 else None


def _find_alternative(old: Claim, new: Claim) -> str | None:
    only_old = {w for w in old.words if w not in new.words and is_content_word(w)} - SPANS
    only_new = {w for w in new.words if w not in old.words and is_content_word(w)} - SPANS
    for left in sorted(only_old):
        for right in sorted(only_new):
            exclusive = SETS_OF.get(left, frozenset()) & SETS_OF.get(right, frozenset()) and stem(left) != stem(right)
            if exclusive or right in OPPOSITE_OF.get(left, ()):
                return f"{EXCLUSIVE} {left} → {right}"
    return None


def find_reversal(old: Claim, new: Claim) -> str | None:
    """Return how one says no to what the other says; None where neither does."""
    if bool(old.negated) == bool(new.negated):
        return None
    scope = set(old.negated or new.negated) - {""}
    return f"a no on {_join_sorted(scope)}" if scope & set(old.content) & set(new.content) else None


def _join_sorted(values: Set[str]) -> str:
    return ", ".join(sorted(values))
