"""An experiment from its file to its findings: `slowwave experiment FILE.toml`.

Each trial makes, or takes, a store under its settings and asks it the questions. Scores are kept by the hash of the
settings, of what the memory is told and of what it is asked, so an experiment that was killed goes on where it was. The
space's own tables are read and never written; the stores of trials lie in its folder `experiments` until the end.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.chat.talk import Conversation, TurnContext
from slowwave.context.build import Context
from slowwave.context.conversation import Turns
from slowwave.context.rendering import OMITTED
from slowwave.context.tokens import cache_counts, load_tokenizer
from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.protocol import KnownEncoder
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night, run_steps_after_read
from slowwave.flows.parts.run import make_run_id, open_run, run_step
from slowwave.memory import Memory
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import COMPLETIONS, EXCLUSIONS, MERGES, MESSAGES, OBSERVATIONS, SESSIONS
from slowwave.schemas.vocabulary import LedgerKind, Origin, Status, is_spoken
from slowwave.store.lock import writer_lock
from slowwave.store.private import make_files_private, make_private_folder
from slowwave.store.store import Store
from slowwave.tasks.experiment.comparison import Interval, compute_interval, compute_p_value, correct_by_holm
from slowwave.tasks.experiment.definition import (
    FOLDER,
    LESS_IS_BETTER,
    Experiment,
    Params,
    build_settings,
    compute_settings_key,
    load_experiment,
)
from slowwave.tasks.experiment.past import Past, cut_vault, find_asking, find_questions, part_unit, pick_cuts
from slowwave.tasks.experiment.questions import (
    Item,
    Question,
    Score,
    Unit,
    name_message,
    read_labelled,
    score_answer,
    split_questions,
)
from slowwave.tasks.experiment.search import run_search
from slowwave.tasks.ingest.store_messages import repair_sessions
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.pending import read_spoken_messages

FINISHED = "finished"
"""A file in the store of a trial that is whole."""
KINDS = ("observation", "message")
Ask = Callable[[Question], tuple[list[Item], int]]
"""Returns what an answer shows, and its tokens."""


@dataclass(frozen=True)
class Candidate:
    """Settings held against those in force, on the same questions."""

    split: str
    params: Params
    figures: dict[str, Interval]
    gain: Interval
    """Of the metric; more is better whichever it is."""
    p: float
    """By Holm's correction for all candidates of the split."""


@dataclass(frozen=True)
class Findings:
    """The findings of an experiment."""

    name: str
    metric: str
    questions: dict[str, int]
    """By split."""
    tried: int
    """Settings tried on training."""
    in_force: dict[str, dict[str, Interval]]
    """Figures of the settings in force, by split."""
    candidates: list[Candidate]
    """The best of training on validation, and the best of these, where it is better at all, on test."""
    best: Params
    """Settings that validation found better than those in force; empty where there are none."""


def run_experiment(file: Path, base: Mapping[str, Any]) -> Findings:
    """Return what an experiment found.

    Args:
        file: the experiment's file.
        base: settings in force, as the command line gives them over the file's.

    Raises:
        UsageError: the file is no experiment, or too little is asked to part it.
        StoreMissing: there is no such store or space, and none is made.
        StoreLocked: another experiment of this space is running.
    """
    experiment, settings = load_experiment(file), build_settings(base, {})
    for name, values in experiment.space.items():  # a value that no setting takes is refused before anything is made
        for value in values if isinstance(values, tuple) else (values.low, values.high):
            build_settings(base, {name: value})
    Store.open(settings.store, settings.space)
    make_private_folder(folder := settings.store / settings.space / FOLDER)
    with make_files_private(), writer_lock(folder, make_run_id(), "experiment"):
        units, seed = load_units(experiment, settings, folder)
        questions = {question.id: question for unit in units for question in unit.questions}
        parts = split_questions(list(questions.values()), experiment.data.split, experiment.data.shares)
        # In order of id, the first questions are a sample of all: halving asks them first.
        parts = {name: sorted(some, key=lambda question: question.id) for name, some in parts.items()}
        findings = search_settings(Lab(experiment, base, units, folder, seed), parts)
    shutil.rmtree(folder, ignore_errors=True)
    return findings


def search_settings(lab: "Lab", parts: Mapping[str, list[Question]]) -> Findings:
    """Return the findings: settings tried on training, the best of them on validation, the best of these on test."""
    experiment, at = lab.experiment, Score._fields.index(lab.experiment.metric)
    sign = -1.0 if experiment.metric in LESS_IS_BETTER else 1.0

    # 1. Training: the search rates each setting by its mean.
    tried: list[tuple[float, Params]] = []

    def rate(params: Params, share: float) -> float:
        scores = lab.score_questions(params, parts["train"][: max(1, round(share * len(parts["train"])))])
        values = [score[at] for score in scores if score[at] == score[at]]
        rating = sign * fmean(values) if values else float("-inf")
        if params and share == 1.0:
            tried.append((rating, params))
        return rating

    run_search(experiment.search, experiment.space, experiment.seed, rate)
    tried.sort(key=lambda pair: -pair[0])

    # 2. Validation and test: held against the settings in force, question by question.
    in_force, candidates = dict[str, dict[str, Interval]](), list[Candidate]()

    def compare(split: str, questions: Sequence[Params]) -> None:
        clusters = [question.cluster for question in parts[split]]
        before, *after = (np.array(lab.score_questions(params, parts[split])) for params in ({}, *questions))

        def describe(scores: np.ndarray) -> dict[str, Interval]:
            return {name: compute_interval(scores[:, n].tolist(), clusters) for n, name in enumerate(Score._fields)}

        in_force[split] = describe(before)
        gains = [sign * (scores - before)[:, at] for scores in after]
        corrected = correct_by_holm([compute_p_value(gain, clusters) for gain in gains])
        candidates.extend(
            Candidate(split, params, describe(scores), compute_interval(gain, clusters), p)
            for params, scores, gain, p in zip(questions, after, gains, corrected, strict=True)
        )

    compare("train", [])
    compare("validation", [params for _, params in tried[: experiment.search.finalists]])
    winner = max(candidates, key=lambda candidate: candidate.gain.mean, default=None)
    best = winner.params if winner and winner.gain.mean > 0 else {}
    compare("test", [best] if best else [])
    sizes = {split: len(questions) for split, questions in parts.items()}
    return Findings(experiment.name, experiment.metric, sizes, len(tried), in_force, candidates, best)


class Lab:
    """The memories of an experiment's units, under any settings."""

    def __init__(
        self, experiment: Experiment, base: Mapping[str, Any], units: Sequence[Unit], folder: Path, seed: Store | None
    ) -> None:
        """Set up; nothing is made yet.

        Args:
            experiment: what is asked of them.
            base: settings in force, as the command line gives them over the file's.
            units: what is told and asked.
            folder: where stores are made, and scores are kept.
            seed: a store whose completions they may have.
        """
        self.experiment, self.base, self.folder, self.seed = experiment, base, folder, seed
        self.units = {question.id: unit for unit in units for question in unit.questions}
        self.made = 0
        """Stores that were made."""
        self._first = dict[tuple[str, str, bool], Path]()
        """The first of each unit under an encoder: others begin as its copy."""
        self._load_encoder = cache(lambda name: KnownEncoder(load_query_encoder(name)))
        self._load_counter = cache(lambda name: cache_counts(load_tokenizer(name)))
        self._scores_file = folder / "scores.jsonl"
        # Scores that an earlier run kept; a line that a kill cut short is left out.
        self._scores = dict[str, Score]()
        for line in self._scores_file.read_bytes().splitlines() if self._scores_file.exists() else ():
            try:
                key, values = orjson.loads(line)
            except ValueError:
                continue
            self._scores[key] = Score(*(float("nan") if value is None else value for value in values))

    def score_questions(self, params: Params, questions: Sequence[Question]) -> list[Score]:
        """Return the score of each question under settings; those that are known are not asked again.

        Raises:
            UsageError: a value that is none of its setting's.
        """
        settings = build_settings(self.base, params)
        limits = (self.experiment.target, str(self.experiment.k), str(self.experiment.budget), version("slowwave"))
        key = compute_content_id(compute_settings_key(settings), *limits)
        ids = {
            question.id: compute_content_id(key, question.id, self.units[question.id].digest) for question in questions
        }
        # ask what has no score yet, a unit at a time
        by_unit: dict[str, list[Question]] = defaultdict(list)
        for question in questions:
            if ids[question.id] not in self._scores:
                by_unit[self.units[question.id].name].append(question)
        for batch in by_unit.values():
            ask = self._set_up(self.units[batch[0].id], settings)
            new = {ids[question.id]: score_answer(question, *ask(question)) for question in batch}
            with self._scores_file.open("ab") as out:
                out.writelines(orjson.dumps([key, list(score)]) + b"\n" for key, score in new.items())
            self._scores |= new
        return [self._scores[ids[question.id]] for question in questions]

    def _set_up(self, unit: Unit, settings: Settings) -> Ask:
        """Return a function that answers the unit's questions under the settings."""
        target, budget = self.experiment.target, self.experiment.budget
        encoder = self._load_encoder(settings.encoder) if settings.embeddings else None
        # A memory of all that is told; or of its earlier half, beside a conversation of the later one.
        running = unit.messages
        if target == "prompt":
            unit, running = part_unit(unit)
        prepared = self._prepare(unit, settings)
        memory = Memory(prepared, prepared.store, None, encoder)
        if target == "prompt":
            model = ScriptedLLM(context_window=budget or 8_192)  # asked for no answer: it counts tokens
            talk = Conversation(model, memory, prepared, encoder=encoder)
            # without the model also where a recap is wanted
            talk.turns = Turns(prepared.context, prepared.pyramid, talk.turns.measure, encoder)
            return partial(_ask_prompt, talk, _tell_turns(talk.turns, unit, running))
        if target == "context":
            return partial(_ask_context, memory, budget)
        count = self._load_counter(settings.context.tokenizer)
        return partial(_ask_recall, memory, self.experiment.k, KINDS if target == "recall" else ("topic",), count)

    def _prepare(self, unit: Unit, settings: Settings) -> Settings:
        """Return the settings with the store of a unit that was made under them; made now where there is none."""
        folder = self.folder / f"{unit.digest[:12]}-{compute_settings_key(settings, writing=True)[:12]}"
        quiet = settings.recall.model_copy(update={"cached_answers": 0})
        prepared = settings.model_copy(update={"store": folder, "space": "default", "recall": quiet})
        first = self._first.setdefault((unit.name, settings.encoder, settings.embeddings), folder)
        if not (folder / FINISHED).exists():
            shutil.rmtree(prepared.store, ignore_errors=True)  # a run that was killed left a part of it
            if first != prepared.store:
                shutil.copytree(first, prepared.store, ignore=shutil.ignore_patterns(FINISHED))
            with open_run("experiment", prepared, create=True) as (job, report):
                if first == prepared.store:
                    job.store.append(MESSAGES, unit.messages)
                    job.store.append(SESSIONS, unit.sessions)
                    repair_sessions(job.store)
                if self.seed is not None:
                    # What a model answered for an earlier store serves this one too.
                    answers = self.seed.read(COMPLETIONS)
                    stored = job.store.read(COMPLETIONS, [COMPLETIONS.key])[COMPLETIONS.key].combine_chunks()
                    new = pc.invert(pc.is_in(answers[COMPLETIONS.key], stored))
                    job.store.append(COMPLETIONS, answers.filter(new))
                run_steps_after_read(job, report, gated=False)
            report.check_complete()
            (prepared.store / FINISHED).touch()
            self.seed, self.made = job.store, self.made + 1
        return prepared


def _ask_recall(
    memory: Memory, k: int, kinds: Sequence[str], count: Callable[[str], int], question: Question
) -> tuple[list[Item], int]:
    hits = memory.recall(question.text, k, kinds, automatic=question.kind == "retold", now=question.at)
    items = [
        Item(
            hit.text,
            tuple(name_message(source.session, source.message) for source in hit.sources),
            hit.status != Status.ACTIVE or hit.successor is not None,
        )
        for hit in hits
    ]
    return items, sum(count(item.text) for item in items)


def _ask_context(memory: Memory, budget: int | None, question: Question) -> tuple[list[Item], int]:
    block = memory.context(question.text, budget, automatic=question.kind == "retold")
    return _list_block_items(block), block.tokens


def _list_block_items(block: Context) -> list[Item]:
    return [
        Item(line.text, (name_message(line.source.session or "", line.source.message or ""),), bool(line.own_words))
        for part in block.parts
        for line in part.lines
    ]


def _ask_prompt(talk: Conversation, names: Sequence[str], question: Question) -> tuple[list[Item], int]:
    prompt = talk.build_prompt(question.text)
    recalled = talk.recalled or TurnContext("")
    turns = recalled.turns
    latest = zip(turns.recent, names[len(names) - len(turns.recent) :], strict=True)
    items = [Item(turn["content"], (name,)) for turn, name in latest]
    items += [Item(text, ()) for text in (*(line.text for line in turns.recap), prompt[0]["content"])]
    for line in turns.shown:
        items.append(Item(line.text, () if OMITTED in line.pieces else (names[line.source.seq or 0],)))
    items += _list_block_items(recalled.block) if recalled.block else []
    return items, sum(talk.llm.count_tokens([turn["content"] for turn in prompt]))


def _tell_turns(turns: Turns, unit: Unit, messages: pa.Table) -> list[str]:
    """Tell a unit's messages as one conversation and return each turn's name; no question affects another's answer."""
    turns.active.weights = replace(turns.active.weights, used=0.0)
    rows = messages.sort_by([("ts", "ascending"), ("session_id", "ascending"), ("seq", "ascending")]).to_pylist()
    rows = [row for row in rows if is_spoken(row)]
    utterances = [(row["speaker"] or row["role"], row["text"]) for row in rows]
    if turns.active.encoder is not None:  # at once; one by one it takes far longer
        turns.active.encoder.encode([f"{speaker}: {text}" for speaker, text in utterances])
    for speaker, text in utterances:
        turns.add(speaker, text)
    return [name_message(unit.names.get(row["session_id"], row["session_id"]), row["native_id"]) for row in rows]


def load_units(experiment: Experiment, settings: Settings, folder: Path) -> tuple[list[Unit], Store]:
    """Return the units with their messages and questions, and a store whose completions they may use.

    A backtest has a unit a cut: what had been said before it, and what was asked in the days after.

    Raises:
        UsageError: nothing is asked there, or a backtest has no vectors, or no past.
    """
    data, whole = experiment.data, settings
    if data.paths:
        own_store = {"store": folder / f"read-{compute_settings_key(settings)[:12]}", "space": "default"}
        whole = settings.model_copy(update=own_store)
        if data.kind == "backtest":
            run_night(list(data.paths), whole).check_complete()
        else:
            with open_run("experiment", whole, create=True) as (job, report):
                run_step(job, report, read_transcripts, list(data.paths))
    store = Store.open(whole.store, whole.space)
    left_out = store.read(EXCLUSIONS, ["row_id"])["row_id"].combine_chunks()
    # What is told: the vault without what a person left out.
    messages, sessions = (
        rows.filter(pc.invert(pc.is_in(rows["session_id"], left_out)))
        for rows in (store.read(MESSAGES), store.read(SESSIONS))
    )
    messages = messages.filter(pc.invert(pc.is_in(messages["message_id"], left_out)))
    names = dict(zip(sessions["session_id"].to_pylist(), sessions["native_id"].to_pylist(), strict=True))
    if data.kind == "questions":
        vault = pl.DataFrame(messages.select(["session_id", "native_id", "ts", "workspace"]))
        vault = vault.with_columns(pl.col("session_id").replace(names).alias("session"))
        questions = read_labelled([data.questions] if data.questions else data.paths, vault)
        return [Unit("all", tuple(questions), messages, sessions, names)], store
    # A backtest: at each cut, questions of what was said after it.
    past = read_past(store, settings, names)
    cuts, units = pick_cuts(past.turns, data.cuts), list[Unit]()
    for cut, until in zip_longest(cuts, cuts[1:]):
        if questions_after := find_questions(past, cut, data.horizon, data.near, until):
            units.append(Unit(f"{cut:%Y-%m-%d}", tuple(questions_after), *cut_vault(messages, sessions, cut), names))
    if not units:
        raise UsageError("of what was said after each cut nothing is near what was said before: lower `near`, or wait")
    return units, store


def read_past(store: Store, settings: Settings, names: Mapping[str, str]) -> Past:
    """Return the messages of a store, and what its nights made of them.

    Raises:
        UsageError: its claims have no vectors.
    """
    spoken = read_spoken_messages(store, ["native_id", "origin", "role", "text", "ts", "workspace"])
    keys = spoken.select("session_id", "native_id").iter_rows()
    turns = spoken.with_columns(
        (pl.col("origin") == Origin.HUMAN).alias("person"),
        pl.Series("name", [name_message(names.get(session, session), native) for session, native in keys], pl.String),
    ).filter(pl.col("ts").is_not_null())
    # the claims, and the changes that the night thinks likely
    columns = ["observation_id", "session_id", "message_ids", "quote", "summary", "status", "canonical_id"]
    rows = store.read(OBSERVATIONS, [*columns, "superseded_by", "observed_at", "vector"])
    rows = rows.filter(pc.is_valid(rows["vector"]))
    if not rows.num_rows or not settings.embeddings:
        raise UsageError("a backtest needs claims with vectors: `slowwave run` makes them")
    doubted = store.read(MERGES, ["loser_id", "winner_id", "undone"], pc.field("kind") == LedgerKind.DOUBT).to_pylist()
    # what people asked, encoded
    asking = find_asking(turns)
    encoded = load_query_encoder(settings.encoder).encode(list(asking.values())) if asking else ()
    return Past(
        turns,
        pl.DataFrame(rows.drop_columns(["vector"])).rename({"observed_at": "at"}),
        np.stack(rows["vector"].to_numpy(zero_copy_only=False)).astype(np.float32),
        frozenset((row["loser_id"], row["winner_id"]) for row in doubted if not row["undone"]),
        {message: (text, vector) for (message, text), vector in zip(asking.items(), encoded, strict=True)},
    )
