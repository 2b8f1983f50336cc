"""The standing claims about a project or a person: those fit for a text that is loaded into every session.

A claim stands when it holds (active, nothing later doubts it), when a person said it or two sessions bear it out, when
it is likely enough, when no gate of it is shut, and when it is a statement: what is longer is a log or a report that
somebody pasted. A person said it if the message that it quotes is a person's, whatever else it cites (a yes stands on
the proposal too), or that of a claim which was merged into it. What another memory gave was said by nobody here,
whatever its document says of its speakers.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.rendering import LineSource
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View, is_perhaps_changed
from slowwave.schemas.tables import CHAIN, GATES, MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import TALKING, Origin, Status, is_shared
from slowwave.store.notes import PREFIX
from slowwave.text.fence import escape_line
from slowwave.text.words import singularise

LONGEST = 300
"""Characters of a statement."""
LIKELY = 0.5
"""Confidence from which a claim stands."""
STANDING = ("decision", "convention", "gotcha", "pattern")
"""Categories of what a project goes by."""
BORNE_OUT = 2
"""Sessions that bear a claim out as well as a person's word does."""
PARTIES = frozenset((*TALKING, "you", "your", "yours", "yourself"))
"""Words for those who talk and for who reads."""
CHAINS = ("|", "&", "$(", "<(")
"""Operators by which a shell chains commands."""
Item = TypeVar("Item")
EARLIEST = datetime.min.replace(tzinfo=UTC)
COLUMNS = [
    *("observation_id", "session_id", "workspace", "summary", "category", "message_ids", "speaker"),
    *("observed_at", "evidence_sessions", "topic_id", "observer", *CHAIN),
]
SAID = ["message_id", "session_id", "native_id", "seq", "origin"]


@dataclass(frozen=True, slots=True)
class StandingClaim:
    """A claim, with what it is told by."""

    id: str
    text: str
    """One line."""
    category: str
    workspace: str | None
    topic: str | None
    """The topic's id."""
    confidence: float
    """As `claims` tells it."""
    sessions: int
    """Those that bear it out."""
    by_person: bool
    """Whether a person said it."""
    standing: str
    """What makes it a rule: sessions that bear it out, or that a person noted or confirmed it; empty where neither."""
    is_told: bool
    """Whether a person said it, and it is a rule or addresses nobody."""
    observer: str
    source: LineSource


def collect_standing_claims(
    view: View,
    places: Collection[str] = (),
    categories: Collection[str] = (),
    min_confidence: float = LIKELY,
    among: Collection[str] = (),
    *,
    perhaps_changed: bool = False,
) -> list[StandingClaim]:
    """Return the standing claims, the best borne out first, then the surest, then the latest; of equal texts the first.

    Args:
        view: the release.
        places: names of workspaces that it was said in; none for any.
        categories: those wanted; none for all.
        min_confidence: confidence from which a claim stands.
        among: claims that are looked at; none for all.
        perhaps_changed: whether those count too that a later claim perhaps changed.
    """
    condition = pc.field("status") == Status.ACTIVE
    for gate in GATES:  # one that nobody judged shuts nothing out
        condition = condition & pc.if_else(pc.field(gate).is_valid(), pc.field(gate), True)
    for column, values in (("workspace", places), ("category", categories), ("observation_id", among)):
        condition = condition & pc.field(column).isin(sorted(values)) if values else condition
    rows = view.read(OBSERVATIONS, COLUMNS, condition).to_pylist()
    sure = view.look_up_confidences([row["observation_id"] for row in rows])
    rows = [row for row in rows if sure[row["observation_id"]] >= min_confidence and len(row["summary"]) <= LONGEST]
    rows = [row for row in rows if perhaps_changed or not is_perhaps_changed(row)]
    rows = [row for row in rows if not is_shared(row["observer"])]
    # the message that each quotes, then those quoted by the claims that were merged into it
    quoted = {row["observation_id"]: row["message_ids"][:1] for row in rows}
    repeats = (pc.field("status") == Status.DUPLICATE) & pc.field("canonical_id").isin(
        pa.array(sorted(quoted), pa.string())
    )
    columns = ["observation_id", "canonical_id", "message_ids", "observer"]
    for row in view.read(OBSERVATIONS, columns, repeats).sort_by("observation_id").to_pylist():
        if not is_shared(row["observer"]):
            quoted[row["canonical_id"]] += row["message_ids"][:1]
    by_id = view.read_by_id(MESSAGES, sorted({key for keys in quoted.values() for key in keys}), SAID)
    standing = []
    for row in rows:
        messages = [by_id[key] for key in quoted[row["observation_id"]] if key in by_id]
        if claim := _make_claim(view, row, sure[row["observation_id"]], messages):
            standing.append(claim)

    # the best borne out first, then the surest, then the latest; of equal texts the first
    def rank(claim: StandingClaim) -> tuple[int, float, float, str]:
        return -claim.sessions, -claim.confidence, -(claim.source.at or EARLIEST).timestamp(), claim.id

    first: dict[str, StandingClaim] = {}
    for claim in sorted(standing, key=rank):
        first.setdefault(claim.text.casefold(), claim)
    return list(first.values())


def take_in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """Yield the items of each group in turn, so that none crowds the others out."""
    for turn in zip_longest(*groups):
        yield from (item for item in turn if item is not None)


def group_by_category(claims: Sequence[StandingClaim]) -> list[list[StandingClaim]]:
    """Return the claims of each category."""
    categories = sorted({claim.category for claim in claims})
    return [[claim for claim in claims if claim.category == category] for category in categories]


def _make_claim(view: View, row: Row, confidence: float, messages: list[Row]) -> StandingClaim | None:
    """Return the row as a claim; None where neither a person said it nor two sessions bear it out.

    `messages` are those that it or a claim merged into it quotes, its own first.
    """
    session = view.native_sessions.get(row["session_id"])
    evidence = (set(row["evidence_sessions"]) or {row["session_id"]}) - view.unconfirmed_notes
    sessions = len({view.session_files.get(key, key) for key in evidence})  # whoever writes a file names its sessions
    by_person = any(
        message["origin"] == Origin.HUMAN or view.agent_notes.get(str(message["session_id"])) for message in messages
    )
    if not messages or session is None or not (by_person or sessions >= BORNE_OUT):
        return None
    # what makes it a rule, and where it comes from
    noted = "noted" if session.startswith(PREFIX) and row["session_id"] not in view.unconfirmed_notes else ""
    borne_out = f"{sessions} sessions" if sessions >= BORNE_OUT else noted
    source = LineSource(
        session,
        str(messages[0]["native_id"]),
        messages[0]["seq"],
        row["observed_at"],
        row["speaker"],
        None if row["speaker"] else "person" if by_person else "model",
        short=view.session_tags.get(session),
    )
    return StandingClaim(
        row["observation_id"],
        " ".join(row["summary"].split()),
        row["category"],
        row["workspace"],
        row["topic_id"],
        confidence,
        sessions,
        by_person,
        borne_out,
        by_person and bool(borne_out or addresses_nobody(row["summary"])),
        row["observer"],
        source,
    )


def addresses_nobody(text: str) -> bool:
    """Return whether a text speaks neither to nor of those who talk, chains no commands and hides nothing."""
    words, line = map(singularise, re.findall(r"\w+", text.casefold())), " ".join(text.split())
    return PARTIES.isdisjoint(words) and not any(mark in text for mark in CHAINS) and escape_line(line) == line
