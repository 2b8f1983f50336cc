"""Which settings answer best? Tries settings on labelled questions, then holds the best against those in force.

    python -m bench.experiment FILE.toml [--store DIR] [--encoder NAME] [--json]

FILE says what is asked and which settings are tried. Its paths are relative to its folder:

    files = ["locomo.json"]       # conversations with their questions, as `bench/recall/talks.py` reads them
    talks = []                    # transcripts that an `X.queries.json` is asked of
    target = "block"              # hits, block or conversation
    budget = 500                  # tokens of a block or conversation; of hits it is `k`, 10 by default
    method = "tpe"                # grid, random or tpe (optuna's)
    trials = 40

    [space]                       # settings by dotted name: a list of values, or a range
    "context.hits" = [20, 50, 100]
    "dedupe.threshold" = { low = 70, high = 90, step = 5 }

Score of an answer: the share of the content words that answer the question (`bench/recall/blocks.py`) which stand in
recall's hits, in the block, or in what is shown of a running conversation that has all messages (`conversation`: for
the weights of `context.active`).

Every setting is tried on the questions about one half of the sessions (*training*). The best one there and those in
force answer the others (*rest*); the interval (95%) of the *gain* is a bootstrap over sessions. It is one comparison:
nothing has to be corrected for how many settings were tried. No setting is changed.

A night makes the store of each conversation. For each group of values that a night reads, a copy of it has another
night. `--store` keeps the stores.
"""

import math
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.harness import ENCODER, SCRATCH, Figures, Row, run
from bench.recall.blocks import extract_words, find_wanted_words
from bench.recall.talks import Asked, Talk, load_messages, read_talks
from slowwave import Memory
from slowwave.context.conversation import Turns
from slowwave.context.rendering import Measure
from slowwave.context.tokens import cache_counts, load_tokenizer
from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import KnownEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError, explain_invalid
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings, make_settings
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import is_spoken

FIXED = ("store", "space", "encoder")
"""Settings that the command line gives."""
UNREAD_BY_NIGHTS = {"store", "recall", "context"}
"""Settings that no step of a night reads: under others of these the store stays as it is."""
DRAWS = 4_000
SHOWN = 10
"""Settings listed, the best on training first."""

Value = bool | int | float | str
Params = dict[str, Value]
"""The settings of one trial that differ from those in force, by dotted name."""


class FrozenModel(BaseModel):
    """A part of the file; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(FrozenModel):
    """A setting between two bounds, both included."""

    low: int | float
    high: int | float
    step: int | float | None = Field(None, gt=0)
    log: bool = False

    @model_validator(mode="after")
    def check_bounds(self) -> "Range":
        """Refuse an empty range, and a logarithmic one that optuna refuses."""
        if self.low >= self.high:
            raise ValueError("low must be below high")
        if self.log and (self.low <= 0 or self.step):
            raise ValueError("with log, low must be above 0, and step must be left out")
        return self

    @property
    def is_whole(self) -> bool:
        """Return True if the range holds whole numbers only."""
        return all(
            isinstance(bound, int) for bound in (self.low, self.high, self.step or 1)
        )

    def list_values(self) -> list[Value]:
        """Return every value; a grid needs them."""
        if self.step is None:
            raise UsageError(
                "a grid needs `step` with low and high, or a list of values"
            )
        count = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        values = (self.low + n * self.step for n in range(count))
        return [value if self.is_whole else float(f"{value:.6g}") for value in values]


Choices = Range | Annotated[tuple[Value, ...], Field(min_length=1)]
"""Values of a setting that are tried."""


class Definition(FrozenModel):
    """An experiment, as its file has it."""

    files: tuple[Path, ...] = Field(min_length=1)
    talks: tuple[Path, ...] = ()
    target: Literal["hits", "block", "conversation"] = "block"
    budget: int = Field(500, ge=1)
    k: int = Field(10, ge=1)
    method: Literal["grid", "random", "tpe"] = "grid"
    trials: int = Field(32, ge=1)
    seed: int = 0
    space: dict[str, Choices] = Field(min_length=1)


@dataclass(frozen=True)
class Question:
    """A question, the conversation it is asked of, and the session that it is about."""

    asked: Asked
    talk: Talk
    wanted: frozenset[str]
    """Words of the answer."""
    session: str


@dataclass
class Lab:
    """The memories of some conversations, under any settings."""

    definition: Definition
    folder: Path
    base: Mapping[str, Any]
    """Settings in force that are given by name."""
    encoder: KnownEncoder
    count: Callable[[str], int] = field(
        default_factory=lambda: cache_counts(load_tokenizer("minilm"))
    )
    nights: int = 0

    def build_settings(self, params: Params) -> Settings:
        """Return the settings in force with those of a trial over them.

        Raises:
            UsageError: a value that its setting refuses.
        """
        nested: dict[str, Any] = {**self.base}
        for name, value in params.items():
            *sections, last = name.split(".")
            inner = nested
            for section in sections:
                inner[section] = inner = {**inner.get(section, {})}
            inner[last] = value
        return make_settings(nested)

    def open_memory(self, talk: Talk, params: Params) -> Memory:
        """Return the memory of a conversation as the night makes it under a trial's settings."""
        settings = self.build_settings(params)
        store = self._name_store(talk, settings)
        if not store.exists():
            first, part = (
                self._name_store(talk, self.build_settings({})),
                store.with_suffix(".part"),
            )
            shutil.rmtree(part, ignore_errors=True)  # of a run that was stopped
            if store != first:
                self.open_memory(talk, {})
                shutil.copytree(first, part)
            paths = talk.list_paths(store.parent)
            run_night(
                paths, settings.model_copy(update={"store": part})
            ).check_complete()
            part.rename(store)
            self.nights += 1
        return Memory(
            settings.model_copy(update={"store": store}), store, None, self.encoder
        )

    def _name_store(self, talk: Talk, settings: Settings) -> Path:
        key = compute_content_id(settings.model_dump_json(exclude=UNREAD_BY_NIGHTS))
        return self.folder / talk.name / key[:12]

    def score(self, params: Params, questions: Sequence[Question]) -> list[float]:
        """Return the score of each question, 0 to 1, under some settings."""
        scores = {}
        by_talk = defaultdict[str, list[Question]](list)
        for question in questions:
            by_talk[question.talk.name].append(question)
        for some in by_talk.values():
            answer = self._make_answerer(self.open_memory(some[0].talk, params))
            for question in some:
                shown = extract_words(*answer(question.asked)) & question.wanted
                scores[id(question)] = len(shown) / len(question.wanted)
        return [scores[id(question)] for question in questions]

    def _make_answerer(self, memory: Memory) -> Callable[[Asked], list[str]]:
        """Return a function that returns the texts which answer a question."""
        if self.definition.target == "conversation":
            return self._start_conversation(memory)
        if self.definition.target == "hits":

            def recall(one: Asked) -> list[str]:
                hits = memory.recall(
                    one.text,
                    self.definition.k,
                    ("message", "claim"),
                    workspace=one.workspace,
                )
                return [hit.text for hit in hits]

            return recall

        def build_block(one: Asked) -> list[str]:
            block = memory.context(
                one.text, self.definition.budget, workspace=one.workspace
            )
            return [line.text for part in block.parts for line in part.lines]

        return build_block

    def _start_conversation(self, memory: Memory) -> Callable[[Asked], list[str]]:
        """Return a function that shows a conversation of all messages: its last turns, and older ones that a question
        calls up.
        """
        turns = Turns(
            memory.settings.context,
            memory.settings.pyramid,
            Measure(self.count),
            self.encoder,
        )
        rows = memory.snapshot.read(
            MESSAGES, ["ts", "session_id", "seq", "speaker", "role", "origin", "text"]
        )
        ordered = rows.sort_by(
            [(name, "ascending") for name in ("ts", "session_id", "seq")]
        ).to_pylist()
        said = [
            (row["speaker"] or row["role"], row["text"])
            for row in ordered
            if is_spoken(row)
        ]
        # In one call: one by one takes longer.
        self.encoder.encode([f"{speaker}: {text}" for speaker, text in said])
        for speaker, text in said:
            turns.add(speaker, text)

        def show(one: Asked) -> list[str]:
            latest = memory.settings.context.active.exchange_turns
            ranked = [*turns.list_latest(latest), *turns.rank_older(one.text, latest)]
            return [
                line.text
                for line in turns.pack(ranked, one.text, self.definition.budget)
            ]

        return show


def measure(file: Path, *, store: Path = SCRATCH, encoder: str = ENCODER) -> Figures:
    """Return the settings tried, by their mean on training, and the best one beside those in force on the rest."""
    definition = load_definition(file)
    # a night that is held back would leave the store of the settings in force
    base = {"encoder": encoder, "gates": {"enabled": False}}
    lab = Lab(definition, store, base, KnownEncoder(load_query_encoder(encoder)))
    for (
        name,
        choices,
    ) in definition.space.items():
        # A value that no setting takes is refused before anything is made.
        for value in (
            (choices.low, choices.high) if isinstance(choices, Range) else choices
        ):
            lab.build_settings({name: value})
    train, rest = split_by_session(list_questions(lab))

    # training
    rate = cache(lambda key: fmean(lab.score(dict(key), train)))
    tried = {
        params: rate(params)
        for params in [
            (),
            *search(definition, lambda params: rate(tuple(params.items()))),
        ]
    }
    ranked = sorted(tried.items(), key=lambda pair: -pair[1])
    rows: list[Row] = [
        {"settings": format_params(params), "training": mean}
        for params, mean in ranked[:SHOWN]
    ]
    notes = [
        f"{len(train)} questions for training, {len(rest)} for the rest; {lab.nights} nights."
    ]
    best = dict(ranked[0][0])
    if not best:
        return Figures(
            rows,
            notes=[*notes, "On training no setting was better than those in force."],
        )

    # the best one, on questions that it was not chosen by
    before, after = lab.score({}, rest), lab.score(best, rest)
    gain, low, high = compute_gain(
        before, after, [question.session for question in rest]
    )
    for name, scores in (("in force", before), (format_params(best.items()), after)):
        rows.append(
            {
                "settings": name,
                "rest": fmean(scores),
                "gain": None,
                "low": None,
                "high": None,
            }
        )
    rows[-1] = {**rows[-1], "gain": gain, "low": low, "high": high}
    surely = (
        "better"
        if low > 0
        else "worse"
        if high < 0
        else "neither surely better nor surely worse"
    )
    return Figures(
        rows, notes=[*notes, f"On the rest the best of training is {surely}."]
    )


def load_definition(file: Path) -> Definition:
    """Return the experiment of a file, with absolute paths.

    Raises:
        UsageError: the file is not an experiment, or names a setting that can't be varied.
    """
    try:
        definition = Definition.model_validate(
            tomllib.loads(file.read_text(encoding="utf-8"))
        )
    except ValidationError as error:
        raise UsageError(
            f"{file} is not an experiment: {explain_invalid(error)}"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is not an experiment: {error}") from None
    for name in definition.space:
        check_name(name)
    here = file.absolute().parent
    paths = {
        part: tuple(here / path for path in getattr(definition, part))
        for part in ("files", "talks")
    }
    if lost := [path for some in paths.values() for path in some if not path.exists()]:
        raise UsageError(f"{file} names {lost[0]}, which does not exist")
    return definition.model_copy(update=paths)


def check_name(name: str) -> None:
    """Raise UsageError if a dotted name isn't a setting, or is one that the command line gives."""
    model: Any = Settings
    for part in name.split("."):
        found = getattr(model, "model_fields", {}).get(part)
        model = found.annotation if found else None
    if model is None or hasattr(model, "model_fields"):
        raise UsageError(f"there is no setting {name!r}: `slowwave config` lists all")
    if name.split(".")[0] in FIXED:
        raise UsageError(f"{name} is given on the command line: it can't be varied")


def list_questions(lab: Lab) -> list[Question]:
    """Return the questions of all files; those that have all words of their answer are left out."""
    talks = [
        talk
        for path in lab.definition.files
        for talk in read_talks(path, lab.definition.talks)
    ]
    names = [talk.name for talk in talks]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(
            f"two conversations are called {min(twice)!r}: rename one of the files"
        )
    questions = []
    for talk in talks:
        messages = load_messages(lab.open_memory(talk, {}))
        for one in talk.asked:
            golden = [messages[key] for key in sorted(one.gold) if key in messages]
            sessions = sorted(one.sessions) or [session for session, _ in golden]
            if wanted := find_wanted_words(one, [text for _, text in golden]):
                session = f"{talk.name}/{sessions[0] if sessions else ''}"
                questions.append(Question(one, talk, frozenset(wanted), session))
    return questions


def split_by_session(
    questions: Sequence[Question],
) -> tuple[list[Question], list[Question]]:
    """Return two halves of the questions, the same each time; those about one session stay together.

    Raises:
        UsageError: there are fewer than two sessions for each half: no interval could be computed.
    """
    by_session = defaultdict[str, list[Question]](list)
    for question in questions:
        by_session[question.session].append(question)
    if len(by_session) < 4:
        raise UsageError(
            f"{len(questions)} questions about {len(by_session)} sessions are too few: it takes 4 sessions"
        )
    halves: tuple[list[Question], list[Question]] = [], []
    for n, session in enumerate(sorted(by_session, key=compute_content_id)):
        halves[n % 2].extend(by_session[session])
    return halves


def search(
    definition: Definition, rate: Callable[[Params], float]
) -> Iterator[tuple[tuple[str, Value], ...]]:
    """Yield the settings of each trial, rated; more is better."""
    if definition.method == "grid":
        space = definition.space.items()
        values = {
            name: some.list_values() if isinstance(some, Range) else list(some)
            for name, some in space
        }
        if (size := math.prod(map(len, values.values()))) > definition.trials:
            raise UsageError(
                f"the grid has {size} settings, `trials` allows {definition.trials}"
            )
        for chosen in product(*values.values()):
            yield tuple(zip(values, chosen, strict=True))
        return
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {
        "random": optuna.samplers.RandomSampler,
        "tpe": optuna.samplers.TPESampler,
    }
    study = optuna.create_study(
        direction="maximize", sampler=samplers[definition.method](seed=definition.seed)
    )
    distributions = {
        name: make_distribution(choices) for name, choices in definition.space.items()
    }
    for _ in range(definition.trials):
        trial = study.ask(distributions)
        params = {name: trial.params[name] for name in definition.space}
        study.tell(trial, rate(params))
        yield tuple(params.items())


def make_distribution(choices: Range | tuple[Value, ...]) -> Any:
    """Return optuna's distribution of a setting's values."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not isinstance(choices, Range):
        return CategoricalDistribution(choices)
    if choices.is_whole:
        step = int(choices.step or 1)
        return IntDistribution(
            int(choices.low), int(choices.high), log=choices.log, step=step
        )
    return FloatDistribution(
        choices.low, choices.high, log=choices.log, step=choices.step
    )


def compute_gain(
    before: Sequence[float], after: Sequence[float], sessions: Sequence[str]
) -> tuple[float, float, float]:
    """Return the mean difference, and bounds that hold 95% of the means when sessions are drawn again.

    Questions about one session stand or fall together: so sessions are drawn, not questions.
    """
    _, at = np.unique(np.asarray(sessions), return_inverse=True)
    sums, counts = np.bincount(at, np.subtract(after, before)), np.bincount(at)
    drawn = np.random.default_rng(0).integers(len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(sums.sum() / counts.sum()), float(low), float(high)


def format_params(params: Iterable[tuple[str, Value]]) -> str:
    """Return settings with their values, on one line."""
    return ", ".join(f"{name} = {value}" for name, value in params) or "in force"


if __name__ == "__main__":
    run(measure)
