"""A small released store for the tests of recall: two sessions, their claims and summaries, written row by row."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    PASSAGES,
    SESSIONS,
    SUMMARIES,
    Table,
)
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.releases import Release
from slowwave.store.upkeep import compact_store
from tests import claim_rows

Calibrate = Callable[[Release], str | None] | None

START = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)

TALK = {
    "ses-a": [
        "We should drop Redis, the cache keeps serving stale sessions after a deploy.",
        "Agreed: the session cache moves into Postgres, with an unlogged table.",
        "Bob's parser chokes on Windows line endings; normalise them before splitting.",
        "Done, the parser splits on any newline now.",
    ],
    "ses-b": [
        "My sister Nina moved to Lisbon in February and works for a bakery.",
        "How lovely! Does she bake the pastries herself?",
        "She does, and on Sundays she surfs.",
        "A long one. "
        + "Filler about nothing in particular. " * 30
        + "The boiler in the cellar leaks.",
    ],
}


def message_rows() -> list[dict[str, object]]:
    return [
        claim_rows.message(
            seq,
            text,
            f"hash-{session}",
            message_id=f"{session}-m{seq}",
            native_id=f"{session}:{seq}",
            role=("user", "assistant")[seq % 2],
            origin=("human", "model")[seq % 2],
            speaker=("Ann", "Ben")[seq % 2] if session == "ses-b" else None,
            ts=START + timedelta(days=30 * (session == "ses-b"), minutes=seq),
            workspace={"ses-a": "api", "ses-b": "home"}[session],
            identity="",
        )
        for session, texts in TALK.items()
        for seq, text in enumerate(texts)
    ]


def passage_rows(
    messages: list[dict[str, object]], vectors: bool
) -> list[dict[str, object]]:
    """Two passages for the long message, one for each other."""
    rows = []
    for message in messages:
        text = str(message["text"])
        parts = [text] if len(text) < 600 else [text[:-32], text[-32:]]
        for part, piece in enumerate(parts):
            kept = {
                name: message[name]
                for name in (
                    "message_id",
                    "session_id",
                    "seq",
                    "role",
                    "speaker",
                    "ts",
                    "workspace",
                )
            }
            vector = HashEncoder().encode([piece])[0].tolist() if vectors else None
            rows.append(
                kept
                | {
                    "passage_id": f"{message['message_id']}.{part}",
                    "part": part,
                    "text": piece,
                }
                | {"vector": vector, "step_key": "t"}
            )
    return rows


def claim_row(
    key: str, summary: str, quote: str, message: str, **other: object
) -> dict[str, object]:
    own = {
        "claim_id": key,
        "session_id": "hash-ses-a",
        "workspace": "api",
        "quote": quote,
        "step_key": "t",
    }
    more = {
        "message_ids": [message],
        "confidence": 0.9,
        "observed_at": START,
        "evidence_sessions": ["ses-a"],
    }
    vector = HashEncoder().encode([summary])[0].tolist()
    return claim_rows.claim_row(0, summary, **own | more | {"vector": vector} | other)


def summary(key: str, tier: int, text: str, members: list[str]) -> dict[str, object]:
    return {
        "summary_id": key,
        "scope": "session",
        "scope_id": "hash-ses-a",
        "tier": tier,
        "seq": 0,
        "text": text,
        "member_ids": members,
        "member_hash": key,
        "sealed": True,
        "first_at": START,
        "last_at": START + timedelta(minutes=3),
        "workspace": "api",
        "vector": HashEncoder().encode([text])[0].tolist(),
        "step_key": "t",
    }


def add(store: Store, table: Table, rows: list[dict[str, object]]) -> None:
    store.append(table, pa.Table.from_pylist(rows, schema=table.schema))


def session_rows() -> list[dict[str, object]]:
    return [
        {
            "session_id": f"hash-{name}",
            "native_id": name,
            "source": "generic",
            "path": "p",
            "kind": "chat",
        }
        | {"messages": 4, "tokens": 1, "inactive": [], "head_hash": ""}
        for name in TALK
    ]


def build_wordless(root: Path) -> None:
    """A release of sessions in which nobody said anything."""
    store = Store.open(root, create=True)
    add(store, SESSIONS, session_rows())
    publish(store, "run", None)


def build(
    root: Path,
    *,
    vectors: bool = True,
    index: bool = True,
    encoder: str = "hash-384",
    calibrate: Calibrate = None,
) -> Store:
    store = Store.open(root, create=True)
    messages = message_rows()
    sessions = session_rows()
    add(store, SESSIONS, sessions)
    add(store, MESSAGES, messages)
    add(store, PASSAGES, passage_rows(messages, vectors))
    moves = "the session cache moves into Postgres"
    add(
        store,
        CLAIMS,
        [
            claim_row(
                "o-new", "The session cache moves into Postgres.", moves, "ses-a-m1"
            ),
            claim_row(
                "o-old",
                "The session cache stays in Redis.",
                "x",
                "ses-a-m0",
                status="superseded",
            ),
        ],
    )
    add(
        store,
        SUMMARIES,
        [
            summary(
                "s-0", 0, "Redis was dropped for Postgres.", ["ses-a-m0", "ses-a-m1"]
            ),
            summary(
                "s-1",
                0,
                "The parser learnt all line endings.",
                ["ses-a-m2", "ses-a-m3"],
            ),
            summary(
                "s-top", -1, "A morning of repairs to cache and parser.", ["s-0", "s-1"]
            ),
        ],
    )
    if index:
        compact_store(store)
    publish(store, "run", encoder if vectors else None, calibrate)
    return store
