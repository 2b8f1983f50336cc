"""Match claims to the base topics (agent, user, machine) by rule, and cluster the other claims."""

import re
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TopicLimits:
    """Limits at which topics begin, merge and split, and how fast they move (`docs/decisions/010-topics.md`).

    `bench/nights/topics.py` measures them.
    """

    alpha: float = 1.0
    """Weight of a claim in its topic's centre and text, relative to the next newer claim."""
    threshold: float = 0.4
    """Least cosine to gather new claims into a bundle."""
    merge_at: float = 0.18
    """Least mean cosine between the claims of two groups to merge these."""
    fold_at: float = 0.14
    """The same if one of the two groups is small."""
    small: int = 3
    """A group with fewer claims is small, and is not a topic yet."""
    max_share: float = 0.25
    """A topic with more than this share of all claims is split in two."""
    min_to_split: int = 40
    """Least number of claims before any topic is split; of few claims a share means nothing."""

    def compute_largest(self, claims: int) -> float:
        """Return the most claims that a topic may have, given the number of all; infinite if these are few."""
        return self.max_share * claims if claims >= self.min_to_split else float("inf")


LIMITS = TopicLimits()
"""The limits of a night. A change needs a new `VERSION` of `assign.py`, so that claims are assigned again."""
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
    """Return the base topic whose rule matches a claim, or None. An agent that speaks of itself is not the user."""
    if by_agent and RULES["user"].search(summary):
        return "self"
    return next((name for name, rule in RULES.items() if rule.search(summary)), None)


@dataclass
class Bundle:
    """A group of claims: the sum of their unit vectors, and their number."""

    id: str
    total: npt.NDArray[np.float64]
    size: int
    known: bool
    """True if it is a topic already."""

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """The mean vector; its squared length is the mean cosine within the group."""
        mean: npt.NDArray[np.float64] = self.total / self.size
        return mean


def cluster_by_leader(
    vectors: npt.NDArray[np.float32], threshold: float
) -> list[list[int]]:
    """Return groups of rows: each row, in order, joins the nearest group if it is near enough, or begins one.

    Args:
        vectors: unit vectors, shape (rows, dim).
        threshold: least cosine to the group's centre.
    """
    sums = np.zeros(
        (max(len(vectors), 1), vectors.shape[1] if vectors.ndim == 2 else 0),
        dtype=np.float64,
    )
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


def merge_bundles(
    bundles: list[Bundle], limits: TopicLimits, largest: float
) -> list[list[int]]:
    """Return the groups of bundles to merge, as lists of places: average link, the most similar groups first.

    A merged group has at most `largest` members. Among equally similar groups the first by place are merged.
    """
    return _Merger(bundles, limits, largest).merge() if bundles else []


class _Merger:
    """All groups of a clustering: the bundles, and behind them each merged group.

    The heap holds for each group its most similar earlier group.
    """

    def __init__(
        self,
        bundles: list[Bundle],
        limits: TopicLimits,
        largest: float,
    ) -> None:
        count = len(bundles)
        self.limits = limits
        self.largest = largest
        self.count = count
        self.groups = {at: [at] for at in range(count)}
        self.means = np.concatenate(
            [
                [bundle.mean for bundle in bundles],
                np.zeros((count, len(bundles[0].total))),
            ]
        )
        self.sizes = np.array([*(bundle.size for bundle in bundles), *[0] * count])
        self.is_open = np.arange(2 * count) < count
        """Groups that are not part of a merged one."""
        self.heap: list[tuple[float, tuple[int, int], int, int]] = []

    def merge(self) -> list[list[int]]:
        """Merge groups until no two are similar enough."""
        for group in range(self.count):
            self._push_best(group)
        while self.heap:
            *_, last, other = heappop(self.heap)
            if last not in self.groups:  # part of a merged group
                continue
            if other in self.groups:
                self._merge_pair(last, other)
            else:
                self._push_best(last)
        return sorted(self.groups.values())

    def _merge_pair(self, last: int, other: int) -> None:
        new = self.count
        means = self.means
        sizes = self.sizes
        sizes[new] = sizes[last] + sizes[other]
        means[new] = (means[last] * sizes[last] + means[other] * sizes[other]) / sizes[
            new
        ]
        self.groups[new] = sorted(self.groups.pop(last) + self.groups.pop(other))
        self.is_open[[last, other, new]] = False, False, True
        self._push_best(new)
        self.count += 1

    def _push_best(self, group: int) -> None:
        """Add the most similar of the earlier groups that `group` may merge with; among equals the first by place."""
        # rounded, so that the order of the additions in a matrix product can't decide between equals
        likeness = np.round(self.means[:group] @ self.means[group], 6)
        smaller = np.minimum(self.sizes[:group], self.sizes[group])
        min_cosine = np.where(
            smaller < self.limits.small, self.limits.fold_at, self.limits.merge_at
        )
        fits_size = self.sizes[:group] + self.sizes[group] <= self.largest
        fits = self.is_open[:group] & (likeness >= min_cosine) & fits_size
        if not fits.any():
            return
        best = float(likeness[fits].max())
        near = np.flatnonzero(fits & (likeness == best)).tolist()
        pairs = {
            other: (self.groups[group][0], self.groups[other][0]) for other in near
        }
        heappush(
            self.heap,
            min(
                (-best, (min(pair), max(pair)), group, other)
                for other, pair in pairs.items()
            ),
        )


def bisect_vectors(
    vectors: npt.NDArray[np.float32], rounds: int = 20
) -> npt.NDArray[np.bool_] | None:
    """Split a group in two; return a mask of the rows on the second side, or None if it cannot be split.

    Spherical 2-means without randomness: it starts from the row farthest from the centre, and the row farthest from
    that.
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
        first = _normalise_vector(rows[~side].sum(axis=0))
        second = _normalise_vector(rows[side].sum(axis=0))
    return side


def _normalise_vector(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = vector / (float(np.linalg.norm(vector)) or 1.0)
    return unit
