"""What is known of the claims that may change each other, read once: their words, pairs, company and surroundings."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slowwave.schemas.settings import DedupeSettings
from slowwave.tasks.supersede.claims import Held
from slowwave.tasks.supersede.features import Company, companies, traits
from slowwave.tasks.supersede.kinds import KnownKinds, kinds, relations
from slowwave.tasks.supersede.limits import APART, LATER, Amending
from slowwave.tasks.supersede.pairing import Nearest, ScoredPair, nearest_sessions, scored_pairs
from slowwave.tasks.supersede.rules import Said, Verdict, Weights, amends, likeness, read_said, word_weights
from slowwave.tasks.supersede.statements import replaces
from slowwave.tasks.supersede.surroundings import Surroundings

JUDGED = ["observation_id", "session_id", "summary", "detail", "speaker", "category", "message_ids", "quote", "pack"]
CLOSE = 0.25
"""Likeness that a claim may be behind the likest, and still be what is meant: it is said in two ways, mostly."""
RULES = ("named", "slot", "stated", "hinted", "present", "none", "reversal", "subject", "beside")
"""The plain rules by which a claim of a later session changes one (`Verdict.rule`)."""


@dataclass(frozen=True)
class Evidence:
    """Claims in order of id, and what tells whether one changes another; rows are places in that order."""

    held: Held
    rows: list[dict[str, Any]]
    """Columns JUDGED."""
    said: list[Said]
    weights: Weights
    pairs: list[ScoredPair]
    nearest: dict[int, Nearest]
    company: dict[tuple[int, int], Company]
    """(earlier row, later row) of two sessions -> the pair among the others of its claims."""
    around: Surroundings
    kinds: KnownKinds

    @classmethod
    def of(cls, held: Held, settings: DedupeSettings) -> "Evidence":
        """Reads the claims that are held."""
        rows = held.table.select(JUDGED).to_pylist()
        said = said_rows(rows)
        weights = word_weights(s.claim for s in said)
        pairs = scored_pairs(held, said, weights, settings)
        return cls(
            held=held,
            rows=rows,
            said=said,
            weights=weights,
            pairs=pairs,
            nearest=nearest_sessions(held, rows, pairs),
            company=companies(_between_sessions(held, rows, said, pairs)),
            around=Surroundings(held, rows, said, weights),
            kinds=KnownKinds([row["summary"] for row in rows], kinds(), relations()),
        )

    @cached_property
    def by_rule(self) -> dict[tuple[int, int], Verdict]:
        """(earlier row, later row) of two sessions -> what the plain rules say, where they say that it changes.

        Within one session they mostly take talk about a thing for a change of it.
        """
        found = {}
        for old, new, cosine, alike in self._ordered():
            apart = self.rows[old]["session_id"] != self.rows[new]["session_id"]
            if apart and not _of_two_people(self.said[old], self.said[new]):
                limits = self._limits(old, new, alike)
                verdict = amends(self.said[old], self.said[new], cosine, self.weights, limits)
                if verdict is not None:
                    found[old, new] = verdict
        return found

    @cached_property
    def stated(self) -> dict[tuple[int, int], Verdict]:
        """(earlier row, later row) -> the verdict, where the later says in so many words what it changes."""
        found = {}
        for old, new, cosine, _ in self._ordered():
            verdict = replaces(self.said[old], self.said[new], cosine, self.weights)
            if verdict is not None and not _of_two_people(self.said[old], self.said[new]):
                found[old, new] = verdict
        return found

    def _ordered(self) -> Iterator[ScoredPair]:
        """The pairs, each with the earlier first; of what was said at one moment neither changes the other."""
        for a, b, cosine, alike in self.pairs:
            if self.held.times[a] != self.held.times[b]:
                yield *self.held.in_order(a, b), cosine, alike

    def traits(self, old: int, new: int, cosine: float, alike: float) -> dict[str, float]:
        """Everything that may tell whether a claim of a later session changes the earlier one, by name."""
        ruled = self.by_rule.get((old, new))
        earlier, later = self.said[old], self.said[new]
        scores = likeness(earlier.claim, later.claim, cosine, self.weights)
        session = self.rows[old]["session_id"]
        by_rules = {f"rule {rule}": float(ruled is not None and ruled.rule == rule) for rule in RULES}
        return (
            traits(earlier, later, scores, self.weights, self.company[old, new])
            | self.around.traits(old, new)
            | self.kinds.traits(old, new)
            | by_rules
            | {
                "by a rule": float(ruled is not None),
                "rule gives a value": float(ruled is not None and ruled.instead),
                "alike by a rule": 0.0 if ruled is None else ruled.score,
                "of the likest session": float(self.nearest[new].session == session),
                "of the one like session": float(self._limits(old, new, alike) is APART),
            }
        )

    def _limits(self, old: int, new: int, alike: float) -> Amending:
        near, session = self.nearest[new], self.rows[old]["session_id"]
        return APART if near.once and near.session == session and alike >= near.alike - CLOSE else LATER


def said_rows(rows: list[dict[str, Any]]) -> list[Said]:
    """The claims read, each with its detail and what else was claimed in its message."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for message in row["message_ids"]:
            told[message].append(row["summary"])
    beside = [[row["detail"] or "", *sorted({t for m in row["message_ids"] for t in told[m]})] for row in rows]
    return [
        read_said(
            row["summary"],
            row["speaker"],
            row["category"],
            [t for t in more if t and t != row["summary"]],
            row["quote"],
            everyday=row["pack"] == "personal",
        )
        for row, more in zip(rows, beside, strict=True)
    ]


def _of_two_people(a: Said, b: Said) -> bool:
    """Whether each speaks of themselves, and they are two."""
    return a.claim.first_person and b.claim.first_person and a.claim.speaker != b.claim.speaker


def _between_sessions(
    held: Held, rows: list[dict[str, Any]], said: list[Said], pairs: list[ScoredPair]
) -> dict[tuple[int, int], float]:
    """(earlier row, later row) -> likeness, of the pairs of two sessions that may change each other."""
    found = {}
    for a, b, _, alike in pairs:
        apart = rows[a]["session_id"] != rows[b]["session_id"] and held.times[a] != held.times[b]
        if apart and not _of_two_people(said[a], said[b]):
            found[held.in_order(a, b)] = alike
    return found
