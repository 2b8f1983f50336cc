"""What is known of the claims that may change each other, read once: their words, pairs, company and surroundings."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slowwave.schemas.settings import DedupeSettings
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.features import PairRank, compute_pair_features, rank_pairs
from slowwave.tasks.supersede.kinds import KindIndex, load_kinds, load_relations
from slowwave.tasks.supersede.limits import APART, LATER, ChangeThresholds
from slowwave.tasks.supersede.pairing import NearestSession, ScoredPair, find_nearest_sessions, score_pairs
from slowwave.tasks.supersede.rules import (
    IdfTable,
    ParsedClaim,
    Verdict,
    compute_idf,
    compute_similarity,
    judge_amendment,
    parse_claim,
)
from slowwave.tasks.supersede.statements import judge_replacement
from slowwave.tasks.supersede.surroundings import Surroundings

JUDGED = ["observation_id", "session_id", "summary", "detail", "speaker", "category", "message_ids", "quote", "pack"]
CLOSE = 0.25
"""Likeness that a claim may be behind the likest, and still be what is meant: it is said in two ways, mostly."""
RULES = ("named", "slot", "stated", "hinted", "present", "none", "reversal", "subject", "beside")
"""The plain rules by which a claim of a later session changes one (`Verdict.rule`)."""


@dataclass(frozen=True)
class Evidence:
    """Claims in order of id, and what tells whether one changes another; rows are places in that order."""

    held: CandidateClaims
    rows: list[dict[str, Any]]
    """Columns JUDGED."""
    said: list[ParsedClaim]
    weights: IdfTable
    pairs: list[ScoredPair]
    nearest: dict[int, NearestSession]
    company: dict[tuple[int, int], PairRank]
    """(earlier row, later row) of two sessions -> the pair among the others of its claims."""
    around: Surroundings
    kinds: KindIndex

    @classmethod
    def from_candidates(cls, held: CandidateClaims, settings: DedupeSettings) -> "Evidence":
        """Read the claims that are held."""
        rows = held.table.select(JUDGED).to_pylist()
        said = parse_claims(rows)
        weights = compute_idf(s.claim for s in said)
        pairs = score_pairs(held, said, weights, settings)
        return cls(
            held=held,
            rows=rows,
            said=said,
            weights=weights,
            pairs=pairs,
            nearest=find_nearest_sessions(held, rows, pairs),
            company=rank_pairs(_find_cross_session_pairs(held, rows, said, pairs)),
            around=Surroundings(held, rows, said, weights),
            kinds=KindIndex([row["summary"] for row in rows], load_kinds(), load_relations()),
        )

    @cached_property
    def by_rule(self) -> dict[tuple[int, int], Verdict]:
        """(earlier row, later row) of two sessions -> what the plain rules say, where they say that it changes.

        Within one session they mostly take talk about a thing for a change of it.
        """
        found = {}
        for old, new, cosine, alike in self._iterate_ordered_pairs():
            apart = self.rows[old]["session_id"] != self.rows[new]["session_id"]
            if apart and not _is_by_two_speakers(self.said[old], self.said[new]):
                limits = self._select_thresholds(old, new, alike)
                verdict = judge_amendment(self.said[old], self.said[new], cosine, self.weights, limits)
                if verdict is not None:
                    found[old, new] = verdict
        return found

    @cached_property
    def stated(self) -> dict[tuple[int, int], Verdict]:
        """(earlier row, later row) -> the verdict, where the later says in so many words what it changes."""
        found = {}
        for old, new, cosine, _ in self._iterate_ordered_pairs():
            verdict = judge_replacement(self.said[old], self.said[new], cosine, self.weights)
            if verdict is not None and not _is_by_two_speakers(self.said[old], self.said[new]):
                found[old, new] = verdict
        return found

    def _iterate_ordered_pairs(self) -> Iterator[ScoredPair]:
        """Yield the pairs, each with the earlier first; of what was said at one moment neither changes the other."""
        for a, b, cosine, alike in self.pairs:
            if self.held.times[a] != self.held.times[b]:
                yield *self.held.order_by_time(a, b), cosine, alike

    def compute_features(self, old: int, new: int, cosine: float, alike: float) -> dict[str, float]:
        """Return everything that may tell whether a claim of a later session changes the earlier one, by name."""
        ruled = self.by_rule.get((old, new))
        earlier, later = self.said[old], self.said[new]
        scores = compute_similarity(earlier.claim, later.claim, cosine, self.weights)
        session = self.rows[old]["session_id"]
        by_rules = {f"rule {rule}": float(ruled is not None and ruled.rule == rule) for rule in RULES}
        return (
            compute_pair_features(earlier, later, scores, self.weights, self.company[old, new])
            | self.around.compute_features(old, new)
            | self.kinds.compute_features(old, new)
            | by_rules
            | {
                "by a rule": float(ruled is not None),
                "rule gives a value": float(ruled is not None and ruled.instead),
                "alike by a rule": 0.0 if ruled is None else ruled.score,
                "of the likest session": float(self.nearest[new].session == session),
                "of the one like session": float(self._select_thresholds(old, new, alike) is APART),
            }
        )

    def _select_thresholds(self, old: int, new: int, alike: float) -> ChangeThresholds:
        near, session = self.nearest[new], self.rows[old]["session_id"]
        return APART if near.once and near.session == session and alike >= near.alike - CLOSE else LATER


def parse_claims(rows: list[dict[str, Any]]) -> list[ParsedClaim]:
    """Return the claims read, each with its detail and what else was claimed in its message."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for message in row["message_ids"]:
            told[message].append(row["summary"])
    beside = [[row["detail"] or "", *sorted({t for m in row["message_ids"] for t in told[m]})] for row in rows]
    return [
        parse_claim(
            row["summary"],
            row["speaker"],
            row["category"],
            [t for t in more if t and t != row["summary"]],
            row["quote"],
            everyday=row["pack"] == "personal",
        )
        for row, more in zip(rows, beside, strict=True)
    ]


def _is_by_two_speakers(a: ParsedClaim, b: ParsedClaim) -> bool:
    """Return whether each speaks of themselves, and they are two."""
    return a.claim.first_person and b.claim.first_person and a.claim.speaker != b.claim.speaker


def _find_cross_session_pairs(
    held: CandidateClaims, rows: list[dict[str, Any]], said: list[ParsedClaim], pairs: list[ScoredPair]
) -> dict[tuple[int, int], float]:
    """Return (earlier row, later row) -> likeness, of the pairs of two sessions that may change each other."""
    found = {}
    for a, b, _, alike in pairs:
        apart = rows[a]["session_id"] != rows[b]["session_id"] and held.times[a] != held.times[b]
        if apart and not _is_by_two_speakers(said[a], said[b]):
            found[held.order_by_time(a, b)] = alike
    return found
