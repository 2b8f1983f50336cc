"""Names and purposes of topics from what their claims are about now.

Method: class-based TF-IDF (Grootendorst, "BERTopic", 2022) over the keywords of the claims: one counts by how many of a
topic's claims say it, and by how few of the others do. Two words together say more than one.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from slowwave.text.dates import MONTHS, WEEKDAYS
from slowwave.text.words import ENGLISH_STOP, TERM, compute_smooth_idf, stem

HASH = re.compile(r"(?=\w*\d)(?=\w*[^\W\d_])\w{12,}")
WORD = re.compile(r"[^\W\d_][\w'’.-]*[^\W_]")


@dataclass(frozen=True)
class TopicClaim:
    """What of a claim its topic is named by."""

    summary: str
    category: str
    workspace: str | None
    keywords: Sequence[str] = ()
    """Its words count where it has none."""


SHARED = 2
"""Claims that say a term for it to be the topic's: what one alone says names it only where nothing else does."""
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
    taken: set[str] = set()
    for topic, claims in topics.items():
        weights = {
            t: n * compute_smooth_idf(overall[t], average) * (PHRASE if " " in t else 1.0)
            for t, n in counted[topic].items()
        }
        foremost = sorted(weights, key=lambda t: (-round(weights[t], 9), t))
        shared_first = sorted(foremost, key=lambda t: counted[topic][t] < SHARED)
        place = _find_common_workspace(claims)
        plain = f"{place} {claims[0].category}".strip()
        names = [", ".join(_select_distinct(some, terms)) or plain for some in (shared_first, foremost)]
        name = next((one for one in names if one not in taken), names[-1])
        taken.add(name)
        where = f" in {place}" if place else ""
        found[topic] = (name, f"{_describe_categories(claims)}{where} about {name}")
    return found


def _count_terms(claims: Sequence[TopicClaim]) -> Counter[str]:
    """Return each keyword of the claims, or each of their words where they have none, with how many claims say it."""
    own = ({word.casefold() for word in claim.keywords} or _extract_words(claim) for claim in claims)
    terms = {t: tuple(_list_stems(t)) for t in sorted({t for some in own for t in some}) if _names_something(t)}
    wanted = set(terms.values())
    longest = max(map(len, wanted), default=0)
    said: Counter[tuple[str, ...]] = Counter()
    for claim in claims:
        stems = _list_stems(claim.summary)
        runs = {tuple(stems[at : at + size]) for size in range(1, longest + 1) for at in range(len(stems))}
        said.update(runs & wanted)
    return Counter({term: max(1, said[stems]) for term, stems in terms.items() if stems})


def _names_something(term: str) -> bool:
    """Return whether a term is more than days, months and figures, and no path or hash."""
    timeless = [w for w in TERM.findall(term) if not (w[0].isdigit() or w in MONTHS or w in WEEKDAYS)]
    return bool(timeless) and "/" not in term and not HASH.search(term)


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
    counts = Counter(claim.category for claim in claims if claim.category)
    common = sorted(counts, key=lambda c: (-counts[c], c))[:2]
    return " and ".join(c if c == "context" else f"{c}s" for c in common).capitalize() or "What was said"


def _find_common_workspace(claims: Sequence[TopicClaim]) -> str:
    """Return the workspace that most of the claims are from, by its last part."""
    counts = Counter(claim.workspace for claim in claims)
    workspace, times = min(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    return PurePosixPath(workspace).name if workspace and 2 * times > len(claims) else ""
