"""Removal of what is forgotten from rows: rows in, the rows to store out."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, MessageRow, RunRow, TopicEventRow, TopicRow
from slowwave.schemas.vocabulary import WITHDRAWALS, Status

FORGOTTEN_REASON = "forgotten"
NO_NAME = "(forgotten)"
"""Of a topic, until the next naming."""


def blank_message(row: MessageRow) -> MessageRow:
    """Return a row of MESSAGES without what was said, by whom and where, under an id that hangs on none of it.

    Its place, its time and its identity stay. Its hash is still of what it was, until the session is chained anew.
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
    """Return whether a row of MESSAGES says nothing any more."""
    return (
        not row["text"]
        and not row["blocks"]
        and row["speaker"] is None
        and row["workspace"] is None
    )


def free_claim(row: ClaimRow, gone: Set[str], members: Sequence[ClaimRow]) -> ClaimRow:
    """Return a claim that leaned on claims that are gone, as if these had never been.

    One that repeated another, or was changed by it, counts again and is looked at anew; one that was repeated keeps the
    evidence of its `members`, the rows left that repeat it.
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
    # evidence of those that are left
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
    """Return a row of TOPICS that has lost claims, to be named and measured anew.

    claims: the active ones that are left, in order of time.
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
    """Return a row of TOPIC_HISTORY without the names of topics, and the claims, that it should not tell."""
    return {
        **row,
        "name": NO_NAME if row["topic_id"] in topics else row["name"],
        "other_name": NO_NAME if row["other_id"] in topics else row["other_name"],
        "claims": [claim for claim in row["claims"] if claim not in claims],
    }


def blank_report(row: RunRow) -> RunRow:
    """Return a row of RUNS whose report has figures and no words: an error may have quoted what it failed on."""
    try:
        report = orjson.loads(row["report"])
    except orjson.JSONDecodeError:
        return {**row, "report": "{}"}
    report["notes"] = []
    for step in report.get("steps", []):
        step["notes"], step["failed"], step["held"] = [], [], []
    return {**row, "report": orjson.dumps(report).decode()}
