"""An experiment from its file to its findings: `slowwave experiment FILE.toml`.

Every trial is kept in `trials` by the hash of its settings, of what memory is told and of what it is asked: an
experiment that was killed is gone on from, and one that is run again asks nothing. The space's own tables are read and,
but for the two ledgers, never written; stores of trials lie in its folder `experiments` until the end.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from slowwave.flows.parts.run import make_run_id, run_as_function
from slowwave.schemas.errors import StoreLocked
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXPERIMENTS, TRIALS, Table
from slowwave.store.lock import writer_lock
from slowwave.store.private import make_files_private, make_private_folder
from slowwave.store.store import Store
from slowwave.tasks.experiment.definition import FOLDER, Params, build_settings, compute_settings_key, load_experiment
from slowwave.tasks.experiment.findings import (
    Findings,
    Trial,
    Values,
    compare_trials,
    format_chance,
    format_interval,
    format_params,
    rate_mean,
    render_table,
)
from slowwave.tasks.experiment.intervals import compute_calibration, compute_chance, compute_interval
from slowwave.tasks.experiment.questions import SPLITS, Question, split_questions
from slowwave.tasks.experiment.score import METRICS, Score
from slowwave.tasks.experiment.search import run_search

if TYPE_CHECKING:
    from slowwave.flows.parts.trials import Lab

CallTrial = Callable[..., Values]
"""Runs a trial: as the plain function that it is, or as a task of Prefect's."""
PATIENCE = 3_600
"""Seconds that a ledger waits for a night that holds the store."""


def run_trial(trials: "Trials", trial_id: str, params: Params, questions: Sequence[Question]) -> Values:
    """Return the figures of settings on questions, by name a list; kept in the ledger."""
    start = time.perf_counter()
    scores = trials.lab.score_questions(params, questions)
    found = {name: [float(getattr(one, name)) for one in scores] for name in Score._fields}
    told = {"params": orjson.dumps(params).decode(), "scores": orjson.dumps(found).decode()}
    when = {"seconds": round(time.perf_counter() - start, 3), "at": datetime.now(UTC)}
    keep_row(trials.settings, TRIALS, {"trial_id": trial_id, **told, **when})
    return found


class Trials:
    """The trials of one experiment: each is run once, ever."""

    def __init__(self, settings: Settings, lab: "Lab", parts: Mapping[str, list[Question]], call: CallTrial) -> None:
        self.settings, self.lab, self.parts, self.call = settings, lab, parts, call

    def measure(self, params: Params, split: str, share: float = 1.0) -> tuple[Trial, Values]:
        """Return a trial of settings on the first so many of a split's questions; run where the ledger lacks it."""
        questions = self.parts[split][: max(1, round(share * len(self.parts[split])))]
        one, key = self.lab.experiment, compute_settings_key(build_settings(self.lab.base, params))
        asked = (part for question in questions for part in (question.id, self.lab.units[question.id].digest))
        limits = (one.target, str(one.k), str(one.budget), version("slowwave"))
        trial_id = compute_content_id(key, *limits, *asked)
        values = find_trial(self.settings, trial_id) or self.call(run_trial, self, trial_id, params, questions)
        clusters = [question.cluster for question in questions]
        figures = {name: compute_interval(values[name], clusters) for name in METRICS}
        return Trial(trial_id=trial_id, params=params, share=share, figures=figures), values


def find_trial(settings: Settings, trial_id: str) -> Values | None:
    """Return a kept trial's figures; None where there is none, or one of fewer figures."""
    rows = Store.open(settings.store, settings.space).read_ids(TRIALS, [trial_id], ["scores"]).to_pylist()
    found = orjson.loads(rows[0]["scores"]) if rows else {}
    if found.keys() != set(Score._fields):
        return None
    return {name: [float("nan") if one is None else one for one in values] for name, values in found.items()}


def keep_row(settings: Settings, table: Table, row: Mapping[str, Any]) -> None:
    """Write a row of a ledger, holding the space's lock for that moment; a night that has it is waited for.

    Raises:
        StoreLocked: it was held for an hour.
    """
    for left in range(PATIENCE, -1, -1):
        try:
            with make_files_private(), writer_lock(settings.store / settings.space, make_run_id(), "experiment"):
                store = Store.open(settings.store, settings.space, create=True)
                store.merge(table, pa.Table.from_pylist([row], schema=table.schema))
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
        StoreMissing: there is no such store or space, and none is made.
        StoreLocked: another experiment of this space is at it.
    """
    from slowwave.flows.parts.experiment_data import load_units  # a memory, for which who lists experiments
    from slowwave.flows.parts.trials import Lab  # has no use

    experiment, settings = load_experiment(file), build_settings(base, {})
    for name, one in experiment.space.items():  # a value that no setting takes is told before anything is made
        for value in one if isinstance(one, tuple) else (one.low, one.high):
            build_settings(base, {name: value})
    known = [one.model_dump_json() for one in read_experiments(settings)]
    make_private_folder(folder := settings.store / settings.space / FOLDER)
    with make_files_private(), writer_lock(folder, make_run_id(), "experiment"):
        units, seed = load_units(experiment, settings, folder)
        questions = {question.id: question for unit in units for question in unit.questions}
        parts = split_questions(list(questions.values()), experiment.data.split, experiment.data.shares)
        parts = {name: sorted(some, key=lambda one: one.id) for name, some in parts.items()}  # a share is of all over
        found = search_settings(Trials(settings, Lab(experiment, base, units, folder, seed), parts, call))
    shutil.rmtree(folder, ignore_errors=True)
    if (told := found.model_dump_json()) not in known:
        row = {"experiment_id": found.experiment_id, "name": found.name, "at": datetime.now(UTC), "findings": told}
        keep_row(settings, EXPERIMENTS, row)
    return found


def read_experiments(settings: Settings) -> list[Findings]:
    """Return the space's experiments, the latest last.

    Raises:
        StoreMissing: there is no such store or space.
    """
    rows = Store.open(settings.store, settings.space).read(EXPERIMENTS).sort_by("at")
    return [Findings.model_validate_json(told) for told in rows["findings"].to_pylist()]


def search_settings(trials: Trials) -> Findings:
    """Return the findings: settings tried on training, the best of them on validation, the best of these on test."""
    experiment, parts, trained = trials.lab.experiment, trials.parts, list[Trial]()
    metric, clusters = experiment.metric, {split: [one.cluster for one in some] for split, some in parts.items()}

    def rate(trial: Trial) -> float:
        return rate_mean(metric, trial.figures[metric].mean)

    def evaluate(params: Params, share: float) -> float:
        trained.append(trials.measure(params, "train", share)[0])
        return rate(trained[-1])

    run_search(experiment.search, experiment.space, experiment.seed, evaluate)
    before = {split: trials.measure({}, split) for split in SPLITS}
    whole = sorted((one for one in trained if one.share == 1.0 and one.params), key=rate, reverse=True)
    looked_at = [trials.measure(one.params, "validation") for one in whole[: experiment.search.finalists]]
    validated = compare_trials(looked_at, before["validation"][1], clusters["validation"], metric)
    best = max(validated, key=lambda one: one.gain.mean, default=None)
    adopted = best.trial.params if best and best.gain.mean > 0 else {}
    tested = [trials.measure(adopted, "test")] if adopted else []
    definition = experiment.model_dump_json(exclude={"data": {"paths", "questions"}})
    numbers = {name: str(n) for n, name in enumerate(dict.fromkeys(clusters["test"]))}  # names are nobody's business
    return Findings(
        experiment_id=compute_content_id(definition, *(one.trial_id for one, _ in before.values())),
        **experiment.model_dump(include={"name", "target", "metric"}),
        method=experiment.search.method,
        data=experiment.data.kind,
        split=experiment.data.split,
        questions={split: len(some) for split, some in parts.items()},
        kinds=Counter(one.kind for some in parts.values() for one in some),
        trained=trained,
        validated=validated,
        before=[before["validation"][0], before["test"][0]],
        adopted=adopted,
        tested=next(iter(compare_trials(tested, before["test"][1], clusters["test"], metric)), None),
        asked=compute_content_id(*(one.id for one in parts["test"])),
        clusters=[numbers[name] for name in clusters["test"]],
        calibration=compute_calibration(before["train"][1]["relevance"], before["train"][1]["evidence"]),
    )


def compare_experiments(settings: Settings, a: Findings, b: Findings) -> str:
    """Return what two experiments ended with, on test: adopted settings, or those in force where none were."""
    ends = [one.tested.trial if one.tested else one.before[1] for one in (a, b)]
    heads = [name for name in METRICS if name in {*a.heads, *b.heads}]
    rows = [
        [f"{one.experiment_id[:8]} {one.name}: {format_params(end.params)}"]
        + [format_interval(end.figures[name]) for name in heads]
        for one, end in zip((a, b), ends, strict=True)
    ]
    table = render_table(["on test", *heads], rows)
    old, new = (find_trial(settings, end.trial_id) for end in ends)
    if a.asked != b.asked or old is None or new is None:
        return f"{table}\n\nThey asked different questions: no difference is computed."
    said = []
    for name in heads:
        gains = [after - before for before, after in zip(old[name], new[name], strict=True)]
        gain, chance = compute_interval(gains, a.clusters), compute_chance(gains, a.clusters)
        said.append(f"{name}: the second's less the first's {format_interval(gain, '+')}, p {format_chance(chance)}")
    return "\n".join([table, *said])
