"""Properties that have one value at a time: where somebody lives, what is a favourite, what a thing is called.

A slot is what it is about and what it says; two claims of one speaker that fill the same slot in two ways exclude
each other, however few words they share.
"""

import re

from tasks.deduping.guards import SETS_OF
from tasks.deduping.normalise import Claim, read_claim

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


def slots_of(text: str) -> dict[str, frozenset[str]]:
    """Slot -> stems of the value it is filled with."""
    found: dict[str, frozenset[str]] = {}
    for name, pattern in SLOTS:
        for match in pattern.finditer(text.replace("’", "'")):
            thing = " ".join(sorted(read_claim(match.groupdict().get("thing") or "").content))
            value = frozenset(read_claim(match["value"]).content)
            if value and (thing or "{thing}" not in name):
                found.setdefault(f"{name.replace('{thing}', '').strip()} {thing}".strip(), value)
    for match in AM.finditer(text.replace("’", "'")):
        if group := SETS_OF.get(match["value"].casefold()):
            found.setdefault(f"{SELF}{min(group)}", frozenset(read_claim(match["value"]).content))
    if told := THINGS.match(text):
        thing = " ".join(sorted(read_claim(told["thing"]).content))
        found.setdefault(f"{BARE}{thing}", frozenset(read_claim(told["value"]).content))
    return found


def slot_conflict(old: dict[str, frozenset[str]], new: dict[str, frozenset[str]], old_claim: Claim) -> str | None:
    """The first slot that both fill, with little in common."""
    for slot in old.keys() & new.keys():
        shared = len(old[slot] & new[slot]) / len(old[slot] | new[slot])
        if shared < MOSTLY_OTHER and not new[slot] <= set(old_claim.content):
            return f"{slot}: {' '.join(sorted(old[slot]))} → {' '.join(sorted(new[slot]))}"
    return None
