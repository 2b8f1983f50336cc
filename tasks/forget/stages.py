"""Erase what a plan names, in stages.

Each stage can be repeated: a killed run is finished by doing all of them again.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import translate_write_errors
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, MessageRow
from slowwave.schemas.tables import (
    ACTIONS,
    BOILERPLATE,
    CHECKS,
    CLAIMS,
    COMPLETIONS,
    DEAD_ENDS,
    EXCLUSIONS,
    FILES,
    FORGOTTEN,
    GISTS,
    LINES,
    MARKS,
    MERGES,
    MESSAGES,
    PASSAGES,
    QUARANTINE,
    RELATIONS,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
    Table,
)
from slowwave.schemas.vocabulary import Status
from slowwave.store.manifest import mark_synced
from slowwave.store.notes import CHECKOUTS
from slowwave.store.store import Store
from slowwave.tasks.forget.erase import (
    FORGOTTEN_REASON,
    blank_event,
    blank_message,
    blank_report,
    blank_topic,
    free_claim,
)
from slowwave.tasks.forget.exports import list_exports, remove_export
from slowwave.tasks.forget.lineage import AT_ONCE, write_plan
from slowwave.tasks.forget.logs import erase_recalled, erase_said, erase_shared
from slowwave.tasks.forget.plan import Plan
from slowwave.tasks.ingest.vault import GENESIS, chain_row

WHOLE_ROWS: tuple[tuple[Table, str, str], ...] = (
    (PASSAGES, "message_id", "messages"),
    (ACTIONS, "message_id", "messages"),
    (GISTS, "message_id", "messages"),
    (BOILERPLATE, "span_id", "spans"),
    (LINES, "session_id", "sessions"),
    (MARKS, "unit_id", "sessions"),
    (SUMMARIES, "summary_id", "summaries"),
    (CLAIMS, "claim_id", "claims"),
    (MERGES, "from_id", "claims"),
    (MERGES, "into_id", "claims"),
    (RELATIONS, "from_id", "claims"),
    (RELATIONS, "to_id", "claims"),
    (CHECKS, "row_id", "claims"),
    (CHECKS, "message_id", "messages"),
    (DEAD_ENDS, "attempt_id", "messages"),
    (DEAD_ENDS, "failure_id", "messages"),
    (DEAD_ENDS, "instead_id", "messages"),
    (COMPLETIONS, "completion_id", "completions"),
    (EXCLUSIONS, "row_id", "denied"),
    (EXCLUSIONS, "row_id", "messages"),
)
"""The rows that are deleted: a table, one of its columns, and the plan's list of ids that the column is compared to."""


def erase(store: Store, plan: Plan) -> None:
    """Erase what a plan names, and write it down as erased, so that rows that are remade later are not erased again."""
    for stage in STAGES:
        stage(store, plan)
    (store.dir / CHECKOUTS).unlink(missing_ok=True)
    plan.erased = True
    with translate_write_errors(store.dir):
        # Else a power cut could restore the rows although the plan says that they are erased.
        mark_synced(store.dir)
        write_plan(store.dir, plan)


def write_ledger(store: Store, plan: Plan) -> None:
    """Write the rows of FORGOTTEN before anything is erased: from here on no night stores these messages again."""
    rows: list[tuple[str, str, str | None]] = [
        ("message", *blank) for blank in plan.blanks
    ]
    rows += [("title", sid, None) for sid in plan.sessions]
    rows += [("quarantine", blank, None) for blank in plan.quarantine]
    at = datetime.fromisoformat(plan.at)
    noted = set(store.read(FORGOTTEN, ["forgotten_id"])["forgotten_id"].to_pylist())
    table = [
        {
            "forgotten_id": compute_content_id(kind, row_id),
            "kind": kind,
            "row_id": row_id,
            "identity": identity,
            "why": ", ".join(plan.why),
            "run_id": plan.run_id,
            "at": at,
        }
        for kind, row_id, identity in rows
    ]
    _merge(store, FORGOTTEN, [row for row in table if row["forgotten_id"] not in noted])


def blank_vault(store: Store, plan: Plan) -> None:
    """Replace each message by a blank row, chain its session again, and remove the session's title.

    Old ids and hashes of the chain are not kept: a guess of the words could be tested with them.
    """
    for start in range(0, len(plan.messages), AT_ONCE):
        rows = store.read_ids(
            MESSAGES, plan.messages[start : start + AT_ONCE]
        ).to_pylist()
        _merge(store, MESSAGES, [blank_message(row) for row in rows])
        store.delete_ids(MESSAGES, [row["message_id"] for row in rows])
    # Sessions lose their title and the erased ids, and get a new head; sessions without messages lose their workspace.
    heads = {sid: _chain_anew(store, sid) for sid in plan.sessions}
    sessions = store.read_ids(SESSIONS, plan.sessions).to_pylist()
    whole = set(plan.whole)
    gone = set(plan.messages)
    blank = [
        row
        | {
            "title": None,
            "workspace": None if row["session_id"] in whole else row["workspace"],
        }
        | {"inactive": [message for message in row["inactive"] if message not in gone]}
        | {"head_hash": heads[row["session_id"]]}
        for row in sessions
    ]
    _merge(
        store,
        SESSIONS,
        [new for new, old in zip(blank, sessions, strict=True) if new != old],
    )


def _chain_anew(store: Store, session_id: str) -> str:
    """Chain a session's stored rows again, write those that change, and return the hash of the last."""
    prev = GENESIS
    changed = list[MessageRow]()
    for row in sorted(
        store.read_ids(MESSAGES, [session_id], by="session_id").to_pylist(),
        key=lambda r: r["seq"],
    ):
        placed = chain_row(row, row["seq"], prev)
        changed += [placed] if placed != row else []
        prev = placed["hash"]
    _merge(store, MESSAGES, changed)
    return prev


def erase_rows(store: Store, plan: Plan) -> None:
    """Delete the rows of `WHOLE_ROWS`. Since marks go too, the next steps process the sessions again."""
    for table, column, ids in WHOLE_ROWS:
        rows = store.read_ids(table, getattr(plan, ids), [table.key], by=column)
        store.delete_ids(table, rows[table.key].to_pylist())


def erase_claims(store: Store, plan: Plan) -> None:
    """Update the claims that repeated a deleted claim, were superseded by one, or lose evidence (see `free_claim`).

    Those that were linked with a deleted claim are judged again: what that one had changed, or restored, may not be so.
    """
    gone = set(plan.claims)
    lean = [
        *store.read_ids(CLAIMS, plan.claims, by="canonical_id").to_pylist(),
        *store.read_ids(CLAIMS, plan.claims, by="superseded_by").to_pylist(),
        *store.read_ids(CLAIMS, plan.shrunk).to_pylist(),
    ]
    rows = {row["claim_id"]: row for row in lean if row["claim_id"] not in gone}
    members = defaultdict[str, list[ClaimRow]](list)
    for row in store.read_ids(CLAIMS, rows, by="canonical_id").to_pylist():
        if row["claim_id"] not in gone:
            members[row["canonical_id"]].append(row)
    freed = [(row, free_claim(row, gone, members[id_])) for id_, row in rows.items()]
    linked: list[ClaimRow] = store.read_ids(CLAIMS, plan.linked).to_pylist()
    freed += [
        (row, {**row, "supersede_key": None})
        for row in linked
        if row["claim_id"] not in rows
    ]
    _merge(store, CLAIMS, [new for old, new in freed if new != old])


def erase_topics(store: Store, plan: Plan) -> None:
    """Remove names, centres and samples of topics that lose a claim. Delete a topic without claims, unless it is a base
    topic.
    """
    columns = ["claim_id", "topic_id", "observed_at"]
    active = pc.field("status") == Status.ACTIVE
    claims_left = pl.DataFrame(
        store.read_ids(CLAIMS, plan.topics, columns, by="topic_id", where=active)
    )
    left = {
        str(key[0]): group["claim_id"].to_list()
        for key, group in claims_left.sort("observed_at", "claim_id").group_by(
            ["topic_id"], maintain_order=True
        )
    }
    rows = store.read_ids(TOPICS, plan.topics).to_pylist()
    staying = [row for row in rows if row["base"] or row["topic_id"] in left]
    fresh = [
        blank_topic(row, left.get(row["topic_id"], []), len(row["samples"]))
        for row in staying
    ]
    _merge(
        store,
        TOPICS,
        [new for new, old in zip(fresh, staying, strict=True) if new != old],
    )
    store.delete_ids(TOPICS, [row["topic_id"] for row in rows if row not in staying])
    topics = set(plan.topics)
    claims = set(plan.claims)
    history = store.read(TOPIC_HISTORY).to_pylist()
    _merge(
        store,
        TOPIC_HISTORY,
        [new for row in history if (new := blank_event(row, topics, claims)) != row],
    )


def erase_ledgers(store: Store, plan: Plan) -> None:
    """Remove excerpts in quarantine, a person's reasons, the words of earlier runs' reports, and digests of files."""
    reasons = set(plan.reasons)
    gone = set(plan.messages)
    # Keep a line's place, so that the line is known when its file is read again.
    lines = store.read_ids(QUARANTINE, plan.quarantine).to_pylist()
    of_files = [
        {**row, "reason": FORGOTTEN_REASON, "excerpt": None}
        for row in lines
        if row["path"]
    ]
    _merge(store, QUARANTINE, [row for row in of_files if row not in lines])
    store.delete_ids(
        QUARANTINE, [row["quarantine_id"] for row in lines if not row["path"]]
    )
    given = store.read(EXCLUSIONS).to_pylist()
    blank = [
        row
        | {"why": FORGOTTEN_REASON if row["row_id"] in reasons else row["why"]}
        | {"inactive": [message for message in row["inactive"] if message not in gone]}
        for row in given
    ]
    _merge(
        store,
        EXCLUSIONS,
        [new for new, old in zip(blank, given, strict=True) if new != old],
    )
    # A guess of one line of a file could be tested with the file's digest. Without it the file is read again when it
    # changes.
    digests = (
        [
            {**row, "digest": ""}
            for row in store.read(FILES).to_pylist()
            if row["digest"]
        ]
        if plan.messages
        else []
    )
    _merge(store, FILES, digests)
    if plan.messages or plan.reasons:
        runs = (
            store.read(RUNS) if plan.messages else store.read_ids(RUNS, plan.reasons)
        ).to_pylist()
        _merge(store, RUNS, [new for row in runs if (new := blank_report(row)) != row])


def erase_files(store: Store, plan: Plan) -> None:
    """Remove messages and claims from the files of talks, notes, other memories, and the log of recalls."""
    erase_said(store.dir, plan.said)
    erase_shared(store.dir, plan.said)
    spoken = ("/".join(pair) for pair in plan.said)
    ids = {
        *plan.messages,
        *plan.claims,
        *plan.summaries,
        *plan.whole,
        *plan.reasons,
        *spoken,
    }
    erase_recalled(store.dir, ids, set(plan.recalled))


def erase_exports(store: Store, plan: Plan) -> None:
    """Delete the exports that the plan lists, if it says so. The certificate names an export that can't be deleted."""
    for export in list_exports(store.dir) if plan.drop_exports else ():
        if (export.path, export.at) in plan.exports:
            with suppress(OSError):
                remove_export(export)


STAGES: tuple[Callable[[Store, Plan], None], ...] = (
    write_ledger,
    blank_vault,
    erase_rows,
    erase_claims,
    erase_topics,
    erase_ledgers,
    erase_files,
    erase_exports,
)


def _merge(
    store: Store,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
) -> None:
    store.merge(table, pa.Table.from_pylist(rows, schema=table.schema))
