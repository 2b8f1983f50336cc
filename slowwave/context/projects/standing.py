"""The standing claims about a project or a person: those that may be in a text that every session loads.

A claim stands if all of these hold: it is active and no later claim doubts it; it does not take another claim back; a
person said it, or two sessions state it; its confidence is high enough; none of its gates is False; and it is short
enough for a statement, since a longer one is a log or a report that somebody pasted. A person said it if the message
that it quotes is a person's, or the message that one of its duplicates quotes. Other cited messages do not count: a
yes cites the proposal too. Claims of another memory do not stand, whoever said them there.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.rendering import LineSource, Speaker
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View, is_perhaps_changed
from slowwave.schemas.tables import CHAIN, CLAIMS, GATES, MESSAGES
from slowwave.schemas.vocabulary import TALKING, Origin, Status, is_shared
from slowwave.store.notes import PREFIX
from slowwave.text.fence import escape_line
from slowwave.text.words import singularise

LONGEST = 300
"""Most characters of a statement."""
LIKELY = 0.5
"""Least confidence of a standing claim."""
STANDING = ("decision", "convention", "gotcha", "pattern")
"""Categories of a project's conventions."""
SETTLED = (*STANDING, "preference", "fact", "context", "")
"""Categories of what holds in a project: also what is preferred, what is so, and what has no heading of its own."""
UNHEADED = ("context", "")
"""Categories without a heading of their own."""
BORNE_OUT = 2
"""Number of sessions that count as much as a person's word."""
PARTIES = frozenset((*TALKING, "you", "your", "yours", "yourself"))
"""Words for the speakers and for the reader."""
CHAINS = ("|", "&", "$(", "<(")
"""Operators by which a shell chains commands."""
Item = TypeVar("Item")
EARLIEST = datetime.min.replace(tzinfo=UTC)
COLUMNS = [
    "claim_id",
    "session_id",
    "workspace",
    "summary",
    "category",
    "message_ids",
    "speaker",
    "observed_at",
    "evidence_sessions",
    "topic_id",
    "observer",
    *CHAIN,
]
SAID = [
    "message_id",
    "session_id",
    "native_id",
    "seq",
    "origin",
]


@dataclass(frozen=True, slots=True)
class StandingClaim:
    """A standing claim with its source."""

    id: str
    text: str
    """One line."""
    category: str
    workspace: str | None
    topic: str | None
    """The topic's id."""
    confidence: float
    """The confidence that `slowwave claims` shows."""
    sessions: int
    """Number of sessions that state it."""
    by_person: bool
    """Whether a person said it."""
    standing: str
    """The reason why it is a rule: "3 sessions", or "noted" if a person noted or confirmed it. Else empty."""
    may_instruct: bool
    """Whether agents may obey it: a person said it, and it is a rule or addresses nobody."""
    observer: str
    source: LineSource
    code_note: str = ""
    """What it names and the code does not have any more, in brackets; empty if it holds."""


def collect_standing_claims(
    view: View,
    places: Collection[str] = (),
    categories: Collection[str] = (),
    min_confidence: float = LIKELY,
    among: Collection[str] = (),
    *,
    perhaps_changed: bool = False,
) -> list[StandingClaim]:
    """Return the standing claims, by the number of sessions, then by confidence, then by time, each the highest first.
    Of claims with equal texts, the first is kept.

    Args:
        view: the release.
        places: names of the workspaces in which a claim was said; empty for all.
        categories: the wanted categories; empty for all.
        min_confidence: least confidence of a claim.
        among: ids of the claims to consider; empty for all.
        perhaps_changed: whether to include claims that a later claim perhaps changed.
    """
    condition = _build_condition(
        {"workspace": places, "category": categories, "claim_id": among}
    )
    rows = view.read(CLAIMS, COLUMNS, condition).to_pylist()
    confidences = view.look_up_confidences([row["claim_id"] for row in rows])
    rows = [
        row
        for row in rows
        if confidences[row["claim_id"]] >= min_confidence
        and len(row["summary"]) <= LONGEST
        and (perhaps_changed or not is_perhaps_changed(row))
        and row["claim_id"] not in view.chains.retractions
        and not is_shared(row["observer"])
    ]
    quoted = _find_quoted_messages(view, rows)
    messages = view.read_by_id(
        MESSAGES, sorted({key for keys in quoted.values() for key in keys}), SAID
    )
    standing = []
    for row in rows:
        known = [messages[key] for key in quoted[row["claim_id"]] if key in messages]
        claim = _make_claim(view, row, confidences[row["claim_id"]], known)
        if claim:
            standing.append(_note_code(view, claim))
    first: dict[str, StandingClaim] = {}
    for claim in sorted(standing, key=_rank):
        first.setdefault(claim.text.casefold(), claim)
    return list(first.values())


def _build_condition(allowed: Mapping[str, Collection[str]]) -> pc.Expression:
    """Return a filter for active claims whose gates are not False, with the allowed values in each column."""
    condition = pc.field("status") == Status.ACTIVE
    for gate in GATES:
        condition = condition & pc.if_else(
            pc.field(gate).is_valid(), pc.field(gate), True
        )
    for column, values in allowed.items():
        if values:
            condition = condition & pc.field(column).isin(sorted(values))
    return condition


def _find_quoted_messages(view: View, rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return for each claim the message that it quotes, then those that its duplicates quote."""
    quoted = {row["claim_id"]: row["message_ids"][:1] for row in rows}
    ids = pa.array(sorted(quoted), pa.string())
    duplicates = (pc.field("status") == Status.DUPLICATE) & pc.field(
        "canonical_id"
    ).isin(ids)
    columns = ["claim_id", "canonical_id", "message_ids", "observer"]
    for row in view.read(CLAIMS, columns, duplicates).sort_by("claim_id").to_pylist():
        if not is_shared(row["observer"]):
            quoted[row["canonical_id"]] += row["message_ids"][:1]
    return quoted


def _note_code(view: View, claim: StandingClaim) -> StandingClaim:
    """Return a claim with a note of what it names and the code does not have any more."""
    checks = view.code_checks.get(claim.id, ())
    return replace(claim, code_note=" ".join(check.note for check in checks))


def _rank(claim: StandingClaim) -> tuple[bool, int, float, float, str]:
    """Return a claim's key for sorting: those that hold in the code, most sessions, highest confidence and latest time
    first.
    """
    return (
        bool(claim.code_note),
        -claim.sessions,
        -claim.confidence,
        -(claim.source.at or EARLIEST).timestamp(),
        claim.id,
    )


def take_in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """Yield the items of each group in turn, so that no group displaces the others."""
    for turn in zip_longest(*groups):
        yield from (item for item in turn if item is not None)


def group_by_category(claims: Sequence[StandingClaim]) -> list[list[StandingClaim]]:
    """Return the claims of each category, in order of the categories' names."""
    categories = sorted({claim.category for claim in claims})
    return [
        [claim for claim in claims if claim.category == category]
        for category in categories
    ]


def _make_claim(
    view: View, row: Row, confidence: float, messages: list[Row]
) -> StandingClaim | None:
    """Return the row as a claim, or None if neither a person said it nor two sessions state it.

    `messages` are those that the claim and its duplicates quote, its own first.
    """
    session = view.native_sessions.get(row["session_id"])
    evidence = (
        set(row["evidence_sessions"]) or {row["session_id"]}
    ) - view.unconfirmed_notes
    # Whoever writes a file names its sessions.
    sessions = len({view.session_files.get(key, key) for key in evidence})
    by_person = any(
        message["origin"] == Origin.HUMAN
        or view.agent_notes.get(str(message["session_id"]))
        for message in messages
    )
    if not messages or session is None or not (by_person or sessions >= BORNE_OUT):
        return None
    noted = (
        "noted"
        if session.startswith(PREFIX)
        and row["session_id"] not in view.unconfirmed_notes
        else ""
    )
    standing = f"{sessions} sessions" if sessions >= BORNE_OUT else noted
    kind: Speaker = "person" if by_person else "model"
    source = LineSource(
        session=session,
        message=str(messages[0]["native_id"]),
        seq=messages[0]["seq"],
        at=row["observed_at"],
        speaker=row["speaker"],
        by=None if row["speaker"] else kind,
        short=view.session_tags.get(session),
    )
    return StandingClaim(
        id=row["claim_id"],
        text=" ".join(row["summary"].split()),
        category=row["category"],
        workspace=row["workspace"],
        topic=row["topic_id"],
        confidence=confidence,
        sessions=sessions,
        by_person=by_person,
        standing=standing,
        may_instruct=by_person and bool(standing or addresses_nobody(row["summary"])),
        observer=row["observer"],
        source=source,
    )


def addresses_nobody(text: str) -> bool:
    """Return True if a text neither mentions speakers or reader, nor chains commands or hides characters."""
    words, line = (
        map(singularise, re.findall(r"\w+", text.casefold())),
        " ".join(text.split()),
    )
    return (
        PARTIES.isdisjoint(words)
        and not any(mark in text for mark in CHAINS)
        and escape_line(line) == line
    )
