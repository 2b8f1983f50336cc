"""Searches over settings by optuna: a grid, random draws, successive halving, TPE. All go by one seed.

Halving is optuna's, which goes on with a setting as soon as it is among the best of those before it at as many
questions (ASHA: Li et al., A system for massively parallel hyperparameter tuning, MLSys 2020).
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from slowwave.schemas.errors import UsageError, name_install
from slowwave.tasks.experiment.definition import Params, Range, Search, Value

if TYPE_CHECKING:
    import optuna

Space = Mapping[str, Range | tuple[Value, ...]]
Evaluate = Callable[[Params, float], float]
"""How well settings do on a share of the training questions; more is better."""


def run_search(search: Search, space: Space, seed: int, evaluate: Evaluate) -> None:
    """Evaluate the settings in force, without any change, and then what the method tries, each once.

    Raises:
        UsageError: a grid over a range without a step, or larger than `trials`; optuna is not installed.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise UsageError(f"an experiment needs optuna: {name_install('experiment')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # how settings are drawn, and which trials end early
    halving = search.method == "halving"
    rungs = math.floor(math.log(search.trials, search.eta)) if halving else 0
    pruner = optuna.pruners.SuccessiveHalvingPruner(1, search.eta, 0) if halving else optuna.pruners.NopPruner()
    sampler: optuna.samplers.BaseSampler = optuna.samplers.RandomSampler(seed=seed)
    if search.method == "optuna":
        sampler = optuna.samplers.TPESampler(seed=seed)
    elif search.method == "grid":
        space = grid = {name: _list_values(name, choices) for name, choices in space.items()}
        if (size := math.prod(len(values) for values in grid.values())) > search.trials:
            raise UsageError(f"the grid has {size} settings, `trials` allows {search.trials}: raise it, or draw")
        sampler = optuna.samplers.GridSampler(grid, seed=seed)
    # each trial on growing shares of the questions; the settings in force come first
    evaluate({}, 1.0)
    scores: dict[tuple[str, float], float] = {}

    def measure(trial: optuna.Trial) -> float:
        params = {name: _suggest(trial, name, values) for name, values in space.items()}
        for rung in range(rungs + 1):
            key = repr(params), float(search.eta) ** (rung - rungs)
            if key not in scores:
                scores[key] = evaluate(params, key[1])
            trial.report(scores[key], search.eta**rung)
            if rung < rungs and trial.should_prune():
                raise optuna.TrialPruned
        return scores[key]

    optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner).optimize(measure, search.trials)


def _list_values(name: str, values: Range | tuple[Value, ...]) -> tuple[Value, ...]:
    if not isinstance(values, Range):
        return values
    if values.step is None:
        raise UsageError(f"{name}: a grid needs `step` with low and high, or a list of values")
    return tuple(
        _fit(values.low + n * values.step, values)
        for n in range(math.floor((values.high - values.low) / values.step + 1e-9) + 1)
    )


def _suggest(trial: "optuna.Trial", name: str, values: Range | tuple[Value, ...]) -> Value:
    if not isinstance(values, Range):
        return cast(Value, trial.suggest_categorical(name, values))
    if values.is_whole:
        return trial.suggest_int(name, int(values.low), int(values.high), step=int(values.step or 1), log=values.log)
    return _fit(trial.suggest_float(name, values.low, values.high, step=values.step, log=values.log), values)


def _fit(value: float, bounds: Range) -> Value:
    return round(value) if bounds.is_whole else float(f"{value:.3g}")
