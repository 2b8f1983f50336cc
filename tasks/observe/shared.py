"""Claims of another memory, read from the messages that hold them (`tasks/ingest/formats/own/export.py`)."""

import pyarrow as pa

from slowwave.schemas.ids import compute_claim_id
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.vocabulary import SHARED
from slowwave.tasks.ingest.formats.own.export import LEARNING
from slowwave.tasks.observe.observe import NOT_JUDGED

TRUST = 0.8
"""Factor on another memory's confidence."""


def build_shared_claims(messages: pa.Table) -> list[ClaimRow]:
    """Return a claim for each message that holds one. Nothing is extracted again.

    In: rows of MESSAGES of source `shared`. Out: rows as `extract_claims` makes them, with the observer `shared:NAME`
    and the other memory's confidence times TRUST.
    """
    claims: list[ClaimRow] = []
    for row in messages.to_pylist():
        blocks = {
            (block["name"] or "").removeprefix(LEARNING): block["text"]
            for block in row["blocks"]
        }
        if not {"summary", "pack", "confidence", "from"} <= blocks.keys():
            continue
        category = blocks.get("category", "")
        session = row["session_id"]
        claim: ClaimRow = {
            "claim_id": compute_claim_id(session, row["message_id"], row["text"]),
            "session_id": session,
            "workspace": row["workspace"],
            "summary": blocks["summary"],
            "detail": blocks.get("detail"),
            "category": category,
            "pack": blocks["pack"],
            "files": blocks.get("files", "").split("\n") if blocks.get("files") else [],
            "quote": row["text"],
            "message_ids": [row["message_id"]],
            "speaker": row["speaker"],
            "confidence": min(1.0, max(0.0, float(blocks["confidence"]))) * TRUST,
            "observed_at": row["ts"],
            "utc_offset": row["utc_offset"],
            "observer": f"{SHARED}:{blocks['from']}",
            **NOT_JUDGED,
        }
        claims.append(claim)
    return claims
