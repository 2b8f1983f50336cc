"""Claims and messages made by hand, for tests of the steps that read them."""

from datetime import UTC, datetime, timedelta

from slowwave.schemas.tables import CLAIMS, MESSAGES

DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


def claim_row(number: int, summary: str, **values: object) -> dict[str, object]:
    """An active claim of a session of its own, said `number` days after DAY."""
    row: dict[str, object] = dict.fromkeys(CLAIMS.schema.names)
    row |= {
        "claim_id": f"o{number:03}",
        "session_id": f"s{number}",
        "workspace": "/w",
        "summary": summary,
        "category": "decision",
        "pack": "coding",
        "files": [],
        "quote": summary,
        "message_ids": [f"m{number}"],
        "confidence": 0.5,
        "observed_at": DAY + timedelta(days=number),
        "observer": "extractive",
        "keywords": [],
        "step_key": "observe",
        "status": "active",
        "evidence_sessions": [f"s{number}"],
    }
    return row | values


def message(
    number: int, text: str, session: str = "s", **values: object
) -> dict[str, object]:
    """A person's message, said `number` minutes after DAY."""
    row: dict[str, object] = dict.fromkeys(MESSAGES.schema.names)
    row |= {
        "message_id": f"{session}-{number}", "session_id": session, "seq": number, "native_id": str(number),
        "role": "user", "origin": "human", "blocks": [], "text": text, "ts": DAY + timedelta(minutes=number),
        "source": "generic", "tokens": len(text) // 4, "identity": f"{session}-{number}", "prev_hash": "", "hash": "",
    }  # fmt: skip
    return row | values
