"""The figures of a memory: for `slowwave status --stats`, and for Prometheus in a file after each run
(`storage.metrics_file`) and at `/metrics`. They are counted over the tables, the runs' reports and `asked.jsonl`.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any, NamedTuple

import polars as pl

from slowwave.recall.release.view import is_perhaps_changed
from slowwave.recall.views.usage import count_usage
from slowwave.schemas.counters import WORDS_BY_KIND, CountByKind, ModelUsage
from slowwave.schemas.errors import TROUBLE, EncoderNotFound, SlowwaveError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CHAIN, CLAIMS, RELEASED, RUNS
from slowwave.schemas.vocabulary import RunStatus, Status
from slowwave.store.indexes import count_unindexed
from slowwave.store.logs import Asked, read
from slowwave.store.private import replace_file
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from slowwave.tasks.job import StepReport, parse_steps, sum_usage

LOG = logging.getLogger(__name__)
ANSWERS = {
    "answers_total": ("Answers given", pl.len()),
    "answers_empty_total": ("Answers without a memory", (pl.col("hits") == 0).sum()),
    "answers_in_part_total": (
        "Answers that lacked a part of the memory",
        (pl.col("warnings") > 0).sum(),
    ),
    "answer_median_seconds": (
        "Seconds of an answer, median",
        pl.col("seconds").median(),
    ),
    "answer_p95_seconds": (
        "Seconds of an answer, 95th percentile",
        pl.col("seconds").quantile(0.95, "linear"),
    ),
    "encoding_median_seconds": (
        "Seconds of its encoding, median",
        pl.col("encoding").median(),
    ),
    "encoding_p95_seconds": (
        "Seconds of its encoding, 95th percentile",
        pl.col("encoding").quantile(0.95, "linear"),
    ),
    "budget_used_ratio": (
        "Share of a block's budget that was used",
        (pl.col("tokens") / pl.col("budget"))
        .filter(pl.col("budget") > 0, pl.col("hits") > 0)
        .mean(),
    ),
}
"""Metrics of the answers of each kind (rows of `Asked`): a description, and how it is computed."""
WRITING = ("gists", "rollup")
"""Steps that write summaries."""
QUALITY = (
    CountByKind.TIER_COVERAGE,
    CountByKind.TIER_UNFOUNDED,
    CountByKind.TIER_LIKE_MEMBERS,
)
"""What a step counts of how true its summaries are to their members."""


class Metric(NamedTuple):
    """A figure, or one for each value of its labels."""

    name: str
    about: str
    labels: tuple[str, ...]
    values: Mapping[Any, float]
    """By the values of the labels, in a tuple."""

    def as_dict(self) -> dict[str, float]:
        """Return the figures by their labels, which are joined by commas."""
        return {", ".join(key): value for key, value in self.values.items()}

    def __str__(self) -> str:
        """Return a line for a terminal: the five largest figures that are not zero, and the sum of the others."""
        ordered = sorted(
            (-value, key) for key, value in self.as_dict().items() if value
        )
        others = sum(value for value, _ in ordered[5:])
        parts = [
            *ordered[:5],
            *([(others, f"{len(ordered) - 5} others")] if others else []),
        ]
        numbers = (f"{key} {format_figure(-value)}".strip() for value, key in parts)
        return f"{self.about}: {', '.join(numbers)}"


def format_figure(value: float) -> str:
    """Return a number for a terminal: with two significant digits if it is below 99.5 and not whole, else rounded."""
    return f"{value:,.0f}" if value == int(value) or value >= 99.5 else f"{value:,.2g}"


@contextmanager
def write_metrics_after(settings: Settings) -> Iterator[None]:
    """Write the figures to `storage.metrics_file`, if it is set, when the block ends or raises.

    A failure to write them is logged and not raised.
    """
    try:
        yield
    finally:
        if path := settings.storage.metrics_file:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, render_metrics(settings), 0o666)
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
            for metric in list_metrics(settings):
                kind = (
                    CounterMetricFamily
                    if metric.name.endswith("_total")
                    else GaugeMetricFamily
                )
                family = kind(
                    f"slowwave_{metric.name}", f"{metric.about}.", labels=metric.labels
                )
                for key, value in metric.values.items():
                    family.add_metric(key, value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return generate_latest(registry)


def list_metrics(settings: Settings) -> list[Metric]:
    """Return every figure of the space.

    Raises:
        StoreError: there is no such store or space, or its ledgers can't be read.
    """
    runs = sorted(
        Store.open(settings.store, settings.space).read(RUNS).to_pylist(),
        key=lambda row: row["started_at"],
    )
    reports = [parse_steps(row["report"]) for row in runs]
    live = Snapshot(settings.store, settings.space)
    return [
        *_measure_runs(settings, runs, reports),
        *_measure_tables(live),
        *_measure_claims(live, reports),
        *_measure_answers(read(live.dir, Asked)),
        *_measure_models(settings, [step for steps in reports for step in steps]),
    ]


def _label(
    name: str,
    about: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    """Return a metric with one label."""
    return Metric(
        name=name,
        about=about,
        labels=(label,),
        values={(key,): float(value) for key, value in values.items()},
    )


def _measure_runs(
    settings: Settings,
    runs: Sequence[dict[str, Any]],
    reports: Sequence[Sequence[StepReport]],
) -> Iterator[Metric]:
    from slowwave.flows.status import (
        measure_coverage,  # which a run, that writes metrics, has no use for before
    )

    ends = [
        row["ended_at"]
        for row in runs
        if row["status"] == RunStatus.DONE and row["ended_at"]
    ]
    good = {(): ends[-1].replace(tzinfo=UTC).timestamp()} if ends else {}
    yield Metric(
        name="last_good_run_timestamp_seconds",
        about="When a run last ended well, in seconds of the epoch",
        labels=(),
        values=good,
    )
    status = Counter(row["status"] for row in runs)
    yield _label(
        name="runs_total",
        about="Runs that changed something or failed",
        label="status",
        values=status,
    )
    is_held = bool(runs) and runs[-1]["status"] == RunStatus.HELD
    yield Metric(
        name="gate_held",
        about="Last run that is held back",
        labels=(),
        values={(): float(is_held)},
    )
    seconds = {step.step: step.seconds for steps in reports for step in steps}
    yield _label(
        name="step_seconds",
        about="Seconds that a step took when last run",
        label="step",
        values=seconds,
    )
    covered = measure_coverage(settings)
    states = {name: covered[name] for name in ("covered", "waiting", "unreadable")}
    yield _label(
        name="transcripts", about="Transcripts by state", label="state", values=states
    )
    yield Metric(
        name="lag_seconds",
        about="Seconds that the oldest transcript has waited",
        labels=(),
        values={(): covered["lag"]},
    )


def _measure_tables(live: Snapshot) -> Iterator[Metric]:
    sizes = dict[str, float]()
    unindexed = dict[str, float]()
    broken = dict[str, float]()
    for table in RELEASED:
        folder = live.dir / f"{table.name}.lance"
        sizes[table.name] = sum(
            path.stat().st_size for path in folder.rglob("*") if path.is_file()
        )
        try:
            unindexed[table.name] = count_unindexed(live.open_dataset(table))
            broken[table.name] = False
        except TROUBLE:
            broken[table.name] = True
    rows = {table.name: live.release.counts.get(table.name, 0) for table in RELEASED}
    yield _label(
        name="rows", about="Rows of the live release", label="table", values=rows
    )
    yield _label(
        name="table_bytes",
        about="Bytes on disk, kept versions included",
        label="table",
        values=sizes,
    )
    yield _label(
        name="rows_unindexed",
        about="Rows that an index lacks",
        label="table",
        values=unindexed,
    )
    yield _label(
        name="table_broken",
        about="Tables of the live release that can't be opened",
        label="table",
        values=broken,
    )


def _measure_claims(
    live: Snapshot, reports: Sequence[Sequence[StepReport]]
) -> Iterator[Metric]:
    usage = count_usage(live, live.dir)
    never = len(usage.never)
    recalled = {"recalled": len(usage.claims) - never, "never": never}
    yield _label(
        name="claims",
        about="Claims that recall returned ever and never",
        label="use",
        values=recalled,
    )
    claims = live.read(CLAIMS, ["status", *CHAIN]).to_pylist()
    states = Counter(claim["status"] for claim in claims)
    states["linked"] = sum(
        claim["status"] == Status.ACTIVE and is_perhaps_changed(claim)
        for claim in claims
    )
    states["new"] = sum(
        step.rows_out
        for steps in reports[-1:]
        for step in steps
        if step.step == "observe"
    )
    yield _label(
        name="claims_by_state",
        about="Claims by status, made by the last run, perhaps changed",
        label="state",
        values=states,
    )


def _measure_answers(answers: Sequence[Asked]) -> Iterator[Metric]:
    rows = pl.DataFrame(
        answers, schema=[*Asked._fields], orient="row", infer_schema_length=None
    ).sort("kind")
    of_kind = rows.group_by("kind", maintain_order=True).agg(
        **{name: how for name, (_, how) in ANSWERS.items()}
    )
    for name, (about, _) in ANSWERS.items():
        values = of_kind.select("kind", name).drop_nulls().rows() if answers else ()
        yield _label(name=name, about=about, label="kind", values=dict(values))
    web = Counter(answer.web for answer in answers if answer.web)
    yield _label(
        name="web_queries_total",
        about="Queries sent to the web, by their reason",
        label="why",
        values=web,
    )


def _measure_models(
    settings: Settings, steps: Sequence[StepReport]
) -> Iterator[Metric]:
    """Yield the metrics of summaries and of language models' usage over all runs, and of the encoder."""
    yield from _measure_texts(steps)
    yield from _measure_usage(settings, sum_usage(steps))
    yield _check_encoder(settings)


def _measure_texts(steps: Sequence[StepReport]) -> Iterator[Metric]:
    """Yield the number of summaries and gists that were written, and their quality."""
    writing = [step for step in steps if step.step in WRITING]
    written = float(sum(step.rows_out for step in writing))
    about = "Summaries and gists that were written"
    yield Metric(
        name="summaries_written_total", about=about, labels=(), values={(): written}
    )
    quality = {
        WORDS_BY_KIND[count].format(tier): n
        for step in writing
        for count in QUALITY
        for tier, n in step.kinds[count].items()
    }
    about = "A model's summaries, as last measured"
    yield _label(name="quality_of_texts", about=about, label="what", values=quality)


def _measure_usage(
    settings: Settings, usage: Mapping[str, ModelUsage]
) -> Iterator[Metric]:
    """Yield requests, seconds, errors, tokens and money of each model."""
    requests = {model: used.requests for model, used in usage.items()}
    about = "Requests to a language model"
    yield _label(
        name="model_requests_total", about=about, label="model", values=requests
    )
    cached = {model: used.cache_hits for model, used in usage.items()}
    about = "Requests whose answers were kept from before"
    yield _label(name="model_cached_total", about=about, label="model", values=cached)
    seconds = {model: used.milliseconds / 1000 for model, used in usage.items()}
    yield _label(
        name="model_seconds_total",
        about="Seconds that these took",
        label="model",
        values=seconds,
    )
    yield from _measure_tokens(settings, usage)


def _measure_tokens(
    settings: Settings, usage: Mapping[str, ModelUsage]
) -> Iterator[Metric]:
    """Yield the failed requests, tokens and money of each model."""
    errors = {
        (model, error): float(n)
        for model, used in usage.items()
        for error, n in used.errors.items()
    }
    about = "Requests that failed"
    labels = ("model", "error")
    yield Metric(name="model_errors_total", about=about, labels=labels, values=errors)
    tokens = {
        (model, kind): float(n)
        for model, used in usage.items()
        for kind, n in (("prompt", used.prompt_tokens), ("answer", used.answer_tokens))
    }
    about = "Tokens read and written"
    labels = ("model", "kind")
    yield Metric(name="model_tokens_total", about=about, labels=labels, values=tokens)
    usd = {
        model: settings.model.compute_usd(used.prompt_tokens, used.answer_tokens)
        for model, used in usage.items()
    }
    about = "Money for them, by the prices that are set"
    yield _label(name="model_usd_total", about=about, label="model", values=usd)


def _check_encoder(settings: Settings) -> Metric:
    """Return 1 if the encoder can't be loaded, else 0."""
    from slowwave.engines.encoders.load import load_query_encoder

    try:
        load_query_encoder(settings.encoder)
        broken = 0.0
    except (EncoderNotFound, OSError, RuntimeError, ValueError):
        broken = 1.0
    about = "Encoder that can't be loaded"
    return Metric(name="encoder_broken", about=about, labels=(), values={(): broken})
