"""Remove forgotten content from single rows: each function returns the row to store."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, MessageRow, RunRow, TopicEventRow, TopicRow
from slowwave.schemas.vocabulary import WITHDRAWALS, Status

FORGOTTEN_REASON = "forgotten"
NO_NAME = "(forgotten)"
"""Name of a topic that lost claims, until it is named again."""


def blank_message(row: MessageRow) -> MessageRow:
    """Return a row of MESSAGES without text, blocks, speaker and workspace, under an id that does not depend on these.

    It keeps its place, time and identity. Its hash is still that of the old row, until the session is chained again.
    """
    own = compute_content_id(
        "forgotten", row["session_id"], row["identity"], str(row["seq"])
    )
    return {
        **row,
        "message_id": own,
        "native_id": own,
        "parent_id": None,
        "text": "",
        "blocks": [],
        "speaker": None,
        "workspace": None,
    }


def is_blank(row: Mapping[str, Any]) -> bool:
    """Return True if a row of MESSAGES has no text, blocks, speaker and workspace."""
    return (
        not row["text"]
        and not row["blocks"]
        and row["speaker"] is None
        and row["workspace"] is None
    )


def free_claim(row: ClaimRow, gone: Set[str], members: Sequence[ClaimRow]) -> ClaimRow:
    """Return a claim as if the claims in `gone` had never existed.

    If it repeated one of them, or was superseded by one, it is active again and pending for the next steps. Its
    evidence becomes its own session and that of `members`, the rows left that repeat it.
    """
    if row["canonical_id"] in gone:
        row = {
            **row,
            "status": Status.ACTIVE,
            "reason": None,
            "canonical_id": None,
            "dedupe_key": None,
            "valid_from": row["observed_at"],
            "topic_id": None,
            "assign_key": None,
        }
    # what a forgotten claim superseded is active again
    if row["superseded_by"] in gone:
        row = {**row, "superseded_by": None, "valid_to": None}
        if row["reason"] not in WITHDRAWALS:
            row["status"] = Status.ACTIVE
            row["reason"] = None
            row["topic_id"] = None
            row["assign_key"] = None
    # evidence of the claims that are left
    sessions = {row["session_id"]}.union(
        *(member["evidence_sessions"] for member in members)
    )
    times = [
        member["observed_at"] for member in (row, *members) if member["observed_at"]
    ]
    return {
        **row,
        "evidence_sessions": sorted(sessions),
        "valid_from": min(times, default=None),
        "supersede_key": None,
    }


def blank_topic(row: TopicRow, claims: Sequence[str], samples: int) -> TopicRow:
    """Return a row of TOPICS that lost claims, so that the next night names and measures it again.

    A base topic keeps its name and purpose.

    Args:
        row: the topic.
        claims: ids of its active claims that are left, in order of time.
        samples: the most samples to keep.
    """
    return {
        **row,
        "name": row["name"] if row["base"] else NO_NAME,
        "purpose": row["purpose"] if row["base"] else "",
        "samples": list(claims[-samples:]),
        "size": len(claims),
        "text": None,
        "centroid": None,
        "cohesion": None,
        "overlap": None,
        "member_hash": None,
    }


def blank_event(
    row: TopicEventRow, topics: Set[str], claims: Set[str]
) -> TopicEventRow:
    """Return a row of TOPIC_HISTORY without the names of these topics and without these claims."""
    return {
        **row,
        "name": NO_NAME if row["topic_id"] in topics else row["name"],
        "other_name": NO_NAME if row["other_id"] in topics else row["other_name"],
        "claims": [claim for claim in row["claims"] if claim not in claims],
    }


def blank_report(row: RunRow) -> RunRow:
    """Return a row of RUNS with only the figures of its report: an error's message may quote a forgotten text."""
    try:
        report = orjson.loads(row["report"])
    except orjson.JSONDecodeError:
        return {**row, "report": "{}"}
    report["notes"] = []
    for step in report.get("steps", []):
        step["notes"] = []
        step["failed"] = []
        step["held"] = []
    return {**row, "report": orjson.dumps(report).decode()}
