"""Estimate what a night would read, and what it would ask a language model, in tokens, seconds and money.

    slowwave plan [PATH…] --llm vllm:Qwen/Qwen3-8B

The prompts of extraction are built, counted and looked up in the completions cache. The later prompts depend on answers
that do not exist yet. They are estimated from the tokens per message that earlier runs of the model took in this store,
or else from `DEFAULTS`. No model is asked and nothing is written.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.budget import estimate_tokens
from slowwave.engines.llm.protocol import (
    EngineUnavailable,
    Request,
    count_template_tokens,
)
from slowwave.flows.nightly import list_roots
from slowwave.schemas.counters import Count, CountByKind, ModelUsage
from slowwave.schemas.settings import LLMSettings, ModelTask, Settings
from slowwave.schemas.tables import CLAIMS, FILES, GISTS, MESSAGES, RUNS
from slowwave.schemas.vocabulary import Status, is_turn
from slowwave.store.place import find_place
from slowwave.tasks.boilerplate.task import Mask
from slowwave.tasks.changes.task import (
    compute_supersede_key,
    find_claims_to_judge,
    read_doubts,
)
from slowwave.tasks.changes.verdicts import PAIRS_AT_ONCE
from slowwave.tasks.gists.task import compute_gists_key
from slowwave.tasks.ingest.parsing.records import Limits
from slowwave.tasks.ingest.store_messages import IngestedTranscript
from slowwave.tasks.ingest.task import VaultIndex, iter_new_rows
from slowwave.tasks.ingest.transcripts import TranscriptScan, find_pending
from slowwave.tasks.job import Job, StepReport, parse_steps
from slowwave.tasks.llm.ask import (
    NIGHTLY,
    Model,
    check_llm,
    close_models,
    find_answered,
    get_model,
)
from slowwave.tasks.llm.writer import explain_other_writer, find_writer, name_writer
from slowwave.tasks.observe import by_model as extract
from slowwave.tasks.observe.task import find_sessions_to_observe
from slowwave.tasks.pending import (
    find_missing_messages,
    read_inactive_ids,
    read_spoken_messages,
    split_batches,
)
from slowwave.tasks.summarize.task import (
    compute_summaries_key,
    find_sessions_to_summarise,
)
from slowwave.tasks.topics.task import compute_assign_key

MESSAGES_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Rate:
    """What a step asks a model for each message that claims are extracted from."""

    requests: float
    prompt_tokens: float
    answer_tokens: float


DEFAULTS: Mapping[str, Rate] = {
    "gists": Rate(requests=0.36, prompt_tokens=93, answer_tokens=21),
    "observe": Rate(requests=0.09, prompt_tokens=138, answer_tokens=39),
    "supersede": Rate(requests=0.0575, prompt_tokens=62, answer_tokens=8.3),
    "assign": Rate(requests=0.027, prompt_tokens=45, answer_tokens=4.5),
    "rollup": Rate(requests=0.16, prompt_tokens=100, answer_tokens=14),
}
"""The rate of each step until a night of the model has measured it. They are those of a night over `data/samples`, 226
messages in 20 sessions, with a strong model's recorded answers (`tests/flows/test_recorded_night.py`); for gists those
of its prompts, with answers of 60 tokens."""


@dataclass
class ReadSource:
    """New or changed transcripts of one tool in one place; or a single file that cannot be read, with its problem."""

    tool: str
    where: str
    files: int = 0
    bytes: int = 0
    problem: str | None = None


@dataclass(slots=True)
class PlanLine:
    """What one step would ask."""

    step: str
    units: int = 0
    """Sessions of extraction, messages of the other steps."""
    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Expected."""
    cached: int = 0
    """Requests with a cached answer: they cost nothing, and their tokens are not counted."""
    estimated: bool = False
    """True if some of the prompts could not be built yet."""

    def add(
        self,
        prompt_tokens: int,
        answer_tokens: float,
        *,
        cached: bool = False,
    ) -> None:
        """Count one request."""
        self.requests += 1
        self.cached += cached
        if not cached:
            self.prompt_tokens += prompt_tokens
            self.answer_tokens += round(answer_tokens)

    def expect(
        self,
        rate: Rate,
        messages: int,
        most: int | None = None,
    ) -> None:
        """Count the requests that so many messages lead to at a rate, or the first `most` of them."""
        requests = rate.requests * messages
        if requests <= 0:
            return
        share = 1.0 if most is None else min(1.0, most / requests)
        self.estimated = True
        self.requests += max(1, round(share * requests))
        self.prompt_tokens += round(share * rate.prompt_tokens * messages)
        self.answer_tokens += round(share * rate.answer_tokens * messages)


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What earlier runs of the models showed."""

    rates: Mapping[str, Rate] = field(default_factory=dict)
    """By step."""
    answer_per_second: float | None = None


@dataclass(slots=True)
class Estimate:
    """A whole night's cost."""

    model: str
    sources: list[ReadSource] = field(default_factory=list)
    """New and changed transcripts, and files that no reader recognises."""
    unchanged: int = 0
    """Files that were read before."""
    sessions: int = 0
    skipped: int = 0
    messages: int = 0
    lines: list[PlanLine] = field(default_factory=list)
    seconds: float | None = None
    """None if no earlier run shows a speed."""
    usd: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        """Return the prompt tokens of all steps."""
        return sum(line.prompt_tokens for line in self.lines)

    @property
    def answer_tokens(self) -> int:
        """Return the expected answer tokens of all steps."""
        return sum(line.answer_tokens for line in self.lines)


def plan_night(paths: list[Path], settings: Settings) -> Estimate:
    """Estimate the reading and the cost of a night over the paths and over everything pending in the store.

    Raises:
        UsageError: the settings name a language model, a prompt or a pack that does not exist.
    """
    check_llm(settings)
    find_place(settings.store).pull(settings.space)
    with tempfile.TemporaryDirectory() as empty:
        exists = (settings.store / settings.space / "releases.lance").is_dir()
        job = Job(
            settings if exists else settings.model_copy(update={"store": Path(empty)}),
            "plan",
        )
        try:
            return _plan_job(job, paths)
        finally:
            close_models(job.run_id)


def _plan_job(job: Job, paths: list[Path]) -> Estimate:
    models = {task: model for task in NIGHTLY if (model := get_model(job, task))}
    names = dict.fromkeys(model.llm.model for model in models.values())
    estimate = Estimate(", ".join(names) or "no language model")
    if not models:
        estimate.notes.append(
            "llm is off: claims, topics and summaries are made without a model and cost nothing"
        )
    now = find_writer(job.store)
    named = name_writer(job.settings)
    if now and now != named:
        estimate.notes.append(explain_other_writer(now, named))
    planner = Planner(job, models, estimate)
    for messages in _read_pending_messages(job, models.get("extract")):
        planner.add(messages)
    for messages in _read_transcripts(job, paths, estimate):
        planner.add(messages)
    planner.add_later_steps()
    estimate.lines = list(planner.lines.values())
    return add_costs(estimate, job.settings.model, planner.measured)


class Planner:
    """Adds up what a night would ask, by step."""

    def __init__(
        self,
        job: Job,
        models: Mapping[ModelTask, Model],
        estimate: Estimate,
    ) -> None:
        """Read what earlier nights of the same models cost."""
        self.job = job
        self.estimate = estimate
        self.models = _find_model_of_each_step(job.settings, models)
        self.lines = {step: PlanLine(step) for step in self.models}
        self.sessions: set[str] = set()
        """Sessions to extract claims from."""
        self.messages = 0
        """Messages to extract claims from."""
        runs = job.store.read(
            RUNS, ["report", "started_at"], pc.field("kind") == "nightly"
        )
        reports = runs.sort_by([("started_at", "descending")])["report"].to_pylist()
        self.measured = measure_usage(
            reports, {step: model.llm.model for step, model in self.models.items()}
        )

    @cached_property
    def counting(self) -> tuple[Callable[[Sequence[str]], list[int]], int]:
        """The token counter and the context window of the model, or an estimate and a guess if it is not reachable."""
        window = self.job.settings.model.context_window or 32_768
        model = self.models["observe"]
        try:
            model.count(["."])
            return model.count, model.llm.context_window
        except EngineUnavailable as error:
            guess = f"tokens are estimated, and the context window is taken to be {window:,} tokens"
            self.estimate.notes.append(f"{guess}: {error}")
            return estimate_tokens, window

    def add(self, messages: pa.Table) -> None:
        """Count whole sessions (rows of MESSAGES) that claims are to be extracted from."""
        rows = messages.to_pylist()
        self.sessions |= {row["session_id"] for row in rows}
        self.estimate.messages += len(rows)
        self.estimate.sessions = len(self.sessions)
        if "observe" in self.lines:
            self._add_extraction(messages)
        else:
            self.messages += sum(map(is_turn, rows))

    def add_later_steps(self) -> None:
        """Count the steps after extraction, and what the store's other sessions lack of them."""
        pending = self._count_pending_messages()
        most = {"supersede": -(-self.job.settings.supersede.pairs // PAIRS_AT_ONCE)}
        for step in self.lines.keys() - {"observe", "consolidate"}:
            line = self.lines[step]
            line.units = self.messages + pending[step]
            line.expect(self._get_rate(step), line.units, most.get(step))

    def _add_extraction(self, messages: pa.Table) -> None:
        settings = self.job.settings
        model = self.models["observe"]
        try:
            count, window = self.counting
            plan = extract.plan_requests(
                messages=messages,
                observe=settings.observe,
                extract=settings.extract,
                library=model.library,
                count=count,
                window=window,
            )
        except EngineUnavailable as error:  # the window is too small
            self.estimate.notes = [*dict.fromkeys([*self.estimate.notes, str(error)])]
            return
        self.estimate.skipped += len(plan.skipped)
        self.messages += plan.count_messages()
        rate = self._get_rate("observe").answer_tokens
        answers = [
            min(part.request.max_tokens, rate * len(part.chunk.turns))
            for part in plan.parts
        ]
        self._add_requests("observe", plan.requests, answers)
        parts = Counter(part.session_id for part in plan.parts)
        self.lines["observe"].units += len(parts)
        # A session of several parts has one more prompt. It shows the claims that the parts were answered with.
        long = {session for session, n in parts.items() if n > 1}
        shown = sum(
            answer
            for answer, part in zip(answers, plan.parts, strict=True)
            if part.session_id in long
        )
        if long:
            final = self.lines["consolidate"]
            final.estimated = True
            final.units += len(long)
            final.requests += len(long)
            final.prompt_tokens += round(shown)

    def _add_requests(
        self,
        step: str,
        requests: Sequence[Request],
        answers: Sequence[float],
    ) -> None:
        cached = find_answered(self.job.store, requests, self.models[step])
        for request, answer in zip(requests, answers, strict=True):
            tokens = self.counting[0](
                [message["content"] for message in request.messages]
            )
            prompt_tokens = count_template_tokens(request) + sum(tokens)
            self.lines[step].add(prompt_tokens, answer, cached=request.id in cached)

    def _count_pending_messages(self) -> Counter[str]:
        """Return by step how many messages of other sessions it would go through.

        A claim counts as the store's average number of messages a claim.
        """
        job = self.job
        counts = Counter[str]()
        others = ~pl.col("session_id").is_in(sorted(self.sessions))
        spoken = read_spoken_messages(job.store).filter(others)
        if model := self.models.get("gists"):
            counts["gists"] = find_missing_messages(
                store=job.store,
                spoken=spoken,
                table=GISTS,
                key=compute_gists_key(job, model),
            ).height
        if model := self.models.get("rollup"):
            sessions = find_sessions_to_summarise(
                job, compute_summaries_key(job, model)
            )
            counts["rollup"] = spoken.join(sessions, on="session_id", how="semi").height
        columns = ["claim_id", "session_id", "status", "assign_key"]
        claims = pl.DataFrame(job.store.read(CLAIMS, columns)).filter(others)
        for step, waiting in self._count_waiting_claims(claims).items():
            counts[step] = round(waiting * spoken.height / claims.height)
        return counts

    def _count_waiting_claims(self, claims: pl.DataFrame) -> Counter[str]:
        """Count the claims that wait for a judge and for a topic."""
        waiting = Counter[str]()
        if model := self.models.get("supersede"):
            key = compute_supersede_key(self.job, model)
            unjudged = find_claims_to_judge(
                self.job.store, key, read_doubts(self.job.store)
            )
            waiting["supersede"] = len(unjudged.intersection(claims["claim_id"]))
        if model := self.models.get("assign"):
            key = compute_assign_key(self.job, model)
            unassigned = (pl.col("status") == Status.ACTIVE) & pl.col(
                "assign_key"
            ).ne_missing(key)
            waiting["assign"] = claims.filter(unassigned).height
        return +waiting

    def _get_rate(self, step: str) -> Rate:
        return self.measured.rates.get(step, DEFAULTS[step])


def _find_model_of_each_step(
    settings: Settings, models: Mapping[ModelTask, Model]
) -> dict[str, Model]:
    """Return the model of each step that asks one."""
    tasks: dict[str, ModelTask] = (
        {"gists": "extract"} if settings.gists == "llm" else {}
    )
    tasks |= {"observe": "extract", "consolidate": "extract"}
    tasks |= {"supersede": "judge"} if settings.supersede.pairs else {}
    tasks |= {"assign": "topics", "rollup": "summaries"}
    return {step: models[task] for step, task in tasks.items() if task in models}


def measure_usage(reports: Iterable[str], models: Mapping[str, str]) -> MeasuredUsage:
    """Return the usage of each step's model, from the reports of nights (JSON, newest first).

    The newest nights count, up to a hundred thousand tokens of answers. A night that left some of a step to the next
    one counts for that step once a later night has done the rest. A run's seconds cover prompts and answers together:
    all time is put to the answers, so the total is right for nights of one kind.
    """
    usage: dict[str, ModelUsage] = defaultdict(ModelUsage)
    messages = Counter[str]()
    total = ModelUsage()
    for report in reports:
        steps = [step for step in parse_steps(report) if step.step in models]
        asked = {
            step.step: step.usage.get(models[step.step], ModelUsage()) for step in steps
        }
        shown = sum(_count_paid_messages(step, asked[step.step]) for step in steps)
        for step in steps:
            used = asked[step.step]
            total.add(used)
            if used.requests and (step.step in usage or not _is_unfinished(step)):
                usage[step.step].add(used)
                messages[step.step] += shown
        if total.answer_tokens > 100_000:
            break
    rates = {
        step: _compute_rate(used, messages[step])
        for step, used in usage.items()
        if messages[step]
    }
    seconds = total.milliseconds / 1000
    return MeasuredUsage(
        rates,
        total.answer_tokens / seconds
        if total.answer_tokens and seconds > 0.5
        else None,
    )


def _is_unfinished(step: StepReport) -> bool:
    """Return True if a step left something for another night."""
    left = step.kinds[CountByKind.WAITING].total()
    return bool(left or step.counts[Count.LEFT_TO_CLASSIFIER])


def _count_paid_messages(step: StepReport, used: ModelUsage) -> int:
    """Return the messages that a step showed the model, without the share whose answers were cached."""
    shown = step.counts[Count.MESSAGES_SHOWN]
    return round(shown * used.paid_requests / max(1, used.requests))


def _compute_rate(used: ModelUsage, messages: int) -> Rate:
    return Rate(
        requests=used.paid_requests / messages,
        prompt_tokens=used.prompt_tokens / messages,
        answer_tokens=used.answer_tokens / messages,
    )


def add_costs(
    estimate: Estimate, settings: LLMSettings, measured: MeasuredUsage
) -> Estimate:
    """Return the estimate with money by the prices that are set, and time by the rate that was measured."""
    prompts = estimate.prompt_tokens
    answers = estimate.answer_tokens
    estimate.usd = settings.compute_usd(prompts, answers)
    if measured.answer_per_second or prompts + answers == 0:
        estimate.seconds = (
            answers / measured.answer_per_second if measured.answer_per_second else 0.0
        )
    else:
        estimate.notes.append("no rate is known yet: the first run measures it")
    if settings.max_tokens is not None and prompts + answers > settings.max_tokens:
        nights = -(-(prompts + answers) // settings.max_tokens)
        estimate.notes.append(
            f"the budget of {settings.max_tokens:,} tokens a night makes this about {nights} nights"
        )
    return estimate


def _read_pending_messages(job: Job, model: Model | None) -> Iterator[pa.Table]:
    """Yield the messages in the vault of the sessions that a night would distil."""
    mask = Mask(job)
    pending = find_sessions_to_observe(job, model, mask)
    gone = pa.array(sorted(read_inactive_ids(job.store)), pa.string())
    for group in split_batches(pending, MESSAGES_AT_ONCE):
        rows = job.store.read_ids(
            MESSAGES, group["session_id"].to_list(), by="session_id"
        )
        yield mask.mask_messages(
            rows.filter(pc.invert(pc.is_in(rows["message_id"], gone)))
        )


def _read_transcripts(
    job: Job, paths: list[Path], estimate: Estimate
) -> Iterator[pa.Table]:
    """Yield the messages of each transcript that is new or changed; list their folders in the estimate."""
    given = list_roots(job, paths)
    scan = find_pending(
        stored={row["path"]: row for row in job.store.read(FILES).to_pylist()},
        settings=job.settings,
        paths=given,
        named=paths,
    )
    estimate.unchanged = scan.counts[Count.FILES_UNCHANGED]
    estimate.sources = _list_sources(scan, paths)
    index = VaultIndex(job.store)
    limits = Limits(job.settings.read.max_line_bytes)
    read = job.settings.read
    for transcript in scan.pending:
        ingested = IngestedTranscript(transcript)
        rows = [
            *iter_new_rows(
                ingested,
                index,
                limits,
                redact=job.settings.redact,
                exclude=read.exclude,
                now=job.now,
            )
        ]
        if rows:
            yield pa.Table.from_pylist(rows, schema=MESSAGES.schema)


def _list_sources(scan: TranscriptScan, paths: list[Path]) -> list[ReadSource]:
    """Return the tools and folders of new or changed transcripts, then each file that cannot be read."""
    roots = paths or [
        place.root
        for transcript in scan.pending
        for place in transcript.reader.locations(Path.home())
    ]
    sources: dict[tuple[str, str], ReadSource] = {}
    for transcript in scan.pending:
        above = (root for root in roots if transcript.path.is_relative_to(root))
        tool = transcript.reader.name
        where = str(next(above, transcript.path.parent))
        source = sources.setdefault((tool, where), ReadSource(tool, where))
        source.files += 1
        source.bytes += transcript.size
    unreadable = [
        ReadSource("?", str(path), 1, problem=problem)
        for path, problem in scan.unreadable
    ]
    return [*sources.values(), *unreadable]
