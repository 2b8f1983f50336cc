"""The vault's arithmetic: records in, chained rows out, and the check that nothing stored was changed.

Within a session each message's hash covers the one before it: SHA-256 over the previous hash and the row's
canonical JSON. Change, remove or reorder a stored row and every later hash is wrong. Method: a hash chain, as in
Haber & Stornetta, "How to time-stamp a digital document" (1991).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.store.publishing import read_releases
from slowwave.store.store import Store
from slowwave.tasks.ingest.parsing.records import Block, Message
from slowwave.tasks.progress import show_progress
from slowwave.text.times.days import get_utc_offset

GENESIS = "0" * 64
"""prev_hash of a session's first message."""

CHAINED = tuple(
    name for name in MESSAGES.schema.names if name not in ("prev_hash", "hash")
)
SESSIONS_AT_ONCE = 50
BLOCK_FIELDS = tuple(f.name for f in fields(Block))


def compute_session_id(source: str, native_id: str) -> str:
    """Return id of a session from its format and the transcript's own id."""
    return compute_content_id("session", source, native_id)


def compute_message_identity(source: str, message: Message) -> str:
    """Return hash of what makes two copies of a message the same, whatever file they stand in."""
    own = message.identity or f"{message.session}/{message.native_id}"
    return compute_content_id("message", source, own)


def compute_message_id(identity_id: str, message: Message) -> str:
    """Return id of a message: its identity and its content as it is stored, so that no guess of a secret fits it."""
    content = orjson.dumps([message.role, message.text, message.blocks])
    return compute_content_id(identity_id, hashlib.sha256(content).hexdigest())


def build_message_row(
    source: str, message: Message, workspace: str | None, mid: str, iid: str
) -> dict[str, Any]:
    """Return a row of MESSAGES without its place in the chain."""
    return {
        "message_id": mid,
        "session_id": compute_session_id(source, message.session),
        "native_id": message.native_id,
        "parent_id": message.parent_id,
        "role": message.role,
        "origin": message.origin,
        "speaker": message.speaker,
        "blocks": [
            {name: getattr(block, name) for name in BLOCK_FIELDS}
            for block in message.blocks
        ],
        "text": message.text,
        "ts": message.ts.astimezone(UTC) if message.ts else None,
        "utc_offset": get_utc_offset(message.ts),
        "workspace": workspace,
        "source": source,
        "tokens": estimate_block_tokens(message.blocks),
        "identity": iid,
    }


def estimate_block_tokens(blocks: Iterable[Block]) -> int:
    """Return UTF-8 bytes of all blocks over 4, at least 1: close enough to plan a night by."""
    # about four bytes a token
    return max(
        1, sum(len(b.text.encode("utf-8", "replace")) for b in blocks if b.text) // 4
    )


def chain_row(row: dict[str, Any], seq: int, prev_hash: str) -> dict[str, Any]:
    """Return the row at its place in the chain."""
    placed = {**row, "seq": seq, "prev_hash": prev_hash}
    return {**placed, "hash": compute_chain_hash(placed, prev_hash)}


def compute_chain_hash(row: Mapping[str, Any], prev_hash: str) -> str:
    """Return SHA-256 hex over the previous hash and the row's canonical JSON."""
    # A timestamp as microseconds: what is stored, free of how a library spells time zones.
    values = ((name, row[name]) for name in CHAINED)
    fields = {
        k: round(v.timestamp() * 1_000_000) if isinstance(v, datetime) else v
        for k, v in values
    }
    payload = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(prev_hash.encode() + payload).hexdigest()


def find_first_break(
    rows: Iterable[Mapping[str, Any]], head_hash: str | None
) -> tuple[int, str] | None:
    """Return the first row of one session's chain, in order of seq, that does not fit: its seq and why; None when all
    fit.

    `head_hash` is what the sessions table holds as the end of the chain: a chain that does not reach it is a break too.
    One that goes on beyond is a run that was killed before it wrote the session's row; the next run mends that.
    """
    prev = GENESIS
    seq = -1
    seen_head = head_hash is None
    for expected, row in enumerate(rows):
        seq = row["seq"]
        if seq != expected:
            return (
                seq,
                f"expected message {expected}, found {seq}: a row is missing or doubled",
            )
        if row["prev_hash"] != prev:
            return seq, "its prev_hash is not the hash of the message before it"
        if compute_chain_hash(row, prev) != row["hash"]:
            return seq, "its content differs from what its hash was made of"
        prev = row["hash"]
        seen_head = seen_head or prev == head_hash
    if not seen_head:
        return (
            seq + 1,
            "the chain ends here, but the session's head hash names a later message",
        )
    return None


def fill_gaps(
    stored: Iterable[dict[str, Any]], read: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return those of the rows read that fit where rows of a session are missing, chained.

    What is lost at a session's end is added by reading the transcript again. What is lost from its midst has a place,
    and is put there only where the rows read lead from the hash before the gap to the one that the row after it names.

    Args:
        stored: what is left of the session.
        read: what its transcript has besides, in order.
    """
    filled: list[dict[str, Any]] = []
    prev = GENESIS
    seq = 0
    left = list(read)
    for row in sorted(stored, key=lambda row: int(row["seq"])):
        gap: list[dict[str, Any]] = []
        for missing in left[: row["seq"] - seq]:
            gap.append(
                chain_row(missing, seq + len(gap), gap[-1]["hash"] if gap else prev)
            )
        if gap and gap[-1]["hash"] == row["prev_hash"]:
            filled += gap
            left = left[len(gap) :]
        prev = row["hash"]
        seq = row["seq"] + 1
    return filled


def find_broken_chains(store: Store) -> tuple[dict[str, int], list[str]]:
    """Return how many messages and sessions were checked, and what is broken.

    That is one sentence for the first broken row of each session that has one, and one for each count that is below
    the newest release's: the vault only grows.
    """
    columns = ["session_id", "native_id", "head_hash"]
    sessions = store.read(SESSIONS, columns).to_pylist()
    heads = {row["session_id"]: row for row in sessions}
    stored = store.read(MESSAGES, ["session_id"])["session_id"].unique().to_pylist()
    ids = sorted({*heads, *stored})
    checked = {"messages": 0, "sessions": len(ids)}
    broken = list[str]()
    with show_progress("verify", len(ids)) as advance:
        for start in range(0, len(ids), SESSIONS_AT_ONCE):
            chunk = ids[start : start + SESSIONS_AT_ONCE]
            rows = store.read_ids(MESSAGES, chunk, by="session_id").to_pylist()
            checked["messages"] += len(rows)
            by_session = _group_by_session(rows)
            for sid in chunk:
                head = heads.get(sid, {})
                own_rows = by_session.get(sid, [])
                if problem := find_first_break(own_rows, head.get("head_hash")):
                    name = head.get("native_id", sid)
                    told = f"session {name}, message {problem[0]}: {problem[1]}"
                    broken.append(told)
            advance(len(chunk))
    return checked, broken + _find_lost(store, checked)


def _group_by_session(
    rows: list[dict[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each session in order of seq."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seq"]):
        groups.setdefault(row["session_id"], []).append(row)
    return groups


def _find_lost(store: Store, checked: dict[str, int]) -> list[str]:
    """Return one sentence for each count below the newest release's: a session that is gone whole breaks no chain."""
    return [
        f"release {release.name} counted {release.counts[name]:,} {name}, {count:,} are left: sessions were removed"
        for release in read_releases(store)[-1:]
        for name, count in checked.items()
        if release.counts.get(name, 0) > count
    ]


def build_message_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table of MESSAGES."""
    return pa.Table.from_pylist(rows, schema=MESSAGES.schema)
