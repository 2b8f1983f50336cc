"""Find the changes of a released table since an earlier release: new and different rows, and the keys of removed rows.

Two versions of a Lance table share the fragments that no night wrote to. Those are skipped by their metadata; rows of
the others are compared by a digest of their exported columns. All rows of a table that was compacted since are
compared.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa


@dataclass(frozen=True)
class Increment:
    """The difference of a table between two releases."""

    changed: pa.Array
    """Keys of rows that are new, or that differ in an exported column."""
    removed: list[str]
    """Keys of rows that the later release does not have, sorted."""
    fragments: list[Any]
    """Fragments of the later version that hold the changed rows."""


def find_increment(
    old: lance.LanceDataset,
    new: lance.LanceDataset,
    key: str,
    columns: Sequence[str],
) -> Increment:
    """Return the difference of two versions of a table in its key and some columns."""
    before = _list_fragments(old)
    after = _list_fragments(new)
    shared = before.keys() & after.keys()
    old_rows = dict(
        _digest_rows(
            dataset=old, fragments=_leave_out(before, shared), key=key, columns=columns
        )
    )
    fragments = _leave_out(after, shared)
    new_rows = dict(
        _digest_rows(dataset=new, fragments=fragments, key=key, columns=columns)
    )
    changed = [k for k, digest in new_rows.items() if old_rows.get(k) != digest]
    removed = sorted(old_rows.keys() - new_rows.keys())
    return Increment(pa.array(changed, pa.string()), removed, fragments)


def _list_fragments(dataset: lance.LanceDataset) -> dict[str, Any]:
    """Return the fragments of a version by their metadata, which names their files and deletions."""
    return {str(one.metadata.to_json()): one for one in dataset.get_fragments()}


def _leave_out(fragments: dict[str, Any], shared: set[str]) -> list[Any]:
    return [one for metadata, one in fragments.items() if metadata not in shared]


def _digest_rows(
    dataset: lance.LanceDataset,
    fragments: list[Any],
    key: str,
    columns: Sequence[str],
) -> Iterator[tuple[str, bytes]]:
    """Yield the key of each row and a digest of its columns."""
    if not fragments:  # Lance reads an empty list as all fragments
        return
    names = [key, *(name for name in columns if name != key)]
    scanner = dataset.scanner(columns=names, fragments=fragments)
    for batch in scanner.to_batches():
        for row in batch.to_pylist():
            yield row[key], hashlib.blake2b(repr(row).encode(), digest_size=16).digest()
