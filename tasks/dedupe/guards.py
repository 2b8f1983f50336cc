"""Guards against merging claims that look alike but differ: each returns the reason of its objection, or None.

A fuzzy score does not see a negation, a port or a name; on SICK plain token_set at 90 merges 72% of the contradictions.
A guard in `STRICT` applies to short claims only, in which each word is a large part of the content; in a long claim a
rewording may change any of them.
"""

import tomllib
from collections import defaultdict
from collections.abc import Callable, Set
from dataclasses import dataclass
from importlib.resources import files
from itertools import permutations

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from slowwave.tasks.dedupe.normalise import ClaimText, Date
from slowwave.text.times.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.words import HEDGES, is_content_word, split_groups, stem

_LISTS: dict[str, str] = tomllib.loads(
    files("slowwave.tasks.dedupe").joinpath("words.toml").read_text("utf-8")
)


def _load_words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


RESTRICTIONS = _load_words("restrictions")
FUTURE = _load_words("future")
CHANGES = _load_words("changes")
RELATIONS = _load_words("relations")
_COLOURS, *_OTHERS = split_groups(_LISTS["alternatives"])
ALTERNATIVES = (_COLOURS, frozenset(WEEKDAYS), frozenset(MONTH_NAMES), *_OTHERS)
"""The order must not change: reasons in ledgers refer to a set by its number."""

OPPOSITE_OF: defaultdict[str, set[str]] = defaultdict(set)
for _pair in _LISTS["opposites"].replace("|", "\n").splitlines():
    for _left, _right in permutations(_pair.split()):
        OPPOSITE_OF[_left].add(_right)
SETS_OF: defaultdict[str, set[int]] = defaultdict(set)
for _number, _members in enumerate(ALTERNATIVES):
    for _word in _members:
        SETS_OF[_word].add(_number)


SHORT = 8
"""Most content words of a short claim."""
CHANGE_STEMS = frozenset(map(stem, CHANGES))
PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "mis", "anti")
PASSIVE = {"is", "are", "was", "were", "be", "been", "being", "get", "gets", "got"}

Slot = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Pair:
    """Two aligned claims; a slot is a run of words of a, and the run of b that replaces it."""

    a: ClaimText
    b: ClaimText
    slots: tuple[Slot, ...]
    only_a: frozenset[str]
    only_b: frozenset[str]

    @property
    def is_short(self) -> bool:
        """True if the shorter of the two is a short claim."""
        return min(len(self.a.content), len(self.b.content)) <= SHORT


Guard = Callable[[Pair], str | None]


def align_pair(a: ClaimText, b: ClaimText) -> Pair:
    """Return the two claims aligned word by word."""
    slots = tuple(
        (a.words[op.src_start : op.src_end], b.words[op.dest_start : op.dest_end])
        for op in Levenshtein.opcodes(a.words, b.words)
        if op.tag == "replace"
    )
    return Pair(
        a=a,
        b=b,
        slots=slots,
        only_a=frozenset(a.words) - set(b.words),
        only_b=frozenset(b.words) - set(a.words),
    )


def speaker(pair: Pair) -> str | None:
    """Object if two people speak of themselves: "I like tea" by two people is two claims."""
    a = pair.a
    b = pair.b
    if a.first_person and b.first_person and a.speaker != b.speaker:
        return f"said of themselves by {a.speaker} and {b.speaker}"
    return None


def language(pair: Pair) -> str | None:
    """Object if one of the two is not in English, unless both have the same words: the guards know English only."""
    known = pair.a.english and pair.b.english
    return (
        None
        if known or pair.a.words == pair.b.words
        else "the guards know English alone"
    )


def question(pair: Pair) -> str | None:
    """Object if one is a question and the other is not."""
    return "one is a question" if pair.a.question != pair.b.question else None


def negation(pair: Pair) -> str | None:
    """Object if the two have a different number of negations, or negate different words."""
    a = pair.a
    b = pair.b
    if len(a.negated) != len(b.negated):
        return f"negated {len(a.negated)} and {len(b.negated)} times"
    if a.negated != b.negated and set(a.negated) ^ set(b.negated) <= set(
        a.content
    ) & set(b.content):
        return f"negates {' '.join(a.negated)}, the other {' '.join(b.negated)}"
    return None


def figures(pair: Pair) -> str | None:
    """Object to different numbers, units, amounts, times or versions; a long claim may have an additional one."""
    return _explain_difference(
        "numbers", pair.a.figures, pair.b.figures, one_sided=pair.is_short
    )


def dates(pair: Pair) -> str | None:
    """Object to different dates or days of the week; a missing year is not a difference.

    A long claim may have an additional one.
    """
    a = pair.a
    b = pair.b
    undated_a = _find_unmatched_dates(a.dates, b.dates)
    undated_b = _find_unmatched_dates(b.dates, a.dates)
    if (undated_a and undated_b) or (pair.is_short and (undated_a or undated_b)):
        return "dates differ"
    return _explain_difference(
        "days",
        WEEKDAYS.keys() & set(a.words),
        WEEKDAYS.keys() & set(b.words),
        one_sided=pair.is_short,
    )


def identifiers(pair: Pair) -> str | None:
    """Object to different paths, flags, code names, issues or addresses; a path may be given in part."""
    only_a = {x for x in pair.a.identifiers if not _has_identifier(x, pair.b)}
    only_b = {x for x in pair.b.identifiers if not _has_identifier(x, pair.a)}
    return _explain_difference("identifiers", only_a, only_b, one_sided=pair.is_short)


def names(pair: Pair) -> str | None:
    """Object to a name in place of another; a long claim may spell or shorten it differently."""
    for left, right in pair.slots:
        only_a = pair.a.names & pair.only_a & set(left)
        only_b = pair.b.names & pair.only_b & set(right)
        if only_a and only_b and len(left) == len(right):
            if not pair.is_short and any(
                _is_same_name(x, y) for x in only_a for y in only_b
            ):
                continue
            return f"{' '.join(sorted(only_a))} and {' '.join(sorted(only_b))}"
    return None


def opposites(pair: Pair) -> str | None:
    """Object to a word in place of its opposite or alternative; in a short claim, anywhere."""
    slots = [(pair.only_a, pair.only_b)] if pair.is_short else pair.slots
    for lefts, rights in slots:
        for left in lefts:
            for right in rights:
                if left != right and _is_opposite(left, right):
                    return f"{left} and {right}"
    return None


def change(pair: Pair) -> str | None:
    """Object to a change: "Raised the timeout from 3 to 5 s" contains "the timeout is 3 s" but does not repeat it."""
    for claim, other in ((pair.a, pair.b), (pair.b, pair.a)):
        new = (
            claim.figures - other.figures
            or claim.dates - other.dates
            or claim.identifiers - other.identifiers
        )
        if new and CHANGE_STEMS & set(map(stem, claim.words)) - set(
            map(stem, other.words)
        ):
            return "one tells of a change"
    return None


def restriction(pair: Pair) -> str | None:
    """Object if only one side has "only", "unless", "if" or "always", which narrow a claim."""
    return _explain_difference(
        "restrictions",
        RESTRICTIONS & set(pair.a.words),
        RESTRICTIONS & set(pair.b.words),
    )


def modality(pair: Pair) -> str | None:
    """Object to a possibility beside a fact, and to a plan beside an event."""
    if bool(HEDGES.search(pair.a.folded)) != bool(HEDGES.search(pair.b.folded)):
        return "one is a possibility"
    return (
        "one is a plan"
        if FUTURE.isdisjoint(pair.a.words) != FUTURE.isdisjoint(pair.b.words)
        else None
    )


def substitution(pair: Pair) -> str | None:
    """Object to a content word in place of a different one, since they may not mean the same."""
    new_a = {stem(w) for w in pair.only_a if is_content_word(w)} - set(pair.b.content)
    new_b = {stem(w) for w in pair.only_b if is_content_word(w)} - set(pair.a.content)
    if new_a and new_b:
        return f"{' '.join(sorted(new_a))} in place of {' '.join(sorted(new_b))}"
    return None


def order(pair: Pair) -> str | None:
    """Object if two parts change places around a common one, or around "from", "over", "before"."""
    a = pair.a
    b = pair.b
    after_a = _collect_relations(a)
    after_b = _collect_relations(b)
    for relation in after_a.keys() & after_b.keys():
        left = after_a[relation] - after_b[relation]
        right = after_b[relation] - after_a[relation]
        if left and right and left <= set(b.content) and right <= set(a.content):
            return f"{relation} {min(left)}, the other {relation} {min(right)}"
    if PASSIVE.isdisjoint(a.words) != PASSIVE.isdisjoint(b.words):
        return None
    return "two parts change places" if _is_swapped(a.content, b.content) else None


GUARDS: tuple[Guard, ...] = (
    speaker,
    language,
    question,
    negation,
    figures,
    dates,
    identifiers,
    names,
    opposites,
    change,
)
STRICT: tuple[Guard, ...] = (restriction, modality, order, substitution)


def find_objection(a: ClaimText, b: ClaimText) -> tuple[str, str] | None:
    """Return the name of the first guard that objects and its reason, or None."""
    pair = align_pair(a, b)
    for guard in (*GUARDS, *(STRICT if pair.is_short else ())):
        reason = guard(pair)
        if reason is not None:
            return guard.__name__, reason
    return None


def _explain_difference(
    what: str,
    a: Set[str],
    b: Set[str],
    *,
    one_sided: bool = True,
) -> str | None:
    """Return the reason if the sets differ; if only one has more, only with `one_sided`."""
    if a == b or not (one_sided or (a - b and b - a)):
        return None
    return f"{what} differ: {' '.join(sorted(a - b)) or '-'} and {' '.join(sorted(b - a)) or '-'}"


def _find_unmatched_dates(a: Set[Date], b: Set[Date]) -> set[Date]:
    """Return the dates of a that agree with no date of b."""
    return {
        x
        for x in a
        if not any(x[1:] == y[1:] and (None in (x[0], y[0]) or x[0] == y[0]) for y in b)
    }


def _has_identifier(identifier: str, claim: ClaimText) -> bool:
    if identifier in claim.identifiers or identifier in claim.words:
        return True
    return any(
        x.endswith("/" + identifier) or identifier.endswith("/" + x)
        for x in claim.identifiers
    )


def _is_same_name(x: str, y: str) -> bool:
    """Return True for two spellings of a name, or a name and its beginning: Gonzales and Gonzalez, Sen and Senator."""
    return fuzz.ratio(x, y) >= 80 or (
        min(len(x), len(y)) >= 3 and (x.startswith(y) or y.startswith(x))
    )


def _is_opposite(left: str, right: str) -> bool:
    if right in OPPOSITE_OF.get(left, ()):
        return True
    if SETS_OF.get(left, set()) & SETS_OF.get(right, set()):
        return stem(left) != stem(right)
    short, long = sorted((left, right), key=len)
    return len(short) > 3 and any(long == prefix + short for prefix in PREFIXES)


def _collect_relations(claim: ClaimText) -> dict[str, set[str]]:
    """Return relation -> stems of the content words that follow it."""
    words: dict[str, set[str]] = {}
    for at, word in enumerate(claim.words):
        if word in RELATIONS:
            words.setdefault(word, set()).add(
                next((stem(w) for w in claim.words[at + 1 :] if is_content_word(w)), "")
            )
    return words


def _is_swapped(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return True if b is a with two parts exchanged around a common one: X m Y -> Y m X."""
    if a == b or sorted(a) != sorted(b):
        return False
    start = next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
    end = len(a) - next(
        at for at, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=True)) if x != y
    )
    a = a[start:end]
    b = b[start:end]
    cuts = [(i, j) for i in range(1, len(a) - 1) for j in range(i + 1, len(a))]
    return any(b == a[j:] + a[i:j] + a[:i] for i, j in cuts)
