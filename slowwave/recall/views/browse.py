"""Claims without a question, newest first; and themes over time: each topic with its strength, week by week."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Shown
from slowwave.recall.query import parse_bound, parse_share, refuse_unknown_filters
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import explain_unknown_category
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import ClaimFilters
from slowwave.schemas.tables import GATES, OBSERVATIONS, TOPICS, UTC_US
from slowwave.schemas.vocabulary import Status
from slowwave.text.workspaces import anchor_workspace, require_workspaces

AS_STORED = [
    "summary",
    "detail",
    "category",
    "quote",
    "workspace",
    "speaker",
    "observed_at",
    "status",
    "superseded_by",
]
AS_STORED += ["observer"]
COLUMNS = [
    *AS_STORED,
    "observation_id",
    "session_id",
    "files",
    "topic_id",
    "evidence_sessions",
    "keywords",
    *GATES,
]


@dataclass(frozen=True, slots=True)
class Claim(Shown):
    """One observation, with what is known of it."""

    id: str
    summary: str
    detail: str | None
    category: str
    confidence: float
    """0 to 1: grows with the sessions that say it, falls where a later claim may have changed it."""
    files: tuple[str, ...]
    quote: str
    workspace: str | None
    speaker: str | None
    observed_at: datetime | None
    status: str
    superseded_by: str | None
    topic: str | None
    """The topic's name."""
    session: str
    """The transcript's own id."""
    sessions: int
    """The number of sessions that say it."""
    keywords: tuple[str, ...]
    observer: str
    """Who distilled it: extractive, a model's name, or `shared:NAME` for what another memory gave."""
    shut: tuple[str, ...] = ()
    """The gates that are: what it is not, of reusable, non_trivial and specific."""


def list_claims(
    view: View,
    limit: int | None = None,
    *,
    after: int = 0,
    **filters: Unpack[ClaimFilters],
) -> list[Claim]:
    """Return the claims of a release that hold, newest first, undated ones last; all but the first so many, where there
    is no limit.

    Raises:
        TypeError: an unknown filter.
        UsageError: a limit under 1, a workspace or category that is not known, a confidence outside 0 to 1, a date
            that is none.
        StoreUnreadable: a table is broken or gone.
    """
    if limit is not None and limit < 1:
        raise UsageError(
            f"limit is {limit}; it is the number of claims wanted, at least 1"
        )
    refuse_unknown_filters(filters, ClaimFilters)
    # the conditions that the table can be asked
    min_confidence = parse_share(filters.get("min_confidence"), "min_confidence") or 0.0
    names = dict(
        zip(*view.read(TOPICS, ["topic_id", "name"]).to_pydict().values(), strict=True)
    )
    statuses = (
        [Status.ACTIVE, Status.SUPERSEDED]
        if filters.get("superseded")
        else [Status.ACTIVE]
    )
    conditions = [pc.field("status").isin(statuses)]
    if workspace := filters.get("workspace"):
        conditions.append(
            pc.field("workspace").isin(
                require_workspaces(anchor_workspace(workspace), view.workspaces)
            )
        )
    if category := filters.get("category"):
        if unknown := explain_unknown_category(view, category):
            raise UsageError(unknown)
        conditions.append(pc.field("category") == pa.scalar(category))
    if (topic := filters.get("topic")) is not None:
        ids = [key for key, name in names.items() if topic in (key, name)]
        conditions.append(pc.field("topic_id").isin(pa.array(ids, pa.string())))
    if start := parse_bound(filters.get("since"), "since"):
        conditions.append(pc.field("observed_at") >= pa.scalar(start, UTC_US))
    # of all that pass only what decides is read
    claims = view.read(
        OBSERVATIONS,
        ["observation_id", "observed_at", "keywords"],
        reduce(and_, conditions),
    )
    if (keyword := filters.get("keyword")) is not None:
        word = keyword.casefold()
        claims = claims.filter(
            [
                word in map(str.casefold, words)
                for words in claims["keywords"].to_pylist()
            ]
        )
    newest = [
        ("observed_at", "descending"),
        ("observation_id", "ascending"),
    ]  # what has no date comes last
    ids = claims.sort_by(newest)["observation_id"].to_pylist()
    if min_confidence:
        sure = view.look_up_confidences(ids)
        ids = [key for key in ids if sure[key] >= min_confidence]
    # and the rest of those that are told
    ids = ids[after:][:limit]
    sure, rows = (
        view.look_up_confidences(ids),
        view.read_by_id(OBSERVATIONS, ids, COLUMNS),
    )
    return [
        _make_claim(rows[key], sure[key], names, view.native_sessions) for key in ids
    ]


def _make_claim(
    row: dict[str, Any],
    confidence: float,
    topics: dict[str, str],
    sessions: dict[str, str],
) -> Claim:
    return Claim(
        **{name: row[name] for name in AS_STORED},
        id=row["observation_id"],
        confidence=confidence,
        files=tuple(row["files"]),
        topic=topics.get(row["topic_id"]),
        session=sessions.get(row["session_id"], row["session_id"]),
        sessions=len(row["evidence_sessions"]),
        keywords=tuple(row["keywords"]),
        shut=tuple(gate for gate in GATES if row[gate] is False),
    )


FIGURES = [
    "topic_id",
    "name",
    "purpose",
    "text",
    "size",
    "strength",
    "sessions",
    "uses",
    "cohesion",
    "share",
    "overlap",
    "first_at",
    "last_at",
]
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Theme(Shown):
    """A topic, and how it came and went."""

    id: str
    name: str
    """Empty where its claims share no words."""
    purpose: str
    text: str | None
    """Its summary; None for fewer than three claims."""
    claims: int
    """The number of claims that hold now."""
    strength: int
    """Their evidence: the sessions that say each, in sum."""
    sessions: int
    """Distinct ones that say any."""
    uses: int
    """How often any was handed out, when they were last looked over."""
    spread: float | None
    """How far its claims lie from its centre: 0 is all in one place."""
    share: float | None
    """Of all claims, those that it holds."""
    overlap: float | None
    """Cosine to the nearest other topic of its project, or of everyday life; None where there is no other."""
    first_at: datetime | None
    last_at: datetime | None
    weeks: tuple[int, ...]
    """Claims a week, the last one that which ends with the newest claim of the memory."""


def list_themes(view: View, weeks: int = 12) -> list[Theme]:
    """Return the topics, the strongest first: of a model, or of three claims or more.

    Args:
        view: the release that is asked.
        weeks: how many are counted one by one.

    Raises:
        UsageError: `weeks` under 1.
        StoreUnreadable: a table is broken or gone.
    """
    if weeks < 1:
        raise UsageError(
            f"weeks is {weeks}; it is the number of weeks wanted, at least 1"
        )
    # claims a week
    rows = view.read(
        OBSERVATIONS, ["topic_id", "observed_at"], pc.field("status") == Status.ACTIVE
    ).combine_chunks()
    at = rows["observed_at"].cast(pa.int64())
    ago = pc.divide(pc.subtract(pc.max(at), at), WEEK // timedelta(microseconds=1))
    weekly: defaultdict[str, list[int]] = defaultdict(lambda: [0] * weeks)
    for (key, week), count in Counter(
        zip(rows["topic_id"].to_pylist(), ago.to_pylist(), strict=True)
    ).items():
        if week is not None and week < weeks:
            weekly[key][weeks - 1 - week] = count
    # the topics
    themes: list[Theme] = []
    for row in view.read(TOPICS, FIGURES).to_pylist():
        if row["size"] and (
            row["name"] or row["text"]
        ):  # what is under three is none yet
            figures: dict[str, Any] = {
                name: row[name]
                for name in FIGURES[1:]
                if name not in ("size", "cohesion")
            }
            figures |= {
                name: row[name] or 0 for name in ("strength", "sessions", "uses")
            }
            spread = None if row["cohesion"] is None else round(1 - row["cohesion"], 3)
            key, claims = row["topic_id"], row["size"]
            themes.append(
                Theme(
                    id=key,
                    claims=claims,
                    spread=spread,
                    weeks=tuple(weekly[key]),
                    **figures,
                )
            )
    return sorted(themes, key=lambda theme: (-theme.strength, theme.name, theme.id))
