"""The pending work of a step: sessions and messages that lack its output, in batches, and marks of what is done."""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, MESSAGES, OBSERVATIONS, SESSIONS, Table
from slowwave.schemas.vocabulary import MODEL_KEY, Origin, name_speaker
from slowwave.store.store import Store

BY_MODEL = ("model_input", "model_head")
"""Columns of a mark for a session whose step a language model did."""


def is_made_by_model(keys: Any) -> Any:
    """Return whether a key, or each of a column of them (an array or an expression), says that a model made its row."""
    if keys is None or isinstance(keys, str):
        return keys is not None and keys.startswith(MODEL_KEY)
    return pc.starts_with(keys, MODEL_KEY)


def is_current(keys: Any, key: str, *, keep: bool) -> Any:
    """Return which keys (a column or an expression) are the step's own now; with `keep` (`keeps_model_rows`), or a
    model's.
    """
    is_own = pc.equal(keys, key)
    return pc.or_kleene(is_own, is_made_by_model(keys)) if keep else is_own


def hash_rows(frame: pl.DataFrame) -> str:
    """Return hash of rows in their order, the same for the same values under one version of polars."""
    return hashlib.blake2b(frame.hash_rows().to_numpy().tobytes(), digest_size=16).hexdigest()


def find_pending_sessions(
    store: Store, step: str, key: str, also: Mapping[str, str] | None = None, basis: str = "", *, keep: bool = False
) -> pl.DataFrame:
    """Return sessions whose content, or the step itself, changed since the step was done with them; oldest first.

    Args:
        store: whose.
        step: its name.
        key: its key.
        also: for some sessions, what else of the step's input there is to hash.
        basis: what of the key its output depends on too where a model's is kept: the encoder.
        keep: leave out what a language model did the step with, as long as its content is the same.

    Columns: those of SESSIONS; `input_key`, the hash of what the step would now be given; `content`, the same without
    the key; `model_input` and `model_head`, what the content and its last message were when a model did it, else null.
    """
    sessions = pl.DataFrame(store.read(SESSIONS)).sort("started_at", "session_id", nulls_last=True)
    marks = pl.DataFrame(store.read(MARKS, ["unit_id", "input_key", *BY_MODEL], pc.field("step") == step))
    more = also or {}

    def hash_sessions(rows: pl.DataFrame, first: str) -> list[str]:
        values = rows.select("session_id", "head_hash", "inactive").iter_rows()
        return [compute_content_id(first, head, *gone, *([more[s]] if s in more else [])) for s, head, gone in values]

    sessions = sessions.with_columns(pl.Series("input_key", hash_sessions(sessions, key), pl.String)).join(
        marks.rename({"unit_id": "session_id", "input_key": "done"}), on="session_id", how="left", maintain_order="left"
    )
    other = sessions.filter(pl.col("input_key").ne_missing(pl.col("done"))).drop("done")
    other = other.with_columns(pl.Series("content", hash_sessions(other, basis), pl.String))
    # compared with what it was given
    as_before = pl.col("model_input").eq_missing(pl.col("content")) & keep
    return other.filter(~as_before)


def mark_done(
    store: Store,
    step: str,
    done: Iterable[tuple[str, str, str | None]],
    by_model: Mapping[str, tuple[str | None, str | None]] | None = None,
) -> None:
    """Note (session_id, input_key, why there is no output) for each session the step is done with.

    `by_model` has `BY_MODEL` of those that a language model did the step with.
    """
    makers = by_model or {}
    rows = [
        {"mark_id": compute_content_id(step, unit), "step": step, "unit_id": unit, "input_key": key, "note": note}
        | dict(zip(BY_MODEL, makers.get(unit, (None, None)), strict=True))
        for unit, key, note in done
    ]
    if rows:
        store.merge_changed(MARKS, pa.Table.from_pylist(rows, schema=MARKS.schema))


def mark_sessions_done(
    store: Store,
    step: str,
    sessions: pl.DataFrame,
    *,
    by_model: bool,
    keep: bool,
    notes: Mapping[str, str] | None = None,
    degraded: Container[str] = (),
) -> None:
    """Note sessions (rows of `find_pending_sessions`) the step is done with, `by_model` or with what one made kept.

    Those that are `degraded` were done without the model for now: their marks are none of this key.
    """
    rows = sessions.select("session_id", "input_key").rows()
    done = [(s, f"{key} degraded" if s in degraded else key, (notes or {}).get(s)) for s, key in rows]
    columns = BY_MODEL if keep else ("content", "head_hash")
    states = {s: (content, head) for s, content, head in sessions.select("session_id", *columns).iter_rows()}
    mark_done(store, step, done, {s: v for s, v in states.items() if s not in degraded} if by_model or keep else None)


def split_batches(rows: pl.DataFrame, max_weight: int, weight: str = "messages") -> Iterable[pl.DataFrame]:
    """Yield rows (sessions, …) in batches of about so much weight; by the order alone, so the same after a crash."""
    batch = (rows[weight].cum_sum() - 1) // max_weight if rows.height else pl.Series([], dtype=pl.Int64)
    for _, part in rows.with_columns(batch.alias("batch")).group_by("batch", maintain_order=True):
        yield part.drop("batch")


def read_spoken_messages(store: Store, columns: Sequence[str] = ()) -> pl.DataFrame:
    """Return messages that say something in a person's or a model's words and were not taken back, by session and seq.

    Columns: message_id, session_id, seq and those asked for.
    """
    names = ["message_id", "session_id", "seq", *columns]
    condition = (pc.field("text") != "") & ((pc.field("origin") == Origin.HUMAN) | (pc.field("origin") == Origin.MODEL))
    rows = pl.DataFrame(store.read(MESSAGES, names, condition))
    gone = pl.Series(sorted(read_inactive_ids(store)), dtype=pl.String)
    return rows.filter(~pl.col("message_id").is_in(gone.implode())).sort("session_id", "seq")


def read_inactive_ids(store: Store) -> set[str]:
    """Return ids of the messages that their transcripts took back."""
    lists = store.read(SESSIONS, ["inactive"]).column("inactive").to_pylist()
    return {message_id for ids in lists for message_id in ids}


def find_missing_messages(
    store: Store, spoken: pl.DataFrame, table: Table, key: str, also: pc.Expression | None = None
) -> pl.DataFrame:
    """Return the spoken messages without a row of `table` under this key, or one that fits `also`.

    `table` has message_id and step_key.
    """
    done_where = pc.field("step_key") == key
    done = pl.DataFrame(store.read(table, ["message_id"], done_where if also is None else done_where | also))
    return spoken.join(done.unique(), on="message_id", how="anti", maintain_order="left")


def read_claim_speakers(store: Store, claims: Iterable[str]) -> dict[str, str]:
    """Return by claim (ids of OBSERVATIONS) who said the message that it quotes."""
    rows = store.read_ids(OBSERVATIONS, sorted(set(claims)), ["observation_id", "message_ids"]).to_pylist()
    quoted = {row["observation_id"]: row["message_ids"][0] for row in rows if row["message_ids"]}
    messages = store.read_ids(MESSAGES, sorted(set(quoted.values())), ["message_id", "speaker", "origin"]).to_pylist()
    names = {row["message_id"]: name_speaker(row) for row in messages}
    return {claim: names[message] for claim, message in quoted.items() if message in names}
