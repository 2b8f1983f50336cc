"""What a night would read, and what it would ask a language model, in tokens, seconds and money. Nothing is written.

    slowwave plan [PATH…] --llm vllm:Qwen/Qwen3-8B

Prompts that can be made already are made and counted, and looked up in the completions cache. What rests on answers
that are not there yet is estimated from how much goes in; such lines are marked. How long answers are comes from
earlier runs where there were any.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import filterfalse, groupby
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.budget import estimate_tokens
from slowwave.engines.llm.protocol import EngineUnavailable, Request, count_template_tokens
from slowwave.flows.nightly import collect_transcript_roots
from slowwave.schemas.settings import LLMSettings, ModelTask, PyramidSettings, Settings
from slowwave.schemas.tables import BASE_TOPICS, FILES, GISTS, MESSAGES, OBSERVATIONS, RUNS, TOPICS
from slowwave.schemas.vocabulary import Status, SummaryScope, is_spoken, is_turn
from slowwave.store.bucket.working_copy import refresh
from slowwave.store.notes import find_journals
from slowwave.tasks.boilerplate.task import Mask
from slowwave.tasks.gists.task import compute_gists_key
from slowwave.tasks.ingest.parsing.records import Limits
from slowwave.tasks.ingest.store_messages import IngestedTranscript
from slowwave.tasks.ingest.task import VaultIndex, iter_new_rows
from slowwave.tasks.ingest.transcripts import find_pending
from slowwave.tasks.job import Job, parse_steps, parse_usage
from slowwave.tasks.llm.ask import NIGHTLY, Model, check_llm, close_models, find_answered, get_model
from slowwave.tasks.llm.writer import explain_other_writer, find_writer, name_writer
from slowwave.tasks.observe import by_model as extract
from slowwave.tasks.observe.task import find_sessions_to_observe
from slowwave.tasks.pending import (
    find_missing_messages,
    read_inactive_ids,
    read_spoken_messages,
    split_batches,
)
from slowwave.tasks.summarize import by_model
from slowwave.tasks.summarize.by_model import TopicInfo, build_summary_request, is_single_message
from slowwave.tasks.summarize.task import (
    build_session_members,
    build_session_shape,
    build_topic_shape,
    compute_summaries_key,
    find_sessions_to_summarise,
    load_session_scopes,
)
from slowwave.tasks.supersede.judge import PAIRS_AT_ONCE
from slowwave.tasks.supersede.task import list_questions
from slowwave.tasks.topics.by_model import SIZES
from slowwave.tasks.topics.task import compute_assign_key
from slowwave.text.pyramid import Draft, Growth, Member, Pyramid, grow_by_tier, grow_many

MESSAGES_AT_ONCE = 20_000
CLAIMS_A_TURN, MOST_CLAIMS = 0.6, 6
"""Claims of a part: so many a turn, and the most that its prompt speaks of."""
CLAIM_TOKENS, CLAIM_ANSWER_TOKENS = 32, 78
"""A claim as prompts show it, and as it is answered."""
CLAIMS_A_TOPIC = 8
"""New claims that open a topic."""
TOPIC_TOKENS = 70
"""A topic as a prompt shows it, with its samples."""
PAIRS_A_CLAIM = 0.38
"""Pairs that a new claim makes: .06 in calm talk, .8 where all is about changes."""
ANSWER_TOKENS = {"gists": 60, "supersede": 16 * PAIRS_AT_ONCE}
"""Tokens of an answer, before any was measured."""


@dataclass
class Source:
    """One tool's new or changed transcripts in one place; or, with a problem, one file that can't be read."""

    tool: str
    where: str
    files: int = 0
    bytes: int = 0
    problem: str | None = None


@dataclass(slots=True)
class Line:
    """What one step would ask."""

    step: str
    units: int = 0
    """Sessions, messages, claims or groups."""
    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """Expected."""
    cached: int = 0
    """Requests whose answers are kept: they cost nothing, and their tokens are not counted."""
    estimated: bool = False
    """Whether some of the prompts could not be made yet."""

    def add(self, prompt_tokens: int, answer_tokens: float, *, cached: bool = False) -> None:
        """Count one request."""
        self.requests += 1
        self.cached += cached
        if not cached:
            self.prompt_tokens += prompt_tokens
            self.answer_tokens += round(answer_tokens)

    def expect(self, requests: int, prompt_tokens: float, answer_tokens: float) -> None:
        """Count requests that can't be made yet, of so many tokens each."""
        if requests > 0:
            self.estimated = True
            self.requests += requests
            self.prompt_tokens += round(requests * prompt_tokens)
            self.answer_tokens += round(requests * answer_tokens)


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What earlier runs of a model showed."""

    answer_tokens: Mapping[str, float] = field(default_factory=dict)
    """Tokens of an answer, by step."""
    answer_per_second: float | None = None


@dataclass(slots=True)
class Estimate:
    """A whole night's cost."""

    model: str
    sources: list[Source] = field(default_factory=list)
    """New and changed transcripts, and files that no reader knows."""
    unchanged: int = 0
    """Files that were read before."""
    sessions: int = 0
    skipped: int = 0
    messages: int = 0
    lines: list[Line] = field(default_factory=list)
    seconds: float | None = None
    """None where no rate is known: neither set nor measured."""
    usd: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        """Of all steps."""
        return sum(line.prompt_tokens for line in self.lines)

    @property
    def answer_tokens(self) -> int:
        """Expected, of all steps."""
        return sum(line.answer_tokens for line in self.lines)


def plan_night(paths: list[Path], settings: Settings) -> Estimate:
    """Return what a night over the paths would read and cost, and over whatever is pending in the store.

    Raises:
        UsageError: settings name a language model, a prompt or a pack that is not there.
    """
    check_llm(settings)
    refresh(settings.store / settings.space)
    with tempfile.TemporaryDirectory() as empty:
        there = (settings.store / settings.space / "releases.lance").is_dir()
        job = Job(settings if there else settings.model_copy(update={"store": Path(empty)}), "plan")
        try:
            # The models that a night would ask, and what earlier runs say of them.
            models = {task: model for task in NIGHTLY if (model := get_model(job, task))}
            names = dict.fromkeys(model.llm.model for model in models.values())
            estimate = Estimate(", ".join(names) or "no language model")
            if not models:
                estimate.notes.append(
                    "llm is off: claims, topics and summaries are made without a model and cost nothing"
                )
            now, named = find_writer(job.store), name_writer(settings)
            if now and now != named:
                estimate.notes.append(explain_other_writer(now, named))
            reports = job.store.read(RUNS, ["report", "started_at"]).sort_by([("started_at", "descending")])
            measured = measure_usage(reports["report"].to_pylist(), next(iter(names), ""))
            # Sessions that wait, then the transcripts that were not read yet.
            planner = Planner(job, models, estimate, measured)
            for messages in _read_pending_messages(job, models.get("extract")):
                planner.add(messages)
            for messages in _read_transcripts(job, paths, estimate):
                planner.add(messages)
            planner.add_pending()
            planner.add_expected()
            estimate.lines = list(planner.lines.values())
            return add_costs(estimate, job.settings.model, measured)
        finally:
            close_models(job.run_id)


class Planner:
    """Adds up what a night would ask, by step."""

    def __init__(
        self, job: Job, models: Mapping[ModelTask, Model], estimate: Estimate, measured: MeasuredUsage
    ) -> None:
        self.job, self.models, self.estimate, self.measured = job, models, estimate, measured
        settings = job.settings
        tasks: dict[str, ModelTask] = {"gists": "extract"} if settings.gists == "llm" else {}
        tasks |= {"observe": "extract", "consolidate": "extract"}
        tasks |= {"supersede": "judge"} if settings.supersede.pairs else {}
        tasks |= {"assign": "topics", "rollup": "summaries"}
        self.of_step = {step: models[task] for step, task in tasks.items() if task in models}
        self.lines = {step: Line(step) for step in self.of_step}
        self.chunks: Counter[str] = Counter()
        """By session."""
        self.sessions: set[str] = set()
        """Those that are to be distilled."""
        self.claims = 0.0
        """Expected of the sessions that are distilled."""

    @cached_property
    def counting(self) -> tuple[Callable[[Sequence[str]], list[int]], int]:
        """The token counter and the context window: the model's, or else an estimate and a guess."""
        window = self.job.settings.model.context_window or 32_768
        if "extract" not in self.models:
            return estimate_tokens, window
        model = self.models["extract"]
        try:
            model.count(["."])
            return model.count, model.llm.context_window
        except EngineUnavailable as error:
            guess = f"tokens are estimated, and the context window is taken to be {window:,} tokens"
            self.estimate.notes.append(f"{guess}: {error}")
            return estimate_tokens, window

    def add(self, messages: pa.Table) -> None:
        """Count whole sessions (rows of MESSAGES) that are to be distilled."""
        rows = messages.to_pylist()
        turns = [row for row in rows if is_turn(row)]
        self.sessions |= {row["session_id"] for row in rows}
        self.estimate.messages, self.estimate.sessions = self.estimate.messages + len(rows), len(self.sessions)
        if "observe" in self.lines:
            try:
                # Requests that the model would get, and claims that are expected of them.
                settings, line = self.job.settings, self.lines["observe"]
                plan = extract.plan_requests(
                    messages, settings.observe, settings.extract, self.of_step["observe"].library, *self.counting
                )
                self.estimate.skipped += len(plan.skipped)
                line.units += len({part.session_id for part in plan.parts})
                self.chunks.update(part.session_id for part in plan.parts)
                mean = self.measured.answer_tokens.get("observe")
                claims = [min(MOST_CLAIMS, CLAIMS_A_TURN * len(part.chunk.turns)) for part in plan.parts]
                self.claims += sum(claims)
                parts = zip(claims, plan.parts, strict=True)
                answers = [mean or min(part.request.max_tokens, n * CLAIM_ANSWER_TOKENS) for n, part in parts]
                self._add_requests("observe", plan.requests, answers)
            except EngineUnavailable as error:  # the window is too small
                self.estimate.notes = [*dict.fromkeys([*self.estimate.notes, str(error)])]
        else:
            self.claims += CLAIMS_A_TURN * len(turns)
        self._add_gists(turns)
        spoken = groupby((row for row in rows if is_spoken(row)), key=lambda row: row["session_id"])
        self._add_summaries(_grow_session(session, [*some], self.job.settings.pyramid) for session, some in spoken)

    def add_pending(self) -> None:
        """Count what the store's other sessions lack beside claims: gists, verdicts and summaries."""
        store, models, seen = self.job.store, self.models, sorted(self.sessions)
        spoken = read_spoken_messages(store, ["tokens"]).filter(~pl.col("session_id").is_in(seen))
        if "gists" in self.lines:
            lack = find_missing_messages(store, spoken, GISTS, compute_gists_key(self.job, self.of_step["gists"]))
            for batch in lack.iter_slices(MESSAGES_AT_ONCE):
                rows = store.read_ids(MESSAGES, batch["message_id"].to_list(), ["message_id", "text"])
                self._add_gists(rows.to_pylist())
        if "supersede" in self.lines:
            self._add_requests("supersede", list_questions(self.job, self.of_step["supersede"]))
        key = compute_summaries_key(self.job, models.get("summaries"))
        lack = find_sessions_to_summarise(self.job, key).filter(~pl.col("session_id").is_in(seen))
        for group in split_batches(lack, MESSAGES_AT_ONCE) if "rollup" in self.lines else ():
            gone = read_inactive_ids(store)
            scopes = load_session_scopes(self.job, group, gone, key, whole=True)
            self._add_summaries(scope.growth for scope in scopes)

    def add_expected(self) -> None:
        """Count what rests on answers that are not there yet, and claims of before that wait for a topic."""
        settings, store, new, lines = self.job.settings, self.job.store, round(self.claims), self.lines
        unassigned = pc.field("assign_key") != compute_assign_key(self.job, self.models.get("topics"))
        waiting = (pc.field("status") == Status.ACTIVE) & (pc.field("assign_key").is_null() | unassigned)
        other = pc.invert(pc.field("session_id").isin(pa.array(sorted(self.sessions), pa.string())))
        claims = new + store.read(OBSERVATIONS, ["session_id"], waiting & other).num_rows
        if "consolidate" in lines:
            cut = [chunks for chunks in self.chunks.values() if chunks > 1]
            mean = sum(cut) / max(1, len(cut))
            shown = mean * new / max(1, self.chunks.total()) * CLAIM_TOKENS
            lines["consolidate"].expect(len(cut), self._count_prompt("consolidate") + shown, 20 * mean)
        if "supersede" in lines:
            left = settings.supersede.pairs - PAIRS_AT_ONCE * lines["supersede"].requests
            pairs = min(max(0, left), round(new * PAIRS_A_CLAIM))
            prompts = -(-pairs // PAIRS_AT_ONCE)
            shown = pairs / max(1, prompts) * 2 * CLAIM_TOKENS
            lines["supersede"].expect(prompts, self._count_prompt("change") + shown, self._expect_answer("supersede"))
        if "assign" in lines:
            batches = -(-claims // SIZES.batch)
            size, topics = claims / max(1, batches), store.count(TOPICS) or len(BASE_TOPICS)
            shown = min(SIZES.shown, topics + claims / CLAIMS_A_TOPIC / 2) * TOPIC_TOKENS
            prompt = self._count_prompt("assign", first_new=9, most_new=9)
            lines["assign"].expect(batches, prompt + size * CLAIM_TOKENS + shown, size * 10)
            merged = (topics + claims / CLAIMS_A_TOPIC) * TOPIC_TOKENS / 2  # without samples
            lines["assign"].expect(min(1, claims // CLAIMS_A_TOPIC), self._count_prompt("merge") + merged, 10)
        if "rollup" in lines:
            topics = round(claims / CLAIMS_A_TOPIC)
            self._add_summaries(_grow_topic(n, claims // topics, settings.pyramid) for n in range(topics))
        for step in lines.keys() - {"gists", "observe"}:
            lines[step].units = claims if step == "assign" else lines[step].requests

    def _add_gists(self, rows: list[dict[str, Any]]) -> None:
        if "gists" not in self.lines:
            return
        lack = [row for row in rows if by_model.needs_gist(row, self.job.settings.extract)]
        library = self.of_step["gists"].library
        self.lines["gists"].units += len(lack)
        requests = by_model.build_gist_requests(lack, library, *self.counting)
        self._add_requests("gists", requests)

    def _add_requests(self, step: str, requests: Sequence[Request], answers: Sequence[float] | None = None) -> None:
        cached = find_answered(self.job.store, requests, self.of_step[step])
        if answers is None:
            answers = [self._expect_answer(step)] * len(requests)
        for request, answer in zip(requests, answers, strict=True):
            self.lines[step].add(self._count_request(request), answer, cached=request.id in cached)

    def _add_summaries(self, growths: Iterable[Growth]) -> None:
        """Count what pyramids would ask for as they grow; what is written stands for each summary by its length."""
        if "rollup" not in self.lines:
            return
        line, library = self.lines["rollup"], self.of_step["rollup"].library
        about, get_words = TopicInfo("a topic's name", "word " * 15), self.job.settings.pyramid.get_words

        def write(drafts: list[Draft]) -> list[str | None]:
            for draft in filterfalse(is_single_message, drafts):
                of = about if draft.scope == SummaryScope.TOPIC else None
                words = get_words(draft.tier)
                request = build_summary_request(draft, of, words, library, *self.counting)
                answer = self.measured.answer_tokens.get("rollup", 1.5 * words)
                line.expect(1, self._count_request(request), answer)
            return ["word " * get_words(draft.tier) for draft in drafts]

        for growth in growths:
            grow_many([growth], write)

    def _count_request(self, request: Request) -> int:
        return count_template_tokens(request) + sum(self.counting[0]([m["content"] for m in request.messages]))

    def _count_prompt(self, name: str, **values: object) -> int:
        """Return tokens of a prompt without its material."""
        (model, *_) = self.of_step.values()
        return -model.library.count_room(name, 0, self.counting[0], 0, **values)

    def _expect_answer(self, step: str) -> float:
        """Return tokens of an answer, as measured where it was."""
        return self.measured.answer_tokens.get(step, ANSWER_TOKENS[step])


def _grow_session(session: str, rows: Sequence[Mapping[str, Any]], settings: PyramidSettings) -> Growth:
    members = build_session_members(rows, [row["text"] for row in rows], whole=True)
    return grow_by_tier(Pyramid(), members, build_session_shape(settings, by_model=True), "session", session)


def _grow_topic(number: int, claims: int, settings: PyramidSettings) -> Growth:
    """Return the growth of a topic of so many claims that nobody has made yet."""
    members = [Member(f"{number}/{n}", "claim " * round(CLAIM_TOKENS * 0.7)) for n in range(claims)]
    return grow_by_tier(Pyramid(), members, build_topic_shape(settings, by_model=True), "topic", str(number))


def measure_usage(reports: Iterable[str], model: str) -> MeasuredUsage:
    """Return what the runs' reports (JSON, newest first) say of a model: the first hundred thousand tokens that are
    found.

    A run's seconds are spent on prompts and answers together. An answer token takes far longer than a prompt's, so
    all time is put to the answers, and prompts are taken as free: the total comes out right for nights of one kind.
    """
    requests: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    seconds = 0.0
    for report in reports:
        for step in parse_steps(report):
            counts = parse_usage([step])[model]
            requests[step.step] += counts["requests"] - counts["cache hits"]
            answers[step.step] += counts["answer tokens"]
            seconds += counts["milliseconds"] / 1000
        if answers.total() > 100_000:
            break
    means = {step: answers[step] / n for step, n in requests.items() if n > 0}
    return MeasuredUsage(means, answers.total() / seconds if answers.total() and seconds > 0.5 else None)


def add_costs(estimate: Estimate, settings: LLMSettings, measured: MeasuredUsage) -> Estimate:
    """Return the estimate with money by the prices that are set, and time by the rate that was measured."""
    prompts, answers = estimate.prompt_tokens, estimate.answer_tokens
    estimate.usd = settings.compute_usd(prompts, answers)
    if measured.answer_per_second or prompts + answers == 0:
        estimate.seconds = answers / measured.answer_per_second if measured.answer_per_second else 0.0
    else:
        estimate.notes.append("no rate is known yet: the first run measures it")
    if settings.max_tokens is not None and prompts + answers > settings.max_tokens:
        nights = -(-(prompts + answers) // settings.max_tokens)
        estimate.notes.append(f"the budget of {settings.max_tokens:,} tokens a night makes this about {nights} nights")
    return estimate


def _read_pending_messages(job: Job, model: Model | None) -> Iterator[pa.Table]:
    """Yield the messages in the vault of the sessions that a night would distil."""
    mask = Mask(job)
    pending = find_sessions_to_observe(job, model, mask)
    gone = pa.array(sorted(read_inactive_ids(job.store)), pa.string())
    for group in split_batches(pending, MESSAGES_AT_ONCE):
        rows = job.store.read_ids(MESSAGES, group["session_id"].to_list(), by="session_id")
        yield mask.mask_messages(rows.filter(pc.invert(pc.is_in(rows["message_id"], gone))))


def _read_transcripts(job: Job, paths: list[Path], estimate: Estimate) -> Iterator[pa.Table]:
    """Yield the messages of each transcript that is new or changed; what lies where goes into the estimate."""
    given = [*(paths or collect_transcript_roots()), *find_journals(job.store.dir)]
    scan = find_pending({row["path"]: row for row in job.store.read(FILES).to_pylist()}, job.settings, given)
    roots = paths or [place.root for source in scan.pending for place in source.reader.locations(Path.home())]
    estimate.unchanged = scan.counts["files unchanged"]
    sources: dict[tuple[str, str], Source] = {}
    index, limits, read = VaultIndex(job.store), Limits(job.settings.read.max_line_bytes), job.settings.read
    for transcript in scan.pending:
        place = next((root for root in roots if transcript.path.is_relative_to(root)), transcript.path.parent)
        key = (transcript.reader.name, str(place))
        source = sources.setdefault(key, Source(*key))
        source.files, source.bytes = source.files + 1, source.bytes + transcript.size
        ingested = IngestedTranscript(transcript)
        fresh = [*iter_new_rows(ingested, index, limits, redact=job.settings.redact, exclude=read.exclude)]
        if fresh:
            yield pa.Table.from_pylist(fresh, schema=MESSAGES.schema)
    unreadable = [Source("?", str(path), 1, problem=problem) for path, problem in scan.unreadable]
    estimate.sources = [*sources.values(), *unreadable]
