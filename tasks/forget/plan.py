"""The plan of a forgetting: the id of every row derived from some messages. It has no text, so it may be on disk.

A plan is made once and written down before anything is erased. Each part of the erasing uses only the plan. So a killed
forgetting can be finished even if the rows that led from one table to the next are already gone.
"""

from collections.abc import Collection, Set
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import FORGOTTEN
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.store.store import Store
from slowwave.tasks.forget.canaries import Canaries


@dataclass
class Plan:
    """The rows to erase."""

    run_id: str
    at: str
    """ISO, UTC."""
    why: list[str]
    """The kinds of the request: session, match, retention, …"""
    messages: list[str] = field(default_factory=list)
    blanks: list[tuple[str, str]] = field(default_factory=list)
    """For each message, the id of its blank row and its identity."""
    said: list[tuple[str, str]] = field(default_factory=list)
    """For each message, the native ids of its session and of itself."""
    sessions: list[str] = field(default_factory=list)
    """Sessions that lose a message, or only their title."""
    whole: list[str] = field(default_factory=list)
    """Sessions that lose all messages."""
    claims: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    """Those of `claims` that cite the messages. If one was retracted, the exclusion has a hash of its words, which
    goes.
    """
    shrunk: list[str] = field(default_factory=list)
    """Claims that stay, with less evidence."""
    linked: list[str] = field(default_factory=list)
    """Claims that stay, but of a pair with one that goes: they are compared with the others again."""
    topics: list[str] = field(default_factory=list)
    """Topics that lose a claim."""
    summaries: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)
    """Ids of the spans in the sessions that may be boilerplate."""
    quarantine: list[str] = field(default_factory=list)
    completions: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    """Hashes of the messages' sentences, as in the log of recalls."""
    counts: dict[str, int] = field(default_factory=dict)
    """The number of rows that go, by table."""
    reasons: list[str] = field(default_factory=list)
    """Ids of exclusions, ratings and runs whose reason or report goes."""
    exports: list[tuple[str, str]] = field(default_factory=list)
    """Path and time of each export that contains a row of the plan."""
    drop_exports: bool = False
    """True if the exports are deleted too."""
    erased: bool = False
    """True if all stages were carried out. The files still have to be rewritten."""
    canaries: Canaries = field(default_factory=lambda: Canaries("", {}))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to erase."""
        return not (
            self.messages
            or self.sessions
            or self.quarantine
            or self.completions
            or self.reasons
        )


def read_forgotten(
    store: Store,
    kind: str,
    column: str = "row_id",
) -> set[str]:
    """Return a column's values of the rows of FORGOTTEN of a kind: message, title or quarantine."""
    values: list[str] = store.read(FORGOTTEN, [column], pc.field("kind") == kind)[
        column
    ].to_pylist()
    return set(values)


def touch(lists: pa.ChunkedArray, ids: Collection[str]) -> pa.Array:
    """Return a mask of the lists: True for a list that contains one of the ids."""
    rows = lists.combine_chunks()
    fits = pc.is_in(rows.flatten(), pa.array(ids, pa.string()))
    return pc.is_in(
        pa.array(range(len(rows))), pc.list_parent_indices(rows).filter(fits).unique()
    )


def find_summaries(
    summaries: pa.Table,
    sessions: Set[str],
    claims: Collection[str],
) -> set[str]:
    """Return ids of the summaries of these sessions, those with these claims as members, and all summaries above them.

    summaries: rows of SUMMARIES (`summary_id`, `scope`, `scope_id`, `member_ids`).
    """
    ids = summaries["summary_id"]
    of_session = pc.equal(summaries["scope"], SummaryScope.SESSION)
    of_these = pc.is_in(summaries["scope_id"], pa.array(sessions, pa.string()))
    gone = {*ids.filter(pc.and_(of_session, of_these)).to_pylist()}
    lost = set(claims)
    while (
        lost := {*ids.filter(touch(summaries["member_ids"], lost)).to_pylist()} - gone
    ):
        gone |= lost
    return gone
