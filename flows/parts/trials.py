"""What an experiment's trials are put to: stores of its units, each made once under what of the settings a night reads,
and questions answered from them by recall, by a block of context, or by a conversation's working memory.

A setting that only a question reads makes no store anew. Another store begins as a copy of the unit's first, so the
steps make again what depends on the setting and no more; what was encoded and paid for goes from store to store.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from slowwave.chat.turns import Turns
from slowwave.context.tokens import cache_counts, load_tokenizer
from slowwave.engines.encoders.known import KnownEncoder
from slowwave.engines.encoders.load import load_query_encoder
from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.run import open_run, run_as_function
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import COMPLETIONS, MESSAGES, SESSIONS, VECTORS
from slowwave.schemas.vocabulary import Status, is_spoken
from slowwave.store.store import Store
from slowwave.tasks.experiment.definition import Experiment, Params, build_settings, compute_settings_key
from slowwave.tasks.experiment.questions import Question, Unit, name_message
from slowwave.tasks.experiment.score import Answer, Item, Score, score_answer
from slowwave.tasks.ingest.store_messages import repair_sessions

MADE = "made"
"""A file that a store of a trial has once it is whole."""
KINDS = ("observation", "message")


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
            folder: where stores are made.
            seed: a store whose vectors and completions they may have.
        """
        self.experiment, self.base, self.folder = experiment, base, folder
        self.units = {question.id: unit for unit in units for question in unit.questions}
        self.seed, self._first, self.made = seed, dict[tuple[str, str, bool], Path](), 0
        self._load_encoder = cache(lambda name: KnownEncoder(load_query_encoder(name)))

    def score_questions(self, params: Params, questions: Sequence[Question]) -> list[Score]:
        """Return the score of each question under settings.

        Raises:
            UsageError: a value that is none of its setting's.
        """
        settings, scores = build_settings(self.base, params), dict[str, Score]()
        by_unit: dict[str, list[Question]] = defaultdict(list)
        for question in questions:
            by_unit[self.units[question.id].name].append(question)
        for some in by_unit.values():
            answers = self._answer(self.units[some[0].id], settings, some)
            scores |= {one.id: score_answer(one, answer) for one, answer in zip(some, answers, strict=True)}
        return [scores[question.id] for question in questions]

    def _answer(self, unit: Unit, settings: Settings, questions: Sequence[Question]) -> Iterable[Answer]:
        one = self.experiment
        encoder = self._load_encoder(settings.encoder) if settings.embeddings else None
        count = load_counter(settings.context.tokenizer)
        if one.target == "talk":
            room = one.budget or int(settings.context.budget * settings.context.conversation_share)
            return _answer_by_talk(unit, settings, questions, encoder, room, count)
        mine = self._prepare(unit, settings)
        memory = Memory(mine, mine.store, None, encoder)
        if one.target == "recall":
            return [_recall(memory, question, one.k, count) for question in questions]
        return [_ask_for_context(memory, question, one.budget) for question in questions]

    def _prepare(self, unit: Unit, settings: Settings) -> Settings:
        """Return the settings with the store of a unit that was made under them; made now where there is none."""
        place = self.folder / f"{unit.digest[:12]}-{compute_settings_key(settings, writing=True)[:12]}"
        quiet = settings.recall.model_copy(update={"cached_answers": 0})
        mine = settings.model_copy(update={"store": place, "space": "default", "recall": quiet})
        first = self._first.setdefault((unit.name, settings.encoder, settings.embeddings), place)
        if not (place / MADE).exists():
            self._make_store(unit, mine, first)
        return mine

    def _make_store(self, unit: Unit, settings: Settings, first: Path) -> None:
        shutil.rmtree(settings.store, ignore_errors=True)  # a run that was killed left a part of it
        if first != settings.store:
            shutil.copytree(first, settings.store, ignore=shutil.ignore_patterns(MADE))
        with open_run("experiment", settings, create=True) as (job, report):
            if first == settings.store:
                tell_store(job.store, unit)
            if self.seed is not None:
                share_made(self.seed, job.store)
            run_steps_after_read(job, report, run_as_function, gated=False)  # nobody's memory
        report.check_complete()
        (settings.store / MADE).touch()
        self.seed, self.made = job.store, self.made + 1


def tell_store(store: Store, unit: Unit) -> None:
    """Write what a unit is told into a store that has nothing yet."""
    store.append(MESSAGES, unit.messages)
    if unit.sessions is not None:
        store.append(SESSIONS, unit.sessions)
    repair_sessions(store)


def share_made(one: Store, other: Store) -> None:
    """Give a store the vectors and completions of another that it lacks."""
    for table in (VECTORS, COMPLETIONS) if one.dim == other.dim else ():
        rows, known = one.read(table), other.read(table, [table.key])[table.key]
        other.append(table, rows.filter(pc.invert(pc.is_in(rows[table.key], known.combine_chunks()))))


def _recall(memory: Memory, question: Question, k: int, count: Callable[[str], int]) -> Answer:
    hits = memory.recall(question.text, k, KINDS, automatic=question.kind == "retold", now=question.at)
    items = tuple(
        Item(
            hit.text,
            tuple(name_message(one.session, one.message) for one in hit.sources),
            hit.status != Status.ACTIVE or hit.successor is not None,
        )
        for hit in hits
    )
    return Answer(items, sum(count(item.text) for item in items), hits.relevance)


def _ask_for_context(memory: Memory, question: Question, budget: int | None) -> Answer:
    block = memory.context(question.text, budget, automatic=question.kind == "retold")
    items = tuple(
        Item(line.text, (name_message(line.source.session or "", line.source.message or ""),), bool(line.said))
        for part in block.parts
        for line in part.lines
    )
    return Answer(items, block.tokens, block.relevance)


def _answer_by_talk(
    unit: Unit,
    settings: Settings,
    questions: Sequence[Question],
    encoder: KnownEncoder | None,
    room: int,
    count: Callable[[str], int],
) -> Iterable[Answer]:
    """Yield what of the unit, told as one conversation, reaches the prompt of each question; none moves another's."""
    rows = unit.messages.sort_by([("ts", "ascending"), ("session_id", "ascending"), ("seq", "ascending")]).to_pylist()
    said = [(row["speaker"] or row["role"], row["text"]) for row in rows if is_spoken(row)]
    name = [
        name_message(unit.names.get(row["session_id"], row["session_id"]), row["native_id"])
        for row in rows
        if is_spoken(row)
    ]
    if encoder is not None:
        encoder.encode([f"{speaker}: {text}" for speaker, text in said])  # at once; one by one it takes far longer
    turns = Turns(settings, lambda texts: [count(text) for text in texts], encoder)
    for speaker, text in said:
        turns.add(speaker, text)
    strengths = [(trace, trace.strength, trace.set_at) for trace in turns.active.traces]
    for question in questions:
        told = turns.recall(question.text, room)
        for trace, strength, set_at in strengths:
            trace.strength, trace.set_at = strength, set_at
        latest = range(len(said) - len(told.recent), len(said))
        items = [Item(said[at][1], (name[at],)) for at in latest]
        items += [Item(one.text, () if one.shortened else (name[one.trace.number],)) for one in told.shown]
        yield Answer(tuple(items), count(told.text) + sum(count(said[at][1]) for at in latest))


@cache
def load_counter(name: str) -> Callable[[str], int]:
    """Return what counts tokens, by a tokenizer's name."""
    return cache_counts(load_tokenizer(name))
