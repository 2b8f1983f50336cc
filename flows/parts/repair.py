"""Repair a damaged store: keep intact messages, remake derived rows, and report rows that are lost for good.

    slowwave check --repair

Rows that nothing else can produce (messages, paid answers, exclusions, forgettings) come from the intact fragments of
their tables; messages also come from transcripts that still exist. The night's own steps remake all derived rows.
`repair.json` names the tables that are still to do: the next repair continues one that was killed, and no night begins
before it is done.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow.compute as pc

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.finish import finish_forgettings
from slowwave.flows.parts.quarantine_sessions import quarantine_candidate
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import open_run, run_step
from slowwave.flows.reprocess import FORGET, Selection
from slowwave.schemas.errors import StoreError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    ACTIONS,
    CHECKS,
    CLAIMS,
    FILES,
    FORGOTTEN,
    GISTS,
    MARKS,
    MERGES,
    MESSAGES,
    PASSAGES,
    QUARANTINE,
    RELATIONS,
    RELEASES,
    SESSIONS,
    SUMMARIES,
    TABLES,
    TOPIC_HISTORY,
    TOPICS,
)
from slowwave.store.manifest import REPAIR_FILE, Damage
from slowwave.store.place import report_missing
from slowwave.store.private import replace_file
from slowwave.store.repair import (
    KEPT,
    Salvaged,
    check_store,
    drop_unreadable,
    find_broken_indexes,
    find_broken_tables,
    mend_releases,
    salvage,
)
from slowwave.store.store import Store
from slowwave.tasks.forget.erase import is_blank
from slowwave.tasks.forget.plan import Plan
from slowwave.tasks.forget.stages import write_ledger
from slowwave.tasks.ingest.task import read_transcripts, refill_vault
from slowwave.tasks.job import Job

STEPS_OF: dict[str, tuple[str, ...]] = {
    "boilerplate": ("boilerplate",), "lines": ("boilerplate",), "actions": ("habits",), "patterns": ("habits",),
    "dead_ends": ("attempts",), "merges": ("dedupe", "supersede"), "relations": ("relate",), "checks": ("checks",),
    "topics": ("topics",), "topic_history": ("topics",), "summaries": ("summaries",),
}  # fmt: skip
"""Steps to do again if a table lost rows. The steps of other derived tables find by themselves what is missing."""
OF_CLAIMS = (CHECKS, RELATIONS, TOPICS, TOPIC_HISTORY, SUMMARIES, MARKS)
"""Tables that are emptied if claims are lost. Merges are emptied too, except those that were undone."""
MOST_NAMED = 20
"""Sessions that are named one by one at most."""


def run_repair(settings: Settings) -> RunReport:
    """Repair what is damaged, release the result, and remove unreadable releases from the ledger.

    Raises:
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    if not any((folder := settings.store / settings.space).glob("*.lance")):
        raise report_missing(folder)
    done: dict[str, Salvaged] = {}
    notes: list[str] = []
    indexes: list[str] = []

    def prepare(folder: Path) -> None:
        damage = check_store(folder).damage
        indexes.extend(find_broken_indexes(damage))
        _salvage(folder=folder, damage=damage, done=done, notes=notes)

    with open_run("repair", settings, prepare, create=True, rewrite=False) as (
        job,
        report,
    ):
        mend_releases(job.store)
        # the sessions' rows, before anything is read again
        columns = ["session_id", "native_id", "path", "messages"]
        before = pl.DataFrame(job.store.read(SESSIONS, columns))
        if done:
            _make_up(job=job, report=report, done=done, before=before)
        if done or indexes:
            with suppress(StoreError):  # The live release may be damaged itself.
                quarantine_candidate(job, report)
            # No gate: what is missing was lost to the damage.
            run_steps_after_read(job, report, gated=False, whole=False)
        dropped = drop_unreadable(job.store)
        finish_forgettings(job, report)
        for name, salvaged in done.items():
            notes += _describe_lost(
                store=job.store, table=name, done=salvaged, before=before
            )
        notes += [
            f"{name} can't be read any more and is no longer kept" for name in dropped
        ]
        report.notes += notes or ["nothing is damaged: nothing was done"]
        (job.store.dir / REPAIR_FILE).unlink(missing_ok=True)
    return report


def _make_up(
    job: Job,
    report: RunReport,
    done: dict[str, Salvaged],
    before: pl.DataFrame,
) -> None:
    """Read transcripts again for tables that lost rows, and reset the steps whose results are lost."""
    lost = {name for name, salvaged in done.items() if salvaged.lost != 0}
    if FORGOTTEN.name in lost:
        _restore_forgotten(job)
    _read_again(job=job, report=report, lost=lost, before=before)
    _forget_made(job.store, lost)


def _restore_forgotten(job: Job) -> None:
    """Rebuild the lost rows of FORGOTTEN: a blank message is a forgotten one."""
    empty = job.store.read(MESSAGES, where=pc.field("text") == "")
    rows = [row for row in empty.to_pylist() if is_blank(row)]
    plan = Plan(job.run_id, datetime.now(UTC).isoformat(), ["repair"])
    plan.sessions = sorted({row["session_id"] for row in rows})
    plan.blanks = [(row["message_id"], row["identity"]) for row in rows]
    write_ledger(job.store, plan)


def _salvage(
    folder: Path,
    damage: list[Damage],
    done: dict[str, Salvaged],
    notes: list[str],
) -> None:
    """Write to REPAIR_FILE the tables to remake, including those that a killed repair left; then salvage them."""
    file = folder / REPAIR_FILE
    begun = _read_begun(file)
    if todo := sorted(begun.union(find_broken_tables(folder, damage))):
        replace_file(file, json.dumps(todo).encode())
    salvaged, lines = salvage(folder, damage)
    done |= {name: Salvaged(0, None) for name in todo} | salvaged
    notes += lines


def _read_begun(file: Path) -> set[str]:
    """Return the tables that a killed repair left to remake.

    If its file is malformed, return all that can be remade.
    """
    if not file.exists():
        return set()
    try:
        return {TABLES[name].name for name in json.loads(file.read_bytes())}
    except (KeyError, TypeError, ValueError):
        return TABLES.keys() - {
            table.name for table in KEPT if table not in (SESSIONS, MERGES)
        }


def _find_short(store: Store, before: pl.DataFrame) -> pl.DataFrame:
    """Return the former sessions that lack messages now, each with the number `lost`."""
    counts = (
        pl.DataFrame(store.read(MESSAGES, ["session_id"]))
        .group_by("session_id")
        .len("held")
    )
    lost = pl.col("messages") - pl.col("held").fill_null(0)
    return (
        before.join(counts, on="session_id", how="left")
        .with_columns(lost=lost)
        .filter(lost > 0)
        .sort("session_id")
    )


def _read_again(
    job: Job,
    report: RunReport,
    lost: set[str],
    before: pl.DataFrame,
) -> None:
    """Read again the transcripts that still exist of sessions that lost messages or their row."""
    store = job.store
    short = _find_short(store, before)
    files = pl.DataFrame(store.read(FILES, ["path", "quarantined"]))
    paths = set(short["path"])
    if lost & {SESSIONS.name, FILES.name}:
        paths |= {*files["path"], *before["path"]}
    if QUARANTINE.name in lost:
        paths |= set(files.filter(pl.col("quarantined") > 0)["path"])
    there = [Path(path) for path in sorted(paths) if path and Path(path).exists()]
    if there:
        refill_vault(store=store, settings=job.settings, paths=there, now=job.now)
        store.delete_ids(FILES, [str(path) for path in there])
        run_step(job, report, read_transcripts, there)
    if lost & {MESSAGES.name, SESSIONS.name}:
        _drop_orphans(store)
        # Sessions that lost messages are observed again.
        sessions = set(short["session_id"])
        marks = store.read_ids(MARKS, sessions, [MARKS.key], by="unit_id")
        store.delete_ids(MARKS, marks[MARKS.key].to_pylist())


def _drop_orphans(store: Store) -> None:
    """Delete rows that were made of messages that are gone."""
    stored = store.read(MESSAGES, [MESSAGES.key])[MESSAGES.key].combine_chunks()
    for table in (PASSAGES, GISTS, ACTIONS):
        rows = store.read(table, list({table.key, "message_id"}))
        orphans = rows.filter(pc.invert(pc.is_in(rows["message_id"], stored)))
        store.delete_ids(table, orphans[table.key].to_pylist())


def _forget_made(store: Store, lost: set[str]) -> None:
    """Delete what must be remade.

    If claims are lost, delete all claims, their merges that were not undone, and the tables of OF_CLAIMS. Else reset
    the steps that made the lost rows, for all sessions.
    """
    if CLAIMS.name in lost:
        for table in OF_CLAIMS:
            store.delete_ids(
                table, store.read(table, [table.key])[table.key].to_pylist()
            )
        merges = store.read(
            MERGES, [MERGES.key], pc.field("undone") == pc.scalar(False)
        )
        store.delete_ids(MERGES, merges[MERGES.key].to_pylist())
        store.delete_ids(
            CLAIMS,
            store.read(CLAIMS, [CLAIMS.key])[CLAIMS.key].to_pylist(),
        )
        return
    chosen = Selection().select_sessions(store)
    for step in sorted({step for name in lost for step in STEPS_OF.get(name, ())}):
        FORGET[step](store, chosen)


def _describe_lost(
    store: Store,
    table: str,
    done: Salvaged,
    before: pl.DataFrame,
) -> Iterator[str]:
    """Yield lines about a table's lost rows: where they may come from, or that they were remade."""
    whole = f"{table}: whole rows: {done.kept:,}"
    if TABLES[table] not in KEPT:
        yield f"{table}: rebuilt"
    elif table == MESSAGES.name:
        yield from _describe_lost_messages(store, done, before)
    elif table in (SESSIONS.name, MERGES.name, RELEASES.name) or done.lost == 0:
        yield f"{whole}; the others were rebuilt"
    else:
        many = "an unknown number of" if done.lost is None else f"{done.lost:,}"
        yield f"{whole}; {many} rows are lost, and only an earlier backup has them"
        if table == FORGOTTEN.name:
            yield "forgotten: blank messages stay blank; others may come back from a transcript: forget them again"


def _describe_lost_messages(
    store: Store, done: Salvaged, before: pl.DataFrame
) -> Iterator[str]:
    """Yield the number of messages that were read again, and a line for each session that still lacks some."""
    short = _find_short(store, before)
    back = max(sum(before["messages"]) - done.kept - sum(short["lost"]), 0)
    yield f"messages: whole rows: {done.kept:,}; {back:,} were read again from their transcripts"
    for row in short.head(MOST_NAMED).iter_rows(named=True):
        why = "no longer has them" if Path(row["path"]).exists() else "is gone"
        few = f"{row['lost']:,} of {row['messages']:,} messages are lost"
        yield f"session {row['native_id']}: {few}, {row['path']} {why}; only a backup has them"
    if short.height > MOST_NAMED:
        yield f"{short.height - MOST_NAMED:,} more sessions lost messages"
