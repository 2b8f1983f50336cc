"""The language model of a run. It is opened once, its steps share it, and it leaves the GPU when the encoder needs it.

A run has one budget of tokens for all its steps, and one model for each that the settings name. Answers are stored
before they are used, so a run that was killed repeats no call. The costs of each step are counted in its report.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

import pyarrow as pa

from slowwave.engines.llm.budget import Budget
from slowwave.engines.llm.cache import compute_completion_id
from slowwave.engines.llm.protocol import (
    LASTING,
    Completion,
    EngineUnavailable,
    ErrorKind,
    ModelNotServed,
    Request,
    make_failure,
)
from slowwave.engines.llm.select import ChainLLM, select_llm
from slowwave.schemas.counters import Count, ModelUsage
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import COMPLETIONS
from slowwave.schemas.vocabulary import MODEL_KEY
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key
from slowwave.tasks.llm.library import Library, RejectedAnswer
from slowwave.tasks.progress import show_progress
from slowwave.tasks.quarantine import build_quarantine_row, update_quarantine
from slowwave.text.words import count_noun

T = TypeVar("T")
V = TypeVar("V")
NIGHTLY: tuple[ModelTask, ...] = ("extract", "judge", "topics", "summaries")
"""The tasks of a model in a night."""
NOBODY_ASKED: frozenset[ErrorKind] = frozenset({"unavailable", "budget"})
"""Errors of requests that reached no model. The requests are valid, so they are not quarantined."""
SESSIONS_MESSAGES = 50_000
"""Messages of the sessions that are asked about in one group. The model leaves the GPU after each group."""


class StoredCompletions:
    """The cache of completions, in a table of the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the stored completions among `ids`."""
        answers: dict[str, Completion] = {}
        for row in self.store.read_ids(COMPLETIONS, ids).to_pylist():
            key = row.pop("completion_id")
            request = row.pop("request_id")
            flags = tuple(row.pop("flags"))
            del row["created_at"]
            answers[key] = Completion(request, flags=flags, **row)
        return answers

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Store completions; they are on disk when this returns."""
        now = datetime.now(UTC)
        rows = [
            {
                **asdict(replace(done, value=None)),
                "completion_id": key,
                "request_id": done.id,
                "created_at": now,
            }
            for key, done in completions.items()
        ]
        self.store.merge(
            COMPLETIONS, pa.Table.from_pylist(rows, schema=COMPLETIONS.schema)
        )


class Unusable(Exception):
    """An answer of the right form that the step cannot use. The message says why."""


@dataclass
class Answers(Generic[V]):
    """The outcome of each question, by the id of its request."""

    values: dict[str, V] = field(default_factory=dict)
    """The parsed answers."""
    errors: dict[str, Completion] = field(default_factory=dict)
    """Completions that failed or were unusable."""
    waiting: set[str] = field(default_factory=set)
    """Ids of the errors that another run may not get. Nothing is written for these items in this run."""
    rejected: list[RejectedAnswer] = field(default_factory=list)
    """Answers for quarantine."""


def explain_error(completion: Completion) -> str:
    """Return the error of a completion and its reason, as quarantine shows it."""
    return f"{completion.error}: {completion.reason}"


@dataclass
class Model:
    """The language model that a run's settings name."""

    llm: ChainLLM
    library: Library
    costs: dict[str, ModelUsage] = field(default_factory=dict)
    """Costs not in a report yet, by model."""
    noted: int = 0
    """Number of the engines' notes that are in a report already."""
    unanswered: list[Completion] = field(default_factory=list)
    """Requests that failed temporarily and are not in a report yet. Those over the budget do not count."""

    def compute_identity(self) -> str:
        """Return the model's identity in a step's key: the chain's first model and its sampling.

        The engine, the server that runs it and the chain's later models are not part of it.
        """
        return compute_content_id("llm", self.llm.model, str(self.llm.sampling))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, by the model's tokenizer."""
        return self.llm.count_tokens(texts) if texts else []

    def ask(
        self,
        step: str,
        items: Mapping[str, T],
        build: Callable[[Sequence[T]], Sequence[Request]],
        read: Callable[[T, Completion], V],
    ) -> "Answers[V]":
        """Send items to the model and return what became of each. Every step that uses a model calls this method.

        Args:
            step: the step's name, for the progress bar.
            items: by the ids of their requests.
            build: makes the requests of items.
            read: turns an item and its completion into a value; raises `Unusable` if the completion has no use.
        """
        answers = Answers[V]()
        if not items:
            return answers
        completions = self._complete_items(step, items, build)
        for name, item in items.items():
            completion = completions[name]
            if completion.error is not None:
                self._record_error(name, completion, answers)
                continue
            try:
                answers.values[name] = read(item, completion)
            except Unusable as unusable:
                answers.errors[name] = completion
                answers.rejected.append(
                    RejectedAnswer(name, str(unusable), completion.text)
                )
        return answers

    def _complete_items(
        self,
        step: str,
        items: Mapping[str, T],
        build: Callable[[Sequence[T]], Sequence[Request]],
    ) -> dict[str, Completion]:
        """Return the completion of each item, by the id of its request; a failure if no engine is available."""
        completions = dict[str, Completion]()
        try:
            requests = build([*items.values()])
            with show_progress(step, len(requests)) as advance:
                began = time.perf_counter()
                for completion in self.llm.complete(requests):
                    completions[completion.id] = completion
                    self._count_cost(completion, time.perf_counter() - began)
                    advance(1)
                    began = time.perf_counter()
        except EngineUnavailable as error:
            for name in items.keys() - completions:
                completions[name] = make_failure(
                    request=Request(name, ()),
                    error="unavailable",
                    reason=str(error),
                    llm=self.llm,
                )
        return completions

    def _record_error(
        self,
        name: str,
        completion: Completion,
        answers: "Answers[V]",
    ) -> None:
        """Add a failed completion to the answers: to those that wait, and to those for quarantine."""
        answers.errors[name] = completion
        if completion.error not in LASTING:
            answers.waiting.add(name)
            if completion.error != "budget":
                self.unanswered.append(completion)
        if completion.error not in NOBODY_ASKED:
            answers.rejected.append(
                RejectedAnswer(name, explain_error(completion), completion.text)
            )

    def _count_cost(self, done: Completion, seconds: float) -> None:
        """Add the cost of one completion to `costs`."""
        model = done.model or self.llm.model
        usage = self.costs.setdefault(model, ModelUsage())
        usage.requests += 1
        if done.error is not None:
            usage.errors[done.error] += 1
        if done.cached:
            usage.cache_hits += 1
            return
        usage.prompt_tokens += done.prompt_tokens
        usage.prefix_tokens += done.prefix_tokens
        usage.answer_tokens += done.completion_tokens
        usage.milliseconds += round(seconds * 1000)

    def record_usage(self, report: StepReport) -> None:
        """Move the costs and notes since the last call into a step's report, by model.

        An engine that does not serve its model is a failure. If every engine is down, all their errors are failures. If
        another engine is still up, the requests that were left unanswered are a failure.
        """
        for model, usage in self.costs.items():
            report.usage.setdefault(model, ModelUsage()).add(usage)
        self.costs.clear()
        notes = self.llm.notes[self.noted :]
        self.noted += len(notes)
        down = self.llm.down.values()
        all_down = len(down) == len(self.llm.engines)
        failed = {
            str(error)
            for error in down
            if all_down or isinstance(error, ModelNotServed)
        }
        for note in dict.fromkeys(notes):
            (report.failed if note in failed else report.notes).append(note)
        if self.unanswered and not all_down:
            many = count_noun(len(self.unanswered), "request")
            report.failed.append(
                f"{self.llm.model} left {many} unanswered: {explain_error(self.unanswered[0])}"
            )
        self.unanswered.clear()


def find_answered(store: Store, requests: Sequence[Request], model: Model) -> set[str]:
    """Return the ids of the requests whose answers are stored. Asking them again costs nothing."""
    ids = {
        request.id: compute_completion_id(request, model.llm.model, model.llm.sampling)
        for request in requests
    }
    answered = set(
        store.read_ids(COMPLETIONS, sorted({*ids.values()}), ["completion_id"])[
            "completion_id"
        ].to_pylist()
    )
    return {name for name, cid in ids.items() if cid in answered}


_open: dict[str, tuple[Budget | None, dict[str, Model | None]]] = {}
"""The budget and the models of the run that this process executes, by run_id. Models are keyed by their setting."""


def get_model(job: Job, task: ModelTask) -> Model | None:
    """Return the run's model for a task, or None if the setting is `off`. The run's other models leave the GPU.

    Raises:
        UsageError: the settings name an unknown engine.
    """
    spec = job.settings.get_llm(task)
    limit = job.settings.model.max_tokens
    if job.run_id not in _open:
        for run_id in list(_open):
            close_models(run_id)
        _open[job.run_id] = None if limit is None else Budget(limit), {}
    budget, models = _open[job.run_id]
    if spec not in models:
        chain = select_llm(
            spec=spec,
            settings=job.settings.model,
            cache=StoredCompletions(job.store),
            budget=budget,
            place=job.executor.place,
        )
        models[spec] = (
            Model(chain, Library(job.settings.extract.prompts)) if chain else None
        )
    for other, model in models.items():
        if model and other != spec:
            model.llm.free_gpu()
    return models[spec]


def close_models(run_id: str) -> None:
    """Free the resources of a run's models, at its end."""
    for model in _open.pop(run_id, (None, {}))[1].values():
        if model:
            model.llm.close()


def check_llm(settings: Settings) -> None:
    """Check the settings of language models before a run begins.

    Raises:
        UsageError: an engine, prompt or pack is unknown, or gists need a model and none is set.
    """
    for task in NIGHTLY:
        select_llm(settings.get_llm(task), settings.model)
    resolve_pack_names(settings)
    if settings.get_llm("extract") == "off" and settings.gists == "llm":
        raise UsageError(
            "gists = llm needs a language model: name one in llm (SLOWWAVE_LLM, --llm)"
        )


def resolve_pack_names(settings: Settings) -> list[str]:
    """Return the names of the packs that a session may be read with.

    Raises:
        UsageError: the pack that is set does not exist.
    """
    pack = settings.observe.pack
    names = ["coding", "personal"] if pack == "auto" else [pack]
    library = Library(settings.extract.prompts)
    for name in names:
        library.load_pack(name)
    return names


def compute_model_key(
    model: Model,
    step: str,
    version: int,
    prompts: Iterable[str],
    *parts: str,
) -> str:
    """Return the key of a step that a model does: a hash of the model, its sampling, prompts, and the settings in
    `parts`.

    The key begins with `MODEL_KEY`, by which readers recognise rows that a model made.
    """
    what = model.compute_identity(), model.library.compute_digest(prompts)
    return MODEL_KEY + compute_step_key(step, version, *what, *parts)


def quarantine_rejected(
    store: Store,
    step: str,
    rejected: Iterable[RejectedAnswer],
    settled: Iterable[str],
    report: StepReport | None = None,
) -> None:
    """Write rejected answers to quarantine and count the new ones. Mark earlier ones as resolved if they no longer
    occur.

    Args:
        store: the store of the quarantine table.
        step: the step that rejected them.
        rejected: answers whose `row_id` is `<unit>/…`.
        settled: units (sessions, messages) or whole row_ids that the step has just processed again.
        report: the report that counts the new rows.
    """
    units = set(settled)
    rows = (
        build_quarantine_row(
            step=step,
            key=(bad.row_id, bad.reason, bad.excerpt),
            reason=bad.reason,
            excerpt=bad.excerpt,
            row_id=bad.row_id,
        )
        for bad in rejected
    )
    new = update_quarantine(
        store=store,
        step=step,
        rows=rows,
        is_settled=lambda row: (
            not units.isdisjoint({row["row_id"], str(row["row_id"]).split("/")[0]})
        ),
    )
    if report:
        report.counts[Count.ANSWERS_QUARANTINED] += new
