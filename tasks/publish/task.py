"""The end of a run: indexes over what is new, small files compacted, and one row that makes it all live."""

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import hide_url
from slowwave.engines.errors import EncoderFailed, EncoderNotFound
from slowwave.recall.release.calibration import fit_calibration
from slowwave.recall.release.view import View
from slowwave.store.releases import Release, publish
from slowwave.store.upkeep import compact_store, drop_old_versions
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.vectors import is_encoder_away


def publish_release(job: Job) -> StepReport:
    """Index, compact, release, and drop versions that no kept release pins. An unchanged store is left alone."""
    with report_step("publish") as report:
        touched = compact_store(job.store, job.settings.storage.compact_fragments)
        encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
        release = publish(job.store, job.run_id, encoder, lambda draft: _calibrate_release(job, draft, report))
        if release is None:
            return report
        report.rows_out = sum(release.counts.values())
        report.counts["tables indexed or compacted"] = len(touched)
        report.counts["bytes freed"] = drop_old_versions(job.store, job.settings.storage.keep_releases)
    return report


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
    from slowwave.store.releases import read_releases

    return next((r for r in read_releases(job.store) if r.run_id == job.run_id), None)
