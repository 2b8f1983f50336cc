"""Searches over settings: a grid, random draws, successive halving, optuna's TPE. All go by one seed.

Successive halving after Jamieson & Talwalkar (Non-stochastic best arm identification, AISTATS 2016): many are tried on
few questions, the best of them on more.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.definition import Params, Range, Search, Value

if TYPE_CHECKING:
    from optuna import Trial

Space = Mapping[str, "Range | tuple[Value, ...]"]
Evaluate = Callable[[Params, float], float]
"""How well settings do on a share of the training questions; more is better."""
DRAWS = 100
"""Draws for each trial before a space counts as used up."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Settings that were tried, on which share of the training questions, and how well they did."""

    params: Params
    share: float
    score: float


def run_search(search: Search, space: Space, seed: int, evaluate: Evaluate) -> list[Tried]:
    """Return all that was tried, in order; the settings in force, without any change, first.

    Raises:
        UsageError: a grid over a range without a step, or larger than `trials`; optuna is not installed.
    """
    base = Tried({}, 1.0, evaluate({}, 1.0))
    if search.method == "optuna":
        return [base, *_ask_optuna(search, space, seed, evaluate)]
    if search.method == "grid":
        grid = list_grid(space)
        if len(grid) > search.trials:
            raise UsageError(f"the grid has {len(grid)} settings, `trials` allows {search.trials}: raise it, or draw")
        return [base, *(Tried(params, 1.0, evaluate(params, 1.0)) for params in grid)]
    drawn = draw_settings(space, search.trials, seed)
    if search.method == "random":
        return [base, *(Tried(params, 1.0, evaluate(params, 1.0)) for params in drawn)]
    return [base, *_halve(drawn, search.eta, evaluate)]


def list_grid(space: Space) -> list[Params]:
    """Return every combination of the values.

    Raises:
        UsageError: a range has no step.
    """
    values = [_list_values(name, one) for name, one in space.items()]
    return [dict(zip(space, some, strict=True)) for some in itertools.product(*values)]


def _list_values(name: str, one: "Range | tuple[Value, ...]") -> list[Value]:
    if not isinstance(one, Range):
        return list(one)
    if one.step is None:
        raise UsageError(f"{name}: a grid needs `step` with low and high, or a list of values")
    steps = math.floor((one.high - one.low) / one.step + 1e-9)
    return [_fit(one.low + n * one.step, one) for n in range(steps + 1)]


def _fit(value: float, one: Range) -> Value:
    return round(value) if one.is_whole else float(f"{value:.3g}")


def draw_settings(space: Space, count: int, seed: int) -> list[Params]:
    """Return so many different settings; fewer where the space has no more."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, Params] = {}
    for _ in range(count * DRAWS):
        params = {name: _draw(one, rng) for name, one in space.items()}
        drawn.setdefault(repr(params), params)
        if len(drawn) == count:
            break
    return list(drawn.values())


def _draw(one: "Range | tuple[Value, ...]", rng: np.random.Generator) -> Value:
    if not isinstance(one, Range):
        return one[int(rng.integers(len(one)))]
    if one.log:
        return _fit(math.exp(rng.uniform(math.log(one.low), math.log(one.high))), one)
    if one.step is not None or one.is_whole:
        step = one.step or 1
        return _fit(one.low + step * int(rng.integers(math.floor((one.high - one.low) / step + 1e-9) + 1)), one)
    return _fit(rng.uniform(one.low, one.high), one)


def _halve(drawn: list[Params], eta: int, evaluate: Evaluate) -> Iterator[Tried]:
    rungs = math.floor(math.log(max(len(drawn), 1), eta))
    for rung in range(rungs, -1, -1):
        share = float(eta) ** -rung
        tried = [Tried(params, share, evaluate(params, share)) for params in drawn]
        yield from tried
        best = sorted(tried, key=lambda one: -one.score)[: max(1, len(drawn) // eta)]
        drawn = [one.params for one in best]


def _ask_optuna(search: Search, space: Space, seed: int, evaluate: Evaluate) -> Iterator[Tried]:
    try:
        import optuna
    except ModuleNotFoundError:
        raise UsageError("the method optuna needs it: pip install 'slowwave[experiment]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    for _ in range(search.trials):
        trial = study.ask()
        params = {name: _suggest(trial, name, one) for name, one in space.items()}
        tried = Tried(params, 1.0, evaluate(params, 1.0))
        study.tell(trial, tried.score)
        yield tried


def _suggest(trial: "Trial", name: str, one: "Range | tuple[Value, ...]") -> Value:
    if not isinstance(one, Range):
        return cast(Value, trial.suggest_categorical(name, one))
    if one.is_whole:
        return trial.suggest_int(name, int(one.low), int(one.high), step=int(one.step or 1), log=one.log)
    return _fit(trial.suggest_float(name, one.low, one.high, step=one.step, log=one.log), one)


def select_finalists(tried: list[Tried], count: int) -> list[Params]:
    """Return the best settings that were tried on all training questions, other than none; of equals the earlier."""
    whole: dict[str, Tried] = {}
    for one in tried:
        if one.share == 1.0 and one.params:
            whole.setdefault(repr(one.params), one)
    return [one.params for one in sorted(whole.values(), key=lambda one: -one.score)[:count]]
