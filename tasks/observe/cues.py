"""How a sentence says that something has changed, and what it gives up.

`STATED` cues tell of a change ("switched from X to Y", "no longer", "moved to"); `PRESENT` ones of a present that may
differ from a past ("now", "these days"); `HINTED` ones of something new, or of how it has to be. About 60 µs a
sentence.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.text.words import LATIN

_END = (
    r"(?=[,.;:!?()]|$| (?:because|since|as|so|and|but|for|to|now|any ?more|after|when|which|who|in favou?r|with|by|"
    r"these days|from now on|last|this|next|at|on) )"
)
_OLD = rf"(?P<old>[^,.;:!?()]{{2,60}}?){_END}"


def _conjugate(verbs: str) -> str:
    """Return regular verbs, each with its past and its "-ing" form: "drop dropped dropping"."""
    forms: list[str] = []
    for verb in verbs.split():
        doubles = re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb)  # ban, rip, drop
        stem = verb + verb[-1] if doubles else verb.removesuffix("e")
        forms += verb, f"{stem}ed", f"{stem}ing"
    return " ".join(forms)


def _conjugate_past(verbs: str) -> str:
    """Return the same without the verbs themselves, where those are more often nouns or orders of the day."""
    return " ".join(form for form in _conjugate(verbs).split() if form not in verbs.split())


_CHANGE_STEMS = (
    "switch mov migrat chang renam convert relocat transfer shift upgrad downgrad bump port swap rais lower increas "
    "reduc cut slip slips defer shrink postpon reschedul correct extend shorten updat rewrit rewrot set"
)
_STEM_ENDS = "e ed ing d ped ping ted"
_CHANGE = rf"{_CHANGE_STEMS.replace(' ', '|')}|pushed(?! (?:me|us|you|him|her|them|myself))"
_CHANGE_ENDS = f"(?:{_STEM_ENDS.replace(' ', '|')})?"
_GIVE_UP_FORMS = (
    (_conjugate("drop ditch remove abandon scrap cancel discard deprecate") + " cancelled cancelling", ""),
    (_conjugate("phase"), " out"),
    ("sold sell selling quit quitting", ""),
    ("left", r"(?! out| in\b| to\b| over| behind)"),
    ("leave leaving", "(?! out| for)"),
    ("gave give given giving", "(?: up on| up)"),
    ("get got getting", " rid of"),
    (_conjugate("stop"), ""),
    (_conjugate("move"), " (?:away|out|off)(?: from| of)?"),
    ("broke split", " up with"),
    ("call called", " off"),
    ("rule ruled", " out"),
    (_conjugate("revert"), ""),
    (_conjugate("roll"), " back"),
    ("forget", "(?: about)?"),
    ("nevermind", ""),
    ("never", " mind"),
    ("resigned", " from"),
    ("decided", " against"),
    ("forbids forbade", ""),
    (_conjugate_past("ban"), ""),
    (_conjugate("disable"), ""),
    ("turn turned", " off"),
    ("withdrew", " from"),
    ("backed", " out of"),
    ("gone went going", r" off(?= \w)"),
    (_conjugate("rip") + " tore torn threw thrown kicked pulled took", " out"),
    (_conjugate_past("retire decommission") + " sunset sunsetting outgrew outgrown", ""),
    ("traded", " in"),
    ("sent", " back"),
    (_conjugate_past("part"), " ways with"),
    ("said", " goodbye to"),
    ("done finished through", " with"),
    ("fired", ""),
    ("unsubscribed", " from"),
    (_conjugate("uninstall"), ""),
    ("scratch", "(?! that)"),
    ("axed nixed binned shelved", ""),
    (_conjugate("toss"), ""),
    ("dropped", " out of"),
    ("cut", " out"),
)
"""Words, and what has to follow any of them. Of these both the pattern and what it needs are made."""
_GIVE_UP = "|".join(f"(?:{words.replace(' ', '|')}){tail}" for words, tail in _GIVE_UP_FORMS)
"""Not the present of the third person: what "drops", "skips" or "removes" something is at its usual work."""
_CHANGED = (
    r"moved|changed|switched|renamed|postponed|rescheduled|shifted|corrected|raised|lowered|increased|reduced|"
    r"extended|shortened|pushed|brought forward|delayed|migrated|updated|bumped|replaced"
)
_RESCHEDULED = "postponed|rescheduled|renamed|brought forward|delayed|pushed back|canceled|cancelled|called off"
"""Not "is moved" or "are updated": so people tell what is done every time."""
_WHEN = r"(?:\d|mon|tues|wednes|thurs|fri|satur|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|tomorrow|noon)"
_NO = re.compile(r"(?:n't|\b(?:not|never|cannot|nothing|nobody|no one|without))\b[^,.;:!?]{0,40}$", re.I)


class Strength(IntEnum):
    """How plainly a claim says that it changes something."""

    NONE = 0
    HINTED = 1
    PRESENT = 2
    STATED = 3


@dataclass(frozen=True, slots=True)
class Cue:
    """What a claim says of a change: how plainly, and the stems of what it gives up."""

    strength: Strength
    old: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern, looked for only where one of the words it needs begins a word: most sentences have none."""

    needs: frozenset[str]
    """Words, or their first four letters."""
    pattern: re.Pattern[str]
    deniable: bool = False
    """Whether a no before it turns it round: who won't give up goes on."""

    def find_matches(self, text: str, opening: frozenset[str]) -> list[re.Match[str]]:
        """Return its matches; `opening` has the first four letters of the text's words, lower-cased."""
        if self.needs.isdisjoint(opening):
            return []
        matches = self.pattern.finditer(text)
        return [m for m in matches if not (self.deniable and _NO.search(text[: m.start()]))]


def _compile_phrase(needs: str, pattern: str, *, deniable: bool = False) -> Phrase:
    return Phrase(frozenset(word[:4] for word in needs.split()), re.compile(pattern, re.I), deniable)


_CHANGE_VERBS = " ".join(
    (
        *(f"{stem}{end}" for stem in _CHANGE_STEMS.split() for end in ("", *_STEM_ENDS.split())),
        *(one.split()[0] for one in f"{_CHANGED}|{_RESCHEDULED}".split("|")),
    )
)
_GIVE_UP_VERBS = " ".join(words for words, _ in _GIVE_UP_FORMS)
GIVEN_UP = (
    _compile_phrase(
        "from",
        rf"\b(?:(?:{_CHANGE})\w*|go|goes|going|went)\b[^.;]{{0,40}}?\bfrom "
        r"(?P<old>[^.;!?()]{2,60}?) (?:over )?(?:to|into)\b",
    ),
    _compile_phrase("instead rather place opposed", rf"\b(?:instead of|rather than|in place of|as opposed to) {_OLD}"),
    _compile_phrase("replace", r"\breplac(?:e|es|ed|ing) (?P<old>[^,.;!?()]{2,60}?)(?= (?:with|by)\b)"),
    _compile_phrase("swap", r"\bswap(?:s|ped|ping)? (?:out )?(?P<old>[^,.;!?()]{2,60}?)(?= (?:for|with)\b)"),
    _compile_phrase("replace", rf"\breplac(?:es|ed|ing) {_OLD}"),
    _compile_phrase("more anymore longer", r"\b(?:not|n't|never) (?P<old>[^,.;!?()]{2,60}?) any ?(?:more|longer)\b"),
    _compile_phrase("no", rf"\b(?:no longer|no more) {_OLD}"),
    _compile_phrase(
        "more anymore longer", r"\bno (?P<old>[^,.;!?()]{2,40}?) (?:for (?:me|us) )?any ?(?:more|longer)\b"
    ),
    _compile_phrase("after", r"\b(?:no|not) (?P<old>[^,.;!?()]{2,40}?) after all\b"),
    _compile_phrase(
        _GIVE_UP_VERBS, rf"\b(?:{_GIVE_UP}) (?!(?:back )?to )(?:using |with |the use of )?{_OLD}", deniable=True
    ),
    _compile_phrase(
        "gone removed retired dropped canceled deprecated replaced off out over history scrapped sold",
        r"(?:^|[,.;] ?|\band |\bbut )(?:the |our |my )?(?P<old>[^,.;!?()]{2,40}?) "
        r"(?:is|are|was|were|has been|have been) (?:now |finally |already )?(?:gone|removed|retired|dropped|"
        r"cancell?ed|deprecated|replaced|"
        r"off|out|over|off the table|history|scrapped|sold)\b",
    ),
    _compile_phrase("used", rf"\b(?:i|we|it|this|that|they|which) used to (?:be )?{_OLD}"),
    _compile_phrase("previously formerly originally", rf"\b(?:previously|formerly|originally) {_OLD}"),
    _compile_phrase("was", r"\((?:it )?was (?P<old>[^()]{2,40})\)"),
    _compile_phrase(
        "don not won shouldn can never",
        rf"\b(?:do not|don't|won't|shouldn't|should not|can't|cannot|never|let's not) "
        rf"(?:use|go with|keep|rely on|store|write|send|deploy) (?:the |our |my )?{_OLD}",
    ),
    _compile_phrase("not", r"(?:,| and) not (?P<old>[\w. -]{2,30}?)(?=[,.;!?]|$| any ?more)"),
    _compile_phrase(
        "so therefore hence",
        r"(?:^|[,.;:] ?|\band |\bbut )(?:the |our |my )?(?P<old>[^,.;:!?()]{2,40}?) (?:has |have |had |kept |keeps )?"
        r"(?:rejected|turned (?:me|us|it) down|refused|fell through|failed|closed down|shut down|broke(?: down)?|"
        r"crashing|crashed|flooded|burned down|died|did(?:n't| not) work(?: out)?|does(?:n't| not) work|"
        r"(?:is|was) (?:too|full|unmaintained|sold out|fully booked|gone))\b[^.;]*?[,;] (?:so|therefore|hence)\b",
    ),
    _compile_phrase(
        "left stopped resigned quit moved retired retiring stepped leaving closed closes shut died went "
        "discontinued end",
        r"\b(?!never|not|to\b)(?P<old>\w[\w.-]{1,30}) (?:(?:has|have|is|was) )?"
        r"(?:left(?! out| in\b| to\b| over| behind)|stopped|resigned|quit|moved out|retired|"
        r"retiring|leaving|stepped down|closed(?: down)?(?= for good|[,.;]|$)|clos(?:ed|es) down|shut down|died|"
        r"went (?:bankrupt|under|out of business)|discontinued|end[ -]of[ -]life)\b",
    ),
    _compile_phrase(
        "gave give giving given tore torn ripped threw thrown kicked handed sent traded let put",
        r"\b(?:(?:gave|given?|giving) (?P<old>[^,.;:!?()]{2,40}?) (?:back(?! to)|up|away))\b",
        deniable=True,
    ),
    _compile_phrase(
        "tore torn ripped threw thrown kicked handed sent traded let put",
        r"\b(?:tore|torn|ripped|threw|thrown|kicked|handed|sent|traded|let|put) (?P<old>[^,.;:!?()]{2,40}?) "
        r"(?:back(?! to)|out(?! to)|in for|go|aside)(?=[,.;:!?]|$| (?:and|for|because|since|so|after|last|this|in) )",
        deniable=True,
    ),
    _compile_phrase(
        "no",
        r"(?:^|[,.;:!] ?|\b(?:so|and|but|there's|there is|be) )no (?:more )?(?P<old>[^,.;:!?()]{2,40}?) "
        r"(?:this (?:year|time|summer|winter|spring|fall|autumn|season|term|semester|month|week)|for (?:me|us|now)|"
        r"in the end|these days|anywhere)\b",
    ),
    _compile_phrase("former previous", r"\b(?:the|my|our) (?:former|previous) (?P<old>\w+)"),
)
"""Each names in `old` what is given up."""
BESIDE = (_compile_phrase("old", r"\b(?:the|my|our) old (?P<old>\w+)"),)
"""The same, beside another cue of a change: an old mill may be as it was."""
_DET = r"(?:my|our|the|his|her|their|its)"
CHANGED = (
    _compile_phrase(
        _CHANGE_VERBS,
        rf"\b(?:{_CHANGE}){_CHANGE_ENDS} (?:{_DET} )?[^,.;:!?()]{{2,50}}? "
        r"(?:back |over |up |down )?(?:from|to|into|till)\b",
    ),
    _compile_phrase(
        _CHANGE_VERBS,
        rf"(?:^|[,.;:] ?|\band |\bbut )(?:{_DET} )?(?:(?!\bkee?pt?\b|\bstay)[^,.;:!?()]){{2,50}}?"
        rf"(?<! is)(?<! are)(?<! be) "
        rf"(?:(?:(?:has|have|was|were|been|got) )*(?:{_CHANGED})|(?:is|are) (?:now )?(?:{_RESCHEDULED}))\b",
    ),
)
"""Each says that what it begins with is changed."""
STATED = _compile_phrase(
    f"{_CHANGE_VERBS} decrease delay replace instead plans minds second scratch correction after longer more anymore "
    "from reflection henceforth effective further reconsidered overruled took take takes taking "
    "stand steps succeed filling go going went became turned actually edit make here out stepped tore ripped threw "
    "kicked took pulled place stead",
    r"\b(?:instead|in (?:its|their|his|her) (?:place|stead)|change of plans?|plans? (?:have |has )?changed|"
    r"chang(?:e|ed|ing) (?:my|our|his|her|their) minds?|on (?:second thoughts?|reflection)|scratch that|correction|"
    r"after all|no longer|any ?more|from (?:now|here) on(?: (?:in|out))?|"
    r"(?:tore|ripped|threw|kicked|took|pulled) (?:it|them|that) (?:all )?out|"
    r"going forward|henceforth|effective immediately|until further notice|reconsidered|overruled|"
    rf"(?<!\bis )(?<!\bare )(?<!\bbe )(?:{_CHANGE}|decreas|delay){_CHANGE_ENDS}\b[^.;]{{0,60}}?"
    r"\b(?:to|into|until|till|back|forward)\b|"
    r"(?:switch|move|go|going|went) (?:over|back) to|replac(?:e|es|ed|ing)|became|turn(?:ed)? into|"
    rf"(?:was|were|been) (?:{_CHANGED})|(?:is|are) (?:now )?(?:{_RESCHEDULED})|"
    rf"(?:is|are) (?:moved|pushed) (?:back |forward )?to {_WHEN}|"
    r"t(?:ook|akes?|aking) over|stand(?:s|ing)? in for|steps? in|succeed(?:s|ed)|filling in for"
    r")\b|^(?:actually|update|edit|change)\b|\bmake (?:it|them|that) (?:\w+ )?\S*\d",
)
GAVE_UP = _compile_phrase(_GIVE_UP_VERBS, rf"\b(?:{_GIVE_UP})\b", deniable=True)
PRESENT = re.compile(
    r"\b(?:(?<!right )now|nowadays|these days|currently|as of (?:now|today|this|next|\d)|"
    r"starting (?:today|tomorrow|next|from)|"
    r"from (?:today|tomorrow|the next|next) ?\w*|at the moment)\b",
    re.I,
)
HINTED = re.compile(
    r"\b(?:lately|as of|since (?:last|yesterday|this)|new|newly|finally|this (?:week|month|year)|"
    r"(?:we|i)(?:'ll| will| have|'ve)? (?:go|went|going|gone) with|let'?s (?:use|go with|do|make)|decided|turns out|"
    r"must|should|has to|have to|needs? to|new rule|only|never|always|"
    r"(?:this|next|starting) (?:term|semester|season|quarter|sprint|release|spring|summer|autumn|fall|winter)|"
    r"(?:so|hence|therefore|which means) (?:the|our|my|it)|ended up|settled on|went for|opted for|"
    r"convinced|gave in|turned out)\b",
    re.I,
)
COMPLAINT = re.compile(
    r"\b(?:(?:does|did|is|was|are|were|ca|could)n't|cannot|can not|too|nobody|no one|fail(?:s|ed|ing|ures?)?|"
    r"br[eo]aks?|breaking|broken?|slow(?:ly|er)?|sluggish|crash\w*|"
    r"wrong|flaky|flood(?:ed|s)|unmaintained|abandoned|tripled|doubled|expensive|pricey|boring|useless|annoy(?:ing|ed|s)|"
    r"complain\w*|problems?|trouble|issues?|bit us|bites|burned|burnt|rejected|clash(?:es|ed)?|outages?|"
    r"los(?:t|e|es|ing)|"
    r"worse|mistake|hate[ds]?|injured|hurts?|flickers?|confus\w+|noisy|blurry|leak(?:s|ed|ing)?|timed out|time ?outs?|"
    r"stopped|left|full|sold out|corrupt\w*|die[sd]?|dead|dying|end[ -]of[ -]life|eol|obsolete|outdated|deprecated|"
    r"discontinued|clos(?:ed|es|ing) down|closed|shut(?:s|ting)? down|bankrupt|out of business|bug(?:s|gy)?|unreliable|"
    r"unstable|overkill|overwhelm\w*|bloated|eat(?:s|ing) (?:up )?(?:\d|all|our|my|the|too|half|gigabytes)|"
    r"hog(?:s|ging)|"
    r"swamped|drop(?:s|ping) (?:jobs|messages|connections|frames|packets|events|requests)|kept|keeps|struggl\w+|"
    r"chok\w+|stall\w*|hangs|hung|painful|awkward|fragile|brittle|insecure|vulnerab\w+|limit(?:s|ed|ing)?|"
    r"stolen|wreck\w*|totall?ed|worn|wore|torn|sprained|sick|ill|allergic|pregnant|parental leave|maternity|on leave|"
    r"retire[sd]?|resigned|fired|quit|gone|got big|grew|raised prices|price (?:hike|increase)s?|went up|compliance|"
    r"outgr[eo]wn?|ran out|runs out|run out|stress\w*|exhaust\w*|tired of|sick of|fed up|bored|regret\w*|"
    r"mad|crazy|nuts|nightmare|pain|frustrat\w*|difficult|tricky|lost interest|ban(?:s|ned)|forbid(?:s|den)|trademark|"
    r"under (?:repair|renovation|construction)|being (?:repaired|renovated|rebuilt)|killed)\b",
    re.I,
)
MOST_CHARS = 1_000
"""Nobody says a thing in a longer sentence, and the time of some patterns grows with the square."""
NOT_NOW = re.compile(r"\bfor now\b", re.I)


def find_cue(text: str) -> Cue:
    """Return the strongest cue in a sentence, of which the first `MOST_CHARS` are read."""
    plain = NOT_NOW.sub("", text[:MOST_CHARS].replace("’", "'"))
    opening = frozenset(word[:4] for word in LATIN.findall(plain.lower()))
    given_up = _find_matches(GIVEN_UP, plain, opening)
    changed = given_up or any(one.find_matches(plain, opening) for one in (STATED, GAVE_UP, *CHANGED))
    present = PRESENT.search(plain)
    if changed or present:
        given_up += _find_matches(BESIDE, plain, opening)
    if changed or given_up:
        return Cue(Strength.STATED, frozenset(stem for m in given_up for stem in normalise_claim(m[1]).content))
    if present:
        return Cue(Strength.PRESENT)
    return Cue(Strength.HINTED if HINTED.search(plain) or find_blamed_stems(plain) else Strength.NONE)


def is_complaint(text: str) -> bool:
    """Return whether a sentence says that something is not good as it is: what follows it says what comes instead."""
    return bool(COMPLAINT.search(text[:MOST_CHARS].replace("’", "'")))


CLAUSE = re.compile(r"[,;:.!?]\s+|\s+(?:so|and|but|hence|therefore|which is why)\s+", re.I)


REASON = re.compile(r"\b(?:because(?: of)?|since|due to|thanks to) ([^.;!?]+)", re.I)


def find_blamed_stems(text: str) -> frozenset[str]:
    """Return stems of the clauses of a sentence that say what is wrong, where another clause says something else."""
    plain = text[:MOST_CHARS].replace("’", "'")
    clauses = [c for c in CLAUSE.split(plain) if c and c.strip()][:-1] + REASON.findall(plain)
    return frozenset(stem for c in clauses if COMPLAINT.search(c) for stem in normalise_claim(c).content)


def _find_matches(phrases: tuple[Phrase, ...], text: str, opening: frozenset[str]) -> list[re.Match[str]]:
    return [m for phrase in phrases for m in phrase.find_matches(text, opening)]
