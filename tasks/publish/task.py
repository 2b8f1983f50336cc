"""The end of a run: indexes over what is new, small files compacted, and one row that makes it all live."""

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import hide_url
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import POOLS
from slowwave.recall.views.compare import COLUMNS, compare_claims
from slowwave.schemas.errors import EncoderFailed, EncoderNotFound
from slowwave.schemas.tables import COMPLETIONS, OBSERVATIONS, RELEASED, SESSIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store.indexes import count_unindexed, find_index
from slowwave.store.manifest import list_pinned_files
from slowwave.store.publishing import publish, read_releases
from slowwave.store.releases import Release, Snapshot
from slowwave.store.store import Store
from slowwave.store.upkeep import compact_store, drop_old_versions
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.llm.writer import find_writer, name_writer
from slowwave.tasks.pending import read_inactive_ids
from slowwave.tasks.progress import show_progress
from slowwave.tasks.publish.gates import Changes, ReleaseHeld, check_gates, check_nearest
from slowwave.tasks.quarantine import collect_quarantined
from slowwave.tasks.summarize.by_model import MEASURED, measure_summaries
from slowwave.tasks.topics.task import measure_base_share
from slowwave.tasks.vectors import is_encoder_away

OF_USE = ("reusable", "non_trivial")
"""What a language model says of a claim; null where none judged it. Whether it is `specific` is a matter of style: of a
model that begins every summary with "It was said" no claim is.
"""


def publish_release(job: Job, gated: bool = True) -> StepReport:
    """Index, compact, release, and drop versions that no kept release pins. An unchanged store is left alone.

    Where it is `gated` and outside the bounds of `gates`, no release is made, and the report's `held` says why.
    """

    def prepare(draft: Release) -> str | None:
        near = _measure_indexes(job, draft)
        report.counts |= {f"{name}: nearest found by index, of 1,000": round(1000 * n) for name, n in near.items()}
        if gated and job.settings.gates.enabled and (short := check_nearest(near)):
            report.failed += short  # of no session's making: the next night builds the index anew
            raise ReleaseHeld([])
        calibration = _calibrate_release(job, draft, report)
        advance(1)
        if gated and job.settings.gates.enabled and before:
            changes = _collect_changes(job, before[-1], replace(draft, calibration=calibration))
            if reasons := check_gates(job.settings.gates, changes):
                raise ReleaseHeld(reasons)
        return calibration

    with report_step("publish") as report, show_progress("publish", total=4) as advance:
        before = read_releases(job.store)
        touched = compact_store(job.store)
        advance(1)
        encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
        try:
            writer = find_writer(job.store) or name_writer(job.settings)
            release = publish(job.store, job.run_id, encoder, prepare, writer)
        except ReleaseHeld as held:
            report.held = held.reasons
            return report
        advance(1)
        if release is None:
            return report
        report.rows_out = sum(release.counts.values())
        report.notes += describe_end_of_roll_back(before, release)
        report.counts["tables indexed or compacted"] = len(touched)
        report.counts["rows not indexed"] = sum(count_unindexed(job.store.open_dataset(table)) for table in RELEASED)
        paths = list_pinned_files(job.store.dir, release.versions)
        size = sum((job.store.dir / path).stat().st_size for path in paths)
        report.counts["bytes a row"] = size // max(1, report.rows_out)
        report.counts["bytes freed"] = drop_old_versions(job.store, job.settings.storage)
    return report


def _measure_indexes(job: Job, draft: Release) -> dict[str, float]:
    """Return of each table that has an index of vectors the share of the nearest rows that it finds. One that finds too
    few is dropped from the newest version, and so built anew by the next night.
    """
    indexes = {table: find_index(job.store.open_dataset(table), table.vector) for table in RELEASED}
    if not any(indexes.values()):
        return {}
    from slowwave.recall.probes import measure_nearest_found  # all of recall, which most nights need not

    view, shares = View(job.store.dir, draft), dict[str, float]()
    for table in (pool.table for pool in POOLS.values()):
        if name := indexes[table]:
            shares[table.name] = share = measure_nearest_found(view, table)
            if check_nearest({name: share}):
                job.store.open_table(table).drop_index(name)
    return shares


def _collect_changes(job: Job, live: Release, draft: Release) -> Changes:
    """Return the differences between the newest tables and the live release.

    Claims of sessions that were observed anew, by other rules or since they grew, take the place of those before: they
    are chosen among others now, so of these only how many fewer there are is compared. One is lost where its message
    was taken back or changed.
    """
    store, before = job.store, Snapshot(job.settings.store, job.settings.space, live.release_id)
    columns = list(dict.fromkeys((*COLUMNS, "step_key", "message_ids", "assign_key", *OF_USE)))
    old, new = before.read(OBSERVATIONS, columns), store.read(OBSERVATIONS, columns)
    was, now = pl.DataFrame(old), pl.DataFrame(new)
    holds, settings = pl.col("status") == Status.ACTIVE, job.settings

    # 1. What became of claims, and how many fewer there are where they were chosen anew.
    of_anew = pl.col("session_id").is_in(
        now.filter(~pl.col("step_key").is_in(was["step_key"].implode()))["session_id"].implode()
    )
    of_changed = pl.col("session_id").is_in(_find_changed_sessions(store, before))
    still_stated = pl.col("message_ids").list.set_intersection(sorted(read_inactive_ids(store))).list.len() == 0
    replaced = was.select(of_anew | (of_changed & still_stated)).to_series()
    fewer = was.filter(replaced, holds).height - now.filter(of_anew | of_changed, holds).height
    became = compare_claims(old.filter(replaced.not_().to_arrow()), new, {})

    # 2. What is new: claims, what was not kept of a model's, tokens, and where a model placed any.
    fresh = now.filter(holds, ~of_anew, ~pl.col("observation_id").is_in(was.filter(holds)["observation_id"].implode()))
    junk = fresh.filter(pl.any_horizontal(pl.col(name) == pl.lit(False) for name in OF_USE))["summary"]
    since = store.read(COMPLETIONS, ["prompt_tokens", "completion_tokens"], pc.field("created_at") > live.created_at)
    is_placed = pl.col("assign_key").is_not_null() & (settings.get_llm("topics") != "off")
    placed = now.filter(is_placed).join(was.filter(is_placed), on="observation_id", how="anti")

    # 3. Summaries that a model wrote since, and what lost all of its own.
    earlier = before.read(SUMMARIES, ["summary_id", "text", "scope_id"])
    texts = set(zip(earlier["summary_id"].to_pylist(), earlier["text"].to_pylist(), strict=True))
    rows = store.read(SUMMARIES, [*MEASURED, "stale"]).to_pylist() if settings.get_llm("summaries") != "off" else []
    written = [row for row in rows if (row["summary_id"], row["text"]) not in texts and not row["stale"]]
    there = {key for table in (SESSIONS, TOPICS) for key in store.read(table, [table.key])[table.key].to_pylist()}
    had = there.intersection(earlier["scope_id"].to_pylist())
    return Changes(
        active=was.filter(holds).height,
        became=[(change.kind, change.summary) for change in became],
        fewer=max(0, fewer),
        counts=(live.counts, draft.counts),
        unanswered=_find_lost_probes(job, live, draft),
        new_claims=fresh.height,
        rejected=collect_quarantined(store, before)[1],
        junk=junk.to_list(),
        tokens=sum(pc.sum(since[name]).as_py() or 0 for name in since.column_names),
        base_share=measure_base_share(store) if placed.height else 0.0,
        summaries=measure_summaries(store, written, settings.pyramid.sum_window),
        summarised=(len(had), len(had.difference(store.read(SUMMARIES, ["scope_id"])["scope_id"].to_pylist()))),
    )


def _find_changed_sessions(store: Store, before: Snapshot) -> list[str]:
    """Return ids of the sessions of which other messages count now than in a release."""
    before_rows, now = (
        {row["session_id"]: row for row in tables.read(SESSIONS, ["session_id", "head_hash", "inactive"]).to_pylist()}
        for tables in (before, store)
    )
    return [key for key, row in now.items() if key in before_rows and row != before_rows[key]]


def _find_lost_probes(job: Job, live: Release, draft: Release) -> list[tuple[str, str]]:
    """Return the probes that the live release answers and the one to be does not."""
    probes, now = job.settings.gates.probes, datetime.now(UTC)
    if not probes:
        return []
    from slowwave.recall.probes import FIRST, STILL, find_answered  # all of recall: a night without probes needs none

    before, after = (
        find_answered(View(job.store.dir, release), job.settings, probes, now, first)
        for release, first in ((live, FIRST), (draft, STILL))
    )
    return [(question, answer) for question, answer in probes.items() if question in before - after]


def describe_end_of_roll_back(before: list[Release], made: Release) -> list[str]:
    """Return a note if a release ends a roll-back, and so restores what the roll-back had removed."""
    if not before or before[-1].restores is None:
        return []
    back = next((release.name for release in before if release.release_id == before[-1].restores), "an earlier release")
    return [
        f"the roll-back to {back} ends with {made.name}, which has all that came since {back}: "
        f"`slowwave diff {back} {made.name}` shows it, `slowwave exclude` leaves out what should not come back"
    ]


def _calibrate_release(job: Job, draft: Release, report: StepReport) -> str | None:
    """Return the scale of relevance that the release keeps; None without vectors. About a second."""
    if draft.encoder is None or is_encoder_away(job):
        return None
    try:
        encoder = load_query_encoder(job.settings.encoder)
        return fit_calibration(View(job.store.dir, draft), encoder)
    except (EncoderNotFound, EncoderFailed) as missing:  # every vector came from the store
        report.notes.append(f"no scale of relevance: {missing}")
        return None


def find_run_release(job: Job) -> Release | None:
    """Return the release that this run made, if it made one."""
    return next((r for r in read_releases(job.store) if r.run_id == job.run_id), None)
