"""What was answered last to a query: told, marked as stale, while the store can't be read."""

from dataclasses import dataclass, replace

from slowwave.recall.answers import Answers
from slowwave.recall.hits import Hits
from slowwave.recall.moments import asked_time
from slowwave.recall.query import Query

NEVER = "the store can't be read, and this was never asked before"
NOT_NEAR = "the store can't be read, and what was found last is not relevant enough for an answer nobody asked for"


@dataclass(frozen=True)
class LastAnswers:
    """The answers of a release, by their queries."""

    answers: Answers
    release: str | None
    """The one that is asked by name; None for the live one."""
    automatic_floor: float
    """Relevance from which a hit is told though nobody asked."""

    def keep(self, query: Query, automatic: bool, hits: Hits) -> None:
        """Note an answer."""
        self.answers.keep(self._question(query, automatic), hits)

    def told(self, query: Query, automatic: bool) -> Hits:
        """The last answer to just this; where nobody asks, else what is relevant enough of the one to who did."""
        told = self.answers.told(self._question(query, automatic))
        if told is not None:
            return told
        asked = self.answers.told(self._question(query, automatic=False)) if automatic else None
        if asked is None:
            return Hits(reason=NEVER, stale=True)
        near = [hit for hit in asked if (hit.relevance or 0.0) >= self.automatic_floor]
        return Hits(near, None if near else asked.reason or NOT_NEAR, stale=True)

    def _question(self, query: Query, automatic: bool) -> str:
        """Everything that an answer depends on; when it is asked, only where a time is counted back from there."""
        if query.now is not None and not asked_time(query).spans:
            query = replace(query, now=None)
        return repr((query, automatic, self.release))
