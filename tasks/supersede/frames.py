"""Whether two claims are one sentence with another value in it: "Our power comes from Nordlicht", "… from Solwind".

What both have in the same order is the frame, and a run of words of the one in whose stead the other has another run
is a place in it; two clauses may also open alike, or go on alike, whatever the rest says.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

from rapidfuzz.distance import Levenshtein

from slowwave.tasks.supersede.cues import Strength
from slowwave.tasks.supersede.rules import IdfTable, ParsedClaim
from slowwave.text.words import is_content_word, stem, stem_content_words

LONGEST = 5
"""Content words that a value has at most."""
ENOUGH = 4
"""Content words in common; more say no more."""
LONG = 60
"""Words of a claim that are compared, and CLAUSES: what is longer is no sentence."""
CLAUSES = 12
FIRST = 3
"""Words that a value may have which opens a clause: "Halvard conducts us"."""
ARTICLES = frozenset(("a", "an", "the"))
CLAUSE = re.compile(
    r"(?<![.:;,!?()–—])[.:;,!?()–—]++(?: |$)| (?:so|and|but|because|that|then|now) |^(?:so|and|but|then|also) ", re.I
)
"""Where a clause ends and the next begins, in a text with single spaces."""
CONTRACTED = re.compile(r"(?<=\w)['’](?:s|m|ll|re|ve|d)\b", re.I)
WORD = re.compile(r"['’]?[\w$€£][\w$€£%'’./-]*")

Words = Sequence[str]


def compute_frame_features(old: ParsedClaim, new: ParsedClaim, weights: IdfTable) -> dict[str, float]:
    """Return name -> 0 or 1, a share of words by weight from 0 to 1, or a count of words up to ENOUGH."""
    a, b = old.claim, new.claim
    kept, places = _align_words(a.words, b.words)
    worth = weights.sum_idf(set(stem_content_words(a.words)))
    frame = weights.sum_idf(set(stem_content_words(kept))) / worth if worth else 0.0
    values = [(before, left) for before, left, right in places if _is_value(left) and _is_value(right)]
    gone, come = set(a.content) - set(b.content), set(b.content) - set(a.content)
    governs = not _find_governing_words(a.words, gone).isdisjoint(_find_governing_words(b.words, come))
    alike = count_run_before_value(a.words, b.words)
    opens, closes = compare_clauses(old.text, new.text)
    return {
        "frame": frame,
        "another in its place": bool(values),
        "another in its place, one word before": any(before for before, _ in values),
        "one place": len(values) == 1,
        "all gone in one place": bool(gone) and any(gone <= set(stem_content_words(left)) for _, left, _ in places),
        "frame and place": frame * bool(values),
        "frame and word before": frame * governs,
        "one word governs": governs,
        "alike up to a value": min(alike, ENOUGH),
        "much alike up to a value": alike > 1,
        "opens alike": opens > 0,
        "opens much alike": opens > 1,
        "opens alike, states": opens * (new.cue.strength is not Strength.NONE),
        "closes alike": closes > 0,
    }


def count_run_before_value(a: Words, b: Words) -> int:
    """Return content words of the longest run that both have, and after which each has a word of its own that
    carries.
    """
    a, b = _drop_articles(a[:LONG]), _drop_articles(b[:LONG])
    own, other = {stem(word) for word in a}, {stem(word) for word in b}
    ends = {at for at, word in enumerate(b) if is_content_word(word) and stem(word) not in own}
    places: Mapping[str, list[int]] = defaultdict(list)
    for at, word in enumerate(b):
        places[word].append(at)
    best = 0
    runs: dict[int, int] = {}  # place in b -> content words of the run that ends there and at the word of a before
    for word in a:
        if is_content_word(word) and stem(word) not in other:
            best = max([best, *(count for end, count in runs.items() if end + 1 in ends)])
        runs = {end: runs.get(end - 1, 0) + is_content_word(word) for end in places.get(word, ())}
    return best


def compare_clauses(a: str, b: str) -> tuple[int, int]:
    """Return content words with which two clauses open before each goes its own way, and those after different
    openings.

    The most of any two clauses: "The worktop will be oak" and "… will be quartz" have 1 and 0, "Halvard conducts us"
    and "Beatrix conducts us" 0 and 1. ENOUGH at most.
    """
    opens = closes = 0
    for left in _split_clauses(a):
        for right in _split_clauses(b):
            shared = _count_common_prefix(left, right)
            if not shared:
                closes = max(closes, _count_shared_continuation(left, right))
            elif all(shared < len(side) and _is_content_token(side[shared]) for side in (left, right)):
                opens = max(opens, sum(map(_is_content_token, left[:shared])))
    return min(opens, ENOUGH), min(closes, ENOUGH)


def _align_words(a: Words, b: Words) -> tuple[list[str], list[tuple[str, Words, Words]]]:
    """Return the words that both have in order, and the places: the word that both have before, and the two runs."""
    kept: list[str] = []
    places = []
    before = ""
    for op in Levenshtein.opcodes(a, b):
        left, right = a[op.src_start : op.src_end], b[op.dest_start : op.dest_end]
        if op.tag == "equal":
            kept += left
        elif op.tag == "replace":
            places.append((before, left, right))
        before = left[-1] if op.tag == "equal" else ""
    return kept, places


def _count_common_prefix(left: Words, right: Words) -> int:
    """Return words that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _count_shared_continuation(left: Words, right: Words) -> int:
    """Return content words that two clauses share right after their first words, of which each has its own."""
    best = 0
    for i in range(1, min(FIRST, len(left) - 1) + 1):
        for j in range(1, min(FIRST, len(right) - 1) + 1):
            if left[i] == right[j] and _is_content_token(left[i - 1]) and _is_content_token(right[j - 1]):
                run = _count_common_prefix(left[i:], right[j:])
                best = max(best, sum(map(_is_content_token, left[i : i + run])))
    return best


@lru_cache(maxsize=16_384)
def _split_clauses(text: str) -> list[tuple[str, ...]]:
    spaced = " ".join(text.split()[:LONG])
    parts = (WORD.findall(CONTRACTED.sub(r" \g<0>", part).casefold()) for part in CLAUSE.split(spaced)[:CLAUSES])
    return [tuple(_drop_articles(words)) for words in parts if len(words) > 1]


def _drop_articles(words: Words) -> list[str]:
    return [word for word in words if word not in ARTICLES]


def _is_content_token(word: str) -> bool:
    """Return whether a word carries meaning; the "'ll" of "I'll" does not."""
    return word[0] not in "'’" and is_content_word(word)


def _find_governing_words(words: Words, values: set[str]) -> set[str]:
    """Return words right before a run of values, articles left out: "from" of "comes from Nordlicht"."""
    words = _drop_articles(words)
    is_value = [is_content_word(word) and stem(word) in values for word in words]
    return {words[at - 1] for at in range(1, len(words)) if is_value[at] and not is_value[at - 1]}


def _is_value(words: Words) -> bool:
    return 0 < len(stem_content_words(words)) <= LONGEST
