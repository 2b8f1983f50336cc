"""The base topics by rule (the agent, the user, the machine it all runs on), and clusters of the other claims."""

import re
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TopicLimits:
    """TopicLimits at which topics begin, merge and split, and a topic's speed (`docs/decisions/010-topics.md`).

    `bench/nights/topics.py` measures them.
    """

    alpha: float = 1.0
    """What a claim counts for in its topic's centre and text beside the next newer one."""
    threshold: float = 0.4
    """Cosine from which new claims are gathered before sorting."""
    merge_at: float = 0.18
    """Mean cosine between two groups' claims that makes them one."""
    fold_at: float = 0.14
    """The same if one of the two is small."""
    small: int = 3
    """Claims under which a group is small, and no topic yet."""
    max_share: float = 0.25
    """Share of all claims over which a topic is cut in two."""
    min_to_split: int = 40
    """Claims there must be before any topic is cut: of few, a share means nothing."""

    def compute_largest(self, claims: int) -> float:
        """Return the most claims of one topic, by the number of all; unlimited while there are few."""
        return self.max_share * claims if claims >= self.min_to_split else float("inf")


LIMITS = TopicLimits()
"""Those of the night. A change needs a new `VERSION` of `assign.py`, so that claims are assigned anew."""
BASE_PURPOSES = {
    "self": "What the agent is told about itself: its name, its manner, its standing instructions",
    "user": "Who the user is: name, home, work, language, and how they like to be dealt with",
    "system": "The machine and its tools: operating system, hardware, versions, accounts, services",
}
RULES = {
    "user": re.compile(
        r"\b(my name is|call me|i live in|i work (at|as|for)|i speak|i(?: a|['’])m (?:a|an) \w+(?:er|or|ist|ian|ent)\b"
        r"|i(?: a|['’])m an? (?:morning|night) person"
        r"|my (?:home|job is|birthday|email|time ?zone|pronouns|native language)"
        r"|i(?:['’]d)? prefer (?:short|brief|concise|long))",
        re.IGNORECASE,
    ),
    "self": re.compile(
        r"\b(your name is|you (?:should|must|are to) (?:always|never|act as)|i(?: a|['’])m (?:an ai|your assistant)"
        r"|always answer (?:me )?in|never answer|in your (?:answers|replies))\b",
        re.IGNORECASE,
    ),
    "system": re.compile(
        r"\b((?:this|the|my) (?:machine|laptop|desktop|server|box|workstation) (?:has|runs|is)"
        r"|(?:ubuntu|debian|fedora|macos|windows|arch linux) \d*|gb of (?:ram|memory)"
        r"|(?:is|was) installed (?:with|via|from|under))",
        re.IGNORECASE,
    ),
}


def match_base_topic(summary: str, by_agent: bool = False) -> str | None:
    """Return the base topic a claim belongs to by what it says, or None; an agent that speaks of itself is no user."""
    if by_agent and RULES["user"].search(summary):
        return "self"
    return next((name for name, rule in RULES.items() if rule.search(summary)), None)


@dataclass
class Bundle:
    """A group: the sum of its unit vectors and how many they are."""

    id: str
    total: npt.NDArray[np.float64]
    size: int
    known: bool
    """Whether it stood before."""

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """Mean vector; its squared length is the mean cosine within the group."""
        mean: npt.NDArray[np.float64] = self.total / self.size
        return mean


def cluster_by_leader(vectors: npt.NDArray[np.float32], threshold: float) -> list[list[int]]:
    """Return rows gathered in order: each joins the group whose centre is nearest, if it is near enough, or opens one.

    vectors: unit length, shape (rows, dim). threshold: cosine to the centre.
    """
    sums = np.zeros((max(len(vectors), 1), vectors.shape[1] if vectors.ndim == 2 else 0), dtype=np.float64)
    lengths = np.ones(len(sums))
    groups: list[list[int]] = []
    for row, vector in enumerate(vectors.astype(np.float64)):
        likeness = sums[: len(groups)] @ vector / lengths[: len(groups)]
        at = int(np.argmax(likeness)) if groups else -1
        if at < 0 or likeness[at] < threshold:
            groups.append([])
            at = len(groups) - 1
        groups[at].append(row)
        sums[at] += vector
        lengths[at] = float(np.linalg.norm(sums[at])) or 1.0
    return groups


def merge_bundles(bundles: list[Bundle], limits: TopicLimits, largest: float) -> list[list[int]]:
    """Return which bundles become one, likest first, as lists of places; equal ones in order of place.

    Two groups together may have `largest` members.
    """
    if not bundles:
        return []
    # every group that ever stands, a merged one behind those that it is made of
    count = len(bundles)
    groups = {at: [at] for at in range(count)}
    means = np.concatenate([[bundle.mean for bundle in bundles], np.zeros((count, len(bundles[0].total)))])
    sizes = np.array([*(bundle.size for bundle in bundles), *[0] * count])
    stands = np.arange(2 * count) < count
    heap: list[tuple[float, tuple[int, int], int, int]] = []

    def push_best(group: int) -> None:
        """Add the likest of the groups before one that it may become one with, of equals the first by place."""
        # rounded, so that the order of the additions in a matrix product can't decide between equals
        likeness = np.round(means[:group] @ means[group], 6)
        min_cosine = np.where(np.minimum(sizes[:group], sizes[group]) < limits.small, limits.fold_at, limits.merge_at)
        fits = stands[:group] & (likeness >= min_cosine) & (sizes[:group] + sizes[group] <= largest)
        if fits.any():
            best = float(likeness[fits].max())
            near = np.flatnonzero(fits & (likeness == best)).tolist()
            pairs = {other: (groups[group][0], groups[other][0]) for other in near}
            heappush(heap, min((-best, (min(pair), max(pair)), group, other) for other, pair in pairs.items()))

    for at in range(count):
        push_best(at)
    while heap:
        *_, last, other = heappop(heap)
        if last not in groups:  # it is part of another by now
            continue
        if other not in groups:
            push_best(last)
            continue
        sizes[count] = sizes[last] + sizes[other]
        means[count] = (means[last] * sizes[last] + means[other] * sizes[other]) / sizes[count]
        groups[count] = sorted(groups.pop(last) + groups.pop(other))
        stands[[last, other, count]] = False, False, True
        push_best(count)
        count += 1
    return sorted(groups.values())


def bisect_vectors(vectors: npt.NDArray[np.float32], rounds: int = 20) -> npt.NDArray[np.bool_] | None:
    """Return which rows stand on the second side when a group is cut in two; None where it can't be.

    Spherical 2-means from the row farthest from the centre and the one farthest from that: no chance in it.
    """
    rows = vectors.astype(np.float64)
    first = rows[int(np.argmin(np.round(rows @ rows.mean(axis=0), 6)))]
    second = rows[int(np.argmin(np.round(rows @ first, 6)))]
    side: npt.NDArray[np.bool_] = np.zeros(len(rows), dtype=bool)
    for _ in range(rounds):
        now = np.round(rows @ second, 6) > np.round(rows @ first, 6)
        if not now.any() or now.all():
            return None
        if (now == side).all():
            break
        side = now
        first, second = _normalise_vector(rows[~side].sum(axis=0)), _normalise_vector(rows[side].sum(axis=0))
    return side


def _normalise_vector(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = vector / (float(np.linalg.norm(vector)) or 1.0)
    return unit
