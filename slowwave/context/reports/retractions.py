"""What a session takes back: what has a figure that gets another value, is refused, or is said to change."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from slowwave.context.reports.features import RECOUNTS, Statement
from slowwave.context.reports.snippets import OMITTED
from slowwave.text.cues import CHANGED, CHANGES, PROPOSALS
from slowwave.text.numbers import Quantity, extract_quantities
from slowwave.text.words import extract_content_words, stem_words

REFUSES = re.compile(
    r"\btoo (?:long|short|much|many|few|little|big|small|large|high|low|slow|fast|often|rare|rarely|late|early|strict|"
    r"loose|tight|coarse|fine|heavy|expensive|aggressive|generous)\b|\b(?:not|isn['’]t) (?:enough|acceptable)\b",
    re.I,
)
TAKEN_BACK = 0.4
"""Share of a sentence's words from which a message that changes something changes what it says."""

BEFORE, AFTER = re.compile(r"[\w$€£=_./:-]*$"), re.compile(r"(?:[\w%_]|[./:,-](?=\w))*")
"""What belongs to a figure's word beside it: "v2", "timeout=30", "5-second"."""
LONGEST_WORD = 40
LEFT = 3
"""Words that a statement must have left without what is taken back."""


def find_retractions(found: Sequence[Statement]) -> dict[int, list[Quantity]]:
    """Return places of what the session takes back, each with the figures that are; with none where all of it is.

    Args:
        found: sentences, in order.
    """
    told = [extract_quantities(one.text) for one in found]
    later = _LaterFigures(found, told)
    refused = _find_refused_figures(found, told)
    changing = _find_changing_messages(found)
    gone: dict[int, list[Quantity]] = {}
    for n, one in enumerate(found):
        figures = [old for old in told[n] if old in refused[n] or later.is_revised(old, one.message.seq)]
        changed = _is_changed_later(one, changing)
        if changed or figures:
            gone[n] = [] if changed else figures
    return gone


class _LaterFigures:
    """Figures by which a session may change earlier ones: of sentences that are sure, a human's or of a change."""

    def __init__(self, found: Sequence[Statement], told: Sequence[Sequence[Quantity]]) -> None:
        unsure = {
            _get_sentence_key(one)
            for one in found
            if one.asks or RECOUNTS.search(one.text) or PROPOSALS.search(one.text)
        }
        sure = {_get_sentence_key(one) for one in found if one.message.human or CHANGED.search(one.text)} - unsure
        self.kept: dict[tuple[str, int], set[tuple[float, str | None]]] = defaultdict(set)
        self.about: dict[tuple[str | None, str], list[tuple[Statement, Quantity]]] = defaultdict(list)
        for one, figures in zip(found, told, strict=True):
            self.kept[_get_sentence_key(one)] |= {(new.value, new.scale) for new in figures}
            for new in figures if _get_sentence_key(one) in sure else ():
                for stem in new.near if new.scale else new.slots:
                    self.about[new.scale, stem].append((one, new))

    def is_revised(self, old: Quantity, seq: int) -> bool:
        """Return whether a later message gives the figure another value, in a sentence that does not keep the first."""
        value = (old.value, old.scale)
        for stem in old.near if old.scale else old.slots:
            for one, new in reversed(self.about.get((old.scale, stem), ())):
                if one.message.seq <= seq:
                    break
                if old.is_contradicted_by(new) and value not in self.kept[_get_sentence_key(one)]:
                    return True
        return False


def remove_figures(one: Statement, figures: Sequence[Quantity]) -> Statement | None:
    """Return what is left of it without the figures, an ellipsis in the place of each; None where that says nothing."""
    kept, at = [], 0
    for figure in figures:
        start, end = _find_word_span(one.text, figure)
        kept += [one.text[at:start]] if start >= at else []
        at = max(at, end)
    text = OMITTED.join([*kept, one.text[at:]])
    words = frozenset(extract_content_words(text))
    return replace(one, text=text, words=words) if figures and len(words) >= LEFT else None


def _find_word_span(text: str, figure: Quantity) -> tuple[int, int]:
    """Return where the figure stands, with what belongs to its word."""
    before = BEFORE.search(text, max(0, figure.start - LONGEST_WORD), figure.start)
    after = AFTER.match(text, figure.end, figure.end + LONGEST_WORD)
    return (before.start() if before else figure.start), (after.end() if after else figure.end)


def _get_sentence_key(one: Statement) -> tuple[str, int]:
    """Return which sentence it is."""
    return one.message.message_id, one.number


def _find_refused_figures(found: Sequence[Statement], told: Sequence[Sequence[Quantity]]) -> list[list[Quantity]]:
    """Return of each one's figures those that the next message, a person's, finds too much or too little."""
    seqs = sorted({one.message.seq for one in found})
    after = dict(pairwise(seqs))
    refusing: dict[int, set[tuple[float, str | None]]] = defaultdict(set)
    for one in found:
        too = REFUSES.search(one.text) if one.message.human and not one.asks else None
        meant = extract_quantities(one.text[: too.start()])[-1:] if too else []
        refusing[one.message.seq] |= {(figure.value, figure.scale) for figure in meant}
    next_refuses = {seq: refusing.get(after.get(seq, -1), set()) for seq in seqs}
    return [
        [old for old in figures if (old.value, old.scale) in next_refuses[one.message.seq]]
        for one, figures in zip(found, told, strict=True)
    ]


def _find_changing_messages(found: Sequence[Statement]) -> list[tuple[int, frozenset[str]]]:
    """Return number and words of the human's messages that say that they change something."""
    words: dict[int, set[str]] = defaultdict(set)
    texts: dict[int, str] = {}
    saying: set[int] = set()
    for one in found:
        words[one.message.seq] |= one.words
        if one.message.human:
            texts[one.message.seq] = one.message.text
            if CHANGES.search(one.text):
                saying.add(one.message.seq)
    saying |= {seq for seq, text in texts.items() if CHANGES.search(text)}
    return [(seq, stem_words(words[seq])) for seq in sorted(saying)]


def _is_changed_later(one: Statement, changing: Sequence[tuple[int, frozenset[str]]]) -> bool:
    """Return whether the next message that changes something is about what the sentence says."""
    said = stem_words(one.words)
    after = next((words for seq, words in changing if seq > one.message.seq), frozenset())
    return len(said & after) >= max(2.0, TAKEN_BACK * len(said))
