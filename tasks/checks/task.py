"""Compare claims and passages with the checkouts of git on this machine that they are about.

A checkout is looked at again when its HEAD, its branches or what is said of it have changed. Nothing is retired by it:
recall puts what does not hold behind what does, and rules and skills leave it out until it holds again.
"""

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.counters import CountByKind
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CHECKS, CLAIMS, MARKS, PASSAGES
from slowwave.schemas.vocabulary import TALKING, CheckKind, CheckResult, Status
from slowwave.store.notes import CHECKOUTS
from slowwave.store.private import replace_file
from slowwave.store.store import Store
from slowwave.tasks.checks.branches import Seen, read_state
from slowwave.tasks.checks.check import VERSION, Text, check_texts
from slowwave.tasks.checks.checkout import (
    CheckoutRefused,
    Commit,
    find_checkout,
    open_git,
)
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import mark_done, read_inactive_ids
from slowwave.tasks.progress import track_items
from slowwave.text.workspaces import find_project_root

STEP = "checks"
SECONDS = 30.0
"""How long one checkout may be read; what is not found out by then is left open."""


def check_claims(job: Job) -> StepReport:
    """Write what the code says of claims and passages, for each checkout in which one of both has changed."""
    with report_step(STEP) as report:
        store = job.store
        key = compute_step_key(STEP, VERSION, job.settings.habits)
        roots = _find_roots(store) if job.settings.check_claims else {}
        _note_checkouts(store, roots)
        texts = _read_texts(store, roots, read_inactive_ids(store))
        done = _read_done(store)
        units: dict[str, str] = {}
        fresh = [CHECKS.make_empty_table()]
        seen = _read_branches_seen(store, roots)
        left_alone: set[str] = set()
        for root, some in track_items(STEP, sorted(texts.items())):
            unit = compute_content_id("checkout", root)
            units[unit] = _compute_unit_key(root, some, key)
            if units[unit] == done.get(unit):
                left_alone.update(text.row_id for text in some)
            else:
                fresh.append(
                    _check(
                        job=job,
                        root=root,
                        texts=some,
                        key=key,
                        seen=seen[root],
                        report=report,
                    )
                )
        rows = pa.concat_tables(fresh)
        report.rows_out = _replace(store, rows, left_alone)
        report.kinds[CountByKind.CHECKS].update(rows["result"].to_pylist())
        # mark last
        _mark(store, units, done)
    return report


def _mark(
    store: Store,
    units: Mapping[str, str],
    done: Mapping[str, str],
) -> None:
    """Note with what each checkout was compared; of one that nothing is said of any more nothing."""
    gone = done.keys() - units.keys()
    store.delete_ids(MARKS, [compute_content_id(STEP, unit) for unit in gone])
    mark_done(store, STEP, [(unit, mark, None) for unit, mark in units.items()])


def _compute_unit_key(
    root: str,
    texts: Sequence[Text],
    key: str,
) -> str:
    """Return a hash of what is said of a checkout, its HEAD and branches; empty for one that may not be read."""
    try:
        return compute_content_id(key, read_state(Path(root)), *map(repr, texts))
    except CheckoutRefused:
        return ""


def _read_done(store: Store) -> dict[str, str]:
    """Return by checkout the hash of what it was last compared with."""
    rows = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == STEP)
    return {row["unit_id"]: row["input_key"] for row in rows.to_pylist()}


def _read_branches_seen(
    store: Store,
    roots: Mapping[str, str],
) -> dict[str, dict[str, Seen]]:
    """Return by checkout the branches that an earlier check found, or knew, each with when that was."""
    seen: dict[str, dict[str, Seen]] = defaultdict(dict)
    rows = store.read(CHECKS, where=pc.field("kind") == CheckKind.BRANCH).to_pylist()
    for row in rows:
        is_found = row["result"] == CheckResult.FOUND
        at = row["checked_at"] if is_found else row["since_at"]
        commit = row["commit"] if is_found else row["since_commit"]
        known = seen[roots.get(row["workspace"], "")]
        if at is not None and commit:
            last = Commit(str(commit), int(at.timestamp()))
            one = Seen(last, row["path"] or "", row["instead"] or "")
            other = known.get(row["name"])
            if other is None or other.last.at < last.at:
                known[row["name"]] = one
    return seen


def _replace(
    store: Store,
    rows: pa.Table,
    left_alone: Collection[str],
) -> int:
    """Write rows, and delete all others but those of texts that were left alone; return the number written."""
    written = store.merge_changed(CHECKS, rows)
    kept = set(rows[CHECKS.key].to_pylist())
    stored = store.read(CHECKS, [CHECKS.key, "row_id"]).to_pylist()
    others = [row for row in stored if row["row_id"] not in left_alone]
    ids = {row[CHECKS.key] for row in others} - kept
    store.delete_ids(CHECKS, sorted(ids))
    return written


def read_heads(folder: Path) -> list[tuple[str, str]]:
    """Return the checkouts that the last night of a space looked for, each with its HEAD and branches now."""
    try:
        roots = json.loads((folder / CHECKOUTS).read_bytes())
    except (OSError, ValueError):
        return []
    heads = []
    for root in roots:
        head = ""
        with suppress(CheckoutRefused):
            head = read_state(Path(root))
        heads.append((str(root), head))
    return heads


def _check(
    job: Job,
    root: str,
    texts: Sequence[Text],
    key: str,
    seen: Mapping[str, Seen],
    report: StepReport,
) -> pa.Table:
    """Return the rows of one checkout; none of one that may not be read."""
    try:
        checkout = find_checkout(Path(root))
        with open_git(checkout, SECONDS) as git:
            exclude = job.settings.habits.exclude
            rows = check_texts(
                git=git,
                texts=texts,
                now=job.now,
                step_key=key,
                exclude=exclude,
                earlier=seen,
            )
            is_whole = bool(git.deadline.left)
    except CheckoutRefused as refused:
        report.kinds[CountByKind.CHECKOUTS_REFUSED][str(refused)] += 1
        return CHECKS.make_empty_table()
    report.rows_in += len(texts)
    if not is_whole:
        name = Path(root).name
        report.notes.append(f"{name}: not all code was read in {SECONDS:.0f} s")
    return rows


def _find_roots(store: Store) -> dict[str, str]:
    """Return the workspaces that lie in a checkout on this machine, each with the checkout's root."""
    names = pa.concat_arrays(
        [
            store.read(table, ["workspace"])["workspace"].unique()
            for table in (CLAIMS, PASSAGES)
        ]
    )
    roots = {}
    for name in names.unique().drop_null().to_pylist():
        with suppress(OSError, ValueError):
            if Path(name).is_absolute() and Path(name).is_dir():
                root = find_project_root(Path(os.path.realpath(name)))
                if root is not None:
                    roots[name] = str(root)
    return roots


def _note_checkouts(
    store: Store,
    roots: Mapping[str, str],
) -> None:
    """Note the checkouts, if there are others than before."""
    path = store.dir / CHECKOUTS
    content = json.dumps(sorted(set(roots.values())))
    before = path.read_text(encoding="utf-8") if path.is_file() else "[]"
    if before != content:
        replace_file(path, content.encode())


def _read_texts(
    store: Store,
    roots: Mapping[str, str],
    gone: Collection[str],
) -> dict[str, list[Text]]:
    """Return the active claims and the passages about each checkout, in order of their ids; without those of the
    messages that are gone.
    """
    if not roots:
        return {}
    inside = pc.field("workspace").isin(sorted(roots))
    columns = ["claim_id", "workspace", "summary", "files", "observed_at"]
    active = inside & (pc.field("status") == Status.ACTIVE)
    claims = pl.DataFrame(store.read(CLAIMS, columns, active))
    columns = ["passage_id", "message_id", "workspace", "text", "ts"]
    spoken = inside & pc.field("role").isin([str(role) for role in TALKING])
    passages = pl.DataFrame(store.read(PASSAGES, columns, spoken))
    inactive = pl.Series(sorted(gone), dtype=pl.String)
    passages = passages.filter(~pl.col("message_id").is_in(inactive.implode()))
    texts: dict[str, list[Text]] = defaultdict(list)
    for text in (*_iter_claims(claims), *_iter_passages(passages)):
        texts[roots[text.workspace]].append(text)
    return texts


def _iter_claims(claims: pl.DataFrame) -> Iterable[Text]:
    for row in claims.sort("claim_id").iter_rows(named=True):
        yield Text(
            row_id=row["claim_id"],
            message_id=None,
            workspace=row["workspace"],
            text=row["summary"],
            files=tuple(row["files"]),
            at=row["observed_at"],
        )


def _iter_passages(passages: pl.DataFrame) -> Iterable[Text]:
    for row in passages.sort("passage_id").iter_rows(named=True):
        yield Text(
            row_id=row["passage_id"],
            message_id=row["message_id"],
            workspace=row["workspace"],
            text=row["text"],
            files=(),
            at=row["ts"],
        )
