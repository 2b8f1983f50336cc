"""Figures of a memory for `slowwave status --stats` and for Prometheus: answers, their cost, runs, models and tables.

Counted over what is kept anyway: `asked.jsonl`, `recalls.jsonl`, the table of runs and the live release.
"""

from collections import Counter
from datetime import UTC
from itertools import chain
from statistics import quantiles
from typing import Any

from slowwave.flows.parts.report import ERRORS, parse_steps, parse_usage
from slowwave.recall.release.chains import is_linked
from slowwave.recall.views.usage import count_usage
from slowwave.schemas.settings import LLMSettings, Settings
from slowwave.schemas.tables import CHAIN, OBSERVATIONS, RELEASED, RUNS
from slowwave.schemas.vocabulary import RunStatus, Status
from slowwave.store.journal import Asked, read
from slowwave.store.snapshot import Snapshot
from slowwave.store.store import Store
from slowwave.store.trouble import TROUBLE, explain_unreadable
from slowwave.store.upkeep import count_unindexed
from slowwave.tasks.job import StepReport

Facts = dict[str, Any]
SUMMARIES = ("gists", "rollup")
"""Steps that write summaries."""


def collect_stats(settings: Settings) -> Facts:
    """Return the figures by subject, in plain values.

    Raises:
        StoreError: there is no such store or space, or its ledgers can't be read.
    """
    space_dir = settings.store / settings.space
    asked = read(space_dir, Asked)
    rows = sorted(Store.open(settings.store, settings.space).read(RUNS).to_pylist(), key=lambda row: row["started_at"])
    reports = [parse_steps(row["report"]) for row in rows]
    live = Snapshot(settings.store, settings.space)
    return {
        "answers": {
            kind: _describe_answers([one for one in asked if one.kind == kind])
            for kind in sorted({one.kind for one in asked})
        },
        "web": Counter(one.web for one in asked if one.web),
        "memories": _count_memories(live, settings),
        "claims": _count_claims(live, reports),
        "runs": Counter(row["status"] for row in rows),
        "last_status": rows[-1]["status"] if rows else None,
        "last_good": _find_last_good(rows),
        "seconds": {step.step: step.seconds for steps in reports for step in steps},
        "summaries": _measure_summaries(reports),
        "models": _describe_models(reports, settings.model),
        "tables": _describe_tables(live),
        "encoder": {"name": settings.encoder, "trouble": _find_encoder_trouble(settings)},
    }


def _describe_answers(asked: list[Asked]) -> Facts:
    """Return how many answers of a kind there were, how many empty or in part, and how long they took."""
    shares = [one.tokens / one.budget for one in asked if one.budget and one.hits]
    return {
        "count": len(asked),
        "empty": sum(not one.hits for one in asked),
        "in_part": sum(one.notes > 0 for one in asked),
        "seconds": _describe_seconds([one.seconds for one in asked]),
        "encoding": _describe_seconds([one.encoding for one in asked]),
        "budget_used": sum(shares) / len(shares) if shares else None,
    }


def _describe_seconds(seconds: list[float]) -> Facts:
    """Return sum, median and 95th percentile of some seconds."""
    cuts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds * 19
    return {"sum": sum(seconds), "p50": cuts[9], "p95": cuts[18]}


def _count_memories(live: Snapshot, settings: Settings) -> Facts:
    usage = count_usage(live, settings.store / settings.space)
    never = len(usage.never)
    return {"claims": len(usage.claims), "recalled": len(usage.claims) - never, "never": never}


def _count_claims(live: Snapshot, reports: list[list[StepReport]]) -> dict[str, int]:
    """Return the live release's claims by state, those that the last run made, and those that perhaps changed."""
    rows = live.read(OBSERVATIONS, ["status", *CHAIN]).to_pylist()
    linked = sum(row["status"] == Status.ACTIVE and is_linked(row) for row in rows)
    new = sum(step.rows_out for step in (reports or [[]])[-1] if step.step == "observe")
    return {**Counter(row["status"] for row in rows), "new": new, "linked": linked}


def _find_last_good(rows: list[Facts]) -> float | None:
    """Return when the last run that ended well did, as seconds of the epoch."""
    ends = [row["ended_at"] for row in rows if row["status"] == RunStatus.DONE and row["ended_at"]]
    return ends[-1].replace(tzinfo=UTC).timestamp() if ends else None


def _measure_summaries(reports: list[list[StepReport]]) -> Facts:
    """Return how many summaries were written, in how many seconds, and what a model's were worth when last measured."""
    steps = [step for steps in reports for step in steps if step.step in SUMMARIES]
    quality = {name: n for step in steps for name, n in step.counts.items() if "members" in name or "no member" in name}
    written = sum(step.rows_out for step in steps)
    return {"written": written, "seconds": sum(step.seconds for step in steps), "quality": quality}


def _describe_models(reports: list[list[StepReport]], prices: LLMSettings) -> Facts:
    """Return what each language model was asked by all runs: requests, tokens, money, seconds, and errors by kind."""
    return {
        model: {
            "requests": counts["requests"],
            "cached": counts["cache hits"],
            "tokens": {"prompt": counts["prompt tokens"], "answer": counts["answer tokens"]},
            "usd": prices.compute_usd(counts["prompt tokens"], counts["answer tokens"]),
            "seconds": counts["milliseconds"] / 1000,
            "errors": {name.removeprefix(ERRORS).rstrip(")"): n for name, n in counts.items() if ERRORS in name},
        }
        for model, counts in parse_usage(chain.from_iterable(reports)).items()
    }


def _describe_tables(live: Snapshot) -> Facts:
    """Return each released table's rows, bytes of its folder, rows that its indexes lack, or its trouble."""
    found: Facts = {}
    for table in RELEASED:
        folder = live.dir / f"{table.name}.lance"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        found[table.name] = {"rows": live.release.counts.get(table.name, 0), "bytes": size, "unindexed": 0}
        try:
            found[table.name]["unindexed"] = count_unindexed(live.open_dataset(table))
        except TROUBLE as trouble:
            found[table.name]["trouble"] = explain_unreadable(trouble)
    return found


def _find_encoder_trouble(settings: Settings) -> str | None:
    """Return why the encoder that the settings name can't be loaded; None where it can."""
    from slowwave.engines.encoders.load import load_query_encoder
    from slowwave.schemas.errors import EncoderNotFound

    try:
        load_query_encoder(settings.encoder)
    except (EncoderNotFound, OSError, RuntimeError, ValueError) as trouble:
        return f"{trouble}"
    return None


def format_stats(stats: Facts) -> list[tuple[str, str]]:
    """Return the figures in lines for a terminal, each with its heading."""
    memories, runs, tables, encoder = (stats[name] for name in ("memories", "runs", "tables", "encoder"))
    bad = sum(n for status, n in runs.items() if status != RunStatus.DONE)
    wrote, quality = stats["summaries"], stats["summaries"]["quality"]
    trouble = [f"{name}: {one['trouble']}" for name, one in tables.items() if "trouble" in one]
    whole = "every table opens" if not trouble else "; ".join(trouble)
    queried = ", ".join(f"{why} {n:,}" for why, n in stats["web"].most_common())
    return [
        *(("answers", _format_answers(kind, one)) for kind, one in stats["answers"].items()),
        *([] if stats["answers"] else [("answers", "none yet")]),
        ("web", f"queried {stats['web'].total():,} times{f': {queried}' if queried else ''}"),
        ("recalled", f"{memories['recalled']:,} of {memories['claims']:,} claims ever, {memories['never']:,} never"),
        ("summaries", f"{wrote['written']:,} written in {wrote['seconds']:,.1f} s"),
        *([("quality", ", ".join(f"{name} {n:,}" for name, n in quality.items()))] if quality else []),
        ("runs", f"{runs.total():,}, of which {bad:,} did not end well"),
        *(("asked", _format_model(model, one)) for model, one in stats["models"].items()),
        ("database", f"{whole}; {sum(one['unindexed'] for one in tables.values()):,} rows are not indexed"),
        ("encoder", encoder["trouble"] or f"{encoder['name']} loads"),
    ]


def _format_answers(kind: str, one: Facts) -> str:
    used = f", {one['budget_used']:.0%} of the budget used" if one["budget_used"] is not None else ""
    took = " and ".join(f"{one['seconds'][of]:.2f} s ({one['encoding'][of]:.2f} s encoding)" for of in ("p50", "p95"))
    return f"{one['count']:,} {kind}: {one['empty']:,} empty, {one['in_part']:,} in part{used}; p50 and p95 {took}"


def _format_model(model: str, one: Facts) -> str:
    errors = ", ".join(f"{name} {n:,}" for name, n in one["errors"].items()) or "no errors"
    new, tokens = one["requests"] - one["cached"], sum(one["tokens"].values())
    rate = f" for ${one['usd']:,.4f}" if one["usd"] else ""
    rate += f", {one['seconds'] / new:.2f} s each" if new else ""
    return f"{model}: {one['requests']:,} times, {one['cached']:,} from the cache, {tokens:,} tokens{rate}; {errors}"
