"""The end of a run: indexes over what is new, small files compacted, and one row that makes it all live."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import hide_url
from slowwave.engines.errors import EncoderFailed, EncoderNotFound
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.recall.views.compare import COLUMNS, compare_claims
from slowwave.schemas.tables import OBSERVATIONS, RELEASED, SESSIONS, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store.manifest import list_pinned_files
from slowwave.store.releases import Release, publish, read_releases
from slowwave.store.snapshot import Snapshot
from slowwave.store.upkeep import compact_store, count_unindexed, drop_old_versions, find_index
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.pending import is_made_by_model, read_inactive_ids
from slowwave.tasks.progress import show_progress
from slowwave.tasks.publish.gates import ReleaseHeld, check_gates, check_nearest
from slowwave.tasks.publish.news import check_news, collect_news
from slowwave.tasks.summarize.by_model import MEASURED, measure_summaries
from slowwave.tasks.summarize.coherence import Coherence
from slowwave.tasks.topics.task import measure_base_share
from slowwave.tasks.vectors import is_encoder_away


def publish_release(job: Job, gated: bool = True) -> StepReport:
    """Index, compact, release, and drop versions that no kept release pins. An unchanged store is left alone.

    Where it is `gated` and outside the bounds of `gates`, no release is made, and the report's `held` says why.
    """

    def prepare(draft: Release) -> str | None:
        found = _measure_indexes(job, draft)
        report.counts |= {f"{name}: nearest found by index, of 1,000": round(1000 * one) for name, one in found.items()}
        if gated and job.settings.gates.enabled and (short := check_nearest(found)):
            raise ReleaseHeld(short)
        calibration = _calibrate_release(job, draft, report)
        advance(1)
        if gated and job.settings.gates.enabled:
            check_candidate(job, replace(draft, calibration=calibration))
        return calibration

    with report_step("publish") as report, show_progress("publish", total=4) as advance:
        before = read_releases(job.store)
        touched = compact_store(job.store)
        advance(1)
        encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
        try:
            release = publish(job.store, job.run_id, encoder, prepare)
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
    from slowwave.recall.retrieve.pools import POOLS

    view, found = View(job.store.dir, draft), dict[str, float]()
    for pool in POOLS.values():
        if name := indexes[pool.table]:
            found[pool.table.name] = share = measure_nearest_found(view, pool)
            if check_nearest({name: share}):
                job.store.open_table(pool.table).drop_index(name)
    return found


def check_candidate(job: Job, draft: Release) -> None:
    """Compare the release to be with the live one, and look at what a language model made since.

    Claims of sessions that were observed anew, by other rules or since they grew, take the place of those before: they
    are chosen among others now, so of these only how many fewer there are is compared. One is lost where its message
    was taken back or changed.

    Raises:
        ReleaseHeld: it is outside the bounds.
    """
    releases = read_releases(job.store)
    if not releases:
        return
    columns = list(dict.fromkeys((*COLUMNS, "step_key", "message_ids")))
    live = Snapshot(job.settings.store, job.settings.space, releases[-1].release_id).read(OBSERVATIONS, columns)
    newest = job.store.read(OBSERVATIONS, columns)
    other_rules = pc.invert(pc.is_in(newest["step_key"], live["step_key"].combine_chunks()))
    observed_anew = newest["session_id"].filter(other_rules).combine_chunks()
    changed = _find_changed_sessions(job, releases[-1])
    gone = set(read_inactive_ids(job.store))
    of_changed = (
        live.filter(pc.is_in(live["session_id"], changed)).select(["observation_id", "message_ids"]).to_pylist()
    )
    still_said = [row["observation_id"] for row in of_changed if gone.isdisjoint(row["message_ids"])]
    replaced = pc.or_(
        pc.is_in(live["session_id"], observed_anew), pc.is_in(live["observation_id"], pa.array(still_said, pa.string()))
    )
    active = _count_active(live)
    now = newest.filter(pc.is_in(newest["session_id"], pa.concat_arrays([observed_anew, changed])))
    fewer = max(0, _count_active(live.filter(replaced)) - _count_active(now))
    became = [(one.kind, one.summary) for one in compare_claims(live.filter(pc.invert(replaced)), newest, {})]
    lost = _find_lost_probes(job, releases[-1], draft)
    counts = releases[-1].counts, draft.counts
    base_share, summaries = _measure_model_rows(job, releases[-1])
    news = collect_news(job.store, releases[-1], observed_anew.to_pylist())
    summarised = _count_summarised(job, releases[-1])
    reasons = check_gates(job.settings.gates, active, became, counts, lost, base_share, summaries, fewer, summarised)
    reasons += check_news(job.settings.gates, news)
    if reasons:
        raise ReleaseHeld(reasons)


def _find_changed_sessions(job: Job, live: Release) -> pa.Array:
    """Return ids of the sessions of which other messages count now than in the live release."""
    columns = ["session_id", "head_hash", "inactive"]
    before, now = (
        {row["session_id"]: row for row in tables.read(SESSIONS, columns).to_pylist()}
        for tables in (Snapshot(job.settings.store, job.settings.space, live.release_id), job.store)
    )
    return pa.array([key for key, row in now.items() if key in before and row != before[key]], pa.string())


def _count_active(claims: pa.Table) -> int:
    return pc.sum(pc.equal(claims["status"], Status.ACTIVE)).as_py() or 0


def _count_summarised(job: Job, live: Release) -> tuple[int, int]:
    """Return sessions and topics that have summaries in the live release and are still there, and those without any
    now.
    """
    before = Snapshot(job.settings.store, job.settings.space, live.release_id)
    there = {*job.store.read(SESSIONS, ["session_id"])["session_id"].to_pylist()}
    there |= {*job.store.read(TOPICS, ["topic_id"])["topic_id"].to_pylist()}
    had = there.intersection(before.read(SUMMARIES, ["scope_id"])["scope_id"].to_pylist())
    return len(had), len(had.difference(job.store.read(SUMMARIES, ["scope_id"])["scope_id"].to_pylist()))


def _measure_model_rows(job: Job, live: Release) -> tuple[float, list[Coherence]]:
    """Return the share of the largest base topic where a model placed claims since, and how its new summaries stand on
    theirs.
    """
    before = Snapshot(job.settings.store, job.settings.space, live.release_id)
    told = {(row["summary_id"], row["text"]) for row in before.read(SUMMARIES, ["summary_id", "text"]).to_pylist()}
    of_model = is_made_by_model(pc.field("step_key"))
    rows = job.store.read(SUMMARIES, [*MEASURED, "stale"], of_model).to_pylist()
    new = [row for row in rows if (row["summary_id"], row["text"]) not in told and not row["stale"]]
    placed = before.read(OBSERVATIONS, ["observation_id"], is_made_by_model(pc.field("assign_key")))["observation_id"]
    now = job.store.read(OBSERVATIONS, ["observation_id"], is_made_by_model(pc.field("assign_key")))["observation_id"]
    base_share = measure_base_share(job.store) if set(now.to_pylist()) - set(placed.to_pylist()) else 0.0
    return base_share, measure_summaries(job.store, new, job.settings.pyramid.sum_window)


def _find_lost_probes(job: Job, live: Release, draft: Release) -> list[tuple[str, str]]:
    """Return the probes that the live release answers and the one to be does not."""
    probes, now = job.settings.gates.probes, datetime.now(UTC)
    if not probes:
        return []
    from slowwave.recall.probes import FIRST, STILL, find_answered  # all of recall: a night without probes needs none

    before, after = (
        find_answered(View(job.store.dir, one), job.settings, probes, now, first)
        for one, first in ((live, FIRST), (draft, STILL))
    )
    return [(question, answer) for question, answer in probes.items() if question in before - after]


def describe_end_of_roll_back(before: list[Release], made: Release) -> list[str]:
    """Return what to say where a release takes the place of a roll-back, and so brings back what it took away."""
    if not before or before[-1].restores is None:
        return []
    back = next((one.name for one in before if one.release_id == before[-1].restores), "an earlier release")
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
        return fit_calibration(View(job.store.dir, draft), encoder).to_json()
    except (EncoderNotFound, EncoderFailed) as missing:  # every vector came from the store
        report.notes.append(f"no scale of relevance: {missing}")
        return None


def find_run_release(job: Job) -> Release | None:
    """Return the release that this run made, if it made one."""
    return next((r for r in read_releases(job.store) if r.run_id == job.run_id), None)
