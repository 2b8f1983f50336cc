"""What an experiment found: every trial's figures, the best held against the settings in force, and how sure that is.

What is tried is picked on the training questions, what is adopted on validation's, and what is told of it comes from
the test's, which nothing was picked on.
"""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel

from slowwave.tasks.experiment.definition import Metric, Params
from slowwave.tasks.experiment.intervals import (
    Figure,
    Interval,
    compute_chance,
    compute_interval,
    correct_by_holm,
)
from slowwave.tasks.experiment.score import LESS_IS_BETTER, METRICS

Values = Mapping[str, Sequence[float]]
"""By figure, one a question."""


class Trial(BaseModel, frozen=True):
    """Settings that were put to some questions."""

    trial_id: str
    params: Params
    share: float
    figures: dict[str, Interval]


class Finalist(BaseModel, frozen=True):
    """Settings held against those in force, on the same questions."""

    trial: Trial
    gain: Interval
    """Of the figure that was to be made better; more is better whichever it is."""
    chance: float
    """That a difference as large comes of nothing."""
    corrected: float
    """The same, for all that were looked at together (Holm)."""


class Findings(BaseModel, frozen=True):
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
    calibration: list[tuple[Figure, Figure, int]] = []
    """Relevance that the memory told, share of evidence shown, questions: of the settings in force, on training."""

    @property
    def tried(self) -> int:
        """How many settings were tried besides those in force."""
        return len({repr(trial.params) for trial in self.trained if trial.params})

    @property
    def heads(self) -> list[str]:
        """The figures that were measured."""
        figures = self.trained[0].figures
        one = ("right",) if not figures["silence"].asked else ()  # it is evidence's, then
        return [name for name in METRICS if figures[name].asked and name not in one]

    def rate(self, trial: Trial) -> float:
        """Return a trial's figure that was to be made better; more is better whichever it is."""
        return rate_mean(self.metric, trial.figures[self.metric].mean)

    def list_best(self) -> list[Trial]:
        """Return what was tried on training, the best first."""
        return sorted(self.trained, key=lambda one: (-one.share, -self.rate(one)))

    def render_markdown(self) -> str:
        """Return what came of it as a person reads it, for a terminal, for Prefect and for the page."""
        asked, kinds = (
            ", ".join(f"{count} {name}" for name, count in some.items()) for some in (self.questions, self.kinds)
        )
        about = f"{self.experiment_id[:8]}: {self.target}, {self.data} ({kinds}), split by {self.split}: {asked}."
        best = next((one for one in self.list_best() if one.params), None)
        rows: list[tuple[str, Trial | Finalist | None]] = [("train", self.trained[0]), ("train", best)]
        rows += [("validation", self.before[0]), *(("validation", one) for one in self.validated)]
        rows += [("test", self.before[1]), ("test", self.tested)]
        verdicts = [f"- {said}" for said in self.collect_verdicts()]
        table = render_table(
            ["settings", "split", *self.heads, "gain", "p, by Holm"],
            (self._format_row(split, one) for split, one in rows if one),
        )
        return "\n".join([f"# {self.name}", "", about, "", table, "", *verdicts])

    def render_trials(self, most: int) -> str:
        """Return a table of what was tried on training, the best of it."""
        rows = ([format_params(one.params), f"{one.share:.2f}", *self._format(one)] for one in self.list_best()[:most])
        return render_table(["settings", "share", *self.heads], rows)

    def _format_row(self, split: str, one: Trial | Finalist) -> list[str]:
        trial = one if isinstance(one, Trial) else one.trial
        sure = ["", ""] if isinstance(one, Trial) else [format_interval(one.gain, "+"), format_chance(one.corrected)]
        return [format_params(trial.params), split, *self._format(trial), *sure]

    def _format(self, trial: Trial) -> list[str]:
        return [format_interval(trial.figures[name]) for name in self.heads]

    def collect_verdicts(self) -> list[str]:
        """Return what follows, a sentence each."""
        tried = f"{self.tried} settings were tried on training ({self.method})"
        said = [f"{tried}, {len(self.validated)} looked at on validation."]
        if self.tested is None:
            return [*said, "None was better on validation than the settings in force: there is nothing to adopt."]
        best = next(one for one in self.validated if one.trial.params == self.adopted)
        gain, test = (format_interval(one.gain, "+") for one in (best, self.tested))
        chances = format_chance(best.corrected), format_chance(self.tested.chance)
        said.append(
            f"{format_params(self.adopted)}: {self.metric} {gain} on validation (p {chances[0]}, by Holm for all "
            f"{len(self.validated)}), {test} on test (p {chances[1]}; the one setting that test saw)."
        )
        if self.tested.gain.low <= 0:
            said.append("On test that is no more than chance may do: the interval holds 0.")
        return said


def rate_mean(metric: Metric, mean: float) -> float:
    """Return a mean so that more is better; where nothing was measured, the least there is."""
    if mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean


def compare_trials(
    some: Sequence[tuple[Trial, Values]], base: Values, clusters: Sequence[str], metric: Metric
) -> list[Finalist]:
    """Return trials held against the settings in force on the same questions, in their order."""
    sign = -1.0 if metric in LESS_IS_BETTER else 1.0
    gains = [[sign * (new - old) for new, old in zip(values[metric], base[metric], strict=True)] for _, values in some]
    chances = [compute_chance(gain, clusters) for gain in gains]
    return [
        Finalist(trial=trial, gain=compute_interval(gain, clusters), chance=chance, corrected=corrected)
        for (trial, _), gain, chance, corrected in zip(some, gains, chances, correct_by_holm(chances), strict=True)
    ]


def render_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def format_params(params: Params) -> str:
    """Return settings on a line."""
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "as in force"


def format_chance(chance: float) -> str:
    """Return a p."""
    return f"{chance:.3f}" if chance >= 0.001 else "<0.001"


def format_interval(one: Interval, sign: str = "") -> str:
    """Return a mean, or with "+" a difference, with its bounds."""
    if not one.asked:
        return "–"
    form = f"{sign}.{0 if abs(one.mean) >= 20 else 3}f"
    return f"{one.mean:{form}} ({one.low:{form}} to {one.high:{form}})"
