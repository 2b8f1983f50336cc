"""What recall returns: hits, each with the native ids of the messages it stands on."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["observation", "message", "summary"]
KINDS: tuple[Kind, ...] = ("observation", "message", "summary")


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was said: the transcript's own ids, and its words."""

    session: str
    message: str
    quote: str


@dataclass(frozen=True, slots=True)
class Fragment:
    """A message of the exchange that a hit stands in."""

    role: str
    message: str
    """The transcript's own id, in the session that the hit's source names."""
    text: str


@dataclass(frozen=True, slots=True)
class Successor:
    """The claim that holds in place of a hit, or perhaps does."""

    text: str
    observed_at: datetime | None

    @classmethod
    def from_claim(cls, row: Mapping[str, object]) -> "Successor":
        """From a claim's row, with `summary` and `observed_at`."""
        at = row["observed_at"]
        return cls(str(row["summary"]), at if isinstance(at, datetime) else None)


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that answers the query."""

    kind: Kind
    id: str
    """observation_id, message_id or summary_id."""
    text: str
    """The claim, the whole message, or the summary."""
    score: float
    """Higher is better; comparable within one answer alone."""
    observed_at: datetime | None
    status: str
    """active, or superseded: a later claim has changed what it says."""
    sources: tuple[Source, ...]
    pair: tuple[Fragment, ...] = ()
    """A message's exchange in the order it was said: a question with its answer. Other kinds come alone."""
    relevance: float | None = None
    """0 to 1 on the release's own scale, which the floors are on; None where it can't be told."""
    superseded_by: str | None = None
    """The observation that holds in its place, where the status is superseded."""
    perhaps_superseded_by: str | None = None
    """A later observation that may change what this one says; the night could not tell, and both stand."""
    successor: Successor | None = None
    """What the one of these two that is set says, and when it was said."""

    def as_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        plain = asdict(self)
        for dated in (plain, plain["successor"] or {}):
            if at := dated.get("observed_at"):
                dated["observed_at"] = at.isoformat()
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Hit":
        """Return the hit that `as_dict` wrote down, also after JSON."""
        later = plain.get("successor")
        return cls(
            **{
                **plain,
                "observed_at": _parse_iso_datetime(plain["observed_at"]),
                "successor": Successor(later["text"], _parse_iso_datetime(later["observed_at"])) if later else None,
                "sources": tuple(Source(**source) for source in plain["sources"]),
                "pair": tuple(Fragment(**fragment) for fragment in plain["pair"]),
            }
        )


def _parse_iso_datetime(iso: str | None) -> datetime | None:
    return datetime.fromisoformat(iso) if iso else None


class Hits(list[Hit]):
    """The hits of one query, best first: a list that also says why it is empty, and whether it is an old answer."""

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        reason: str | None = None,
        stale: bool = False,
        relevance: float = 0.0,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(hits)
        self.reason = reason
        """Why nothing is returned; None with hits."""
        self.stale = stale
        """Answered from the local cache, since the store could not be read."""
        self.relevance = relevance
        """Of what is nearest in memory, on the release's scale: what the floor is held against."""
        self.notes = notes
        """What this answer could not use, and what was done instead; of `recall_many` that of all it was asked."""

    def as_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        hits = [hit.as_dict() for hit in self]
        told = {"reason": self.reason, "stale": self.stale, "relevance": self.relevance, "notes": list(self.notes)}
        return {"hits": hits, **told}
