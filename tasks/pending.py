"""The pending work of a step: sessions and messages that lack its output, in batches, and marks of what is done."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CLAIMS, MARKS, MESSAGES, SESSIONS, Table
from slowwave.schemas.vocabulary import Origin, name_speaker
from slowwave.store.store import Store
from slowwave.tasks.job import Job
from slowwave.tasks.trust import MessageTrust, Row, find_session_trust


def hash_rows(frame: pl.DataFrame) -> str:
    """Return hash of rows in their order, the same for the same values under one version of polars."""
    return hashlib.blake2b(
        frame.hash_rows().to_numpy().tobytes(), digest_size=16
    ).hexdigest()


def find_pending_sessions(
    store: Store,
    step: str,
    key: str,
    also: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return sessions whose content, or the step itself, changed since the step was done with them; oldest first.

    Args:
        store: whose.
        step: its name.
        key: its key.
        also: for some sessions, what else of the step's input there is to hash.

    Columns: those of SESSIONS, and `input_key`, the hash of what the step would now be given.
    """
    sessions = pl.DataFrame(store.read(SESSIONS)).sort(
        "started_at", "session_id", nulls_last=True
    )
    marks = pl.DataFrame(
        store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == step)
    )
    more = also or {}
    keys = [
        compute_content_id(key, head, *gone, *([more[s]] if s in more else []))
        for s, head, gone in sessions.select(
            "session_id", "head_hash", "inactive"
        ).iter_rows()
    ]
    sessions = sessions.with_columns(pl.Series("input_key", keys, pl.String)).join(
        marks.rename({"unit_id": "session_id", "input_key": "done"}),
        on="session_id",
        how="left",
        maintain_order="left",
    )
    return sessions.filter(pl.col("input_key").ne_missing(pl.col("done"))).drop("done")


def mark_done(
    store: Store, step: str, done: Iterable[tuple[str, str, str | None]]
) -> None:
    """Write the marks of units that the step is done with: (unit_id, input_key, why there is no output)."""
    rows = [
        {
            "mark_id": compute_content_id(step, unit),
            "step": step,
            "unit_id": unit,
            "input_key": key,
            "note": note,
        }
        for unit, key, note in done
    ]
    if rows:
        store.merge_changed(MARKS, pa.Table.from_pylist(rows, schema=MARKS.schema))


def mark_sessions_done(
    store: Store,
    step: str,
    sessions: pl.DataFrame,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the marks of sessions (rows of `find_pending_sessions`) that the step is done with."""
    rows = sessions.select("session_id", "input_key").iter_rows()
    mark_done(
        store,
        step,
        [(session, key, (notes or {}).get(session)) for session, key in rows],
    )


TOKENS_AT_ONCE = 2_000_000
"""Tokens of the sessions that are read together."""
JUDGED_BY = [
    "message_id",
    "native_id",
    "session_id",
    "seq",
    "role",
    "origin",
    "source",
    "speaker",
    "text",
    "blocks",
    "ts",
]
"""Columns that decide on trust."""

REMEMBERED = 5_000
"""Sessions whose trust is kept while a run works."""
_trust: dict[tuple[str, str, int], dict[str, dict[str, MessageTrust]]] = {}
"""The trust of messages, by session, for a run's id, its store and the version of its messages."""


def split_batches(
    rows: pl.DataFrame, max_weight: int, weight: str = "messages"
) -> Iterable[pl.DataFrame]:
    """Yield rows (sessions, …) in batches of about so much weight; by the order alone, so the same after a crash."""
    if rows.is_empty():
        return
    if rows[weight].sum() <= max_weight:
        yield rows
        return
    batch = (rows[weight].cum_sum() - 1) // max_weight
    for _, part in rows.with_columns(batch.alias("batch")).group_by(
        "batch", maintain_order=True
    ):
        yield part.drop("batch")


def read_spoken_messages(store: Store, columns: Sequence[str] = ()) -> pl.DataFrame:
    """Return messages that say something in a person's or a model's words and were not taken back, by session and seq.

    Columns: message_id, session_id, seq and those asked for.
    """
    names = ["message_id", "session_id", "seq", *columns]
    condition = (pc.field("text") != "") & (
        (pc.field("origin") == Origin.HUMAN) | (pc.field("origin") == Origin.MODEL)
    )
    rows = pl.DataFrame(store.read(MESSAGES, names, condition))
    gone = pl.Series(sorted(read_inactive_ids(store)), dtype=pl.String)
    return rows.filter(~pl.col("message_id").is_in(gone.implode())).sort(
        "session_id", "seq"
    )


def read_inactive_ids(store: Store) -> set[str]:
    """Return ids of the messages that their transcripts took back."""
    lists = store.read(SESSIONS, ["inactive"]).column("inactive").to_pylist()
    return {message_id for ids in lists for message_id in ids}


def find_missing_messages(
    store: Store,
    spoken: pl.DataFrame,
    table: Table,
    key: str,
) -> pl.DataFrame:
    """Return the spoken messages without a row of `table`, which has message_id and step_key, under this key."""
    done = pl.DataFrame(store.read(table, ["message_id"], pc.field("step_key") == key))
    return spoken.join(
        done.unique(), on="message_id", how="anti", maintain_order="left"
    )


def read_claim_speakers(store: Store, claims: Iterable[str]) -> dict[str, str]:
    """Return by claim (ids of CLAIMS) who said the message that it quotes."""
    rows = store.read_ids(
        CLAIMS, sorted(set(claims)), ["claim_id", "message_ids"]
    ).to_pylist()
    quoted = {
        row["claim_id"]: row["message_ids"][0] for row in rows if row["message_ids"]
    }
    messages = store.read_ids(
        MESSAGES, sorted(set(quoted.values())), ["message_id", "speaker", "origin"]
    ).to_pylist()
    names = {row["message_id"]: name_speaker(row) for row in messages}
    return {
        claim: names[message] for claim, message in quoted.items() if message in names
    }


def read_trust(
    job: Job,
    session_ids: Iterable[str],
) -> dict[str, MessageTrust]:
    """Return by id where the words of each message of some sessions come from.

    Three steps of a run ask, so a session is judged once while the messages are the same.
    """
    store = job.store
    versions = store.read_versions([MESSAGES])
    key = (
        job.run_id,
        str(store.dir),
        versions[MESSAGES.name],
    )
    if key not in _trust:
        _trust.clear()
    known = _trust.setdefault(key, {})
    found = dict[str, MessageTrust]()
    left = list[str]()
    for session in sorted(set(session_ids)):
        found |= known.get(session, {})
        if session not in known:
            left.append(session)
    for session, trust in _judge_sessions(store, left):
        found |= trust
        if len(known) < REMEMBERED:
            known[session] = trust
    return found


def _judge_sessions(
    store: Store,
    session_ids: Sequence[str],
) -> Iterator[tuple[str, dict[str, MessageTrust]]]:
    """Yield sessions with the trust of each of their messages, by id."""
    columns = ["session_id", "kind", "tokens"]
    sessions = pl.DataFrame(store.read_ids(SESSIONS, session_ids, columns)).sort(
        "session_id"
    )
    kinds = dict(sessions.select("session_id", "kind").iter_rows())
    for batch in split_batches(sessions, TOKENS_AT_ONCE, "tokens"):
        rows = store.read_ids(
            MESSAGES, batch["session_id"].to_list(), JUDGED_BY, by="session_id"
        )
        for session, messages in _group_by_session(rows.to_pylist()).items():
            yield session, find_session_trust(messages, kinds.get(session))


def _group_by_session(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by session, in order."""
    groups = dict[str, list[Row]]()
    for row in sorted(rows, key=lambda row: int(row["seq"])):
        groups.setdefault(row["session_id"], []).append(row)
    return groups
