"""A table's contract: its name, its key and its Arrow schema.

Every table is a `Table`; the store opens tables by it, steps cast to it, exports write it down. A column that
says when or how long, and so differs between two equal runs, is *volatile*: digests leave it out.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

VECTOR_DIM = 384
"""Dimensions of the encoder that ships (all-MiniLM-L6-v2); a store is bound to one dimension."""

UTC_US = pa.timestamp("us", tz="UTC")
STRINGS = pa.list_(pa.string())


def text(name: str, *, null: bool = True) -> pa.Field:
    """A string column."""
    return pa.field(name, pa.string(), nullable=null)


def vector(name: str = "vector", dim: int = VECTOR_DIM) -> pa.Field:
    """A unit-length float32 vector column; null where embeddings are off."""
    return pa.field(name, pa.list_(pa.float32(), dim))


@dataclass(frozen=True)
class Table:
    """Name, primary key, schema and volatile columns of one table."""

    name: str
    key: str
    fields: tuple[pa.Field, ...]
    volatile: frozenset[str] = frozenset()
    full_text: str | None = None
    """The column a full-text index covers, where there is one."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema; the key carries the mark Lance needs to merge without duplicates.

        Without `unenforced-primary-key` concurrent merges of the same new key both insert it.
        """
        marked = [
            f.with_nullable(False).with_metadata({"lance-schema:unenforced-primary-key": "true"})
            if f.name == self.key
            else f
            for f in self.fields
        ]
        return pa.schema(marked)

    def empty(self) -> pa.Table:
        """No rows, the right columns."""
        return self.schema.empty_table()
