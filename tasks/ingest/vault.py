"""Make rows of messages and chain them by hashes, and check that no stored row was changed.

Within a session each message's hash covers the one before it: it is SHA-256 over the previous hash and the row's
canonical JSON. If a stored row is changed, removed or moved, the chain breaks there. Method: a hash chain, as in Haber
& Stornetta, "How to time-stamp a digital document" (1991).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import orjson
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import MessageRow, MessageRowBlocks
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


def compute_session_id(source: str, native_id: str) -> str:
    """Return the id of a session from its source and the transcript's own id."""
    return compute_content_id("session", source, native_id)


def compute_message_identity(source: str, message: Message) -> str:
    """Return a hash that all copies of a message share, whatever file they are in."""
    own = message.identity or f"{message.session}/{message.native_id}"
    return compute_content_id("message", source, own)


def compute_message_id(identity_id: str, message: Message) -> str:
    """Return the id of a message: a hash of its identity and its redacted content, so it can't confirm a guessed
    secret.
    """
    content = orjson.dumps([message.role, message.text, message.blocks])
    return compute_content_id(identity_id, hashlib.sha256(content).hexdigest())


def build_message_row(
    source: str,
    message: Message,
    workspace: str | None,
    mid: str,
    iid: str,
) -> MessageRow:
    """Return a row of MESSAGES without its place in the chain."""
    return {
        "message_id": mid,
        "session_id": compute_session_id(source, message.session),
        "native_id": message.native_id,
        "parent_id": message.parent_id,
        "role": message.role,
        "origin": message.origin,
        "speaker": message.speaker,
        "blocks": list(map(build_block_row, message.blocks)),
        "text": message.text,
        "ts": message.ts.astimezone(UTC) if message.ts else None,
        "utc_offset": get_utc_offset(message.ts),
        "workspace": workspace,
        "source": source,
        "tokens": estimate_block_tokens(message.blocks),
        "identity": iid,
    }


def build_block_row(block: Block) -> MessageRowBlocks:
    """Return a block as a message's row has it."""
    return {
        "type": block.type,
        "text": block.text,
        "name": block.name,
        "call_id": block.call_id,
        "is_error": block.is_error,
        "media": block.media,
    }


def estimate_block_tokens(blocks: Iterable[Block]) -> int:
    """Return the UTF-8 bytes of all blocks divided by 4, and at least 1: an estimate of their tokens."""
    return max(
        1, sum(len(b.text.encode("utf-8", "replace")) for b in blocks if b.text) // 4
    )


def chain_row(row: MessageRow, seq: int, prev_hash: str) -> MessageRow:
    """Return the row at its place in the chain."""
    placed: MessageRow = {**row, "seq": seq, "prev_hash": prev_hash}
    return {**placed, "hash": compute_chain_hash(placed, prev_hash)}


def compute_chain_hash(row: Mapping[str, object], prev_hash: str) -> str:
    """Return SHA-256 hex over the previous hash and the row's canonical JSON."""
    # a timestamp is hashed as microseconds, since libraries format time zones differently
    values = ((name, row[name]) for name in CHAINED)
    fields = {
        k: round(v.timestamp() * 1_000_000) if isinstance(v, datetime) else v
        for k, v in values
    }
    payload = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(prev_hash.encode() + payload).hexdigest()


def find_first_break(
    rows: Iterable[MessageRow], head_hash: str | None
) -> tuple[int, str] | None:
    """Return the seq of the first row that breaks one session's chain, and why; None if the chain is intact.

    A chain that does not reach `head_hash`, the end of the chain in the session's row, is broken too. A longer chain is
    not: a run was killed before it wrote the session's row, and the next run corrects that.

    Args:
        rows: the session's rows of MESSAGES, in order of seq.
        head_hash: `head_hash` of SESSIONS; None if the session has no row.
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
    stored: Iterable[MessageRow], read: Sequence[MessageRow]
) -> list[MessageRow]:
    """Return the chained rows that fill gaps in the middle of a session.

    Rows are used only if they lead from the hash before a gap to the previous hash of the row after it. Rows that are
    lost at a session's end are not returned: reading the transcript again adds them.

    Args:
        stored: the remaining rows of the session.
        read: the other rows of its transcript, in order.
    """
    filled: list[MessageRow] = []
    prev = GENESIS
    seq = 0
    left = list(read)
    for row in sorted(stored, key=lambda row: int(row["seq"])):
        gap: list[MessageRow] = []
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
    """Return the numbers of `messages` and `sessions` checked, and a sentence for each fault.

    The faults are the first broken row of each session, and each count that is below the newest release's, since the
    vault only grows.
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
    rows: list[MessageRow],
) -> dict[str, list[MessageRow]]:
    """Return the rows of each session in order of seq."""
    groups: dict[str, list[MessageRow]] = {}
    for row in sorted(rows, key=lambda row: row["seq"]):
        groups.setdefault(row["session_id"], []).append(row)
    return groups


def _find_lost(store: Store, checked: dict[str, int]) -> list[str]:
    """Return a sentence for each count below the newest release's.

    A session that is lost completely breaks no chain.
    """
    return [
        f"release {release.name} counted {release.counts[name]:,} {name}, {count:,} are left: sessions were removed"
        for release in read_releases(store)[-1:]
        for name, count in checked.items()
        if release.counts.get(name, 0) > count
    ]


def build_message_table(rows: list[MessageRow]) -> pa.Table:
    """Return rows as an Arrow table of MESSAGES."""
    return pa.Table.from_pylist(rows, schema=MESSAGES.schema)
