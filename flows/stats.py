"""Figures of a memory for `slowwave status --stats` and for Prometheus: answers, their cost, runs, models and tables.

Counted over what is kept anyway: `asked.jsonl`, `recalls.jsonl`, the table of runs and the live release.
"""

from collections import Counter
from datetime import UTC
from itertools import chain
from statistics import quantiles
from typing import Any

from slowwave.flows.parts.report import ERRORS, parse_steps, parse_usage
from slowwave.recall.release.chains import is_perhaps_changed
from slowwave.recall.views.usage import count_usage
from slowwave.schemas.errors import TROUBLE, explain_unreadable
from slowwave.schemas.settings import LLMSettings, Settings
from slowwave.schemas.tables import CHAIN, OBSERVATIONS, RELEASED, RUNS
from slowwave.schemas.vocabulary import RunStatus, Status
from slowwave.store.journal import Asked, read
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
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
    from slowwave.engines.encoders.load import load_query_encoder
    from slowwave.schemas.errors import EncoderNotFound

    space_dir = settings.store / settings.space
    answers = read(space_dir, Asked)
    rows = sorted(Store.open(settings.store, settings.space).read(RUNS).to_pylist(), key=lambda row: row["started_at"])
    reports = [parse_steps(row["report"]) for row in rows]
    live = Snapshot(settings.store, settings.space)
    usage = count_usage(live, settings.store / settings.space)
    never = len(usage.never)
    memories = {"claims": len(usage.claims), "recalled": len(usage.claims) - never, "never": never}
    # When the last run that ended well did, as seconds of the epoch.
    ends = [row["ended_at"] for row in rows if row["status"] == RunStatus.DONE and row["ended_at"]]
    last_good = ends[-1].replace(tzinfo=UTC).timestamp() if ends else None
    # Claims by state, those that the last run made, and those that perhaps changed.
    claims = live.read(OBSERVATIONS, ["status", *CHAIN]).to_pylist()
    linked = sum(claim["status"] == Status.ACTIVE and is_perhaps_changed(claim) for claim in claims)
    new = sum(step.rows_out for step in (reports or [[]])[-1] if step.step == "observe")
    claim_states = {**Counter(claim["status"] for claim in claims), "new": new, "linked": linked}
    trouble = None
    try:
        load_query_encoder(settings.encoder)
    except (EncoderNotFound, OSError, RuntimeError, ValueError) as error:
        trouble = str(error)
    return {
        "answers": {
            kind: _describe_answers([answer for answer in answers if answer.kind == kind])
            for kind in sorted({answer.kind for answer in answers})
        },
        "web": Counter(answer.web for answer in answers if answer.web),
        "memories": memories,
        "claims": claim_states,
        "runs": Counter(row["status"] for row in rows),
        "last_status": rows[-1]["status"] if rows else None,
        "last_good": last_good,
        "seconds": {step.step: step.seconds for steps in reports for step in steps},
        "summaries": _measure_summaries(reports),
        "models": _describe_models(reports, settings.model),
        "tables": _describe_tables(live),
        "encoder": {"name": settings.encoder, "trouble": trouble},
    }


def _describe_answers(asked: list[Asked]) -> Facts:
    """Return counts of answers of a kind (all, empty, partial), and their seconds."""
    shares = [answer.tokens / answer.budget for answer in asked if answer.budget and answer.hits]
    return {
        "count": len(asked),
        "empty": sum(not answer.hits for answer in asked),
        "in_part": sum(answer.notes > 0 for answer in asked),
        "seconds": _describe_seconds([answer.seconds for answer in asked]),
        "encoding": _describe_seconds([answer.encoding for answer in asked]),
        "budget_used": sum(shares) / len(shares) if shares else None,
    }


def _describe_seconds(seconds: list[float]) -> Facts:
    """Return sum, median and 95th percentile of some seconds."""
    cuts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds * 19
    return {"sum": sum(seconds), "p50": cuts[9], "p95": cuts[18]}


def _measure_summaries(reports: list[list[StepReport]]) -> Facts:
    """Return the number of summaries written, their seconds, and the quality of a model's when last measured."""
    steps = [step for steps in reports for step in steps if step.step in SUMMARIES]
    quality = {name: n for step in steps for name, n in step.counts.items() if "members" in name or "no member" in name}
    written = sum(step.rows_out for step in steps)
    return {"written": written, "seconds": sum(step.seconds for step in steps), "quality": quality}


def _describe_models(reports: list[list[StepReport]], prices: LLMSettings) -> Facts:
    """Return each language model's usage by all runs: requests, tokens, money, seconds, and errors by kind."""
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
    facts: Facts = {}
    for table in RELEASED:
        folder = live.dir / f"{table.name}.lance"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        facts[table.name] = {"rows": live.release.counts.get(table.name, 0), "bytes": size, "unindexed": 0}
        try:
            facts[table.name]["unindexed"] = count_unindexed(live.open_dataset(table))
        except TROUBLE as trouble:
            facts[table.name]["trouble"] = explain_unreadable(trouble)
    return facts


def format_stats(stats: Facts) -> list[tuple[str, str]]:
    """Return the figures in lines for a terminal, each with its heading."""
    memories, runs, tables, encoder = (stats[name] for name in ("memories", "runs", "tables", "encoder"))
    bad = sum(n for status, n in runs.items() if status != RunStatus.DONE)
    wrote, quality = stats["summaries"], stats["summaries"]["quality"]
    trouble = [f"{name}: {facts['trouble']}" for name, facts in tables.items() if "trouble" in facts]
    whole = "every table opens" if not trouble else "; ".join(trouble)
    queried = ", ".join(f"{why} {n:,}" for why, n in stats["web"].most_common())
    return [
        *(("answers", _format_answers(kind, facts)) for kind, facts in stats["answers"].items()),
        *([] if stats["answers"] else [("answers", "none yet")]),
        ("web", f"queried {stats['web'].total():,} times{f': {queried}' if queried else ''}"),
        ("recalled", f"{memories['recalled']:,} of {memories['claims']:,} claims ever, {memories['never']:,} never"),
        ("summaries", f"{wrote['written']:,} written in {wrote['seconds']:,.1f} s"),
        *([("quality", ", ".join(f"{name} {n:,}" for name, n in quality.items()))] if quality else []),
        ("runs", f"{runs.total():,}, of which {bad:,} did not end well"),
        *(("asked", _format_model(model, facts)) for model, facts in stats["models"].items()),
        ("database", f"{whole}; {sum(facts['unindexed'] for facts in tables.values()):,} rows are not indexed"),
        ("encoder", encoder["trouble"] or f"{encoder['name']} loads"),
    ]


def _format_answers(kind: str, facts: Facts) -> str:
    used = f", {facts['budget_used']:.0%} of the budget used" if facts["budget_used"] is not None else ""
    took = " and ".join(
        f"{facts['seconds'][of]:.2f} s ({facts['encoding'][of]:.2f} s encoding)" for of in ("p50", "p95")
    )
    return (
        f"{facts['count']:,} {kind}: {facts['empty']:,} empty, {facts['in_part']:,} in part{used}; p50 and p95 {took}"
    )


def _format_model(model: str, facts: Facts) -> str:
    errors = ", ".join(f"{name} {n:,}" for name, n in facts["errors"].items()) or "no errors"
    new, tokens = facts["requests"] - facts["cached"], sum(facts["tokens"].values())
    rate = f" for ${facts['usd']:,.4f}" if facts["usd"] else ""
    rate += f", {facts['seconds'] / new:.2f} s each" if new else ""
    return (
        f"{model}: {facts['requests']:,} times, {facts['cached']:,} from the cache, {tokens:,} tokens{rate}; {errors}"
    )
