"""What recall returns: hits, each with the native ids of the messages it stands on."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["observation", "message", "summary"]
KINDS: tuple[Kind, ...] = ("observation", "message", "summary")


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was said: the transcript's own ids, and its words."""

    session: str
    message: str
    quote: str


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
    """An observation's status; messages and summaries in a release are active."""
    sources: tuple[Source, ...]

    def as_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        plain = asdict(self)
        plain["observed_at"] = self.observed_at.isoformat() if self.observed_at else None
        return plain
