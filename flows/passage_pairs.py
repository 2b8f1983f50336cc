"""List the pairs of messages that recall orders by itself, or marks, though no claim was made of one of them.

Recall compares the messages that it found by rules (`slowwave/recall/changes/newer.py`): of two messages that are one
sentence with another value in it, or that have other figures, the later one comes first. Which of them it finds
depends on the question. So this compares each message with its nearest in its workspace, as the night compares claims.
Nothing of it is stored: each list is made of the live release, in .4 to .8 ms of CPU a passage (172 to 455 passages).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TypedDict

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.changes.newer import (
    SITTING,
    extract_content_stems,
    name_difference,
)
from slowwave.recall.release.view import View, is_perhaps_changed, is_superseded
from slowwave.schemas.rows import PassageRow
from slowwave.schemas.tables import PASSAGES
from slowwave.tasks.changes.pairs import LEAST_COSINE
from slowwave.tasks.dedupe.candidates import find_vector_pairs
from slowwave.tasks.dedupe.pairs import stack_unit_vectors

KIND = "passages"
"""Kind of these rows; those of the ledger have a LedgerKind."""
NEAREST = 5
"""Passages of its workspace that each is compared with."""
RESTATED = "in other words"
"""Rule: the earlier message states what a claim has changed, and the later one is that claim."""
COLUMNS = ["passage_id", "message_id", "workspace", "speaker", "text", "ts", "chain_id"]
COLUMNS += ["chain_at", "chain_likely", "vector"]


PassagePair = TypedDict(
    "PassagePair",
    {
        "kind": str,
        # empty, since it cannot be undone
        "merge_id": str,
        "rule": str,
        "from_id": str,
        "into_id": str,
        "from": str,
        "into": str,
        "by": str,
        "likely": str,
        # when the earlier was said, and the later
        "said_at": datetime | None,
        "at": datetime | None,
    },
)
"""Two messages as the list of changes shows them."""


def list_passage_pairs(view: View) -> list[PassagePair]:
    """Return the pairs of messages, the latest first."""
    passages = view.read(PASSAGES, COLUMNS, pc.field("ts").is_valid())
    pairs = [*_find_restated(view, passages), *_find_ordered(passages)]
    return sorted(pairs, key=lambda pair: (str(pair["at"]), str(pair["from_id"])))[::-1]


def _find_ordered(passages: pa.Table) -> Iterator[PassagePair]:
    """Yield the pairs near each other of which the later has another value or figure, and that are of no one chain."""
    groups = pl.DataFrame(passages.select(["workspace"])).with_row_index("row")
    groups = groups.with_columns(pl.col("row").cast(pl.Int64), group="workspace")
    vectors, has = stack_unit_vectors(passages)
    near = find_vector_pairs(
        vectors=vectors,
        has=has,
        nearest=NEAREST,
        min_cosine=LEAST_COSINE,
        groups=groups,
    )
    rows: list[PassageRow] = passages.drop_columns(["vector"]).to_pylist()
    for one, other in near.tolist():
        earlier, later = sorted((rows[one], rows[other]), key=lambda row: row["ts"])
        if rule := _name_rule(earlier, later):
            yield _make_pair(earlier=earlier, later=later, rule=rule, by="recall")


def _name_rule(earlier: PassageRow, later: PassageRow) -> str | None:
    """Return the rule by which recall puts the later of two messages first, for a question with the words of both."""
    in_chain = earlier["chain_id"] and earlier["chain_id"] == later["chain_id"]
    texts = [" ".join(row["text"].split()) for row in (earlier, later)]
    if in_chain or texts[0] == texts[1]:
        return None
    if earlier["ts"] is None or later["ts"] is None:
        return None
    seconds = (later["ts"] - earlier["ts"]).total_seconds()
    is_by_one = earlier["speaker"] and earlier["speaker"] == later["speaker"]
    if not seconds or (seconds <= SITTING and not is_by_one):
        return None
    shared = extract_content_stems(earlier["text"]) & extract_content_stems(
        later["text"]
    )
    return name_difference(later["text"], earlier["text"], len(shared))


def _find_restated(view: View, passages: pa.Table) -> Iterator[PassagePair]:
    """Yield the marked messages of which no claim was made that changed, each with the claim that changed it."""
    marked = passages.filter(pc.is_valid(passages["chain_at"]))
    for row in marked.drop_columns(["vector"]).to_pylist():
        claims = view.chains.by_message.get(row["message_id"], ())
        is_own = any(claim["chain_at"] is not None for claim in claims)
        is_marked = is_superseded(row) or is_perhaps_changed(row)
        later = view.chains.find_successor(row)
        if is_marked and not is_own and later is not None:
            yield {
                **_make_pair(earlier=row, later=row, rule=RESTATED, by="classifier"),
                "into_id": later["claim_id"],
                "into": later["summary"],
                "likely": f"{row['chain_likely']:.0%}",
                "at": later["observed_at"],
            }


def _make_pair(
    earlier: PassageRow,
    later: PassageRow,
    rule: str,
    by: str,
) -> PassagePair:
    return {
        "kind": KIND,
        "merge_id": "",
        "rule": rule,
        "from_id": earlier["passage_id"],
        "into_id": later["passage_id"],
        "from": earlier["text"],
        "into": later["text"],
        "by": by,
        "likely": "",
        "said_at": earlier["ts"],
        "at": later["ts"],
    }
