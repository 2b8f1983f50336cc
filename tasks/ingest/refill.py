"""Messages that the vault has lost, put back at their places from their transcripts, as the hash chain proves.

What is lost at a session's end is added by reading the transcript again. What is lost from its midst has a place, and
is put there only where the rows read lead from the hash before the gap to the one that the row after it names.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.store import Store
from slowwave.tasks.ingest.parsing.records import Limits
from slowwave.tasks.ingest.store_messages import IngestedTranscript
from slowwave.tasks.ingest.task import VaultIndex, iter_new_rows
from slowwave.tasks.ingest.transcripts import find_pending
from slowwave.tasks.ingest.vault import GENESIS, build_message_table, chain_row

Row = dict[str, Any]


def refill_vault(store: Store, settings: Settings, paths: Iterable[Path]) -> int:
    """Read transcripts and put back what is missing in the midst of their sessions; returns messages put back."""
    known, limits = VaultIndex(store), Limits(settings.read.max_line_bytes)
    read = defaultdict[str, list[Row]](list)
    for transcript in find_pending({}, settings, paths).pending:
        got = IngestedTranscript(transcript)
        for row in iter_new_rows(got, known, limits, redact=settings.redact, exclude=settings.read.exclude):
            read[row["session_id"]].append(row)
    held = defaultdict[str, list[Row]](list)
    for row in store.read_ids(MESSAGES, read, by="session_id").to_pylist():
        held[row["session_id"]].append(row)
    return store.append(MESSAGES, build_message_table([row for sid in held for row in fill_gaps(held[sid], read[sid])]))


def fill_gaps(held: Iterable[Row], read: Sequence[Row]) -> list[Row]:
    """Return those of the rows read that fit where rows of a session are missing, chained.

    Args:
        held: what is left of the session.
        read: what its transcript has besides, in order.
    """
    filled: list[Row] = []
    prev, seq, left = GENESIS, 0, list(read)
    for row in sorted(held, key=lambda one: int(one["seq"])):
        gap: list[Row] = []
        for one in left[: row["seq"] - seq]:
            gap.append(chain_row(one, seq + len(gap), gap[-1]["hash"] if gap else prev))
        if gap and gap[-1]["hash"] == row["prev_hash"]:
            filled += gap
            left = left[len(gap) :]
        prev, seq = row["hash"], row["seq"] + 1
    return filled
