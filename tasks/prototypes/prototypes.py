"""Prototypes: claims snap to the nearest coarse centroid, or spawn one; centroids move with what they gather.

Method: online vector quantisation with a vigilance threshold (Carpenter & Grossberg, "ART 2", 1987) and an exponential
moving average of unit vectors. Health is looked at after each batch: two prototypes that are nearly one are merged, a
large one that no longer holds together is split. Every change is an event, and the state is the fold of the events in
order, so a replay gives the same bit by bit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import PrototypeSettings
from slowwave.tasks.topics.cluster import bisect_vectors

VERSION = "prototypes/1"

Vector = npt.NDArray[np.float32]
Vectors = Mapping[str, Vector]
"""Unit vector of each claim."""


@dataclass(frozen=True)
class Event:
    """One change: a claim spawns a prototype, joins one or leaves one."""

    kind: str
    prototype: str
    claim: str
    from_id: str | None = None
    similarity: float = 1.0


@dataclass
class Prototype:
    """A centroid, where it began, and its members in order of joining."""

    id: str
    vector: Vector
    origin: Vector
    members: dict[str, None] = field(default_factory=dict)
    events: int = 0

    @property
    def drift(self) -> float:
        """1 - cosine to where it began."""
        return 1.0 - float(self.vector @ self.origin)


class Prototypes:
    """All prototypes, as their events make them."""

    def __init__(self, settings: PrototypeSettings) -> None:
        self.settings = settings
        self.by_id: dict[str, Prototype] = {}
        self.log: list[Event] = []
        """Events since this was made."""
        self._matrix = np.zeros((64, 0), dtype=np.float32)
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []

    def put(self, one: Prototype) -> None:
        """Take in a prototype as it stood; in order of spawning, which decides between equals."""
        self.by_id[one.id] = one
        self._put(one)

    def apply(self, event: Event, vectors: Vectors) -> None:
        """Fold one event into the state."""
        if event.kind == "leave":
            self._leave(event)
            return
        vector = vectors[event.claim]
        if event.kind == "spawn":
            self.by_id[event.prototype] = Prototype(event.prototype, vector, vector)
        one = self.by_id[event.prototype]
        one.members[event.claim] = None
        one.events += 1
        if event.kind == "join":
            one.vector = move_centroid(one.vector, vector, self.settings.alpha)
        self._put(one)

    def _leave(self, event: Event) -> None:
        one = self.by_id[event.prototype]
        del one.members[event.claim]
        one.events += 1
        if not one.members:
            del self.by_id[event.prototype]
            self._matrix[self._rows.pop(event.prototype)] = 0.0

    def _put(self, one: Prototype) -> None:
        if one.id not in self._rows:
            self._rows[one.id] = len(self._ids)
            self._ids.append(one.id)
            if len(self._ids) > len(self._matrix) or not self._matrix.shape[1]:
                grown = np.zeros((2 * max(32, len(self._ids)), len(one.vector)), dtype=np.float32)
                grown[: len(self._ids) - 1] = self._matrix[: len(self._ids) - 1] if self._matrix.shape[1] else 0.0
                self._matrix = grown
        self._matrix[self._rows[one.id]] = one.vector

    def add(self, event: Event, vectors: Vectors) -> None:
        """Fold a new event and keep it for the log."""
        self.apply(event, vectors)
        self.log.append(event)

    def find_nearest(self, vector: Vector) -> tuple[str | None, float]:
        """Return the likest prototype and the cosine to it, rounded; the oldest among equals."""
        if not self._rows:
            return None, 0.0
        likeness = np.round((self._matrix[: len(self._ids)] @ vector).astype(np.float64), 6)
        best = int(np.argmax(likeness))
        alive = self._rows.get(self._ids[best]) == best  # the row of one that is gone is all zeros
        return (self._ids[best], float(likeness[best])) if alive else (None, 0.0)

    def snap(self, claim: str, vectors: Vectors) -> None:
        """Let a claim join the nearest prototype, or spawn one."""
        nearest, similarity = self.find_nearest(vectors[claim])
        if nearest is not None and similarity >= self.settings.tau:
            self.add(Event("join", nearest, claim, None, similarity), vectors)
        else:
            self.add(Event("spawn", make_prototype_id(claim), claim), vectors)

    def leave(self, claims: Iterable[str], vectors: Vectors) -> None:
        """Remove claims that are no longer active; a prototype without members is gone."""
        gone = set(claims)
        for one in sorted(self.by_id.values(), key=lambda p: p.id):
            for claim in [c for c in one.members if c in gone]:
                self.add(Event("leave", one.id, claim), vectors)

    def rebalance(self, touched: Iterable[str], vectors: Vectors) -> None:
        """Merge and split among the prototypes that changed: once each, in order of their ids."""
        for one in sorted(touched):
            if one in self.by_id:
                self._merge(one, vectors)
        for one in sorted(touched):
            if one in self.by_id:
                self._split(one, vectors)

    def _merge(self, one: str, vectors: Vectors) -> None:
        """Move the members of the smaller of two that are nearly one into the larger."""
        mine = self.by_id[one]
        likeness = np.round((self._matrix[: len(self._ids)] @ mine.vector).astype(np.float64), 6)
        likeness[self._rows[one]] = -1.0
        best = int(np.argmax(likeness))
        other = self._ids[best]
        if likeness[best] < self.settings.merge_at or other not in self.by_id:
            return
        pair = sorted((one, other), key=lambda i: (-len(self.by_id[i].members), i))
        for claim in list(self.by_id[pair[1]].members):
            self._move(claim, pair[1], pair[0], vectors)

    def _move(self, claim: str, source: str, target: str, vectors: Vectors) -> None:
        similarity = round(float(self.by_id[target].vector @ vectors[claim]), 6)
        self.add(Event("leave", source, claim), vectors)
        self.add(Event("join", target, claim, source, similarity), vectors)

    def _split(self, one: str, vectors: Vectors) -> None:
        """Cut one that is large and no longer holds together; the half that leaves spawns a new one."""
        members = list(self.by_id[one].members)
        if len(members) < self.settings.split_size:
            return
        rows = np.array([vectors[claim] for claim in members])
        if compute_coherence(self.by_id[one].vector, rows) >= self.settings.split_below:
            return
        side = bisect_vectors(rows)
        if side is None:
            return
        leaving = side if 2 * int(side.sum()) <= len(members) else ~side
        first = ""
        for claim in [c for c, leaves in zip(members, leaving, strict=True) if leaves]:
            if first:
                self._move(claim, one, first, vectors)
            else:
                first = make_prototype_id(claim, one, str(self.by_id[one].events))
                self.add(Event("leave", one, claim), vectors)
                self.add(Event("spawn", first, claim, one), vectors)


def make_prototype_id(claim: str, *more: str) -> str:
    """Return id of the prototype that a claim spawns."""
    return compute_content_id("prototype", claim, *more)


def move_centroid(vector: Vector, towards: Vector, alpha: float) -> Vector:
    """Return exponential moving average of unit vectors, of unit length again; rounded to float32 at every step."""
    mixed = (1.0 - alpha) * vector.astype(np.float64) + alpha * towards.astype(np.float64)
    unit: Vector = (mixed / (float(np.linalg.norm(mixed)) or 1.0)).astype(np.float32)
    return unit


def compute_coherence(centre: Vector, rows: Vector) -> float:
    """Return mean cosine of the rows to the centre."""
    return round(float(np.mean(rows @ centre)), 6) if len(rows) else 0.0


def replay_events(events: Sequence[Event], vectors: Vectors, settings: PrototypeSettings) -> Prototypes:
    """Return the prototypes that a log makes."""
    state = Prototypes(settings)
    for event in events:
        state.apply(event, vectors)
    return state


def extend_prototypes(state: Prototypes, fresh: Sequence[str], gone: Iterable[str], vectors: Vectors) -> list[Event]:
    """Fold in what is new, and return its events.

    Args:
        state: the prototypes so far; changed in place.
        fresh: claims that have a vector and are in no prototype, in order of time.
        gone: claims that were active and are not.
        vectors: of every claim that is or was a member.
    """
    start = len(state.log)
    state.leave(gone, vectors)
    for claim in fresh:
        state.snap(claim, vectors)
    touched = {event.prototype for event in state.log[start:]}
    state.rebalance(touched, vectors)
    return state.log[start:]
