"""A store of many claims, written row by row: two releases, topics with summaries, merges, and a run for each."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import (
    CLAIMS,
    MERGES,
    MESSAGES,
    PASSAGES,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPICS,
    Table,
)
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store

START = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = [
    "tide",
    "gauge",
    "harbour",
    "port",
    "ferry",
    "crew",
    "database",
    "query",
    "mirror",
    "lamp",
    "winter",
    "rope",
]
WORDS += ["anchor", "chart", "buoy", "pilot"]
TURNS, TOPICS_MADE = 10, 200
Columns = dict[str, Sequence[Any] | Any]


def write_rows(store: Store, table: Table, count: int, columns: Columns) -> None:
    """Append so many rows; a column is a list, or one value for all."""
    values = [columns.get(field.name) for field in table.schema]
    lists = [
        one if isinstance(one, range | list) and len(one) == count else [one] * count
        for one in values
    ]
    arrays = [
        pa.array(one, field.type)
        for one, field in zip(lists, table.schema, strict=True)
    ]
    store.append(table, pa.Table.from_arrays(arrays, schema=table.schema))


def name(kind: str, numbers: Sequence[int]) -> list[str]:
    return [compute_content_id(kind, str(n)) for n in numbers]


def write_claims(store: Store, numbers: range, run: str) -> None:
    """Append a message, its passage and its claim for each number, their sessions and a run, and release them."""
    texts = [
        f"{WORDS[n % 16]} {WORDS[n // 16 % 16]} {WORDS[n // 256 % 16]} number {n} stays"
        for n in numbers
    ]
    messages, claims = name("message", numbers), name("claim", numbers)
    at, inside = (
        [START + timedelta(minutes=n) for n in numbers],
        name("session", [n // TURNS for n in numbers]),
    )
    sessions = sorted({n // TURNS for n in numbers})
    rows = {
        "session_id": inside,
        "workspace": [f"project-{n // 4_000}" for n in numbers],
        "step_key": "x",
    }
    said = rows | {
        "message_id": messages,
        "text": texts,
        "seq": [n % TURNS for n in numbers],
        "role": "user",
        "ts": at,
    }
    write_rows(
        store, PASSAGES, len(numbers), said | {"passage_id": messages, "part": 0}
    )
    more = {
        "native_id": messages,
        "origin": "human",
        "source": "generic",
        "tokens": 9,
        "blocks": [[] for _ in numbers],
    }
    empty = dict.fromkeys(("identity", "prev_hash", "hash"), "")
    write_rows(store, MESSAGES, len(numbers), said | more | empty)
    claim = rows | {
        "claim_id": claims,
        "summary": texts,
        "quote": texts,
        "message_ids": [[m] for m in messages],
    }
    claim |= {
        "category": "decision",
        "pack": "coding",
        "files": [["src/db.py"] for _ in numbers],
        "confidence": 0.6,
    }
    claim |= {
        "evidence_sessions": [[s] for s in inside],
        "keywords": [["tide"] for _ in numbers],
        "status": "active",
    }
    claim |= {
        "observed_at": at,
        "observer": "extractive",
        "topic_id": name("topic", [n % TOPICS_MADE for n in numbers]),
    }
    write_rows(store, CLAIMS, len(numbers), claim)
    ids = name("session", sessions)
    session = {
        "session_id": ids,
        "native_id": ids,
        "source": "generic",
        "path": "/x.jsonl",
        "kind": "chat",
        "tokens": 9,
    }
    session |= {
        "started_at": START,
        "ended_at": START,
        "messages": TURNS,
        "inactive": [[] for _ in ids],
    }
    write_rows(
        store, SESSIONS, len(ids), session | {"workspace": "project-0", "head_hash": ""}
    )
    now = {"started_at": datetime.now(UTC), "ended_at": datetime.now(UTC)}
    write_rows(
        store,
        RUNS,
        1,
        {
            "run_id": run,
            "kind": "nightly",
            "status": "done",
            "report": '{"steps": [], "notes": []}',
            **now,
        },
    )


def build_store(root: Path, count: int) -> None:
    """Write a store of so many claims, and a second release of 300 more."""
    store = Store.open(root, create=True)
    write_claims(store, range(count), "first")
    topics = range(TOPICS_MADE)
    known: Columns = {
        "topic_id": name("topic", topics),
        "name": [f"topic {n}" for n in topics],
        "purpose": "of a kind",
    }
    write_rows(store, TOPICS, len(topics), known | {"base": False, "samples": [[] for _ in topics], "step_key": "x"}
               | {"size": count // TOPICS_MADE})  # fmt: skip
    of = [name("claim", range(topic, count, TOPICS_MADE)[n : n + 10]) for topic in topics
          for n in range(0, count // TOPICS_MADE, 10)]  # fmt: skip
    each = len(of) // TOPICS_MADE
    summary: Columns = {
        "summary_id": name("summary", range(len(of))),
        "scope": "topic",
        "tier": 0,
        "member_ids": of,
    }
    summary |= {
        "scope_id": name("topic", [n // each for n in range(len(of))]),
        "seq": [n % each for n in range(len(of))],
    }
    summary |= {
        "title": "ten",
        "text": "A summary of ten.",
        "member_hash": "x",
        "sealed": True,
        "step_key": "x",
    }
    write_rows(
        store, SUMMARIES, len(of), summary | {"first_at": START, "last_at": START}
    )
    doubted = range(0, count // 10)
    doubt: Columns = {
        "merge_id": name("merge", doubted),
        "kind": "doubt",
        "rule": "change",
        "undone": False,
    }
    doubt |= {
        "from_id": name("claim", [2 * n for n in doubted]),
        "into_id": name("claim", [2 * n + 1 for n in doubted]),
    }
    write_rows(
        store,
        MERGES,
        len(doubted),
        doubt | {"step_key": "x", "scores": [[("likely", 0.7)] for _ in doubted]},
    )
    compact_store(store)
    publish(store, "first", "hash-384")
    write_claims(store, range(count, count + 300), "second")
    publish(store, "second", "hash-384")
