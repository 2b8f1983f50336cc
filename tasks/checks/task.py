"""Compare claims and passages with the checkouts of git on this machine that they are about.

A checkout is looked at again when its HEAD, its branches or what is said of it have changed. Nothing is retired by it:
recall puts what does not hold behind what does, and rules and skills leave it out until it holds again.
"""

import json
import os
from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.counters import CountByKind
from slowwave.schemas.ids import compute_content_id, compute_tags_id
from slowwave.schemas.tables import CHECKS, CLAIMS, MARKS, PASSAGES
from slowwave.schemas.vocabulary import TALKING, CheckKind, CheckResult, Status
from slowwave.store.notes import CHECKOUTS
from slowwave.store.private import replace_file
from slowwave.store.store import Store
from slowwave.tasks.checks.branches import TAGS, Seen, read_state
from slowwave.tasks.checks.check import VERSION, Text, check_texts
from slowwave.tasks.checks.checkout import (
    CheckoutRefused,
    Commit,
    find_checkout,
    open_git,
)
from slowwave.tasks.checks.tags import find_tags
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import mark_done, read_inactive_ids
from slowwave.tasks.progress import track_items
from slowwave.text.workspaces import find_project_root

STEP = CHECKS.name
SECONDS = 30.0
"""How long one checkout may be read. What is not found out by then is left open, and its earlier marks are kept."""
MOST_TRIES = 3
"""Nights that read the same state of a checkout, each for twice as long as the one before, until all is read."""
FAILED = "not all of its history could be read"


class LastState(NamedTuple):
    """What a checkout was last compared with."""

    key: str
    """Its state's hash, and behind a space the number of nights that did not read all of it, if another is to try."""
    note: str | None = None
    """Why not all is known of it, for a person."""


class Look(NamedTuple):
    """What a night found out about a checkout."""

    marks: Mapping[str, LastState]
    """By unit."""
    rows: pa.Table
    unread: frozenset[str] = frozenset()
    """Ids of the earlier rows that still count."""
    left_alone: frozenset[str] = frozenset()
    """Ids of the texts whose earlier rows still count."""


def check_claims(job: Job) -> StepReport:
    """Write what the code says of claims and passages, for each checkout in which one of both has changed."""
    with report_step(STEP) as report:
        store = job.store
        key = compute_step_key(STEP, VERSION, job.settings.habits)
        roots, away = _find_roots(store) if job.settings.check_claims else ({}, [])
        _note_checkouts(store, roots)
        places = {**dict.fromkeys(_keep_checked(store, away), ""), **roots}
        texts = _read_texts(store, places, read_inactive_ids(store))
        done = _read_done(store)
        seen = _read_branches_seen(store, roots)
        looks = [_leave(texts.pop("", []), {})]
        for root, some in track_items(STEP, sorted(texts.items())):
            looks.append(
                _look_at(
                    job=job,
                    root=root,
                    texts=some,
                    key=key,
                    seen=seen[root],
                    report=report,
                    done=done,
                )
            )
        for look in looks:
            report.kinds[CountByKind.CHECKS].update(look.rows["result"].to_pylist())
        looks.append(_look_at_tags(job=job, roots=roots, away=away, done=done, key=key))
        report.rows_out = _replace(store, looks)
        # mark last
        _mark(store, dict(ChainMap(*(dict(look.marks) for look in looks))), done)
    return report


def _look_at_tags(
    job: Job,
    roots: Mapping[str, str],
    away: Iterable[str],
    done: Mapping[str, LastState],
    key: str,
) -> Look:
    """Return the rows of the tags of checkouts. The earlier ones of a workspace that can't be read still count."""
    tags = find_tags(
        earlier=_read_tags(job.store),
        roots=roots,
        known=done,
        now=job.now,
        step_key=key,
    )
    unread = {*tags.unread, *map(compute_tags_id, away)}
    marks = dict.fromkeys([*tags.places, *unread.intersection(done)], LastState(TAGS))
    return Look(marks, tags.build_table(), left_alone=frozenset(unread))


def _look_at(
    job: Job,
    root: str,
    texts: Sequence[Text],
    key: str,
    seen: Mapping[str, Seen],
    report: StepReport,
    done: Mapping[str, LastState],
) -> Look:
    """Return the rows of a checkout; nothing new of one that is as it was, or may not be read.

    Args:
        job: the run.
        root: the checkout's folder.
        texts: what is said of it.
        key: the step's.
        seen: branches that earlier nights saw.
        report: of the step.
        done: by unit what it was last compared with.
    """
    unit = compute_content_id("checkout", root)
    before = done.get(unit)
    unchanged = _leave(texts, {unit: before or LastState("")})
    state = _compute_unit_key(root, texts, key)
    if before is not None and state == before.key:
        return unchanged
    looked = _check(
        job=job,
        root=root,
        texts=texts,
        key=key,
        seen=seen,
        report=report,
        unit=unit,
        state=state,
        tries=_count_tries(before, state),
    )
    return looked or unchanged


def _leave(
    texts: Iterable[Text],
    marks: Mapping[str, LastState],
) -> Look:
    """Return nothing new of a checkout: the earlier rows of the texts about it still count."""
    ids = frozenset(text.row_id for text in texts)
    return Look(marks, CHECKS.make_empty_table(), left_alone=ids)


def _count_tries(
    before: LastState | None,
    state: str,
) -> int:
    """Return the number of earlier nights that read a state of a checkout, and not all of it."""
    key, _, tries = before.key.partition(" ") if before else ("", "", "")
    return int(tries) if key == state and tries else 0


def _mark(
    store: Store,
    units: Mapping[str, LastState],
    done: Mapping[str, LastState],
) -> None:
    """Note with what each checkout was compared; of one that nothing is said of any more nothing."""
    gone = done.keys() - units.keys()
    store.delete_ids(MARKS, [compute_content_id(STEP, unit) for unit in gone])
    mark_done(store, STEP, [(unit, *mark) for unit, mark in units.items()])


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


def _read_done(store: Store) -> dict[str, LastState]:
    """Return by checkout what it was last compared with."""
    columns = ["unit_id", "input_key", "note"]
    rows = store.read(MARKS, columns, pc.field("step") == STEP).to_pylist()
    return {row["unit_id"]: LastState(row["input_key"], row["note"]) for row in rows}


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


def _read_tags(store: Store) -> dict[str, dict[str, datetime | None]]:
    """Return by workspace's id the tags of earlier checks, each with the first check that found it."""
    earlier: dict[str, dict[str, datetime | None]] = defaultdict(dict)
    columns = ["row_id", "name", "since_at"]
    rows = store.read(CHECKS, columns, pc.field("kind") == CheckKind.TAG)
    for row in rows.to_pylist():
        earlier[row["row_id"]][row["name"]] = row["since_at"]
    return earlier


def _replace(
    store: Store,
    looks: Collection[Look],
) -> int:
    """Write rows, and delete all others but those that still count; return the number written."""
    rows = pa.concat_tables(look.rows for look in looks)
    written = store.merge_changed(CHECKS, rows)
    left_alone = frozenset[str]().union(*(look.left_alone for look in looks))
    unread = frozenset[str]().union(*(look.unread for look in looks))
    kept = {*rows[CHECKS.key].to_pylist(), *unread}
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
    unit: str,
    state: str,
    tries: int,
) -> Look | None:
    """Return the rows of a checkout; None if it may not be read.

    Args:
        job: the run.
        root: the checkout's folder.
        texts: what is said of it.
        key: the step's.
        seen: branches that earlier nights saw.
        report: of the step.
        unit: the checkout's.
        state: hash of the checkout's state.
        tries: nights that read this state already, and not all of it.
    """
    seconds = SECONDS * 2**tries
    try:
        checkout = find_checkout(Path(root))
        with open_git(checkout, seconds) as git:
            exclude = job.settings.habits.exclude
            rows, unread = check_texts(
                git=git,
                texts=texts,
                now=job.now,
                step_key=key,
                exclude=exclude,
                earlier=seen,
            )
            is_late = not git.deadline.left
            is_whole = not git.cuts
    except CheckoutRefused as refused:
        report.kinds[CountByKind.CHECKOUTS_REFUSED][str(refused)] += 1
        return None
    report.rows_in += len(texts)
    if is_whole:
        return Look({unit: LastState(state)}, rows, unread)
    why = f"not all of it was read in {seconds:.0f} s" if is_late else FAILED
    note = f"{Path(root).name}: {why}; what was known of the rest is kept"
    report.notes.append(note)
    if is_late and tries + 1 < MOST_TRIES:
        report.kinds[CountByKind.WAITING]["checkouts"] += 1
        return Look({unit: LastState(f"{state} {tries + 1}", note)}, rows, unread)
    return Look({unit: LastState(state, note)}, rows, unread)


def _find_roots(store: Store) -> tuple[dict[str, str], list[str]]:
    """Return the workspaces that lie in a checkout on this machine, each with the checkout's root; and the others."""
    names = pa.concat_arrays(
        [
            store.read(table, ["workspace"])["workspace"].unique()
            for table in (CLAIMS, PASSAGES)
        ]
    )
    roots = {}
    known = names.unique().drop_null().to_pylist()
    for name in known:
        with suppress(OSError, ValueError):
            if Path(name).is_absolute() and Path(name).is_dir():
                root = find_project_root(Path(os.path.realpath(name)))
                if root is not None:
                    roots[name] = str(root)
    return roots, [name for name in known if name not in roots]


def _keep_checked(
    store: Store,
    workspaces: Collection[str],
) -> set[str]:
    """Return the workspaces with rows among some: nothing is known of a folder whose disk is away now."""
    names = store.read(CHECKS, ["workspace"])["workspace"].unique().to_pylist()
    return set(names).intersection(workspaces)


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
