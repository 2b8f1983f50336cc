"""Names and purposes of topics from what their claims are about now.

Method: class-based TF-IDF (Grootendorst, "BERTopic", 2022): a word counts by how many of a topic's claims have it, and
by how few of the others do.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from slowwave.text.words import ENGLISH_STOP, compute_smooth_idf

WORD = re.compile(r"[^\W\d_][\w'’.-]*[^\W_]")


@dataclass(frozen=True)
class TopicClaim:
    """What of a claim its topic is named by."""

    summary: str
    category: str
    workspace: str | None


def name_topics(topics: Mapping[str, Sequence[TopicClaim]], terms: int = 3) -> dict[str, tuple[str, str]]:
    """Return topic -> its name, which is its foremost terms, and its purpose: what KIND of thing belongs there."""
    counted = {
        topic: Counter(term for claim in claims for term in _extract_terms(claim)) for topic, claims in topics.items()
    }
    overall: Counter[str] = Counter()
    for counts in counted.values():
        overall.update(counts)
    average = overall.total() / max(1, len(counted))
    found: dict[str, tuple[str, str]] = {}
    for topic, claims in topics.items():
        weights = {t: n * compute_smooth_idf(overall[t], average) for t, n in counted[topic].items()}
        best = sorted(weights, key=lambda t: (-round(weights[t], 9), t))[:terms]
        place = _find_common_workspace(claims)
        name = ", ".join(best) or f"{place} {claims[0].category}".strip()
        where = f" in {place}" if place else ""
        found[topic] = (name, f"{_describe_categories(claims)}{where} about {name}")
    return found


def _extract_terms(claim: TopicClaim) -> set[str]:
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
