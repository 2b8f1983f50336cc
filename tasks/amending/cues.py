"""How a sentence says that something has changed: the phrase, what it gives up, what it changes.

`STATED` cues tell of a change ("switched from X to Y", "no longer", "moved to"); `HINTED` ones only of a present
that may differ from a past ("now", "these days"). About 60 µs a sentence.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from tasks.deduping.normalise import read_claim

_END = (
    r"(?=[,.;:!?()]|$| (?:because|since|as|so|and|but|for|to|now|any ?more|after|when|which|who|in favou?r|with|by|"
    r"these days|from now on|last|this|next|at|on) )"
)
_OLD = rf"(?P<old>[^,.;:!?()]{{2,60}}?){_END}"
_CHANGE = (
    r"switch|mov|migrat|chang|renam|convert|relocat|transfer|shift|upgrad|downgrad|bump|port|swap|rais|lower|increas|"
    r"reduc|cut|pushed|postpon|reschedul|correct|extend|shorten|updat|rewr[io]t|set"
)
_GIVE_UP = (
    r"drop(?:s|ped|ping)?|ditch(?:es|ed|ing)?|remov(?:e|es|ed|ing)|abandon(?:s|ed|ing)?|scrap(?:s|ped|ping)?|"
    r"cancel(?:s|l?ed|l?ing)?|discard(?:s|ed|ing)?|deprecat(?:e|es|ed|ing)|phas(?:e|ed|ing) out|sold|sell(?:ing)?|"
    r"quit(?:s|ting)?|left|leav(?:e|es|ing)|gave up|giv(?:e|en|ing) up|g[eo]t(?:ting)? rid of|stop(?:s|ped|ping)?|"
    r"mov(?:e|ed|ing) (?:away|out|off)(?: from| of)?|(?:broke|split) up with|call(?:ed)? off|rul(?:e|ed) out|"
    r"revert(?:s|ed|ing)?|roll(?:ed|ing)? back|forget(?: about)?|never ?mind|resigned from"
)
_NO = r"(?<!n't )(?<!not )(?<!never )(?<!cannot )"


class Strength(IntEnum):
    """How plainly a claim says that it changes something."""

    NONE = 0
    HINTED = 1
    STATED = 2


@dataclass(frozen=True, slots=True)
class Cue:
    """What a claim says of a change: how plainly, in which words; stems of what it gives up and of what it changes."""

    strength: Strength
    phrase: str
    old: frozenset[str]
    subject: frozenset[str]


GIVEN_UP = tuple(
    re.compile(p, re.I)
    for p in (
        rf"\b(?:{_CHANGE}|go|went)\w*\b[^.;]{{0,40}}?\bfrom (?P<old>[^.;!?()]{{2,60}}?) (?:over )?(?:to|into)\b",
        rf"\b(?:instead of|rather than|in place of|as opposed to) {_OLD}",
        r"\breplac(?:e|es|ed|ing) (?P<old>[^,.;!?()]{2,60}?)(?= (?:with|by)\b)",
        r"\bswap(?:s|ped|ping)? (?:out )?(?P<old>[^,.;!?()]{2,60}?)(?= (?:for|with)\b)",
        rf"\breplac(?:es|ed|ing) {_OLD}",
        r"\b(?:not|n't|never) (?P<old>[^,.;!?()]{2,60}?) any ?(?:more|longer)\b",
        rf"\b(?:no longer|no more) {_OLD}",
        r"\bno (?P<old>[^,.;!?()]{2,40}?) (?:for (?:me|us) )?any ?(?:more|longer)\b",
        rf"{_NO}\b(?:{_GIVE_UP}) (?:using |with |the use of )?{_OLD}",
        r"(?:^|[,.;] ?|\band |\bbut )(?:the |our |my )?(?P<old>[^,.;!?()]{2,40}?) "
        r"(?:is|are|was|were|has been|have been) (?:gone|removed|retired|dropped|cancell?ed|deprecated|replaced|"
        r"off the table|history|scrapped|sold)\b",
        rf"\b(?:i|we) used to {_OLD}",
        r"(?:,| and) not (?P<old>[\w. -]{2,30}?)(?=[,.;!?]|$| any ?more)",
        r"\b(?P<old>\w[\w.-]{1,30}) (?:(?:has|have|is|was|are|were) )?"
        r"(?:left|stopped|resigned|quit|moved out|retired)\b",
        r"\b(?:the|my|our) (?:old|former|previous) (?P<old>\w+)",
    )
)
"""Each names in `old` what is given up."""
_DET = r"(?:my|our|the|his|her|their|its)"
CHANGED = tuple(
    re.compile(p, re.I)
    for p in (
        rf"\b(?:{_CHANGE})\w* (?:{_DET} )?(?P<subject>[^,.;:!?()]{{2,50}}?) "
        r"(?:back |over |up |down )?(?:from|to|into|till)\b",
        rf"(?:^|[,.;:] ?|\band |\bbut )(?:{_DET} )?(?P<subject>[^,.;:!?()]{{2,50}}?) "
        r"(?:(?:has|have|is|was|were|are|been|got) )*"
        r"(?:moved|changed|switched|renamed|postponed|rescheduled|shifted|corrected|raised|lowered|increased|reduced|"
        r"extended|shortened|pushed|brought forward|delayed|migrated|updated|bumped)\b",
    )
)
"""Each names in `subject` what is changed."""
STATED = re.compile(
    r"\b(?:instead|change of plans?|plans? (?:have |has )?changed|chang(?:e|ed|ing) (?:my|our|his|her|their) minds?|"
    r"on second thoughts?|scratch that|correction|after all|no longer|any ?more|from now on|"
    rf"(?:{_CHANGE}|decreas|delay)(?:e|es|ed|ing|d|ped|ping|ted)?\b[^.;]{{0,60}}?"
    r"\b(?:to|into|until|till|back|forward)\b|"
    r"(?:switch|move|go|going|went) (?:over|back) to|replac(?:e|es|ed|ing)|became|turn(?:ed)? into|"
    r"(?:is|are|was|were|been) (?:moved|postponed|rescheduled|renamed|changed|corrected|updated|replaced|raised)"
    r")\b|^(?:actually|update|edit|change)\b|\bmake (?:it|them|that) \S*\d|"
    rf"{_NO}\b(?:{_GIVE_UP})\b",
    re.I,
)
HINTED = re.compile(
    r"\b(?:now|nowadays|these days|currently|lately|as of|starting (?:today|tomorrow|next|from)|at the moment|"
    r"since (?:last|yesterday|this)|new|newly|finally|recently|this (?:week|month|year)|"
    r"(?:we|i)(?:'ll| will| have|'ve)? (?:go|went|going|gone) with|let'?s (?:use|go with|do|make)|decided|turns out)\b",
    re.I,
)
NOT_NOW = re.compile(r"\bfor now\b", re.I)


def read_cue(text: str) -> Cue:
    """The strongest cue in a sentence."""
    plain = NOT_NOW.sub("", text.replace("’", "'"))
    phrases, old = _named(GIVEN_UP, plain)
    changed, subject = _named(CHANGED, plain)
    stated, hinted = STATED.search(plain), HINTED.search(plain)
    if stated or phrases:
        phrase = (phrases + changed + ([stated[0]] if stated else []))[0]
        return Cue(Strength.STATED, " ".join(phrase.split()).strip(" ,;"), old, subject)
    if hinted:
        return Cue(Strength.HINTED, hinted[0], frozenset(), subject)
    return Cue(Strength.NONE, "", frozenset(), frozenset())


def _named(patterns: tuple[re.Pattern[str], ...], text: str) -> tuple[list[str], frozenset[str]]:
    """The phrases found, and the stems of the content words that they name."""
    found = [m for p in patterns for m in p.finditer(text)]
    stems = {stem for m in found for stem in read_claim(m[1]).content}
    return [m[0] for m in found], frozenset(stems)
