"""Clauses of a sentence that can stand, or be left out, without the others.

A sentence is cut at its semicolons, dashes and commas, and before a reason or another clause ("because …", "and it …").
It is not cut where what is left would say something else: before a condition, an exception or a contrast ("…, unless
it is Sunday"), after what leads in ("If it fails, …"), after a negation, which may hold for what follows too ("never
these: mail, calls or visits"), between figures ("5 - 10"), and nowhere in a choice ("either A, B or C"). Code, quotes
and brackets stay whole, and so does a sentence without one of the commonest words of English, whose rules these are.
"""

import re

MIN_WORDS = 2
"""Words of three letters or more, or with a figure, that each side of a cut has at least."""
NEAR = 200
"""Characters after a cut that are looked at."""
LONGEST = 2_000
"""Characters of a sentence that is cut; a longer one is no prose."""
CUT = re.compile(
    r";\s+|\s+[–—-]\s+|,\s+|"
    r"\s+(?=(?:because|so that|and (?:the|an?|it|they|we|i|you|this|that|these|each|every|"
    r"then|is|are|was|were|will|can|must|should|has|have|all|any))\b)",
    re.I,
)
ENGLISH = re.compile(r"\b(?:the|a|is|are|and|to|of|for|we|it|with|by|at|that|this|be|from|has|have)\b", re.I)
CONDITIONS = (
    "if|unless|when(?:ever)?|until|till|once|while|provided|assuming|given|in case|as (?:long|soon)|subject to|"
    "though|although|where|before|after"
)
LIMITS = re.compile(
    rf"(?:(?:and|yet|however|so|then|also) )?(?:but|except|exclud\w+|exempt\w*|other than|apart from|aside from|save|"
    rf"unlike|{CONDITIONS}|only|not|no|never|none|without|rather|instead|than|or|nor|whether|even|just|"
    r"at (?:most|least)|up to|within|per|too|either|please|right|which|who|whose|that|includ\w+)\b",
    re.I,
)
LEADS_IN = re.compile(
    rf"(?:(?:and|so|then|but|also) )?(?:{CONDITIONS}|since|because|as|for|in|on|at|under|during|with(?:out)?|instead|"
    r"should|either|not|no)\b",
    re.I,
)
LEANS = re.compile(
    r"(?:because|since|so|else|otherwise|as|which|who|whose|that|where(?:as)?|"
    r"and (?:it|they|this|that|these|then|is|are|was|were|will|can|must|should|has|have))\b",
    re.I,
)
DENIES = re.compile(
    r"\b(?:not|no|never|neither|nor|none|nobody|nothing|without|cannot|\w+n['’]t|avoid\w*|refus\w+|reject\w*|forbid\w*|"
    r"prohibit\w*|prevent\w*|deny|denie\w+|wrong|instead|except\w*|exclud\w+|against|ban|banned)\b",
    re.I,
)
CHOOSES = re.compile(r"\b(?:or|either|whether|both|between)\b", re.I)
FIGURE_ENDS = re.compile(r"\d[^\s,]*$")
WORD = re.compile(r"[^\W_]{3,}|\w*\d\w*")
PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"), ("«", "»"))
OPENS, CLOSES = re.compile(r"(?<!\w)['‘](?=\w)"), re.compile(r"(?<=[\w.!?])['’](?!\w)")
"""Single quotes, as far as they are no apostrophes."""


def split_clauses(sentence: str) -> list[str]:
    """Return the sentence's clauses in order, each with the mark that ends it; with spaces between them they are the
    sentence.

    Args:
        sentence: in one line.
    """
    if len(sentence) > LONGEST or CHOOSES.search(sentence) or not ENGLISH.search(sentence):
        return [sentence]
    found, start, segment = [], 0, 0
    for cut in CUT.finditer(sentence):
        before, after = sentence[start : cut.start()], sentence[cut.end() :]
        last = sentence[segment : cut.start()]
        if _is_separable(before, last, after) and _is_balanced(sentence[: cut.start()]):
            found.append(sentence[start : cut.end()].rstrip())
            start = cut.end()
        segment = cut.end()
    return [*found, sentence[start:]]


def _is_separable(before: str, last: str, after: str) -> bool:
    """Return whether what stands before a cut, the last segment of it, and what comes after say their own."""
    if LIMITS.match(after) or LEADS_IN.match(before) or LEADS_IN.match(last) or DENIES.search(before):
        return False
    if FIGURE_ENDS.search(before) and after[:1].isdecimal():
        return False
    return all(len(WORD.findall(side)) >= MIN_WORDS for side in (before, after[:NEAR]))


def is_dependent_clause(clause: str) -> bool:
    """Return whether a clause says nothing without the one before it: a reason, a result, more of the same."""
    return LEANS.match(clause) is not None


def _is_balanced(text: str) -> bool:
    """Return whether no code, quote or bracket is open at its end."""
    if text.count("`") % 2 or text.count('"') % 2 or any(text.count(a) > text.count(b) for a, b in PAIRS):
        return False
    return len(OPENS.findall(text)) <= len(CLOSES.findall(text))
