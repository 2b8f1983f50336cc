"""An experiment from its file to its findings: `slowwave experiment FILE.toml`.

Every trial is kept in `trials` by the hash of its settings, of what memory is told and of what it is asked: an
experiment that was killed is gone on from, and one that is run again asks nothing. The space's own tables are read and,
but for the two ledgers, never written; stores of trials lie in its folder `experiments` until the end.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.parts.experiment_data import load_units
from slowwave.flows.parts.run import make_run_id, run_as_function
from slowwave.schemas.errors import StoreLocked
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXPERIMENTS, TRIALS
from slowwave.store.lock import writer_lock
from slowwave.store.private import make_files_private, make_private_folder
from slowwave.store.store import Store
from slowwave.tasks.experiment.definition import (
    FOLDER,
    Params,
    build_settings,
    compute_settings_key,
    load_experiment,
)
from slowwave.tasks.experiment.findings import (
    Findings,
    Trial,
    Values,
    calibrate,
    compare_trials,
    format_gain,
    format_interval,
    format_params,
    number_clusters,
    rate_mean,
    summarise,
)
from slowwave.tasks.experiment.intervals import compute_chance, compute_interval
from slowwave.tasks.experiment.questions import (
    SPLITS,
    Question,
    split_questions,
)
from slowwave.tasks.experiment.score import METRICS, Score
from slowwave.tasks.experiment.search import run_search, select_finalists

if TYPE_CHECKING:
    from slowwave.flows.parts.trials import Lab

CallTrial = Callable[..., Values]
"""Runs a trial: as the plain function that it is, or as a task of Prefect's."""
PATIENCE = 3_600
"""Seconds that a ledger waits for a night that holds the store."""


def run_trial(trials: "Trials", params: Params, split: str, share: float) -> Values:
    """Return the figures of settings on questions, by name a list; from the ledger where it has them."""
    return trials.measure(params, split, share)


class Trials:
    """The trials of one experiment: each is run once, ever."""

    def __init__(self, settings: Settings, lab: "Lab", parts: Mapping[str, list[Question]]) -> None:
        self.settings, self.lab, self.parts, self.ran = settings, lab, parts, 0

    def select(self, split: str, share: float) -> list[Question]:
        """Return the first so many of a split's questions."""
        some = self.parts[split]
        return some[: max(1, round(share * len(some)))]

    def compute_id(self, params: Params, questions: Sequence[Question]) -> str:
        """Return hash of all that a trial depends on."""
        one, settings = self.lab.experiment, build_settings(self.lab.base, params)
        asked = (part for question in questions for part in (question.id, self.lab.units[question.id].digest))
        limits = (one.target, str(one.k), str(one.budget), version("slowwave"))
        return compute_content_id(compute_settings_key(settings), *limits, *asked)

    def measure(self, params: Params, split: str, share: float) -> Values:
        """Return the figures of a trial; run and kept where it is new."""
        questions = self.select(split, share)
        trial_id = self.compute_id(params, questions)
        if (known := find_trial(self.settings, trial_id)) is not None:
            return known
        start = time.perf_counter()
        scores = self.lab.score_questions(params, questions)
        found = {name: [float(getattr(one, name)) for one in scores] for name in Score._fields}
        row = {
            "trial_id": trial_id,
            "params": orjson.dumps(params).decode(),
            "scores": orjson.dumps(found).decode(),
            "seconds": round(time.perf_counter() - start, 3),
            "at": datetime.now(UTC),
        }
        with hold_ledger(self.settings) as store:
            store.merge(TRIALS, pa.Table.from_pylist([row], schema=TRIALS.schema))
        self.ran += 1
        return found


def find_trial(settings: Settings, trial_id: str) -> Values | None:
    """Return a kept trial's figures."""
    rows = Store.open(settings.store, settings.space).read_ids(TRIALS, [trial_id], ["scores"]).to_pylist()
    if not rows:
        return None
    found = orjson.loads(rows[0]["scores"])
    return {name: [float("nan") if one is None else one for one in values] for name, values in found.items()}


@contextmanager
def hold_ledger(settings: Settings) -> Iterator[Store]:
    """Hold the space's lock for the moment that writing takes; a night that has it is waited for.

    Raises:
        StoreLocked: it was held for an hour.
    """
    space = settings.store / settings.space
    for left in range(PATIENCE, -1, -1):
        try:
            with make_files_private(), writer_lock(space, make_run_id(), "experiment"):
                yield Store.open(settings.store, settings.space, create=True)
                return
        except StoreLocked:
            if not left:
                raise
            time.sleep(1)


def run_experiment(file: Path, base: Mapping[str, Any], call: CallTrial = run_as_function) -> Findings:
    """Return what an experiment found; kept in `experiments`, to be compared and adopted.

    Args:
        file: the experiment's file.
        base: settings in force, as the command line gives them over the file's.
        call: runs a trial.

    Raises:
        UsageError: the file is no experiment, or too little is asked to part it.
        StoreLocked: another experiment of this space is at it.
    """
    from slowwave.flows.parts.trials import Lab  # a memory, which who lists experiments has no use for

    experiment, settings = load_experiment(file), build_settings(base, {})
    for name, one in experiment.space.items():  # a value that no setting takes is told before anything is made
        for value in one if isinstance(one, tuple) else (one.low, one.high):
            build_settings(base, {name: value})
    with hold_ledger(settings):
        pass  # the space is there from here on
    folder = settings.store / settings.space / FOLDER
    make_private_folder(folder)
    with make_files_private(), writer_lock(folder, make_run_id(), "experiment"):
        units, seed = load_units(experiment, settings, folder)
        questions = {question.id: question for unit in units for question in unit.questions}
        parts = split_questions(list(questions.values()), experiment.data.split, experiment.data.shares)
        parts = {name: sorted(some, key=lambda one: one.id) for name, some in parts.items()}  # a share is of all over
        found = search_settings(Trials(settings, Lab(experiment, base, units, folder, seed), parts), call)
    shutil.rmtree(folder, ignore_errors=True)
    told = found.render_json()
    if [told] != _read_findings(settings, [found.experiment_id]):
        row = {"experiment_id": found.experiment_id, "name": found.name, "at": datetime.now(UTC), "findings": told}
        with hold_ledger(settings) as store:
            store.merge(EXPERIMENTS, pa.Table.from_pylist([row], schema=EXPERIMENTS.schema))
    return found


def read_experiments(settings: Settings) -> list[Findings]:
    """Return the space's experiments, the latest last.

    Raises:
        StoreMissing: there is no such store or space.
    """
    return [Findings.parse(told) for told in _read_findings(settings)]


def _read_findings(settings: Settings, ids: Sequence[str] | None = None) -> list[str]:
    rows = Store.open(settings.store, settings.space).read(EXPERIMENTS)
    kept = rows if ids is None else rows.filter(pc.is_in(rows["experiment_id"], pa.array(ids)))
    return kept.sort_by("at")["findings"].to_pylist()  # type: ignore[no-any-return]


def search_settings(trials: Trials, call: CallTrial) -> Findings:
    """Return the findings: settings tried on training, the best of them on validation, the best of these on test."""
    experiment, trained = trials.lab.experiment, list[Trial]()
    metric = experiment.metric

    def measure(params: Params, split: str, share: float = 1.0) -> tuple[Trial, Values]:
        questions = trials.select(split, share)
        values = call(run_trial, trials, params, split, share)
        figures = summarise(values, [one.cluster for one in questions])
        return Trial(trials.compute_id(params, questions), params, share, figures), values

    def evaluate(params: Params, share: float) -> float:
        trained.append(measure(params, "train", share)[0])
        return rate_mean(metric, trained[-1].figures[metric].mean)

    tried = run_search(experiment.search, experiment.space, experiment.seed, evaluate)
    clusters = {split: [one.cluster for one in some] for split, some in trials.parts.items()}
    before = {split: measure({}, split) for split in SPLITS}
    looked_at = [measure(params, "validation") for params in select_finalists(tried, experiment.search.finalists)]
    validated = compare_trials(looked_at, before["validation"], clusters["validation"], metric)
    best = max(validated, key=lambda one: one.gain.mean, default=None)
    adopted = best.trial.params if best and best.gain.mean > 0 else {}
    tested = compare_trials([measure(adopted, "test")], before["test"], clusters["test"], metric) if adopted else []
    everything = [one for some in trials.parts.values() for one in some]
    definition = experiment.model_dump_json(exclude={"data": {"paths", "questions"}})
    return Findings(
        compute_content_id(definition, *(one.trial_id for one, _ in before.values())),
        *(experiment.name, experiment.target, metric, experiment.search.method, experiment.data.kind),
        experiment.data.split,
        {split: len(some) for split, some in trials.parts.items()},
        dict(Counter(one.kind for one in everything)),
        trained,
        validated,
        [before["validation"][0], before["test"][0]],
        adopted,
        tested[0] if tested else None,
        compute_content_id(*(one.id for one in trials.parts["test"])),
        number_clusters(clusters["test"]),
        calibrate(before["train"][1]),
    )


def compare_experiments(settings: Settings, a: Findings, b: Findings) -> str:
    """Return what two experiments ended with, on test: adopted settings, or those in force where none were."""
    ends = [one.tested.trial if one.tested else one.before[1] for one in (a, b)]
    heads = [name for name in METRICS if any(one.figures[name].asked for one in ends)]
    lines = [f"| on test | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for one, end in zip((a, b), ends, strict=True):
        figures = " | ".join(format_interval(end.figures[name]) for name in heads)
        lines.append(f"| {one.experiment_id[:8]} {one.name}: {format_params(end.params)} | {figures} |")
    values = [find_trial(settings, end.trial_id) for end in ends]
    if a.asked != b.asked or values[0] is None or values[1] is None:
        return "\n".join([*lines, "", "They asked different questions: no difference is computed."])
    for name in heads:
        gains = [new - old for old, new in zip(values[0][name], values[1][name], strict=True)]
        gain, chance = compute_interval(gains, a.clusters), compute_chance(gains, a.clusters)
        lines.append(f"{name}: the second's less the first's {format_gain(gain)}, p {chance:.3f}")
    return "\n".join(lines)
