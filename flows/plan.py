"""What a night would ask the language model: transcripts that are new, sessions that are pending, and the cache."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.budget import estimate_tokens
from slowwave.engines.llm.protocol import EngineUnavailable, Request, count_template_tokens
from slowwave.flows.nightly import collect_transcript_roots
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import FILES, GISTS, MESSAGES, OBSERVATIONS, RUNS, TOPICS
from slowwave.schemas.vocabulary import Status, is_turn
from slowwave.tasks.boilerplate.task import Mask
from slowwave.tasks.gists.task import compute_gists_key
from slowwave.tasks.ingest.parsing.records import Limits
from slowwave.tasks.ingest.store_messages import IngestedTranscript
from slowwave.tasks.ingest.task import VaultIndex, iter_new_rows
from slowwave.tasks.ingest.transcripts import find_pending
from slowwave.tasks.job import Job
from slowwave.tasks.llm.ask import NIGHTLY, Model, check_llm, close_models, find_answered, get_model
from slowwave.tasks.observe import by_model as extract
from slowwave.tasks.observe.task import compute_observations_key
from slowwave.tasks.pending import (
    find_missing_messages,
    find_pending_sessions,
    group_sessions,
    iter_batches,
    read_inactive_ids,
    read_spoken_messages,
)
from slowwave.tasks.plan import (
    ANSWER_SHARE,
    CLAIMS_A_MESSAGE,
    GIST_ANSWER,
    LABELS_ANSWER,
    VERDICT_ANSWER,
    Estimate,
    Line,
    MeasuredUsage,
    add_costs,
    estimate_consolidation,
    estimate_labels,
    estimate_summaries,
    estimate_topics,
    estimate_verdicts,
    measure_usage,
    read_token_counts,
)
from slowwave.tasks.relate.task import list_questions as list_related
from slowwave.tasks.summarize import by_model
from slowwave.tasks.summarize.task import compute_summaries_key
from slowwave.tasks.supersede.task import list_questions
from slowwave.tasks.topics.task import compute_assign_key

MESSAGES_AT_ONCE = 20_000


def plan_night(paths: list[Path], settings: Settings) -> Estimate:
    """Return what a night over the paths would cost, and over whatever is pending in the store. Nothing is written.

    Raises:
        UsageError: settings name a language model, a prompt or a pack that is not there.
    """
    check_llm(settings)
    with tempfile.TemporaryDirectory() as empty:
        there = (settings.store / settings.space / "releases.lance").is_dir()
        job = Job(settings if there else settings.model_copy(update={"store": Path(empty)}), "plan")
        try:
            return _estimate_night(job, paths)
        finally:
            close_models(job)


def _estimate_night(job: Job, paths: list[Path]) -> Estimate:
    models = {task: model for task in NIGHTLY if (model := get_model(job, task))}
    names = dict.fromkeys(model.llm.model for model in models.values())
    estimate = Estimate(", ".join(names) or "no language model")
    if not models:
        estimate.notes.append("llm is off: claims, topics and summaries are made without a model and cost nothing")
    reports = job.store.read(RUNS, ["report", "started_at"]).sort_by([("started_at", "descending")])
    known = measure_usage(reports["report"].to_pylist(), next(iter(names), ""))
    planner = Planner(job, models, estimate, known)
    for messages in _read_pending_messages(job, paths, models.get("extract")):
        planner.add(messages)
    planner.add_pending()
    planner.finish()
    return add_costs(estimate, job.settings.model, known)


class Planner:
    """Adds up what some messages would cost."""

    def __init__(self, job: Job, models: Mapping[ModelTask, Model], estimate: Estimate, known: MeasuredUsage) -> None:
        self.job, self.models, self.estimate, self.known = job, models, estimate, known
        self.model = models.get("extract")
        self.observe, self.gists, self.changes = Line("observe"), Line("gists"), Line("supersede")
        self.relations = Line("relate")
        self.chunks: list[int] = []
        self.sessions: list[list[int]] = []
        self.seen: set[str] = set()
        self.left_claims, self.left_sessions = 0, list[list[int]]()
        """Distilled by an earlier night, and not assigned or summarised yet."""
        self.window = 32_768
        self.engine_there = self.model is not None

    def add(self, messages: pa.Table) -> None:
        """Count whole sessions (rows of MESSAGES)."""
        rows = messages.to_pylist()
        self.estimate.messages += len(rows)
        by_session: dict[str, list[int]] = {}
        for row in rows:
            mine = by_session.setdefault(row["session_id"], [])
            mine += read_token_counts([row]) if is_turn(row) else []
        self.estimate.sessions += len(by_session)
        self.seen |= by_session.keys()
        self.sessions += list(by_session.values())
        if self.model:
            try:
                self._add_claims(messages, self.model)
            except EngineUnavailable as error:
                self.estimate.notes = list(dict.fromkeys([*self.estimate.notes, str(error)]))
            if self.job.settings.gists == "llm":
                self._add_gists([row for row in rows if is_turn(row)], self.model)

    def add_pending(self) -> None:
        """Count what the store's sessions still lack beside claims: gists, topics, summaries."""
        store, settings, models = self.job.store, self.job.settings, self.models
        spoken = read_spoken_messages(store, ["tokens"]).filter(~pl.col("session_id").is_in(sorted(self.seen)))
        if settings.gists == "llm" and self.model:
            lack = find_missing_messages(store, spoken, GISTS, compute_gists_key(self.job, self.model))
            for batch in iter_batches(lack, MESSAGES_AT_ONCE):
                rows = store.read_ids(MESSAGES, batch["message_id"].to_list(), ["message_id", "text"])
                self._add_gists(rows.to_pylist(), self.model)
        if settings.supersede.pairs and "judge" in models:
            requests = list_questions(self.job, models["judge"])
            self._add_requests(self.changes, requests, [self._mean_verdict] * len(requests), models["judge"])
        if settings.relate.pairs and "judge" in models:
            requests = [one.request for one in list_related(self.job, models["judge"])]
            answer = self.known.answer_tokens.get("relate", LABELS_ANSWER)
            self._add_requests(self.relations, requests, [answer] * len(requests), models["judge"])
        claims = pl.DataFrame(store.read(OBSERVATIONS, ["session_id", "status", "assign_key"]))
        waiting = (pl.col("status") == Status.ACTIVE) & pl.col("assign_key").ne_missing(
            compute_assign_key(self.job, models.get("topics"))
        )
        self.left_claims = claims.filter(waiting & ~pl.col("session_id").is_in(sorted(self.seen))).height
        key = compute_summaries_key(self.job, models.get("summaries"))
        pending = find_pending_sessions(store, "rollup", key)["session_id"]
        lack = spoken.filter(pl.col("session_id").is_in(pending.implode())).sort("session_id", "seq")
        self.left_sessions = [mine["tokens"].to_list() for _, mine in lack.group_by("session_id", maintain_order=True)]

    def finish(self) -> None:
        """Add the lines that are left, those included that rest on answers that are not there yet."""
        settings, claims = self.job.settings, round(CLAIMS_A_MESSAGE * sum(map(len, self.sessions)))
        each = claims / max(1, sum(self.chunks))
        lines = self.estimate.lines
        if self.model:
            lines += [*([self.gists] if settings.gists == "llm" else []), self.observe]
            lines.append(estimate_consolidation(self.chunks, each))
        if "judge" in self.models and settings.supersede.pairs:
            lines.append(self._estimate_verdicts(claims))
        if "judge" in self.models and settings.relate.pairs:
            answer = self.known.answer_tokens.get("relate", LABELS_ANSWER)
            estimate_labels(self.relations, claims, settings.relate.pairs, answer)
            lines.append(self.relations)
        if "topics" in self.models:
            lines.append(estimate_topics(claims + self.left_claims, self.job.store.count(TOPICS)))
        if "summaries" in self.models:
            sessions = [*self.sessions, *self.left_sessions]
            lines.append(estimate_summaries(sessions, claims + self.left_claims, settings.pyramid, self.window))

    def count(self, texts: list[str]) -> list[int]:
        """Count by the model's tokenizer, or where that can't be had by estimate."""
        if self.model and self.engine_there:
            try:
                return self.model.count(texts)
            except EngineUnavailable as error:
                self.engine_there = False
                self.estimate.notes.append(f"tokens are estimated: {error}")
        return estimate_tokens(texts)

    def _add_claims(self, messages: pa.Table, model: Model) -> None:
        settings = self.job.settings
        self.window = self._find_context_window(model)
        plan = extract.plan_requests(
            messages, settings.observe, settings.extract, model.library, lambda t: self.count(list(t)), self.window
        )
        self.estimate.skipped += len(plan.skipped)
        self.observe.units += len({part.session_id for part in plan.parts})
        chunks: dict[str, int] = {}
        for part in plan.parts:
            chunks[part.session_id] = chunks.get(part.session_id, 0) + 1
        self.chunks += list(chunks.values())
        mean = self.known.answer_tokens.get("observe")
        answers = [mean or min(part.request.max_tokens, part.chunk.tokens * ANSWER_SHARE) for part in plan.parts]
        self._add_requests(self.observe, plan.requests, answers, model)

    def _add_gists(self, rows: list[dict[str, object]], model: Model) -> None:
        wanted = [row for row in rows if by_model.needs_gist(row, self.job.settings.extract)]
        requests = by_model.build_gist_requests(wanted, model.library, lambda t: self.count(list(t)), self.window)
        self.gists.units += len(wanted)
        mean = self.known.answer_tokens.get("gists", GIST_ANSWER)
        self._add_requests(self.gists, requests, [mean] * len(requests), model)

    @property
    def _mean_verdict(self) -> float:
        """Tokens of an answer about a pair of claims."""
        return self.known.answer_tokens.get("supersede", VERDICT_ANSWER)

    def _estimate_verdicts(self, claims: int) -> Line:
        """Return the pairs that wait, and those that so many new claims make."""
        left = self.job.settings.supersede.pairs - self.changes.requests
        estimate_verdicts(self.changes, claims, left, self._mean_verdict)
        self.changes.units = self.changes.requests
        return self.changes

    def _find_context_window(self, model: Model) -> int:
        try:
            return model.llm.context_window
        except EngineUnavailable as error:
            self.estimate.notes.append(f"the context window is taken to be {self.window:,} tokens: {error}")
            return self.job.settings.model.context_window or self.window

    def _add_requests(self, line: Line, requests: list[Request], answers: list[float], model: Model) -> None:
        kept = find_answered(self.job.store, requests, model)
        for request, answer in zip(requests, answers, strict=True):
            tokens = count_template_tokens(request) + sum(self.count([m["content"] for m in request.messages]))
            line.add(tokens, answer, cached=request.id in kept)


def _read_pending_messages(job: Job, paths: list[Path], model: Model | None) -> Iterator[pa.Table]:
    """Yield messages of the sessions a night would distil: those in the vault, then those still in transcripts."""
    held = job.store.read(FILES).to_pylist()
    mask = Mask(job)
    pending = find_pending_sessions(job.store, "observe", compute_observations_key(job, model), mask.by_session)
    gone = pa.array(sorted(read_inactive_ids(job.store)), pa.string())
    for group in group_sessions(pending, MESSAGES_AT_ONCE):
        rows = job.store.read_ids(MESSAGES, group["session_id"].to_list(), by="session_id")
        yield mask.mask_messages(rows.filter(pc.invert(pc.is_in(rows["message_id"], gone))))
    known, limits = VaultIndex(job.store), Limits(job.settings.read.max_line_bytes)
    found = find_pending({row["path"]: row for row in held}, job.settings, paths or collect_transcript_roots())
    for transcript in found.pending:
        fresh = list(iter_new_rows(IngestedTranscript(transcript), known, limits, redact=job.settings.redact))
        if fresh:
            yield pa.Table.from_pylist(fresh, schema=MESSAGES.schema)
