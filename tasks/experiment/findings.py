"""What an experiment found: every trial's figures, the best held against the settings in force, and how sure that is.

What is tried is picked on the training questions, what is adopted on validation's, and what is told of it comes from
the test's, which nothing was picked on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import orjson

from slowwave.tasks.experiment.definition import Params
from slowwave.tasks.experiment.intervals import (
    Interval,
    compute_calibration,
    compute_chance,
    compute_interval,
    correct_by_holm,
)
from slowwave.tasks.experiment.score import LESS_IS_BETTER, METRICS, Metric

Values = Mapping[str, Sequence[float]]
"""By figure, one a question."""
Figures = dict[str, Interval]


@dataclass(frozen=True)
class Trial:
    """Settings that were put to some questions."""

    trial_id: str
    params: Params
    share: float
    figures: Figures


@dataclass(frozen=True)
class Finalist:
    """Settings held against those in force, on the same questions."""

    trial: Trial
    gain: Interval
    """Of the figure that was to be made better; more is better whichever it is."""
    chance: float
    """That a difference as large comes of nothing."""
    corrected: float
    """The same, for all that were looked at together (Holm)."""


@dataclass(frozen=True)
class Findings:
    """All of it, in figures and settings alone."""

    experiment_id: str
    name: str
    target: str
    metric: Metric
    method: str
    data: str
    split: str
    questions: dict[str, int]
    """By split."""
    kinds: dict[str, int]
    trained: list[Trial]
    """In the order they were tried; the first is the settings in force."""
    validated: list[Finalist]
    before: list[Trial]
    """The settings in force, on validation and on test."""
    adopted: Params
    """What validation found better than the settings in force; none where nothing is."""
    tested: Finalist | None
    asked: str
    """Hash of what test asks."""
    clusters: list[str]
    """Of its questions, each one's."""
    calibration: list[tuple[float, float, int]] = field(default_factory=list)
    """Relevance that the memory told, share of evidence shown, questions: of the settings in force, on training."""
    notes: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many settings were tried besides those in force."""
        return len({repr(trial.params) for trial in self.trained if trial.params})

    def render_json(self) -> str:
        """Return it for its row."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `render_json` wrote."""
        plain = orjson.loads(text)
        return cls(
            **{
                **plain,
                "trained": [_parse_trial(one) for one in plain["trained"]],
                "before": [_parse_trial(one) for one in plain["before"]],
                "validated": [_parse_finalist(one) for one in plain["validated"]],
                "tested": _parse_finalist(plain["tested"]) if plain["tested"] else None,
                "calibration": [tuple(one) for one in plain["calibration"]],
            }
        )

    def render_markdown(self) -> str:
        """Return the whole as a person reads it, for a terminal and for Prefect."""
        asked = ", ".join(f"{count} {name}" for name, count in self.questions.items())
        lines = [f"# {self.name}", "", f"{self.experiment_id[:8]}: {self.target}, {self.data}; questions: {asked}", ""]
        heads = [name for name in METRICS if self.trained[0].figures[name].asked]
        lines += [f"| settings | split | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
        best = max(self.trained[1:], key=lambda one: (one.share, self.rate(one)), default=None)
        rows = [("train", self.trained[0]), *([("train", best)] if best else []), ("validation", self.before[0])]
        rows += [("validation", one.trial) for one in self.validated]
        rows += [("test", self.before[1]), *([("test", self.tested.trial)] if self.tested else [])]
        for split, trial in rows:
            figures = " | ".join(format_interval(trial.figures[name]) for name in heads)
            lines.append(f"| {format_params(trial.params)} | {split} | {figures} |")
        return "\n".join([*lines, "", *self.collect_verdicts()])

    def rate(self, trial: Trial) -> float:
        """Return a trial's figure that was to be made better; more is better whichever it is."""
        return rate_mean(self.metric, trial.figures[self.metric].mean)

    def collect_verdicts(self) -> list[str]:
        """Return what follows, a sentence each."""
        said = [
            f"{self.tried} settings were tried on training ({self.method}), "
            f"{len(self.validated)} looked at on validation."
        ]
        if self.tested is None:
            said.append("None was better on validation than the settings in force: there is nothing to adopt.")
        else:
            best = next(one for one in self.validated if one.trial.params == self.adopted)
            said.append(
                f"{format_params(self.adopted)}: {self.metric} {format_gain(best.gain)} on validation "
                f"(p {best.corrected:.3f}, by Holm for all {len(self.validated)}), {format_gain(self.tested.gain)} "
                f"on test (p {self.tested.chance:.3f}; the one setting that test saw)."
            )
            if self.tested.gain.low <= 0:
                said.append("On test that is no more than chance may do: the interval holds 0.")
        return [*said, *self.notes]


def rate_mean(metric: Metric, mean: float) -> float:
    """Return a mean so that more is better; where nothing was measured, the least there is."""
    if mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean


def summarise(values: Values, clusters: Sequence[str]) -> Figures:
    """Return each figure's mean with its interval."""
    return {name: compute_interval(values[name], clusters) for name in METRICS}


Measured = tuple[Trial, Values]


def compare_trials(some: Sequence[Measured], base: Measured, clusters: Sequence[str], metric: Metric) -> list[Finalist]:
    """Return trials held against the settings in force on the same questions, in their order."""
    sign = -1.0 if metric in LESS_IS_BETTER else 1.0
    old = base[1][metric]
    gains = [[sign * (new - before) for new, before in zip(one[metric], old, strict=True)] for _, one in some]
    chances = [compute_chance(gain, clusters) for gain in gains]
    both = zip(some, gains, chances, correct_by_holm(chances), strict=True)
    return [Finalist(trial, compute_interval(gain, clusters), p, holm) for (trial, _), gain, p, holm in both]


def calibrate(values: Values) -> list[tuple[float, float, int]]:
    """Return the calibration of the relevance that was told, by what was shown."""
    return compute_calibration(values["relevance"], values["evidence"])


def number_clusters(clusters: Sequence[str]) -> list[str]:
    """Return clusters by number, in order of first sight: names of sessions are nobody's business."""
    numbers = {name: str(n) for n, name in enumerate(dict.fromkeys(clusters))}
    return [numbers[name] for name in clusters]


def format_params(params: Params) -> str:
    """Return settings on a line."""
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "as in force"


def format_interval(one: Interval) -> str:
    """Return a mean with its bounds."""
    if not one.asked:
        return "–"
    digits = 0 if abs(one.mean) >= 20 else 3
    return f"{one.mean:.{digits}f} ({one.low:.{digits}f} to {one.high:.{digits}f})"


def format_gain(one: Interval) -> str:
    """Return a difference with its bounds."""
    digits = 0 if abs(one.mean) >= 20 else 3
    return f"{one.mean:+.{digits}f} ({one.low:+.{digits}f} to {one.high:+.{digits}f})"


def _parse_trial(plain: Mapping[str, Any]) -> Trial:
    figures = {name: _parse_interval(one) for name, one in plain["figures"].items()}
    return Trial(plain["trial_id"], plain["params"], plain["share"], figures)


def _parse_finalist(plain: Mapping[str, Any]) -> Finalist:
    return Finalist(_parse_trial(plain["trial"]), _parse_interval(plain["gain"]), plain["chance"], plain["corrected"])


def _parse_interval(plain: Mapping[str, Any]) -> Interval:
    known: dict[str, Any] = {name: float("nan") if one is None else one for name, one in plain.items()}
    return Interval(**known)
