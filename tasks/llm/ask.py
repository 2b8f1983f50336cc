"""The language model of a run: opened once, shared by its steps, and off the GPU when the encoder needs it.

A run has one budget of tokens, however many steps ask, and one model for each that `models` names. Answers are kept in
the store before they are used, so a run that was killed repeats no call. What it cost is counted step by step into the
report.
"""

import time
from collections import Counter
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
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import COMPLETIONS
from slowwave.schemas.vocabulary import MODEL_KEY
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key
from slowwave.tasks.llm.library import Library, Rejected
from slowwave.tasks.progress import show_progress
from slowwave.tasks.quarantine import build_quarantine_row, update_quarantine
from slowwave.text.words import count_noun

T = TypeVar("T")
V = TypeVar("V")
NIGHTLY: tuple[ModelTask, ...] = ("extract", "judge", "topics", "summaries")
"""The tasks of a model in a night."""
NOBODY_ASKED: frozenset[ErrorKind] = frozenset({"unavailable", "budget"})
"""Errors of requests that reached no model: nothing is wrong with them, so none is quarantined."""
SESSIONS_MESSAGES = 50_000
"""Messages of the sessions whose answers are held at once: the model leaves the GPU after each such group."""


class StoredCompletions:
    """The completions cache in the store's own table."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the kept answers among `ids`."""
        answers: dict[str, Completion] = {}
        for row in self.store.read_ids(COMPLETIONS, ids).to_pylist():
            key, request, flags = row.pop("completion_id"), row.pop("request_id"), tuple(row.pop("flags"))
            del row["created_at"]
            answers[key] = Completion(request, flags=flags, **row)
        return answers

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers; they are on disk when this returns."""
        now = datetime.now(UTC)
        rows = [
            {**asdict(replace(done, value=None)), "completion_id": key, "request_id": done.id, "created_at": now}
            for key, done in completions.items()
        ]
        self.store.merge(COMPLETIONS, pa.Table.from_pylist(rows, schema=COMPLETIONS.schema))


class Unusable(Exception):
    """An answer of the right form that is nothing the step can use; the message says why."""


@dataclass
class Answers(Generic[V]):
    """What became of some questions, by the ids of their requests."""

    values: dict[str, V] = field(default_factory=dict)
    """The parsed answers."""
    errors: dict[str, Completion] = field(default_factory=dict)
    """Completions that say nothing of use."""
    waiting: set[str] = field(default_factory=set)
    """Of these, those to be asked again another night: nothing is written for their items before."""
    rejected: list[Rejected] = field(default_factory=list)
    """Answers for quarantine."""


def explain_error(completion: Completion) -> str:
    """Return what is wrong with a completion, as quarantine says it."""
    return f"{completion.error}: {completion.reason}"


@dataclass
class Model:
    """The language model that a run's settings name."""

    llm: ChainLLM
    library: Library
    costs: Counter[str] = field(default_factory=Counter)
    """What is in no report yet, by model: `MODEL: prompt tokens` and so on. A kept answer costs nothing."""
    noted: int = 0
    """Notes of the engines that are in a report already."""
    unanswered: list[Completion] = field(default_factory=list)
    """Requests that failed for now, the spent budget apart, and are in no report yet."""

    def compute_identity(self) -> str:
        """Return the model's identity in a step's key: the chain's first model and its sampling.

        Neither the engine nor the server that runs it is part of it, nor are the models that stand in for it.
        """
        return compute_content_id("llm", self.llm.model, str(self.llm.sampling))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return tokens of each text by the model's tokenizer."""
        return self.llm.count_tokens(texts) if texts else []

    def ask(
        self,
        step: str,
        items: Mapping[str, T],
        build: Callable[[Sequence[T]], Sequence[Request]],
        read: Callable[[T, Completion], V],
    ) -> "Answers[V]":
        """Put items to the model, and return what became of each: every step that asks a model does so here.

        Args:
            step: for the progress bar.
            items: by the ids of their requests.
            build: makes the requests.
            read: makes of an item and its answer what the step is after; raises `Unusable` where it is nothing.
        """
        answers, given = Answers[V](), dict[str, Completion]()
        if not items:
            return answers
        try:
            requests = build([*items.values()])
            with show_progress(step, len(requests)) as advance:
                began = time.perf_counter()
                for completion in self.llm.complete(requests):
                    given[completion.id] = completion
                    self._count_cost(completion, time.perf_counter() - began)
                    advance(1)
                    began = time.perf_counter()
        except EngineUnavailable as error:
            given |= {
                i: make_failure(Request(i, ()), "unavailable", str(error), self.llm) for i in items.keys() - given
            }
        for name, item in items.items():
            completion = given[name]
            if completion.error is None:
                try:
                    answers.values[name] = read(item, completion)
                except Unusable as unusable:
                    answers.errors[name] = completion
                    answers.rejected.append(Rejected(name, str(unusable), completion.text))
                continue
            answers.errors[name] = completion
            if completion.error not in LASTING:
                answers.waiting.add(name)
                self.unanswered += [completion] if completion.error != "budget" else []
            if completion.error not in NOBODY_ASKED:
                answers.rejected.append(Rejected(name, explain_error(completion), completion.text))
        return answers

    def _count_cost(self, done: Completion, seconds: float) -> None:
        costs = {"requests": 1, "cache hits": int(done.cached), f"errors ({done.error})": int(done.error is not None)}
        if not done.cached:
            costs |= {"prompt tokens": done.prompt_tokens, "prefix-cache tokens": done.prefix_tokens}
            costs |= {"answer tokens": done.completion_tokens, "milliseconds": round(seconds * 1000)}
        self.costs.update({f"{done.model or self.llm.model}: {name}": n for name, n in costs.items() if n})

    def record_usage(self, report: StepReport) -> None:
        """Write what the model cost since the last time into a step's report, by model.

        An engine that does not know its model has failed. So have the others if none is left, and if the last one could
        not answer some requests.
        """
        report.counts.update(self.costs)
        self.costs.clear()
        notes, down = self.llm.notes[self.noted :], self.llm.down.values()
        self.noted += len(notes)
        alone = len(down) == len(self.llm.engines)
        failed = {str(error) for error in down if alone or isinstance(error, ModelNotServed)}
        for note in dict.fromkeys(notes):
            (report.failed if note in failed else report.notes).append(note)
        if self.unanswered and not alone:
            many = count_noun(len(self.unanswered), "request")
            report.failed.append(f"{self.llm.model} left {many} unanswered: {explain_error(self.unanswered[0])}")
        self.unanswered.clear()


def find_answered(store: Store, requests: Sequence[Request], model: Model) -> set[str]:
    """Return ids of the requests whose answers are kept: asking them again costs nothing."""
    ids = {request.id: compute_completion_id(request, model.llm.model, model.llm.sampling) for request in requests}
    answered = set(store.read_ids(COMPLETIONS, sorted({*ids.values()}), ["completion_id"])["completion_id"].to_pylist())
    return {name for name, cid in ids.items() if cid in answered}


_open: dict[str, tuple[Budget | None, dict[str, Model | None]]] = {}
"""The budget and the models, by what settings call them, of the run that this process is doing, by run_id."""


def get_model(job: Job, task: ModelTask) -> Model | None:
    """Return the run's model for a task; None where settings say `off`. The others make room on the GPU.

    Raises:
        UsageError: settings name no engine there is.
    """
    spec, limit = job.settings.get_llm(task), job.settings.model.max_tokens
    if job.run_id not in _open:
        for run_id in list(_open):
            close_models(run_id)
        _open[job.run_id] = None if limit is None else Budget(limit), {}
    budget, models = _open[job.run_id]
    if spec not in models:
        chain = select_llm(spec, job.settings.model, StoredCompletions(job.store), budget, job.executor.place)
        models[spec] = Model(chain, Library(job.settings.extract.prompts)) if chain else None
    for other, model in models.items():
        if model and other != spec:
            model.llm.free_gpu()
    return models[spec]


def close_models(run_id: str) -> None:
    """Free what a run's models hold, at its end."""
    for model in _open.pop(run_id, (None, {}))[1].values():
        if model:
            model.llm.close()


def check_llm(settings: Settings) -> None:
    """Refuse settings that contradict each other before a night begins.

    Raises:
        UsageError: no such engine, prompt or pack; or gists by a model where there is none.
    """
    for task in NIGHTLY:
        select_llm(settings.get_llm(task), settings.model)
    resolve_pack_names(settings)
    if settings.get_llm("extract") == "off" and settings.gists == "llm":
        raise UsageError("gists = llm needs a language model: name one in llm (SLOWWAVE_LLM, --llm)")


def resolve_pack_names(settings: Settings) -> list[str]:
    """Return packs a session may be read with.

    Raises:
        UsageError: the pack that is set is nowhere.
    """
    pack = settings.observe.pack
    names = ["coding", "personal"] if pack == "auto" else [pack]
    library = Library(settings.extract.prompts)
    for name in names:
        library.load_pack(name)
    return names


def compute_model_key(model: Model, step: str, version: int, prompts: Iterable[str], *parts: str) -> str:
    """Return a step's key if a model does the step: the model, its sampling, prompts, and the settings in `parts`.

    It begins with `MODEL_KEY`, by which readers tell a model's summaries.
    """
    what = model.compute_identity(), model.library.compute_digest(prompts)
    return MODEL_KEY + compute_step_key(step, version, *what, *parts)


def quarantine_rejected(
    store: Store, step: str, rejected: Iterable[Rejected], settled: Iterable[str], report: StepReport | None = None
) -> None:
    """Write down what could not be used, and count it; what was so before and is not any more is marked resolved.

    Args:
        store: where to.
        step: the step that could not use it.
        rejected: with `row_id` `<unit>/…`.
        settled: units (sessions, messages), or whole row_ids, that the step has just looked at anew.
        report: where what is new is counted.
    """
    units = set(settled)
    rows = (
        build_quarantine_row(step, (bad.row_id, bad.reason, bad.excerpt), bad.reason, bad.excerpt, row_id=bad.row_id)
        for bad in rejected
    )
    new = update_quarantine(
        store, step, rows, lambda row: not units.isdisjoint({row["row_id"], str(row["row_id"]).split("/")[0]})
    )
    if report:
        report.counts["rows in quarantine"] += new
