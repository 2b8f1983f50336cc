"""The last step of a run: index new rows, compact small files, and write the row that makes the release live."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import hide_url
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import POOLS
from slowwave.recall.views.compare import COLUMNS, compare_claims
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import EncoderFailed, EncoderNotFound
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    RELEASED,
    SESSIONS,
    SUMMARIES,
    TOPICS,
)
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
from slowwave.tasks.publish.gates import (
    Changes,
    ReleaseHeld,
    check_gates,
    check_nearest,
)
from slowwave.tasks.quarantine import collect_quarantined
from slowwave.tasks.summarize.by_model import MEASURED, measure_summaries
from slowwave.tasks.summarize.coherence import Coherence
from slowwave.tasks.topics.task import measure_base_share
from slowwave.tasks.vectors import is_encoder_away

IS_ACTIVE = pl.col("status") == Status.ACTIVE
OF_USE = ("reusable", "non_trivial")
"""Gates that say whether a claim is of use; null if no model judged it. `specific` is left out, since it depends on
style: a model that begins every summary with "It was said" has no specific claim.
"""


def publish_release(job: Job, gated: bool = True) -> StepReport:
    """Index, compact, release, and drop versions that no kept release pins. An unchanged store is left alone.

    If the release is `gated` and outside the bounds of `gates`, it is not made, and the report's `held` says why.
    """
    with report_step("publish") as report, show_progress("publish", total=4) as advance:
        is_gated = gated and job.settings.gates.enabled
        before = read_releases(job.store)
        touched = compact_store(job.store)
        advance(1)

        def prepare(draft: Release) -> str | None:
            _check_indexes(job=job, draft=draft, report=report, is_gated=is_gated)
            calibration = _calibrate_release(job, draft, report)
            advance(1)
            if is_gated and before:
                changes = _collect_changes(
                    job, before[-1], replace(draft, calibration=calibration)
                )
                if reasons := check_gates(job.settings.gates, changes):
                    raise ReleaseHeld(reasons)
            return calibration

        encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
        try:
            writer = find_writer(job.store) or name_writer(job.settings)
            release = publish(
                store=job.store,
                run_id=job.run_id,
                encoder=encoder,
                calibrate=prepare,
                writer=writer,
            )
        except ReleaseHeld as held:
            report.held = held.reasons
            return report
        advance(1)
        if release is None:
            return report
        report.notes += describe_end_of_roll_back(before, release)
        report.counts[Count.TABLES_COMPACTED] = len(touched)
        _count_release(job, release, report)
        report.counts[Count.BYTES_FREED] = drop_old_versions(
            job.store, job.settings.storage
        )
    return report


def _check_indexes(
    job: Job,
    draft: Release,
    report: StepReport,
    is_gated: bool,
) -> None:
    """Count the rows that the indexes of vectors find.

    Raises:
        ReleaseHeld: an index finds too few. It has no reasons: no session is at fault, and the next run rebuilds it.
    """
    shares = _measure_indexes(job, draft)
    report.kinds[CountByKind.NEAREST_FOUND].update(
        {name: round(1000 * n) for name, n in shares.items()}
    )
    short = check_nearest(shares) if is_gated else []
    if short:
        report.failed += short
        raise ReleaseHeld([])


def _count_release(job: Job, release: Release, report: StepReport) -> None:
    """Count the release's rows, those that are not indexed, and the bytes a row."""
    report.rows_out = sum(release.counts.values())
    report.counts[Count.ROWS_UNINDEXED] = sum(
        count_unindexed(job.store.open_dataset(table)) for table in RELEASED
    )
    paths = list_pinned_files(job.store.dir, release.versions)
    size = sum((job.store.dir / path).stat().st_size for path in paths)
    report.counts[Count.BYTES_A_ROW] = size // max(1, report.rows_out)


def _measure_indexes(job: Job, draft: Release) -> dict[str, float]:
    """Return the share of the nearest rows that each table's index of vectors finds. An index that finds too few is
    dropped from the newest version, so the next run rebuilds it.
    """
    indexes = {
        table: find_index(job.store.open_dataset(table), table.vector)
        for table in RELEASED
    }
    if not any(indexes.values()):
        return {}
    from slowwave.recall.probes import (
        measure_nearest_found,  # it imports all of recall, which few runs need
    )

    view = View(job.store.dir, draft)
    shares = dict[str, float]()
    for table in (pool.table for pool in POOLS.values()):
        if name := indexes[table]:
            shares[table.name] = share = measure_nearest_found(view, table)
            if check_nearest({name: share}):
                job.store.open_dataset(table).drop_index(name)
    return shares


@dataclass(frozen=True, slots=True)
class _ComparedClaims:
    """The claims of the live release and of the newest tables."""

    old: pa.Table
    new: pa.Table
    was: pl.DataFrame
    """`old`."""
    now: pl.DataFrame
    """`new`."""
    of_observed: pl.Expr
    """Selects claims of sessions that were observed again by other rules."""


def _collect_changes(job: Job, live: Release, draft: Release) -> Changes:
    """Return the differences between the newest tables and the live release."""
    store = job.store
    before = Snapshot(job.settings.store, job.settings.space, live.release_id)
    claims = _read_claims(store, before)
    became, fewer = _compare_with_live(store, before, claims)
    fresh = _select_new_claims(claims)
    junk = fresh.filter(
        pl.any_horizontal(pl.col(name) == pl.lit(False) for name in OF_USE)
    )["summary"]
    earlier = before.read(SUMMARIES, ["summary_id", "text", "scope_id"])
    return Changes(
        active=claims.was.filter(IS_ACTIVE).height,
        became=became,
        fewer=fewer,
        counts=(live.counts, draft.counts),
        unanswered=_find_lost_probes(job, live, draft),
        new_claims=fresh.height,
        rejected=collect_quarantined(store, before)[1],
        junk=junk.to_list(),
        tokens=_count_tokens(store, live.created_at),
        base_share=_measure_new_topics(job, claims),
        summaries=_measure_new_summaries(job, earlier),
        summarised=_count_summarised(store, earlier),
    )


def _read_claims(store: Store, before: Snapshot) -> _ComparedClaims:
    """Return the claims of a release and of the newest tables."""
    columns = list(
        dict.fromkeys((*COLUMNS, "step_key", "message_ids", "assign_key", *OF_USE))
    )
    old = before.read(CLAIMS, columns)
    new = store.read(CLAIMS, columns)
    was = pl.DataFrame(old)
    now = pl.DataFrame(new)
    observed = now.filter(~pl.col("step_key").is_in(was["step_key"].implode()))[
        "session_id"
    ]
    of_observed = pl.col("session_id").is_in(observed.implode())
    return _ComparedClaims(
        old=old,
        new=new,
        was=was,
        now=now,
        of_observed=of_observed,
    )


def _compare_with_live(
    store: Store, before: Snapshot, claims: _ComparedClaims
) -> tuple[list[tuple[str, str]], int]:
    """Return the changes of claims, and how many claims are missing from sessions that were observed again.

    A session is observed again by other rules, or because it grew. Its claims are then chosen among other sentences, so
    only their number is compared. A claim whose message was removed or changed is compared by itself.
    """
    of_changed = pl.col("session_id").is_in(_find_changed_sessions(store, before))
    still_stated = (
        pl.col("message_ids")
        .list.set_intersection(sorted(read_inactive_ids(store)))
        .list.len()
        == 0
    )
    replaced = claims.was.select(
        claims.of_observed | (of_changed & still_stated)
    ).to_series()
    became = compare_claims(
        claims.old.filter(replaced.not_().to_arrow()), claims.new, {}
    )
    had = claims.was.filter(replaced, IS_ACTIVE).height
    have = claims.now.filter(claims.of_observed | of_changed, IS_ACTIVE).height
    return [(change.kind, change.summary) for change in became], max(0, had - have)


def _select_new_claims(claims: _ComparedClaims) -> pl.DataFrame:
    """Return active claims that are not active in the live release, without those of sessions observed again."""
    active_before = claims.was.filter(IS_ACTIVE)["claim_id"].implode()
    return claims.now.filter(
        IS_ACTIVE, ~claims.of_observed, ~pl.col("claim_id").is_in(active_before)
    )


def _count_tokens(store: Store, since: datetime) -> int:
    """Return the tokens that models used since a time."""
    used = store.read(
        COMPLETIONS,
        ["prompt_tokens", "completion_tokens"],
        pc.field("created_at") > since,
    )
    return sum(pc.sum(used[name]).as_py() or 0 for name in used.column_names)


def _measure_new_topics(job: Job, claims: _ComparedClaims) -> float:
    """Return the share of claims in the largest base topic, or 0 if no model placed a claim since the live release."""
    is_placed = pl.col("assign_key").is_not_null() & (
        job.settings.get_llm("topics") != "off"
    )
    placed = claims.now.filter(is_placed).join(
        claims.was.filter(is_placed), on="claim_id", how="anti"
    )
    return measure_base_share(job.store) if placed.height else 0.0


def _measure_new_summaries(job: Job, earlier: pa.Table) -> Sequence[Coherence]:
    """Return the coherence of the summaries that a model wrote and that are not among the earlier ones."""
    rows = []
    if job.settings.get_llm("summaries") != "off":
        rows = job.store.read(SUMMARIES, [*MEASURED, "stale"]).to_pylist()
    texts = set(
        zip(earlier["summary_id"].to_pylist(), earlier["text"].to_pylist(), strict=True)
    )
    written = [
        row
        for row in rows
        if (row["summary_id"], row["text"]) not in texts and not row["stale"]
    ]
    return measure_summaries(job.store, written, job.settings.pyramid.sum_window)


def _count_summarised(store: Store, earlier: pa.Table) -> tuple[int, int]:
    """Return the number of current sessions and topics that had a summary, and the number of those that lost it."""
    existing = {
        key
        for table in (SESSIONS, TOPICS)
        for key in store.read(table, [table.key])[table.key].to_pylist()
    }
    had = existing.intersection(earlier["scope_id"].to_pylist())
    lost = had.difference(store.read(SUMMARIES, ["scope_id"])["scope_id"].to_pylist())
    return len(had), len(lost)


def _find_changed_sessions(store: Store, before: Snapshot) -> list[str]:
    """Return ids of the sessions whose active messages differ from those of a release."""
    before_rows, now = (
        {
            row["session_id"]: row
            for row in tables.read(
                SESSIONS, ["session_id", "head_hash", "inactive"]
            ).to_pylist()
        }
        for tables in (before, store)
    )
    return [
        key
        for key, row in now.items()
        if key in before_rows and row != before_rows[key]
    ]


def _find_lost_probes(job: Job, live: Release, draft: Release) -> list[tuple[str, str]]:
    """Return the probes that the live release answers and the draft does not."""
    probes = job.settings.gates.probes
    now = datetime.now(UTC)
    if not probes:
        return []
    from slowwave.recall.probes import (  # it imports all of recall
        FIRST,
        STILL,
        find_answered,
    )

    before, after = (
        find_answered(
            view=View(job.store.dir, release),
            settings=job.settings,
            probes=probes,
            now=now,
            first=first,
        )
        for release, first in ((live, FIRST), (draft, STILL))
    )
    return [
        (question, answer)
        for question, answer in probes.items()
        if question in before - after
    ]


def describe_end_of_roll_back(before: list[Release], made: Release) -> list[str]:
    """Return a note if a release ends a roll-back: it then contains again what the roll-back removed."""
    if not before or before[-1].restores is None:
        return []
    back = next(
        (
            release.name
            for release in before
            if release.release_id == before[-1].restores
        ),
        "an earlier release",
    )
    return [
        f"{made.name} ends the roll-back to {back}: it has everything added since {back}. "
        f"`slowwave diff {back} {made.name}` shows it; `slowwave exclude` removes what should not come back"
    ]


def _calibrate_release(job: Job, draft: Release, report: StepReport) -> str | None:
    """Return the release's scale of relevance, or None without vectors. It takes about a second."""
    if draft.encoder is None or is_encoder_away(job):
        return None
    try:
        encoder = load_query_encoder(job.settings.encoder)
        return fit_calibration(View(job.store.dir, draft), encoder)
    except (
        EncoderNotFound,
        EncoderFailed,
    ) as missing:
        # The run needed no encoder, since all vectors were stored.
        report.notes.append(f"no scale of relevance: {missing}")
        return None


def find_run_release(job: Job) -> Release | None:
    """Return the release that this run made, or None."""
    return next((r for r in read_releases(job.store) if r.run_id == job.run_id), None)
