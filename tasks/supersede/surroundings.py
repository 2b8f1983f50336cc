"""What a claim was said among: the claims of its turn, of the turns beside it, and of its session.

A terse claim ("30 days, then delete.") says little of its matter, and what was claimed around it tells. Two claims of
one matter mostly stand in talk of one matter.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import Any

import numpy as np

from slowwave.tasks.dedupe.candidates import Floats
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.dedupe.pairs import stack_unit_vectors
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.rules import IdfTable, ParsedClaim

DAY = 86_400


class Surroundings:
    """The claims by the sessions and turns that they were made in; what is asked for is made then, and kept."""

    def __init__(
        self, held: CandidateClaims, rows: Sequence[dict[str, Any]], said: Sequence[ParsedClaim], weights: IdfTable
    ) -> None:
        """Set up.

        Args:
            rows: of `held`, with session_id and detail.
            said: the rows as they are read.
            weights: of their words.
        """
        self.held, self.rows, self.said, self.weights = held, rows, said, weights
        self.turns = number_turns(held.times, [row["session_id"] for row in rows])
        self.near = cache(self._compute_window_direction)
        self.of_session = cache(self._compute_session_direction)
        self.beside = cache(self._collect_nearby_stems)
        self.detail = cache(self._collect_detail_stems)

    @cached_property
    def vectors(self) -> Floats:
        """Unit vectors of the claims, zeros where there is none; shape (claims, dim)."""
        return stack_unit_vectors(self.held.table)[0]

    @cached_property
    def by_turn(self) -> dict[tuple[str, int], list[int]]:
        """Session and turn -> the rows of the claims made then."""
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row, told in enumerate(self.rows):
            found[told["session_id"], self.turns[row]].append(row)
        return found

    @cached_property
    def by_session(self) -> dict[str, list[int]]:
        """Session -> its rows."""
        found: dict[str, list[int]] = defaultdict(list)
        for row, told in enumerate(self.rows):
            found[told["session_id"]].append(row)
        return found

    def compute_features(self, old: int, new: int) -> dict[str, float]:
        """Return how alike the talk around two claims of two sessions is: cosines, and shares of words by their
        weight.
        """
        own, later = self.vectors[old], self.vectors[new]
        turn, later_turn = self.near(*self._locate_turn(old), 0), self.near(*self._locate_turn(new), 0)
        near, later_near = self.near(*self._locate_turn(old), 1), self.near(*self._locate_turn(new), 1)
        session, later_session = (self.of_session(self.rows[row]["session_id"]) for row in (old, new))
        words, later_words = (frozenset(self.said[row].claim.content) for row in (old, new))
        detail, later_detail = self.detail(old), self.detail(new)
        return {
            "turns alike": float(turn @ later_turn),
            "talk alike": float(near @ later_near),
            "sessions alike": float(session @ later_session),
            "earlier in the later's talk": float(own @ later_near),
            "later in the earlier's talk": float(near @ later),
            "earlier in the later's session": float(own @ later_session),
            "later in the earlier's session": float(session @ later),
            "earlier's words around the later": self._compute_containment(words, self.beside(new)),
            "later's words around the earlier": self._compute_containment(later_words, self.beside(old)),
            "earlier's words in the later's detail": self._compute_containment(words, later_detail | later_words),
            "later's words in the earlier's detail": self._compute_containment(later_words, detail | words),
            "shared with details": self._compute_containment(detail | words, later_detail | later_words),
            "has a detail": float(bool(later_detail)),
            "had a detail": float(bool(detail)),
            "days": compute_log_days(self.held.times[old], self.held.times[new]),
        }

    def _locate_turn(self, row: int) -> tuple[str, int]:
        return self.rows[row]["session_id"], self.turns[row]

    def _find_neighbours(self, session: str, turn: int, reach: int) -> list[int]:
        """Return rows of the claims made up to so many turns away, in order of turn."""
        turns = range(turn - reach, turn + reach + 1)
        return [row for at in turns for row in self.by_turn.get((session, at), ())]

    def _compute_window_direction(self, session: str, turn: int, reach: int) -> Floats:
        """Return direction of the claims made up to so many turns away, taken together."""
        return _compute_direction(self.vectors[self._find_neighbours(session, turn, reach)])

    def _compute_session_direction(self, session: str) -> Floats:
        return _compute_direction(self.vectors[self.by_session[session]])

    def _collect_nearby_stems(self, row: int) -> frozenset[str]:
        """Return stems of what was claimed in the same turn and the next ones, beside the claim."""
        others = (
            self.said[mate].claim.content for mate in self._find_neighbours(*self._locate_turn(row), 1) if mate != row
        )
        return frozenset(stem for content in others for stem in content)

    def _collect_detail_stems(self, row: int) -> frozenset[str]:
        return frozenset(normalise_claim(self.rows[row]["detail"] or "").content)

    def _compute_containment(self, words: frozenset[str], among: frozenset[str]) -> float:
        """Return weight of the words that are among others, over that of all."""
        whole = self.weights.sum_idf(words)
        return self.weights.sum_idf(words & among) / whole if whole else 0.0


def _compute_direction(vectors: Floats) -> Floats:
    """Return unit vector of their sum; zeros where that has no length."""
    total: Floats = vectors.sum(axis=0)
    length = float(np.linalg.norm(total))
    return total / length if length else total


def number_turns(times: Sequence[datetime], sessions: Sequence[str]) -> list[int]:
    """Return row -> its message's place among those of its session that a claim was made in."""
    told: dict[str, set[datetime]] = defaultdict(set)
    for session, at in zip(sessions, times, strict=True):
        told[session].add(at)
    place = {session: {at: n for n, at in enumerate(sorted(some))} for session, some in told.items()}
    return [place[session][at] for session, at in zip(sessions, times, strict=True)]


def compute_log_days(earlier: datetime, later: datetime) -> float:
    """Return logarithm of the days, so that weeks and years do not outweigh everything."""
    return math.log1p(max(0.0, (later - earlier).total_seconds()) / DAY)
