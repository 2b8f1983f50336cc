"""Clauses of a sentence that can stand, or be left out, without the others.

A sentence is cut at its semicolons, dashes and commas, and before a reason or another clause ("because …", "and it …").
It is not cut where what is left would say something else: before a condition, an exception or a contrast ("…, unless
it is Sunday"), after what leads in ("If it fails, …"), after a negation, which may hold for what follows too ("no mail,
calls or visits"), and nowhere in a choice ("either A, B or C"). Code, quotes and brackets stay whole. The rules are for
English; another language's sentences are cut less well, but only ever at punctuation.
"""

import re

MIN_WORDS = 2
"""Words of three letters or more, or with a figure, that each side of a cut has at least."""
LONGEST = 2_000
"""Characters of a sentence that is cut; a longer one is no prose."""
CUT = re.compile(
    r"(?P<full>;)\s+|\s+[–—-]\s+|,\s+|"
    r"\s+(?=(?:because|so that|(?:since|and) (?:the|an?|it|they|we|i|you|this|that|these|each|every)|"
    r"and (?:then|is|are|was|were|will|can|must|should|has|have|only|all|any))\b)",
    re.I,
)
LIMITS = re.compile(
    r"(?:but|except|unless|if|only|not|no|never|without|until|till|when(?:ever)?|where|provided|though|although|rather|"
    r"instead|than|or|nor|whether|even|just|at (?:most|least)|as long|while|before|after|once|too|either|please|right|"
    r"which|who|whose|that)\b",
    re.I,
)
LEADS_IN = re.compile(
    r"(?:if|when(?:ever)?|unless|until|once|before|after|while|although|though|since|because|as|for|in|on|at|with(?:out)?|"
    r"instead|given|should|either|not|no)\b",
    re.I,
)
LEANS = re.compile(r"(?:because|since|so|else|otherwise|as|which|who|whose|that|where(?:as)?)\b", re.I)
DENIES = re.compile(r"\b(?:not|no|never|neither|nor|without|none|cannot|\w+n['’]t)\b", re.I)
CHOOSES = re.compile(r"\b(?:or|either|whether)\b", re.I)
FIGURES = re.compile(r"\d\S*,\s+\d")
"""A list of figures."""
WORD = re.compile(r"[^\W_]{3,}|\w*\d\w*")
PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"))


def clauses(sentence: str) -> list[str]:
    """The sentence's clauses in order, each with the mark that ends it; with spaces between them they are the sentence.

    Args:
        sentence: in one line.
    """
    if len(sentence) > LONGEST:
        return [sentence]
    found, start = [], 0
    chooses = CHOOSES.search(sentence) is not None
    listed = {figures.end() - 1 for figures in FIGURES.finditer(sentence)}
    for cut in CUT.finditer(sentence):
        before, after = sentence[start : cut.start()], sentence[cut.end() :]
        said = _says_something(before) and _says_something(after)
        if not said or cut.end() in listed or not _closed(sentence[: cut.start()]):
            continue
        if cut["full"] or not (chooses or LIMITS.match(after) or LEADS_IN.match(before) or DENIES.search(before)):
            found.append(sentence[start : cut.end()].rstrip())
            start = cut.end()
    return [*found, sentence[start:]]


def leans(clause: str) -> bool:
    """Whether a clause says nothing without the one before it: a reason, a result."""
    return LEANS.match(clause) is not None


def _says_something(text: str) -> bool:
    return len(WORD.findall(text)) >= MIN_WORDS


def _closed(text: str) -> bool:
    """Whether no code, quote or bracket is open at its end."""
    return text.count("`") % 2 == text.count('"') % 2 == 0 and all(text.count(a) <= text.count(b) for a, b in PAIRS)
