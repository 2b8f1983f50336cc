"""Removal of what is forgotten from rows: rows in, the rows to store out."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import WITHDRAWALS, Status

Row = dict[str, Any]
FORGOTTEN_REASON = "forgotten"
NO_NAME = "(forgotten)"
"""Of a topic, until the next naming."""


def blank_message(row: Row) -> Row:
    """Return a row of MESSAGES without what was said, by whom and where, under an id that hangs on none of it.

    Its place, its time and its identity stay. Its hash is still of what it was, until the session is chained anew.
    """
    own = compute_content_id(
        "forgotten", row["session_id"], row["identity"], str(row["seq"])
    )
    ids = {"message_id": own, "native_id": own, "parent_id": None}
    return {**row, **ids, "text": "", "blocks": [], "speaker": None, "workspace": None}


def is_blank(row: Mapping[str, Any]) -> bool:
    """Return whether a row of MESSAGES says nothing any more."""
    return (
        not row["text"]
        and not row["blocks"]
        and row["speaker"] is None
        and row["workspace"] is None
    )


def free_claim(row: Row, gone: Set[str], members: Sequence[Row]) -> Row:
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
        free = {
            "status": Status.ACTIVE,
            "reason": None,
            "topic_id": None,
            "assign_key": None,
        }
        row = {
            **row,
            **({} if row["reason"] in WITHDRAWALS else free),
            "superseded_by": None,
            "valid_to": None,
        }
    # evidence of those that are left
    sessions = {row["session_id"]}.union(
        *(member["evidence_sessions"] for member in members)
    )
    times = [
        member["observed_at"] for member in (row, *members) if member["observed_at"]
    ]
    evidence = {
        "evidence_sessions": sorted(sessions),
        "valid_from": min(times, default=None),
    }
    return {**row, **evidence, "supersede_key": None}


def blank_topic(row: Row, claims: Sequence[str], samples: int) -> Row:
    """Return a row of TOPICS that has lost claims, to be named and measured anew.

    claims: the active ones that are left, in order of time.
    """
    named = {} if row["base"] else {"name": NO_NAME, "purpose": ""}
    figures = {"samples": list(claims[-samples:]), "size": len(claims)}
    return {
        **row,
        **named,
        **figures,
        **dict.fromkeys(("text", "centroid", "cohesion", "overlap", "member_hash")),
    }


def blank_event(row: Row, topics: Set[str], claims: Set[str]) -> Row:
    """Return a row of TOPIC_HISTORY without the names of topics, and the claims, that it should not tell."""
    return {
        **row,
        "name": NO_NAME if row["topic_id"] in topics else row["name"],
        "other_name": NO_NAME if row["other_id"] in topics else row["other_name"],
        "claims": [claim for claim in row["claims"] if claim not in claims],
    }


def blank_report(row: Row) -> Row:
    """Return a row of RUNS whose report has figures and no words: an error may have quoted what it failed on."""
    try:
        report = orjson.loads(row["report"])
    except orjson.JSONDecodeError:
        return {**row, "report": "{}"}
    report["notes"] = []
    for step in report.get("steps", []):
        step["notes"], step["failed"], step["held"] = [], [], []
    return {**row, "report": orjson.dumps(report).decode()}
