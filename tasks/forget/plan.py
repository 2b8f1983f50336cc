"""The plan of a forgetting: the id of every row derived from some messages. It has no text, so it may lie on disk.

A plan is made once and written down before anything is erased; each part of the erasing goes by it alone. So a
forgetting that is killed is finished by the plan, even where the rows that led from one table to the next are gone.
"""

from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import FORGOTTEN
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.store.store import Store
from slowwave.tasks.forget.canaries import Canaries

Row = dict[str, Any]


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
    """Of each message the id that its blank row gets, and its identity."""
    said: list[tuple[str, str]] = field(default_factory=list)
    """Of each message the transcript's own ids of session and message."""
    sessions: list[str] = field(default_factory=list)
    """Sessions that lose a message, or their title alone."""
    whole: list[str] = field(default_factory=list)
    """Sessions that lose all messages."""
    claims: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    """Those of them that stand on the messages: where one was taken back, a hash of its words tells so, and goes."""
    shrunk: list[str] = field(default_factory=list)
    """Claims that are left, with less evidence."""
    topics: list[str] = field(default_factory=list)
    """Topics that lose a claim."""
    summaries: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)
    """Boilerplate that stood in the sessions."""
    quarantine: list[str] = field(default_factory=list)
    completions: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    """Hashes of sentences, as the log of recalls has them."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows that go, by table."""
    reasons: list[str] = field(default_factory=list)
    """Exclusions, claims taken back, ratings and runs whose reason, in a person's words, goes."""
    exports: list[tuple[str, str]] = field(default_factory=list)
    """Exports that hold what is to be gone: where, and made when."""
    drop_exports: bool = False
    """Whether these are removed too."""
    erased: bool = False
    """Whether all of it was carried out, but for the files' rewriting."""
    canaries: Canaries = field(default_factory=lambda: Canaries("", {}))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to erase."""
        return not (
            self.messages
            or self.sessions
            or self.quarantine
            or self.completions
            or self.reasons
        )


def read_forgotten(store: Store, kind: str, column: str = "row_id") -> set[str]:
    """Return a column of what is forgotten of a kind (message, title, quarantine): by it nothing comes back."""
    values: list[str] = store.read(FORGOTTEN, [column], pc.field("kind") == kind)[
        column
    ].to_pylist()
    return set(values)


def touch(lists: pa.ChunkedArray, ids: Collection[str]) -> pa.Array:
    """Return of each list whether it has one of the ids."""
    rows = lists.combine_chunks()
    fits = pc.is_in(rows.flatten(), pa.array(ids, pa.string()))
    return pc.is_in(
        pa.array(range(len(rows))), pc.list_parent_indices(rows).filter(fits).unique()
    )


def find_summaries(
    summaries: pa.Table, sessions: Set[str], claims: Collection[str]
) -> set[str]:
    """Return ids of the summaries of sessions, of those over claims, and of all above them.

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
