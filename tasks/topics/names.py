"""Names and purposes of topics from what their claims are about now.

A keyword names a topic where several of its claims say it and few others do (after the class-based TF-IDF of
Grootendorst, "BERTopic", 2022). Two words together say more than one. A topic whose claims share none has no name.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

from slowwave.text.dates import MONTHS, WEEKDAYS
from slowwave.text.words import ENGLISH_STOP, TERM, stem

HASH = re.compile(r"(?=\w*\d)(?=\w*[^\W\d_])(?:\w{12,}|\b[\da-f]{7,}\b)")
WORD = re.compile(r"[^\W\d_][\w'’.-]*[^\W_]")


Stems = tuple[str, ...]


@dataclass(frozen=True)
class TopicClaim:
    """What of a claim its topic is named by."""

    summary: str
    category: str
    workspace: str | None
    keywords: Sequence[str] = ()
    """Its words count where it has none."""


LEAST, SHARE = 3, 0.1
"""Claims, and part of the topic's claims, that say a term for it to be the topic's."""
OWN = 0.5
"""Of all claims that say the term, those of the topic at least: "runs" is said everywhere."""
BESIDE = 1 / 3
"""Of the first term's weight, that of another one at least."""
PHRASE = 2.0
"""What a keyword of several words counts for beside one of a single word."""


def name_topics(topics: Mapping[str, Sequence[TopicClaim]], terms: int = 3) -> dict[str, tuple[str, str]]:
    """Return topic -> its name, the foremost terms that its claims share, or "" where they share none; and its purpose:
    what KIND of thing belongs there.
    """
    stems = {topic: [_list_stems(claim.summary) for claim in claims] for topic, claims in topics.items()}
    keywords = {topic: _count_keywords(claims, stems[topic]) for topic, claims in topics.items()}
    overall = _count_terms(
        chain.from_iterable(stems.values()), {own for counts in keywords.values() for own, _ in counts.values()}
    )
    names: dict[str, tuple[str, str]] = {}
    for topic, claims in topics.items():
        weights: dict[str, float] = {}
        for term, (own, count) in keywords[topic].items():
            if count >= OWN * overall[own]:
                weights[term] = count * count / overall[own] * (PHRASE if len(own) > 1 else 1.0)
        foremost = sorted(weights, key=lambda t: (-round(weights[t], 9), t))
        name = ", ".join(_select_distinct([t for t in foremost if weights[t] >= BESIDE * weights[foremost[0]]], terms))
        where = f" in {workspace}" if (workspace := _find_common_workspace(claims)) else ""
        names[topic] = (name, f"{_describe_categories(claims)}{where}{f' about {name}' if name else ''}")
    return names


def _count_keywords(claims: Sequence[TopicClaim], stems_of: Sequence[Stems]) -> dict[str, tuple[Stems, int]]:
    """Return each keyword of the claims, or each of their words where they have none, that enough of them say, with its
    stems and how many do.
    """
    if len(claims) < LEAST:
        return {}
    min_count = max(LEAST, SHARE * len(claims))
    common = {stem for stem, count in Counter(chain.from_iterable(map(set, stems_of))).items() if count >= min_count}
    if not common:
        return {}
    terms = {word.casefold() for claim in claims for word in claim.keywords}
    terms = terms or {word for claim in claims for word in _extract_words(claim)}
    stems = {term: own for term in terms if (own := _list_stems(term)) and common.issuperset(own)}
    counts = _count_terms(stems_of, set(stems.values()))
    return {t: (own, counts[own]) for t, own in stems.items() if counts[own] >= min_count and _names_something(t)}


def _count_terms(phrases: Iterable[Stems], terms: Set[Stems]) -> Counter[Stems]:
    """Return how many of the claims, by their stems, say each of the terms."""
    beginning = defaultdict[str, list[Stems]](list)
    for own in terms:
        beginning[own[0]].append(own)
    counts: Counter[Stems] = Counter()
    for stems in phrases:
        begun = ((at, own) for at, first in enumerate(stems) if first in beginning for own in beginning[first])
        counts.update({own for at, own in begun if stems[at : at + len(own)] == own})
    return counts


def _names_something(term: str) -> bool:
    """Return whether a term is more than days, months and figures, and no path or hash."""
    timeless = [w for w in TERM.findall(term) if not (w[0].isdigit() or w in MONTHS or w in WEEKDAYS)]
    return bool(timeless) and "/" not in term and not HASH.search(term)


def _list_stems(text: str) -> Stems:
    return tuple(stem(word) for word in TERM.findall(text.casefold()))


def _select_distinct(best: Sequence[str], terms: int) -> list[str]:
    """Return the first terms that share no word with one before."""
    chosen: list[str] = []
    used: set[str] = set()
    for term in best:
        words = set(_list_stems(term))
        if len(chosen) < terms and used.isdisjoint(words):
            chosen.append(term)
            used |= words
    return chosen


def _extract_words(claim: TopicClaim) -> set[str]:
    """Return each word of the claim once, those that say nothing apart."""
    return {w for w in WORD.findall(claim.summary.casefold()) if len(w) > 2 and w not in ENGLISH_STOP}


def _describe_categories(claims: Sequence[TopicClaim]) -> str:
    """Return the commonest categories in the plural, at most two."""
    counts = Counter(claim.category for claim in claims if claim.category)
    common = sorted(counts, key=lambda c: (-counts[c], c))[:2]
    return " and ".join(c if c == "context" else f"{c}s" for c in common).capitalize() or "What was said"


def _find_common_workspace(claims: Sequence[TopicClaim]) -> str:
    """Return the workspace that most of the claims are from, by its last part."""
    counts = Counter(claim.workspace for claim in claims)
    workspace, times = min(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    return PurePosixPath(workspace).name if workspace and 2 * times > len(claims) else ""
