"""An experiment as its file puts it: what is asked of which data, which settings are tried, and how.

`docs/experiments.md` has examples.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings, make_settings

FOLDER = "experiments"
"""In a space's folder: stores of trials, while an experiment runs. What is forgotten goes from there too."""
FIXED = ("store", "space", "retention", "web", "redact", "read", "gates", "storage", "quota", "same_day")
"""No experiment varies where a memory is, what leaves it, what may be read and when, or which releases are kept."""
READING = frozenset({"recall", "context"})
"""Settings that no step of a night reads: the store stays as it is."""
UNREAD = {
    "recall": ("context", "gists", "topics"),
    "topics": ("context", "gists"),
    "context": ("context.active", "context.talk", "context.briefing_budget", "gists"),
    "prompt": ("context.tokenizer", "gists"),
}
"""Settings, or sections, that a target does not read."""
Target = Literal["recall", "topics", "context", "prompt"]
Metric = Literal["evidence", "saved", "stale", "tokens"]
LESS_IS_BETTER = frozenset({"stale", "tokens"})
Value = bool | int | float | str
Params = dict[str, Value]
"""Settings by dotted name that one trial has otherwise."""


class Part(BaseModel):
    """A part of the file; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(Part):
    """A setting between two bounds, both included."""

    low: int | float
    high: int | float
    step: int | float | None = Field(None, gt=0, description="A grid needs it.")
    log: bool = Field(False, description="Draw by order of magnitude.")

    @model_validator(mode="after")
    def check_bounds(self) -> "Range":
        """Refuse bounds that hold nothing."""
        if self.low >= self.high or (self.log and (self.low <= 0 or self.step)):
            raise ValueError("low must be below high; with log it must be above 0, and step must be left out")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers alone."""
        return all(isinstance(bound, int) for bound in (self.low, self.high, self.step or 1))


class Data(Part):
    """What is asked."""

    kind: Literal["questions", "backtest"]
    paths: tuple[Path, ...] = Field((), description="Transcripts; a backtest without any reads the own space.")
    questions: Path | None = Field(None, description="Questions apart from the transcripts: TOML, JSON or JSONL.")
    split: Literal["time", "group"] = Field("time", description="By when it is asked; or by conversation, workspace.")
    shares: tuple[float, float, float] = Field((0.5, 0.25, 0.25), description="Of train, validation and test.")
    cuts: int = Field(4, ge=1, description="Backtest: days as of which the memory is built, evenly over the messages.")
    horizon: int = Field(14, ge=1, description="Backtest: days after each in which what was said counts as asked.")
    near: float = Field(
        0.55, ge=0, le=1, description="Backtest: likeness from which a message is about an older claim."
    )

    @model_validator(mode="after")
    def check_parts(self) -> "Data":
        """Refuse data that is not there, and shares that are none."""
        if self.kind != "backtest" and not self.paths:
            raise ValueError("paths must name the transcripts")
        if any(share <= 0 for share in self.shares) or abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError("shares must be three numbers above 0 that sum to 1")
        return self


class Search(Part):
    """How settings are looked for."""

    method: Literal["grid", "random", "halving", "optuna"] = "grid"
    trials: int = Field(32, ge=1, description="Settings that are tried; a grid tries all it has, and this at most.")
    finalists: int = Field(5, ge=1, description="Best of training that validation sees.")
    eta: int = Field(3, ge=2, description="Halving: one of so many goes on, to as many times the questions.")


class Experiment(Part):
    """One experiment."""

    name: str = Field(min_length=1, max_length=80)
    target: Target = "context"
    metric: Metric = Field("evidence", description="What is made better.")
    k: int = Field(10, ge=1, le=100, description="Hits, where recall is asked.")
    budget: int | None = Field(
        None, ge=1, description="Tokens of context, by default the settings'; of a prompt's window, 8,192."
    )
    seed: int = 0
    data: Data
    search: Search = Search()
    space: dict[str, Annotated[Range | tuple[Value, ...], Field(union_mode="left_to_right")]] = Field(min_length=1)


def load_experiment(path: Path) -> Experiment:
    """Return the experiment of a file; paths in it are relative to its folder.

    Raises:
        UsageError: there is no such file, it is no TOML, or says what an experiment does not have.
    """
    try:
        if path.exists() and not path.is_file():  # whoever opens a pipe waits for one who writes
            raise OSError("expected a file, got a pipe, a device or a folder")
        experiment = Experiment.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{path} is no experiment: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no experiment: {error}") from None
    for name in experiment.space:
        check_name(name, experiment.target)
        if name == "context.budget" and experiment.budget and experiment.target != "prompt":
            raise UsageError(f"{name} is not read: the experiment's own `budget` is {experiment.budget}")
    data, here = experiment.data, path.absolute().parent
    paths = tuple(here / file.expanduser() for file in data.paths)
    questions = here / data.questions.expanduser() if data.questions else None
    if lost := [file for file in (*paths, questions) if file and not (file.is_file() or file.is_dir())]:
        raise UsageError(f"{path} names {lost[0]}, which is not there, or no file")
    return experiment.model_copy(update={"data": data.model_copy(update={"paths": paths, "questions": questions})})


def check_name(name: str, target: Target) -> None:
    """Refuse what is no setting, what no experiment may vary, and what the target does not read.

    Raises:
        UsageError: the message says which.
    """

    def is_below(sections: Iterable[str]) -> bool:
        return any(name == section or name.startswith(f"{section}.") for section in sections)

    model: Any = Settings
    for part in name.split("."):
        field = getattr(model, "model_fields", {}).get(part)
        model = field.annotation if field else None
    if model is None:
        raise UsageError(f"there is no setting {name}: `slowwave config` lists all")
    if hasattr(model, "model_fields"):
        raise UsageError(f"{name} is a section: an experiment varies the settings in it")
    if is_below(FIXED):
        raise UsageError(f"{name} is not for experiments: {', '.join(FIXED)} stay as they are")
    if is_below(UNREAD[target]):
        raise UsageError(f"the target {target} does not read {name}: every value would score the same")


def build_settings(base: Mapping[str, Any], params: Params) -> Settings:
    """Return settings with a trial's own over the base's, which are as the command line gives them.

    Raises:
        UsageError: a value that is none of the setting's.
    """
    nested: dict[str, Any] = {**base}
    for name, value in params.items():
        *above, last = name.split(".")
        inner = nested
        for part in above:
            inner[part] = inner = {**inner.get(part, {})}
        inner[last] = value
    return make_settings(nested)


def compute_settings_key(settings: Settings, *, writing: bool = False) -> str:
    """Return hash of what a trial depends on; with `writing`, of what its store does."""
    out = {"store", "space", "retention", "web", "gates", "storage", *(READING if writing else ())}
    return compute_content_id(settings.model_dump_json(exclude=out))
