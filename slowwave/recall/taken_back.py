"""What a session takes back: what has a figure that gets another value, is refused, or is said to change."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from slowwave.recall.signs import RECOUNTS, Statement
from slowwave.recall.terms import Quantity, quantities, stems

HEDGES = re.compile(
    r"\b(?:could|would|might|may|maybe|perhaps|possibly|option|either|i['’]d|what about|i think|hm+|propose|suggest)\b",
    re.I,
)
CHANGES = re.compile(
    r"^(?:no\b|not\b|actually\b|hm+\b|wait\b|change\b|right, then|then\b)|\bthen$|"
    r"\b(?:instead|forget|no longer|any ?more|rather than|changed? (?:my|our) mind|scrap|on second thought|"
    r"too (?:\w+) *(?:[,;:]|$)|(?:not|isn['’]t) (?:enough|acceptable|the same))",
    re.I,
)
REFUSES = re.compile(
    r"\btoo (?:long|short|much|many|few|little|big|small|large|high|low|slow|fast|often|rare|rarely|late|early|strict|"
    r"loose|tight|coarse|fine|heavy|expensive|aggressive|generous)\b|\b(?:not|isn['’]t) (?:enough|acceptable)\b",
    re.I,
)
CHANGED = re.compile(r"\b(?:changed|now|updated|adjusted|instead|replaced)\b", re.I)
TAKEN_BACK = 0.4
"""Share of a sentence's words from which a message that changes something changes what it says."""


def taken_back(found: Sequence[Statement]) -> set[int]:
    """Places of what the session takes back: with another figure, or with words that say so.

    Args:
        found: sentences, or their clauses, in order.
    """
    told = [quantities(one.text) for one in found]
    unsure = {_sentence(one) for one in found if one.asks or RECOUNTS.search(one.text) or HEDGES.search(one.text)}
    settled = [n for n, one in enumerate(found) if told[n] and _sentence(one) not in unsure and _changes(one)]
    refused = _refused(found, told)
    changing = _changing(found)
    gone = set()
    for n, one in enumerate(found):
        later = (told[m] for m in settled if found[m].message.seq > one.message.seq) if told[n] else ()
        if n in refused or _changed(one, changing) or any(_refigured(told[n], some) for some in later):
            gone.add(n)
    return gone


def _sentence(one: Statement) -> tuple[str, int]:
    """Which sentence it is a part of: a doubt in it is one of all of it."""
    return one.message.message_id, one.number


def _changes(one: Statement) -> bool:
    """Whether it may change what was said: a human says it, or it reports a change."""
    return one.message.human or bool(CHANGED.search(one.text))


def _refigured(earlier: Sequence[Quantity], later: Sequence[Quantity]) -> bool:
    """Whether a quantity of the earlier sentence has another value in the later one, which does not keep the first."""
    kept = {(one.value, one.scale) for one in later}
    return any((old.value, old.scale) not in kept and any(old.rivals(new) for new in later) for old in earlier)


def _refused(found: Sequence[Statement], told: Sequence[Sequence[Quantity]]) -> set[int]:
    """Places of sentences with a figure that the next message, a person's, finds too much or too little."""
    seqs = sorted({one.message.seq for one in found})
    after = dict(pairwise(seqs))
    refusing: dict[int, set[tuple[float, str | None]]] = defaultdict(set)
    for one in found:
        too = REFUSES.search(one.text) if one.message.human and not one.asks else None
        meant = quantities(one.text[: too.start()])[-1:] if too else []
        refusing[one.message.seq] |= {(figure.value, figure.scale) for figure in meant}
    return {
        n
        for n, one in enumerate(found)
        for old in told[n]
        if (old.value, old.scale) in refusing.get(after.get(one.message.seq, -1), ())
    }


def _changing(found: Sequence[Statement]) -> list[tuple[int, frozenset[str]]]:
    """Number and words of the human's messages that say that they change something."""
    words: dict[int, set[str]] = defaultdict(set)
    for one in found:
        words[one.message.seq] |= one.words
    says = (one for one in found if one.message.human)
    seqs = sorted({one.message.seq for one in says if CHANGES.search(one.text) or CHANGES.search(one.message.text)})
    return [(seq, stems(words[seq])) for seq in seqs]


def _changed(one: Statement, changing: Sequence[tuple[int, frozenset[str]]]) -> bool:
    """Whether the next message that changes something is about what the sentence says."""
    said = stems(one.words)
    after = next((words for seq, words in changing if seq > one.message.seq), frozenset())
    return len(said & after) >= max(2.0, TAKEN_BACK * len(said))
