"""The figures of a memory for Prometheus: a file after each run (`storage.metrics_file`), and `/metrics` over HTTP."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slowwave.schemas.errors import SlowwaveError
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import RunStatus

LOG = logging.getLogger(__name__)
Values = Mapping[Any, float]
"""Of a metric, by its labels."""


@contextmanager
def write_metrics_after(settings: Settings) -> Iterator[None]:
    """Write the figures into the file that the settings name, however the run inside ends: no file stops a run."""
    try:
        yield
    finally:
        if path := settings.storage.metrics_file:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                beside = path.with_name(f"{path.name}.new")
                beside.write_bytes(render_metrics(settings))
                beside.replace(path)
            except (OSError, SlowwaveError, ModuleNotFoundError) as trouble:
                LOG.warning("no metrics are written to %s: %s", path, trouble)


def render_metrics(settings: Settings) -> bytes:
    """Return the figures in Prometheus's text format.

    Raises:
        StoreError: there is no such store or space, or it can't be read.
        ModuleNotFoundError: prometheus_client is not installed; the extra `night` brings it.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Figures:
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in list_metrics(settings):
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = kind(f"slowwave_{name}", about, labels=labels)
                for key, value in values.items():
                    family.add_metric(key, value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return generate_latest(registry)


def list_metrics(settings: Settings) -> Iterator[tuple[str, str, tuple[str, ...], Values]]:
    """Yield each metric: its name, what it is, its labels, and its values by them."""
    from slowwave.flows.coverage import measure_coverage
    from slowwave.flows.stats import collect_stats

    stats, covered = collect_stats(settings), measure_coverage(settings)
    answers, models, tables = stats["answers"], stats["models"], stats["tables"]

    def by_name(of: Mapping[str, Any], *path: str) -> Values:
        """Return a figure of each entry, which is found by following the names."""
        values = {(name,): entry for name, entry in of.items()}
        for step in path:
            values = {key: entry[step] for key, entry in values.items()}
        return values

    # Runs and transcripts.
    good = stats["last_good"]
    yield "last_good_run_timestamp_seconds", "When a run last ended well.", (), {(): good} if good else {}
    yield "runs_total", "Runs that changed something or failed.", ("status",), by_name(stats["runs"])
    yield "gate_held", "Whether the last run is held back.", (), {(): float(stats["last_status"] == RunStatus.HELD)}
    states = {(name,): float(covered[name]) for name in ("covered", "waiting", "unreadable")}
    yield "transcripts", "Transcripts by state.", ("state",), states
    yield "lag_seconds", "How long the oldest transcript has waited.", (), {(): covered["lag"]}
    yield "step_seconds", "What a step took when last run.", ("step",), by_name(stats["seconds"])
    # Tables and claims.
    yield "rows", "Rows of the live release.", ("table",), by_name(tables, "rows")
    yield "table_bytes", "Bytes on disk, kept versions included.", ("table",), by_name(tables, "bytes")
    yield "rows_unindexed", "Rows that an index lacks.", ("table",), by_name(tables, "unindexed")
    broken = {(name,): float("trouble" in facts) for name, facts in tables.items()}
    yield "table_broken", "Whether a table of the live release can't be opened.", ("table",), broken
    recalled = {(name,): float(stats["memories"][name]) for name in ("recalled", "never")}
    yield "claims", "Claims that were ever and never handed out.", ("use",), recalled
    yield (
        "claims_by_state",
        "Claims by status, made by the last run, perhaps changed.",
        ("state",),
        by_name(stats["claims"]),
    )
    # Answers, and the web.
    yield "answers_total", "Answers handed out.", ("kind",), by_name(answers, "count")
    yield "answers_empty_total", "Answers without a memory.", ("kind",), by_name(answers, "empty")
    yield "answers_in_part_total", "Answers that did without something.", ("kind",), by_name(answers, "in_part")
    for of, what in (("seconds", "answer"), ("encoding", "encoding")):
        yield f"{what}_median_seconds", f"Median of all, {what}.", ("kind",), by_name(answers, of, "p50")
        yield f"{what}_p95_seconds", f"95th percentile of all, {what}.", ("kind",), by_name(answers, of, "p95")
    used = {(name,): facts["budget_used"] for name, facts in answers.items() if facts["budget_used"] is not None}
    yield "budget_used_ratio", "Share of a block's budget that was used.", ("kind",), used
    quality = by_name(stats["summaries"]["quality"])
    yield "quality_of_texts", "A model's summaries, as the last run that wrote any measured them.", ("what",), quality
    yield "web_queries_total", "Queries sent to the web.", ("why",), by_name(stats["web"])
    # Language models and the encoder.
    yield "model_requests_total", "Requests to a language model.", ("model",), by_name(models, "requests")
    errors = {(model, name): n for model, facts in models.items() for name, n in facts["errors"].items()}
    yield "model_errors_total", "Requests that failed.", ("model", "error"), errors
    tokens = {(model, name): n for model, facts in models.items() for name, n in facts["tokens"].items()}
    yield "model_tokens_total", "Tokens read and written.", ("model", "kind"), tokens
    yield "model_usd_total", "Money for them, by the prices that are set.", ("model",), by_name(models, "usd")
    yield "encoder_broken", "Whether the encoder can't be loaded.", (), {(): float(bool(stats["encoder"]["trouble"]))}
