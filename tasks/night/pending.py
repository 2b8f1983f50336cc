"""Which messages lack a step's output: spoken, not taken back, and without a row under the step's present key."""

from collections.abc import Iterator, Sequence

import polars as pl
from lancedb.expr import col, lit

from schemas.messages import MESSAGES
from schemas.sessions import SESSIONS
from schemas.table import Table
from slowwave.store.store import Store


def spoken_messages(store: Store, columns: Sequence[str] = ()) -> pl.DataFrame:
    """Messages that say something in a person's or a model's words and were not taken back, by session and seq.

    Columns: message_id, session_id, seq and those asked for.
    """
    names = ["message_id", "session_id", "seq", *columns]
    said = (col("text") != lit("")) & ((col("origin") == lit("human")) | (col("origin") == lit("model")))
    found = pl.DataFrame(store.read(MESSAGES, names, said))
    gone = pl.Series(sorted(inactive_messages(store)), dtype=pl.String)
    return found.filter(~pl.col("message_id").is_in(gone.implode())).sort("session_id", "seq")


def inactive_messages(store: Store) -> set[str]:
    """Ids of the messages that their transcripts took back."""
    lists = store.read(SESSIONS, ["inactive"]).column("inactive").to_pylist()
    return {message_id for ids in lists for message_id in ids}


def lacking(store: Store, spoken: pl.DataFrame, table: Table, key: str) -> pl.DataFrame:
    """The spoken messages without a row of `table` under this key; `table` has message_id and step_key."""
    done = pl.DataFrame(store.read(table, ["message_id"], col("step_key") == lit(key)))
    return spoken.join(done.unique(), on="message_id", how="anti", maintain_order="left")


def batches(rows: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    """Rows in slices of `size`, in order: the same slices again after a crash, since whole slices are committed."""
    yield from rows.iter_slices(size)
