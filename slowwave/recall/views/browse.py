"""Claims without a question, newest first; and themes over time: each topic with its strength, week by week."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import LEANING_WORDS, CodeCheck, Shown
from slowwave.recall.query import parse_bound, parse_share, refuse_unknown_filters
from slowwave.recall.release.tables import match_any
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import explain_unknown_category
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import ClaimFilters
from slowwave.schemas.rows import ClaimRow, TopicRow
from slowwave.schemas.tables import (
    CLAIMS,
    GATES,
    MESSAGES,
    SESSIONS,
    SUMMARIES,
    TOPICS,
    TRUST,
    UTC_US,
)
from slowwave.schemas.vocabulary import MODEL_KEY, Origin, Status
from slowwave.text.cells import shorten_text
from slowwave.text.pyramid import MASTER
from slowwave.text.sentences import split_sentences
from slowwave.text.summarise import ASKED, split_told_parts
from slowwave.text.times.days import localise
from slowwave.text.words import extract_content_words
from slowwave.text.workspaces import anchor_workspace, require_workspaces

FENCE = 1.5
"""Tukey's: distances of the quartiles beyond them from which a value is an outlier."""
NAME_CHARS = 100
"""Most characters of a session's name that is taken from what was asked."""
AS_STORED = [
    "summary",
    "detail",
    "category",
    "quote",
    "workspace",
    "speaker",
    "status",
    "superseded_by",
]
AS_STORED += ["observer", TRUST]
COLUMNS = [
    *AS_STORED,
    "observed_at",
    "utc_offset",
    "claim_id",
    "session_id",
    "files",
    "topic_id",
    "evidence_sessions",
    "keywords",
    *GATES,
]


@dataclass(frozen=True, slots=True)
class Claim(Shown):
    """One claim, with what is known of it."""

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
    trust: str | None = None
    """A Trust: where its words come from, the least trusted of them."""
    shut: tuple[str, ...] = ()
    """The gates that are: what it is not, of reusable, non_trivial and specific."""
    not_in_code: tuple[CodeCheck, ...] = ()
    """What it names and the checkout it is about had, and does not have any more."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        checks = [check.as_dict() for check in self.not_in_code]
        return Shown.as_dict(self) | {"not_in_code": checks}


def list_claims(
    view: View,
    limit: int | None = None,
    *,
    after: int = 0,
    outliers: bool = False,
    **filters: Unpack[ClaimFilters],
) -> list[Claim]:
    """Return the claims of a release that hold, newest first, undated ones last.

    The first `after` claims are left out, then at most `limit` are returned. With `outliers`, only claims that lie far
    off the others of their topic are listed, the farthest first.

    Raises:
        TypeError: an unknown filter.
        UsageError: a limit under 1, an unknown workspace or category, a confidence outside 0 to 1, or an invalid date.
        StoreUnreadable: a table is broken or gone.
    """
    if limit is not None and limit < 1:
        raise UsageError(
            f"limit is {limit}; it is the number of claims wanted, at least 1"
        )
    names = _name_topics(view)
    ids = _choose_claims(view, filters, names, outliers=outliers)
    return _read_claims(view, ids[after:][:limit], names)


def count_claims(
    view: View,
    *,
    outliers: bool = False,
    **filters: Unpack[ClaimFilters],
) -> int:
    """Return the number of claims that `list_claims` lists without a limit.

    Raises:
        TypeError, UsageError, StoreUnreadable: as there.
    """
    names = _name_topics(view)
    return len(_choose_claims(view, filters, names, outliers=outliers))


def _name_topics(view: View) -> dict[str, str]:
    """Return the topics' names by id."""
    topics = view.read_rows(TOPICS, ["topic_id", "name"])
    return {topic["topic_id"]: topic["name"] for topic in topics}


def _choose_claims(
    view: View,
    filters: ClaimFilters,
    names: dict[str, str],
    *,
    outliers: bool,
) -> list[str]:
    """Return the ids of the claims that pass the filters, in the order of `list_claims`."""
    refuse_unknown_filters(filters, ClaimFilters)
    min_confidence = parse_share(filters.get("min_confidence"), "min_confidence") or 0.0
    # Only the columns that decide are read of all claims.
    columns = ["claim_id", "observed_at", "keywords"]
    conditions = _list_conditions(view, filters, names)
    claims = view.read(CLAIMS, columns, reduce(and_, conditions))
    if (keyword := filters.get("keyword")) is not None:
        claims = claims.filter(_has_keyword(claims, keyword))
    # An undated claim comes last.
    newest = [("observed_at", "descending"), ("claim_id", "ascending")]
    ids: list[str] = claims.sort_by(newest)["claim_id"].to_pylist()
    if outliers:
        ids = _keep_outliers(view, ids)
    if min_confidence:
        sure = view.look_up_confidences(ids)
        ids = [key for key in ids if sure[key] >= min_confidence]
    return ids


def _read_claims(
    view: View,
    ids: list[str],
    topics: dict[str, str],
) -> list[Claim]:
    """Return claims by id; `topics` are names by id."""
    sure = view.look_up_confidences(ids)
    rows = view.read_by_id(CLAIMS, ids, COLUMNS)
    shown = [
        _make_claim(
            view=view,
            row=rows[key],
            confidence=sure[key],
            topics=topics,
        )
        for key in ids
    ]
    checks = view.code_checks
    return [replace(claim, not_in_code=checks.get(claim.id, ())) for claim in shown]


def _keep_outliers(view: View, ids: list[str]) -> list[str]:
    """Return the outliers among some claims, the farthest first."""
    passing = set(ids)
    return [key for key in find_outliers(view) if key in passing]


def find_outliers(view: View) -> list[str]:
    """Return the active claims that lie far off the others of their topic, the farthest first.

    Far off is beyond Tukey's fence: 1.5 times the distance of the quartiles below the lower one, of the cosines of a
    topic's claims to their mean. How far is counted in that distance. Without vectors there are none.
    """
    columns = ["claim_id", "topic_id", "vector"]
    active = pc.field("status") == pa.scalar(str(Status.ACTIVE))
    rows = view.read(CLAIMS, columns, active)
    rows = rows.filter(pc.is_valid(rows["vector"]))
    topics = rows["topic_id"].to_pylist()
    names = rows["claim_id"].to_pylist()
    groups: dict[str, list[int]] = defaultdict(list)
    for number, topic in enumerate(topics):
        if topic is not None:
            groups[topic].append(number)
    far: dict[str, float] = {}
    for members in groups.values():
        vectors = np.array(rows["vector"].take(members).to_pylist(), dtype=np.float32)
        mean = vectors.mean(axis=0)
        cosines = vectors @ mean / (np.linalg.norm(mean) or 1.0)
        low, high = np.quantile(cosines, (0.25, 0.75))
        below = (low - cosines) / max(high - low, np.finfo(np.float32).eps)
        far |= {
            names[number]: float(distance)
            for number, distance in zip(members, below, strict=True)
            if distance > FENCE
        }
    return sorted(far, key=lambda key: (-far[key], key))


def _list_conditions(
    view: View,
    filters: ClaimFilters,
    topics: dict[str, str],
) -> list[pc.Expression]:
    """Return the conditions on a claim's columns; `topics` are names by id.

    Raises:
        UsageError: an unknown workspace or category, or an invalid date.
    """
    statuses = [Status.ACTIVE]
    if filters.get("superseded"):
        statuses.append(Status.SUPERSEDED)
    conditions = [pc.field("status").isin(statuses)]
    if workspace := filters.get("workspace"):
        places = require_workspaces(anchor_workspace(workspace), view.workspaces)
        conditions.append(pc.field("workspace").isin(places))
    if category := filters.get("category"):
        if unknown := explain_unknown_category(view, category):
            raise UsageError(unknown)
        conditions.append(pc.field("category") == pa.scalar(category))
    if (topic := filters.get("topic")) is not None:
        ids = [key for key, name in topics.items() if topic in (key, name)]
        conditions.append(match_any("topic_id", ids))
    if start := parse_bound(filters.get("since"), "since"):
        conditions.append(pc.field("observed_at") >= pa.scalar(start, UTC_US))
    return conditions


def _has_keyword(claims: pa.Table, keyword: str) -> list[bool]:
    """Return, for each claim, True if it has a keyword, in any case."""
    word = keyword.casefold()
    return [
        word in map(str.casefold, keywords)
        for keywords in claims["keywords"].to_pylist()
    ]


def _make_claim(
    view: View,
    row: ClaimRow,
    confidence: float,
    topics: dict[str, str],
) -> Claim:
    session = row["session_id"]
    sessions = view.get_affirming(row["claim_id"]).union(row["evidence_sessions"])
    stored: dict[str, Any] = {**row}
    return Claim(
        **{name: stored[name] for name in AS_STORED},
        observed_at=localise(row["observed_at"], row["utc_offset"]),
        id=row["claim_id"],
        confidence=confidence,
        files=tuple(row["files"]),
        topic=topics.get(row["topic_id"] or ""),
        session=view.native_sessions.get(session, session),
        sessions=len(sessions),
        keywords=tuple(row["keywords"]),
        shut=tuple(gate for gate in GATES if stored[gate] is False),
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
    "workspace",
    "first_at",
    "last_at",
]
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Theme(Shown):
    """A topic, and how it came and went."""

    id: str
    name: str
    """Words that its claims share, or the name that a model gave it; may be empty."""
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
    """The share of all claims that it holds."""
    overlap: float | None
    """Cosine to the nearest other topic of its project, or of everyday life; None without another topic."""
    first_at: datetime | None
    last_at: datetime | None
    workspace: str | None
    """The project that all its claims are from; None if there are several."""
    title: str
    """The name that a model gave it, else its surest claim."""
    weeks: tuple[int, ...]
    """Claims a week; the last week ends with the newest claim of the memory."""


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
    weekly = _count_weekly(view, weeks)
    rows = [
        row
        for row in view.read_rows(TOPICS, FIGURES)
        if row["size"] and (row["name"] or row["text"])
    ]
    titles = name_topics(view, [row["topic_id"] for row in rows])
    themes = [
        _make_theme(row, weekly[row["topic_id"]], titles[row["topic_id"]])
        for row in rows
    ]
    return sorted(themes, key=lambda theme: (-theme.strength, theme.name, theme.id))


def name_sessions(view: View, keys: Sequence[str]) -> dict[str, str]:
    """Return the name of each session: its title, or what was asked in it or said by a person first, or its id in its
    transcript.

    Sentences that are understood only beside others ("what would you do.") are passed over. If there are no others, the
    surest claim of the session is its name.
    """
    inside = match_any("scope_id", keys)
    masters = inside & (pc.field("tier") == MASTER)
    rows = view.read_rows(SUMMARIES, ["scope_id", "text"], masters)
    asked = {
        row["scope_id"]: (split_told_parts(row["text"]) or {}).get(ASKED, "")
        for row in rows
    }
    sessions = view.read_by_id(SESSIONS, keys, ["title", "native_id"])
    unnamed = [key for key in keys if not asked.get(key)]
    first = {**asked, **_find_first_words(view, unnamed)}
    content = {key: _skip_leaning(text) for key, text in first.items()}
    vague = [key for key in keys if not content.get(key)]
    surest = _find_surest_claims(view, "session_id", vague) if vague else {}
    told = {
        key: content.get(key) or surest.get(key) or first.get(key, "") for key in keys
    }
    return {
        key: row["title"]
        or shorten_text(" ".join(told[key].split()), NAME_CHARS)
        or row["native_id"]
        for key, row in sessions.items()
    }


def _skip_leaning(text: str) -> str:
    """Return a text from its first sentence on that says something by itself; empty without one."""
    for sentence in split_sentences(text):
        if len(set(extract_content_words(sentence.text))) > LEANING_WORDS:
            return text[sentence.start :]
    return ""


def _find_first_words(
    view: View,
    sessions: Sequence[str],
) -> dict[str, str]:
    """Return by session what a person said first, of those in which one said something."""
    if not sessions:
        return {}
    inside = match_any("session_id", sessions)
    by_person = inside & (pc.field("origin") == Origin.HUMAN)
    rows = view.read_rows(MESSAGES, ["session_id", "seq", "text"], by_person)
    first = dict[str, str]()
    for row in sorted(rows, key=lambda row: row["seq"]):
        if row["text"].strip():
            first.setdefault(
                row["session_id"],
                row["text"],
            )
    return first


def name_topics(view: View, topics: Sequence[str]) -> dict[str, str]:
    """Return by topic the name that a model gave it, else its surest claim, else the words that its claims share."""
    columns = ["name", "purpose", "step_key"]
    rows = view.read_by_id(TOPICS, topics, columns)
    surest = _find_surest_claims(view, "topic_id", rows) if rows else {}
    return {
        key: row["name"]
        if row["name"] and row["step_key"].startswith(MODEL_KEY)
        else surest.get(key) or row["name"] or row["purpose"]
        for key, row in rows.items()
    }


def _find_surest_claims(
    view: View,
    scope: Literal["topic_id", "session_id"],
    keys: Collection[str],
) -> dict[str, str]:
    """Return by topic or session what its surest active claim says; of equals the latest."""
    where = (pc.field("status") == Status.ACTIVE) & pc.field(scope).isin(sorted(keys))
    columns = ["claim_id", scope, "observed_at", "summary"]
    claims = view.read(CLAIMS, columns, where)
    ids = claims["claim_id"].to_pylist()
    sure = view.look_up_confidences(ids)
    ranked = claims.append_column(
        "sure", pa.array([sure[key] for key in ids], pa.float64())
    )
    order = ("sure", "observed_at", "claim_id")
    ranked = ranked.sort_by([(name, "ascending") for name in order])
    # of each the last
    said = dict(
        zip(*ranked.select([scope, "summary"]).to_pydict().values(), strict=True)
    )
    return {key: " ".join(summary.split()) for key, summary in said.items()}


def _count_weekly(view: View, weeks: int) -> defaultdict[str, list[int]]:
    """Return the claims a week of each topic; the last week ends with the newest claim."""
    is_active = pc.field("status") == Status.ACTIVE
    rows = view.read(CLAIMS, ["topic_id", "observed_at"], is_active)
    at = rows["observed_at"].combine_chunks().cast(pa.int64())
    ago = pc.divide(pc.subtract(pc.max(at), at), WEEK // timedelta(microseconds=1))
    weekly: defaultdict[str, list[int]] = defaultdict(lambda: [0] * weeks)
    for key, week in zip(rows["topic_id"].to_pylist(), ago.to_pylist(), strict=True):
        if week is not None and week < weeks:
            weekly[key][weeks - 1 - week] += 1
    return weekly


def _make_theme(
    row: TopicRow,
    weekly: list[int],
    title: str,
) -> Theme:
    spread = None if row["cohesion"] is None else round(1 - row["cohesion"], 3)
    return Theme(
        id=row["topic_id"],
        name=row["name"],
        purpose=row["purpose"],
        text=row["text"],
        claims=row["size"],
        strength=row["strength"] or 0,
        sessions=row["sessions"] or 0,
        uses=row["uses"] or 0,
        spread=spread,
        share=row["share"],
        overlap=row["overlap"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        workspace=row["workspace"],
        title=title,
        weeks=tuple(weekly),
    )
