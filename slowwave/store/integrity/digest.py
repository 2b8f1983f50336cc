"""Order-free digests: two tables hold the same rows if and only if their digests are the same."""

import hashlib

import pyarrow as pa

from slowwave.schemas.tables import Table


def compute_table_digest(table: Table, rows: pa.Table) -> str:
    """Return SHA-256 over the sorted hashes of the rows, volatile columns left out; hex."""
    names = [name for name in table.schema.names if name not in table.volatile]
    hashes = sorted(hashlib.sha256(repr(row).encode()).digest() for row in rows.select(names).to_pylist())
    return hashlib.sha256(b"".join(hashes)).hexdigest()
