"""Names and purposes of topics from what their claims are about now.

Method: class-based TF-IDF (Grootendorst, "BERTopic", 2022) over the keywords of the claims: one counts by how many of a
topic's claims say it, and by how few of the others do. Two words together say more than one.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from slowwave.text.words import ENGLISH_STOP, TERM, compute_smooth_idf, stem

WORD = re.compile(r"[^\W\d_][\w'’.-]*[^\W_]")


@dataclass(frozen=True)
class TopicClaim:
    """What of a claim its topic is named by."""

    summary: str
    category: str
    workspace: str | None
    keywords: Sequence[str] = ()
    """Its words count where it has none."""


PHRASE = 2.0
"""What a keyword of several words counts for beside one of a single word."""


def name_topics(topics: Mapping[str, Sequence[TopicClaim]], terms: int = 3) -> dict[str, tuple[str, str]]:
    """Return topic -> its name, which is its foremost terms, and its purpose: what KIND of thing belongs there."""
    counted = {topic: _count_terms(claims) for topic, claims in topics.items()}
    overall: Counter[str] = Counter()
    for counts in counted.values():
        overall.update(counts)
    average = overall.total() / max(1, len(counted))
    found: dict[str, tuple[str, str]] = {}
    for topic, claims in topics.items():
        weights = {
            t: n * compute_smooth_idf(overall[t], average) * (PHRASE if " " in t else 1.0)
            for t, n in counted[topic].items()
        }
        best = _select_distinct(sorted(weights, key=lambda t: (-round(weights[t], 9), t)), terms)
        place = _find_common_workspace(claims)
        name = ", ".join(best) or f"{place} {claims[0].category}".strip()
        where = f" in {place}" if place else ""
        found[topic] = (name, f"{_describe_categories(claims)}{where} about {name}")
    return found


def _count_terms(claims: Sequence[TopicClaim]) -> Counter[str]:
    """Return each keyword of the claims, or each of their words where they have none, with how many claims say it."""
    own = ({word.casefold() for word in claim.keywords} or _extract_words(claim) for claim in claims)
    terms = {term: tuple(_list_stems(term)) for term in sorted({term for some in own for term in some})}
    wanted = set(terms.values())
    longest = max(map(len, wanted), default=0)
    said: Counter[tuple[str, ...]] = Counter()
    for claim in claims:
        stems = _list_stems(claim.summary)
        runs = {tuple(stems[at : at + size]) for size in range(1, longest + 1) for at in range(len(stems))}
        said.update(runs & wanted)
    return Counter({term: max(1, said[stems]) for term, stems in terms.items() if stems})


def _list_stems(text: str) -> list[str]:
    return [stem(word) for word in TERM.findall(text.casefold())]


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
    counts = Counter(claim.category for claim in claims)
    common = sorted(counts, key=lambda c: (-counts[c], c))[:2]
    return " and ".join(c if c == "context" else f"{c}s" for c in common).capitalize()


def _find_common_workspace(claims: Sequence[TopicClaim]) -> str:
    """Return the workspace that most of the claims are from, by its last part."""
    counts = Counter(claim.workspace for claim in claims)
    workspace, times = min(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    return PurePosixPath(workspace).name if workspace and 2 * times > len(claims) else ""
