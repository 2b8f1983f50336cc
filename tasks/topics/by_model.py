"""Topics by a language model: place new claims, open topics, merge and split them.

Claims are sent in batches, each with the topics that may fit: name, purpose, latest samples. The batches of one wave
are sent together and know the same topics; the topics that they open are known to the next wave, which is twice as
large. So ten thousand claims take a dozen rounds instead of four hundred, and batches rarely open the same topic twice.
Only the topics nearest to a batch are sent with it, so the cost does not grow with the number of topics.

When all claims are placed, the model merges topics that batches of one wave opened independently, and splits oversized
topics. Similarity does neither to a model's topics.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from rapidfuzz import fuzz, process

from slowwave.engines.llm.protocol import NON_EMPTY, AnswerModel, Completion, Request
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, TopicRow
from slowwave.schemas.tables import CLAIMS, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import Model, quarantine_rejected
from slowwave.tasks.llm.chunks import Counter
from slowwave.tasks.llm.fence import has_injection, mask_injections
from slowwave.tasks.llm.library import (
    Library,
    RejectedAnswer,
    index_questions,
    limit_answer,
    list_requests,
)
from slowwave.tasks.topics import cluster
from slowwave.tasks.topics.assign import (
    Assigned,
    assign,
    make_empty_topic,
    resolve_topic,
    sort_by_time,
)
from slowwave.tasks.topics.figures import SAMPLES
from slowwave.text.fence import format_entry

VERSION = 2
PROMPTS = ("assign", "merge", "split")
LARGEST_WAVE = 64
"""Most batches in one wave."""
PLACEMENT_TOKENS = 16
NEW_TOPICS = 5
SAME_NAME = 88.0
"""Least token_sort_ratio of the names of two topics to treat them as one."""
MOST_MERGES = 60
MERGE_TOKENS = 16


@dataclass(frozen=True)
class Sizes:
    """Limits of one prompt; raise VERSION with any of them."""

    batch: int = 25
    """Most claims to place."""
    shown: int = 30
    """Most topics to choose from, the nearest ones."""
    split: int = 60
    """Most claims of a topic to split, the latest ones."""


SIZES = Sizes()


class TopicMerge(AnswerModel):
    """A topic that goes, and the one that takes its claims."""

    topic: int = Field(ge=0, le=999)
    into: int = Field(ge=0, le=999)


class MergesAnswer(AnswerModel):
    """Which topics are one."""

    merges: list[TopicMerge] = Field(max_length=MOST_MERGES)


class NewTopic(AnswerModel):
    """A topic that the model wants opened."""

    name: str = Field(max_length=60, json_schema_extra=NON_EMPTY)
    purpose: str = Field(max_length=200, json_schema_extra=NON_EMPTY)


class Placement(AnswerModel):
    """Where one claim goes."""

    entry: int = Field(ge=0, le=999)
    topic: int = Field(ge=0, le=999)


class BatchAnswer(AnswerModel):
    """Where a batch's claims go; new topics first, since placements name them."""

    new_topics: list[NewTopic] = Field(max_length=NEW_TOPICS)
    placements: list[Placement]


@dataclass(slots=True)
class Topic:
    """A topic on the board."""

    id: str
    name: str
    purpose: str
    samples: list[str] = field(default_factory=list)
    """Summaries of its latest claims."""
    centre: np.ndarray[Any, np.dtype[np.float32]] | None = None
    size: int = 0
    base: bool = False
    new: bool = False
    projects: set[str] = field(default_factory=set)
    """Projects of its latest claims."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One request, with its claims and topics by their numbers in the prompt."""

    request: Request
    claims: Mapping[int, ClaimRow]
    topics: Mapping[int, str]
    """Number to topic_id."""


def split_waves(
    claims: Sequence[ClaimRow], batch: int
) -> Iterator[list[list[ClaimRow]]]:
    """Yield claims in batches, batches in waves of 1, 2, 4, … up to LARGEST_WAVE."""
    batches = [
        list(claims[start : start + batch]) for start in range(0, len(claims), batch)
    ]
    at = 0
    size = 1
    while at < len(batches):
        yield batches[at : at + size]
        at = at + size
        size = min(size * 2, LARGEST_WAVE)


class Board:
    """The topics while claims are placed."""

    def __init__(self, topics: Sequence[Topic], samples: int) -> None:
        self.topics = {topic.id: topic for topic in topics}
        self.samples = samples
        self.placed: dict[str, str] = {}
        """claim_id to topic_id."""

    def build_batch(
        self,
        claims: Sequence[ClaimRow],
        library: Library,
        count: Counter,
        window: int,
    ) -> Batch:
        """Return the request for some claims (rows of CLAIMS), with the nearest topics that fit."""
        answer = len(claims) * PLACEMENT_TOKENS + 80 * NEW_TOPICS
        numbered = dict(enumerate(claims, 1))
        lines = [_render_claim(n, claim) for n, claim in numbered.items()]
        near = self._rank_topics(claims)
        shown = [
            _render_topic(n, topic, _render_samples(topic))
            for n, topic in enumerate(near, 1)
        ]
        room = library.count_room(
            prompt="assign",
            window=window,
            count=count,
            tokens=answer,
            first_new=999,
            most_new=NEW_TOPICS,
        )
        room -= sum(count(lines)) + 2 * len(lines)
        fitting = _count_fitting(shown, room, count)
        topics = {n: topic.id for n, topic in enumerate(near[:fitting], 1)}
        form = limit_answer(BatchAnswer, placements=len(claims))
        entries = [*shown[:fitting], "", *lines]
        places = {"first_new": fitting + 1, "most_new": NEW_TOPICS}
        request = library.build_request(
            prompt="assign",
            name=name_batch(claims),
            entries=entries,
            answer=form,
            tokens=answer,
            **places,
        )
        return Batch(request, numbered, topics)

    def build_split(
        self,
        topic_id: str,
        claims: Sequence[ClaimRow],
        library: Library,
        count: Counter,
        window: int,
    ) -> Batch:
        """Return the request to split a topic, with its latest claims that fit."""
        topic = self.topics[topic_id]
        latest = claims[-SIZES.split :]
        values: dict[str, Any] = {
            "topic": " ".join(topic.name.split()),
            "purpose": " ".join(topic.purpose.split()),
            "first_new": 1,
            "most_new": NEW_TOPICS,
        }
        answer = len(latest) * PLACEMENT_TOKENS + 80 * NEW_TOPICS
        room = library.count_room(
            prompt="split", window=window, count=count, tokens=answer, **values
        )
        backwards = [_render_claim(len(latest), claim) for claim in reversed(latest)]
        latest = latest[len(latest) - _count_fitting(backwards, room, count) :]
        numbered = dict(enumerate(latest, 1))
        lines = [_render_claim(n, claim) for n, claim in numbered.items()]
        form = limit_answer(BatchAnswer, placements=len(numbered))
        request = library.build_request(
            prompt="split",
            name=name_split(topic_id),
            entries=lines,
            answer=form,
            tokens=answer,
            **values,
        )
        return Batch(request, numbered, {})

    def apply_answer(self, batch: Batch, completion: Completion) -> None:
        """Place the claims of a batch by an answer; claims that it omits or puts nowhere are not placed."""
        answer: BatchAnswer = completion.value
        numbers = dict(batch.topics)
        for n, proposed in enumerate(answer.new_topics, len(numbers) + 1):
            if topic := self._open_topic(proposed):
                numbers[n] = topic
        places: dict[int, int] = {}
        for placement in answer.placements:
            places.setdefault(placement.entry, placement.topic)
        for n, claim in batch.claims.items():
            if topic_id := numbers.get(places.get(n, 0)):
                self._join(self.topics[topic_id], claim)

    def list_opened(self) -> list[Topic]:
        """Return the new topics that have a claim."""
        return [topic for topic in self.topics.values() if topic.new and topic.size]

    def _open_topic(self, proposed: NewTopic) -> str | None:
        """Return the id of the topic with a similar name; open one if there is none. Return None for an unsafe name."""
        name = " ".join(proposed.name.split())
        purpose = " ".join(proposed.purpose.split())
        if not name or not purpose or has_injection(f"{name}. {purpose}"):
            return None
        names = {topic.id: topic.name.casefold() for topic in self.topics.values()}
        alike = process.extractOne(
            name.casefold(), names, scorer=fuzz.token_sort_ratio, score_cutoff=SAME_NAME
        )
        if alike:
            return str(alike[2])
        topic = Topic(make_topic_id(name), name, purpose, new=True)
        self.topics[topic.id] = topic
        return topic.id

    def _join(self, topic: Topic, claim: ClaimRow) -> None:
        self.placed[claim["claim_id"]] = topic.id
        topic.samples = [*topic.samples, claim["summary"]][-self.samples :]
        if claim["vector"] is not None:
            vector = np.asarray(claim["vector"], dtype=np.float32)
            total = (
                np.zeros_like(vector)
                if topic.centre is None
                else topic.centre * np.float32(topic.size)
            )
            topic.centre = ((total + vector) / np.float32(topic.size + 1)).astype(
                np.float32
            )
        topic.projects |= {project} if (project := _name_project(claim)) else set()
        topic.size += 1

    def _rank_topics(self, claims: Sequence[ClaimRow]) -> list[Topic]:
        """Return the base topics, then the others by similarity to the nearest of the claims.

        Among equals the largest topic comes first.
        """
        base = [topic for topic in self.topics.values() if topic.base]
        others = [topic for topic in self.topics.values() if not topic.base]
        vectors = [claim["vector"] for claim in claims if claim["vector"] is not None]
        likeness = {
            topic.id: _compute_topic_similarity(topic, vectors) for topic in others
        }
        others.sort(key=lambda topic: (-likeness[topic.id], -topic.size, topic.id))
        return [*base, *others[: SIZES.shown]]


def _render_topic(number: int, topic: Topic, lately: str = "") -> str:
    of = f" ({', '.join(sorted(topic.projects))})" if topic.projects else ""
    return format_entry(
        f"topic {number}{of}:", f"{topic.name}\nbelongs here: {topic.purpose}{lately}"
    )


def _render_samples(topic: Topic) -> str:
    samples = "; ".join(
        " ".join(mask_injections(s).split())[:160] for s in topic.samples
    )
    return f"\nlately: {samples or 'nothing yet'}"


def _render_claim(number: int, claim: ClaimRow) -> str:
    project = _name_project(claim)
    return format_entry(
        f"entry {number}{f' ({project})' if project else ''}:",
        mask_injections(claim["summary"]),
    )


def _name_project(claim: ClaimRow) -> str:
    """Return the last folder of a coding claim's workspace, or an empty string."""
    of_project = claim["workspace"] if claim["pack"] == "coding" else None
    return " ".join(PurePath((of_project or "").replace("\\", "/")).name.split())[:60]


def name_batch(claims: Sequence[ClaimRow]) -> str:
    """Return the name of the request for some claims."""
    return f"{compute_content_id(*(claim['claim_id'] for claim in claims))}/assign"


def name_split(topic_id: str) -> str:
    """Return the name of the request to split a topic."""
    return f"{topic_id}/split"


def make_topic_id(name: str) -> str:
    """Return the id of a topic that the model named."""
    return compute_content_id("topic", "named", name.casefold())


def _compute_topic_similarity(
    topic: Topic, vectors: Sequence[Sequence[float]]
) -> float:
    if topic.centre is None or not vectors:
        return -1.0
    return round(float((np.asarray(vectors, dtype=np.float32) @ topic.centre).max()), 6)


def _count_fitting(shown: Sequence[str], room: int, count: Counter) -> int:
    """Return the number of first topics that fit into the room."""
    for number, tokens in enumerate(count(list(shown)) if shown else []):
        room -= tokens + 1
        if room < 0:
            return number
    return len(shown)


def place_by_model(
    job: Job,
    pending: pa.Table,
    topics: pa.Table,
    key: str,
    model: Model,
    report: StepReport,
) -> Assigned:
    """Return topics for the pending claims, except those that wait for the model.

    A claim that the model put nowhere is placed by similarity, since asking again would give the same answer. For input
    and output see `slowwave.tasks.topics.assign.assign`.
    """
    rows = sort_by_time(pending)
    board = Board(_build_board_topics(job.store, topics), SAMPLES)
    waiting = _place_in_waves(
        job=job, rows=rows, board=board, model=model, report=report
    )
    report.counts[Count.CLAIMS_PLACED_BY_MODEL] += len(board.placed)
    report.kinds[CountByKind.WAITING]["claims"] += len(waiting)
    own = _collect_assigned(rows, board, key)
    rest = [
        r
        for r in rows
        if r["claim_id"] not in board.placed and r["claim_id"] not in waiting
    ]
    others = assign(
        pending=pa.Table.from_pylist(rest, schema=CLAIMS.schema),
        topics=topics,
        limits=cluster.LIMITS,
        key=key,
    )
    return Assigned(
        pa.concat_tables([own.claims, others.claims]),
        pa.concat_tables([own.topics, others.topics]),
        {},  # similarity does not merge topics that a model keeps apart
    )


def _place_in_waves(
    job: Job,
    rows: Sequence[ClaimRow],
    board: Board,
    model: Model,
    report: StepReport,
) -> set[str]:
    """Place claims on the board by the model; return the claims that have to wait."""
    waiting = set[str]()
    rejected = list[RejectedAnswer]()
    settled = set[str]()
    for wave in split_waves(rows, SIZES.batch):
        batches: dict[str, Batch] = {}

        def build(
            wave: Sequence[Sequence[ClaimRow]],
            batches: dict[str, Batch] = batches,
        ) -> list[Request]:
            window = model.llm.context_window
            made = [
                board.build_batch(
                    claims=claims,
                    library=model.library,
                    count=model.count,
                    window=window,
                )
                for claims in wave
            ]
            batches |= index_questions(made)
            return list_requests(made)

        answers = model.ask(
            step="topics",
            items={name_batch(claims): claims for claims in wave},
            build=build,
            read=lambda _, answer: answer,
        )
        for name, answer in answers.values.items():
            board.apply_answer(batches[name], answer)
        waiting |= {
            row["claim_id"]
            for claims in wave
            if name_batch(claims) in answers.waiting
            for row in claims
        }
        rejected += answers.rejected
        settled |= answers.values.keys()
    quarantine_rejected(
        store=job.store,
        step="assign",
        rejected=rejected,
        settled=settled,
        report=report,
    )
    return waiting


def build_merge_request(
    topics: Sequence[Topic],
    library: Library,
    count: Counter,
    window: int,
) -> Request:
    """Return the request to merge topics, with the first topics that fit."""
    answer = MERGE_TOKENS * MOST_MERGES
    shown = [_render_topic(n, topic) for n, topic in enumerate(topics, 1)]
    shown = shown[
        : _count_fitting(
            shown,
            library.count_room(
                prompt="merge", window=window, count=count, tokens=answer
            ),
            count,
        )
    ]
    return library.build_request(
        prompt="merge",
        name=name_merge(topics),
        entries=shown,
        answer=MergesAnswer,
        tokens=answer,
    )


def name_merge(topics: Sequence[Topic]) -> str:
    """Return the name of the request to merge topics."""
    return f"{compute_content_id(*(topic.id for topic in topics))}/merge"


def read_merges(topics: Sequence[Topic], completion: Completion) -> dict[str, str]:
    """Return topic -> the topic to merge it into, by an answer; base topics and circles are omitted."""
    numbers = dict(enumerate(topics, 1))
    into = dict[str, str]()
    for merge in completion.value.merges:
        goes = numbers.get(merge.topic)
        keeps = numbers.get(merge.into)
        if (
            goes
            and keeps
            and not goes.base
            and goes.id not in into
            and resolve_topic(keeps.id, into) != goes.id
        ):
            into[goes.id] = keeps.id
    return {topic: resolve_topic(topic, into) for topic in into}


def find_merges_by_model(
    job: Job, model: Model, report: StepReport
) -> dict[str, str] | None:
    """Return topic -> the topic to merge it into, by the model, or None if it has to be asked another night."""
    topics = _build_board_topics(job.store, job.store.read(TOPICS))
    topics = sorted(
        (topic for topic in topics if topic.size),
        key=lambda topic: (-topic.size, topic.id),
    )
    if len(topics) < 2:
        return {}

    def build(some: Sequence[Sequence[Topic]]) -> list[Request]:
        window = model.llm.context_window
        return [
            build_merge_request(
                topics=topics, library=model.library, count=model.count, window=window
            )
            for topics in some
        ]

    answers = model.ask(
        step="topics", items={name_merge(topics): topics}, build=build, read=read_merges
    )
    quarantine_rejected(
        store=job.store,
        step="assign",
        rejected=answers.rejected,
        settled=answers.values,
        report=report,
    )
    return None if answers.waiting else dict(*answers.values.values())


def split_by_model(
    job: Job,
    model: Model,
    topic: str,
    key: str,
    report: StepReport,
) -> Assigned | None:
    """Return the claims that the model takes out of a topic, and their new topics; None if it must be asked later."""
    board = Board(_build_board_topics(job.store, job.store.read(TOPICS)), SAMPLES)
    active = (pc.field("status") == Status.ACTIVE) & (pc.field("topic_id") == topic)
    rows = sort_by_time(job.store.read(CLAIMS, where=active))
    batches: list[Batch] = []

    def build(some: Sequence[Sequence[ClaimRow]]) -> list[Request]:
        window = model.llm.context_window
        batches.extend(
            board.build_split(
                topic_id=topic,
                claims=claims,
                library=model.library,
                count=model.count,
                window=window,
            )
            for claims in some
        )
        return list_requests(batches)

    answers = model.ask(
        step="topics",
        items={name_split(topic): rows},
        build=build,
        read=lambda _, answer: answer,
    )
    quarantine_rejected(
        store=job.store,
        step="assign",
        rejected=answers.rejected,
        settled=answers.values,
        report=report,
    )
    for batch, answer in zip(batches, answers.values.values(), strict=False):
        board.apply_answer(batch, answer)
    board.placed = {claim: to for claim, to in board.placed.items() if to != topic}
    return None if answers.waiting else _collect_assigned(rows, board, key)


def _collect_assigned(rows: Sequence[ClaimRow], board: Board, key: str) -> Assigned:
    """Return the rows that the board placed, and the topics that it opened."""
    new = [
        make_empty_topic(
            topic_id=t.id, name=t.name, purpose=t.purpose, key=key, base=False
        )
        for t in board.list_opened()
    ]
    placed = [
        {**row, "topic_id": board.placed[row["claim_id"]], "assign_key": key}
        for row in rows
        if row["claim_id"] in board.placed
    ]
    return Assigned(
        pa.Table.from_pylist(placed, schema=CLAIMS.schema),
        pa.Table.from_pylist(new, schema=TOPICS.schema),
        {},
    )


def _build_board_topics(store: Store, topics: pa.Table) -> list[Topic]:
    """Return the board's topics from rows of TOPICS."""
    rows = topics.to_pylist()
    ids = [oid for row in rows for oid in row["samples"]]
    claim_rows = store.read_ids(
        CLAIMS, ids, ["claim_id", "summary", "workspace", "pack"]
    ).to_pylist()
    claims = {row["claim_id"]: row for row in claim_rows}
    return [
        _build_board_topic(
            row, [claims[oid] for oid in row["samples"] if oid in claims]
        )
        for row in rows
    ]


def _build_board_topic(row: TopicRow, samples: Sequence[ClaimRow]) -> Topic:
    """Return a topic from its row of TOPICS and its stored samples."""
    return Topic(
        id=row["topic_id"],
        name=row["name"],
        purpose=row["purpose"],
        samples=[claim["summary"] for claim in samples],
        centre=None
        if row["centroid"] is None
        else np.asarray(row["centroid"], dtype="float32"),
        size=row["size"],
        base=row["base"],
        projects={name for claim in samples if (name := _name_project(claim))},
    )
