"""What a claim was said among: the claims of its turn, of the turns beside it, and of its session.

A terse claim ("30 days, then delete.") says little of its matter, and what was claimed around it tells. Two claims of
one matter mostly stand in talk of one matter.
"""

from collections import Counter, defaultdict
from datetime import datetime
from functools import cache

import numpy as np

from slowwave.tasks.dedupe.candidates import Floats
from slowwave.tasks.dedupe.normalise import Claims, normalise_claim
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.features import IdfTable


class Surroundings:
    """The claims by the sessions and turns that they were made in; what is asked for is made then, and kept."""

    def __init__(self, held: CandidateClaims, claims: Claims, vectors: Floats, idf: IdfTable) -> None:
        """Set up.

        Args:
            held: the claims' rows.
            claims: the rows as they are read.
            vectors: of the rows, zeros where there is none; shape (rows, dim).
            idf: of their words.
        """
        self.held, self.claims, self.vectors, self.idf = held, claims, vectors, idf
        self.sessions: list[str] = held.table["session_id"].to_pylist()
        self.details: list[str | None] = held.table["detail"].to_pylist()
        # its moment's place among those of its session that a claim was made in
        moments: dict[str, set[datetime]] = defaultdict(set)
        for session, at in zip(self.sessions, held.times, strict=True):
            moments[session].add(at)
        numbers = {session: {at: n for n, at in enumerate(sorted(some))} for session, some in moments.items()}
        self.turns = [numbers[session][at] for session, at in zip(self.sessions, held.times, strict=True)]
        self.rows: dict[tuple[str, int], list[int]] = defaultdict(list)
        """Session and turn -> the rows of the claims made then."""
        self.of_session: dict[str, list[int]] = defaultdict(list)
        """Session -> its rows."""
        for row, place in enumerate(zip(self.sessions, self.turns, strict=True)):
            self.rows[place].append(row)
            self.of_session[place[0]].append(row)
        self._direct = cache(self._compute_direction)
        self._nearby = cache(self._count_nearby_stems)
        self._detail = cache(self._collect_detail_stems)

    def compute_features(self, old: int, new: int, *, vectors: bool) -> dict[str, float]:
        """Return the likeness of the talk around two claims of two sessions: cosines (none without `vectors`), and
        shares of words by their weight.
        """
        words, later = (frozenset(self.claims.stems[row]) for row in (old, new))
        detail, later_detail = self._detail(old), self._detail(new)
        share = self.idf.compute_containment
        shares = {
            "earlier's words around the later": share(words, self._find_beside(new, words)),
            "later's words around the earlier": share(later, self._find_beside(old, later)),
            "earlier's words in the later's detail": share(words, later_detail | later),
            "later's words in the earlier's detail": share(later, detail | words),
            "shared with details": share(detail | words, later_detail | later),
        }
        if not vectors:
            return shares
        # directions of the claims themselves, their turns, the turns beside, and their sessions
        own, other = self.vectors[old], self.vectors[new]
        turn, talk, session = (self._direct(self.sessions[old], self.turns[old], reach) for reach in (0, 1, None))
        turn2, talk2, session2 = (self._direct(self.sessions[new], self.turns[new], reach) for reach in (0, 1, None))
        return shares | {
            "turns alike": float(turn @ turn2),
            "talk alike": float(talk @ talk2),
            "sessions alike": float(session @ session2),
            "earlier in the later's talk": float(own @ talk2),
            "later in the earlier's talk": float(talk @ other),
            "earlier in the later's session": float(own @ session2),
            "later in the earlier's session": float(session @ other),
        }

    def _find_neighbours(self, session: str, turn: int, reach: int) -> list[int]:
        """Return rows of the claims made up to so many turns away, in order of turn."""
        return [row for at in range(turn - reach, turn + reach + 1) for row in self.rows.get((session, at), ())]

    def _compute_direction(self, session: str, turn: int, reach: int | None) -> Floats:
        """Return the unit vector of the sum of the claims up to so many turns away, of the session where that is None;
        zeros where it has no length.
        """
        if reach is None and turn:
            return self._direct(session, 0, None)  # one a session is kept
        rows = self.of_session[session] if reach is None else self._find_neighbours(session, turn, reach)
        total: Floats = self.vectors[rows].sum(axis=0)
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def _find_beside(self, row: int, stems: frozenset[str]) -> frozenset[str]:
        """Return those of some stems that were claimed in the same turn and the next ones, beside the claim."""
        count, own = self._nearby(self.sessions[row], self.turns[row]), set(self.claims.stems[row])
        return frozenset(stem for stem in stems if count[stem] > (stem in own))

    def _count_nearby_stems(self, session: str, turn: int) -> Counter[str]:
        """Return the claims of a turn and the next ones that have each stem; one count a turn, however many claims."""
        return Counter(stem for row in self._find_neighbours(session, turn, 1) for stem in set(self.claims.stems[row]))

    def _collect_detail_stems(self, row: int) -> frozenset[str]:
        return frozenset(normalise_claim(self.details[row] or "").content)
