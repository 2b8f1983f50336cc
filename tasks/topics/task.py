"""A topic for every active claim. A topic's figures are made from its claims, so a crash between the two is mended."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, MESSAGES, OBSERVATIONS, TOPIC_HISTORY, TOPICS
from slowwave.schemas.vocabulary import Origin, Status
from slowwave.store.journal import Recall, read
from slowwave.store.store import Store
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.llm.ask import Model, compute_model_key, get_model
from slowwave.tasks.pending import hash_rows, mark_done
from slowwave.tasks.topics import by_model, cluster
from slowwave.tasks.topics.assign import (
    PLACED,
    VERSION,
    Assigned,
    assign,
    build_base_topics,
    find_oversized_topics,
    make_empty_topic,
    split_topic,
)
from slowwave.tasks.topics.by_model import find_merges_by_model, make_topic_id, place_by_model, split_by_model
from slowwave.tasks.topics.figures import (
    NO_CLAIMS,
    UNCOUNTED,
    count_uses,
    find_centres_and_texts,
    measure_overlaps,
    measure_topics,
)
from slowwave.tasks.topics.names import name_topics
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import describe_encoder

SAID = ["observation_id", "topic_id", "observed_at", "summary", "category", "workspace", "keywords"]
SAID += ["evidence_sessions", "message_ids", "pack"]
Row = dict[str, Any]
MOST_LOOKS = 4
"""Rounds of merging and splitting a night: no model goes round in a circle."""
NAMES = ("topic_id", "name", "purpose")
UNIT, NAMED = "topics", "names"
"""All topics are looked over, and named, together, so one mark stands for all."""


def assign_topics(job: Job) -> StepReport:
    """Place the claims that have no topic under these settings; new topics are written before their claims."""
    with report_step("assign") as report:
        model = get_model(job, "topics")
        key = compute_assign_key(job, model)
        active, placed_by = pc.field("status") == Status.ACTIVE, pc.field("assign_key")
        placed, waiting = active & (placed_by == key), active & (placed_by.is_null() | (placed_by != key))
        report.rows_in = job.store.count(OBSERVATIONS, waiting)
        refresh = partial(refresh_topics, job, key, by_model=model is not None)
        if report.rows_in:
            live = refresh(named=False)  # claims retired since weigh in no centre; where none was, its mark ends it
            pending, settled = job.store.read(OBSERVATIONS, where=waiting), job.store.read(OBSERVATIONS, PLACED, placed)
            live_topics = _read_live_topics(job.store, key, live)
            if model:
                assigned = place_by_model(job, pending, live_topics, key, model, report)
            else:
                assigned = assign(_mark_agents(job.store, pending), live_topics, cluster.LIMITS, key, settled)
            del pending  # with its vectors: writing takes as much memory again
            _add_missing(job.store, assigned.topics)
            report.rows_out = job.store.merge(OBSERVATIONS, _collect_placed_rows(job.store, assigned, key))
        refresh()
        if model:
            _look_over(job, model, key, refresh, report)
        while not model and _split_oversized(job, key, report):
            refresh()  # until nothing is left to do: the next night would do it
        if model:
            model.record_usage(report)
        report.counts["topics"] = job.store.count(TOPICS)
    return report


def _mark_agents(store: Store, claims: pa.Table) -> pa.Table:
    """Return claims with a column `by_agent`: whether the message that is quoted is a model's."""
    first = pc.list_element(claims["message_ids"], 0)
    messages = store.read_ids(MESSAGES, first.unique(), ["message_id"], where=pc.field("origin") == Origin.MODEL)
    return claims.append_column("by_agent", pc.is_in(first, messages["message_id"].combine_chunks()))


def _look_over(job: Job, model: Model, key: str, refresh: Callable[[], object], report: StepReport) -> None:
    """Merge and split topics as the model says; topics that it has looked over are not shown again."""
    marks = job.store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "assign").to_pylist()
    if {"unit_id": UNIT, "input_key": _compute_topics_key(job, key)} in marks:
        return
    for _ in range(MOST_LOOKS):
        changed = _merge_or_split(job, model, key, report)
        if changed is None:
            return
        if not changed:
            break
        refresh()
    mark_done(job.store, "assign", [(UNIT, _compute_topics_key(job, key), None)])


def _merge_or_split(job: Job, model: Model, key: str, report: StepReport) -> bool | None:
    """Return whether the model changed any topic; None where it has to be asked another night."""
    merged = find_merges_by_model(job, model, report)
    if merged:
        report.counts["topics merged"] += len(merged)
        none = Assigned(OBSERVATIONS.make_empty_table(), TOPICS.make_empty_table(), merged)
        job.store.merge(OBSERVATIONS, _collect_placed_rows(job.store, none, key))
    if merged is None or merged:
        return None if merged is None else True
    for topic in _find_oversized(job):
        parts = split_by_model(job, model, topic, key, report)
        if parts is None:
            return None
        if parts.observations.num_rows:
            report.counts["topics split"] += 1
            _store_split(job.store, topic, parts, key)
            return True
    return False


def _compute_topics_key(job: Job, key: str) -> str:
    """Return a hash of a model's input for topics: names, purposes, and the claims of those that are too large."""
    rows, large = job.store.read(TOPICS).sort_by("topic_id").to_pylist(), _find_oversized(job)
    shown = [(row["name"], row["purpose"], row["member_hash"] if row["topic_id"] in large else "") for row in rows]
    return compute_content_id(key, *(part for row in shown for part in row))


def _find_oversized(job: Job, key: str | None = None) -> list[str]:
    """Return topics over their share of all claims, the largest first; with `key` those of it that may be cut."""
    rows = job.store.read(TOPICS, ["topic_id", "size", "base", "step_key"]).to_pylist()
    ours = [row for row in rows if key is None or (row["step_key"] == key and not row["base"])]
    sizes = {row["topic_id"]: row["size"] for row in ours}
    return find_oversized_topics(sizes, sum(row["size"] for row in rows), cluster.LIMITS)


def measure_base_share(store: Store) -> float:
    """Return the share of all claims that the largest base topic holds."""
    rows = store.read(TOPICS, ["size", "base"]).to_pylist()
    largest: int = max((row["size"] for row in rows if row["base"]), default=0)
    everything: int = sum(row["size"] for row in rows)
    return largest / max(1, everything)


def compute_assign_key(job: Job, model: Model | None) -> str:
    """Return what a claim's topic depends on besides the claims."""
    encoder = describe_encoder(job.settings)
    key = compute_step_key("assign", 4, VERSION, encoder)
    return compute_model_key(model, "assign", by_model.VERSION, by_model.PROMPTS, key) if model else key


def _read_live_topics(store: Store, key: str, live: set[str]) -> pa.Table:
    """Return the topics as the claims placed under this key make them: what a run that never crashed would see."""
    topics = store.read(TOPICS)
    if topics.num_rows == 0:
        return pa.Table.from_pylist(build_base_topics(key), schema=TOPICS.schema)
    return topics.filter(pc.is_in(topics["topic_id"], pa.array(sorted(live), pa.string()))).sort_by("topic_id")


def _add_missing(store: Store, topics: pa.Table) -> None:
    """Add topics that are new, still empty: `refresh_topics` gives them their names and figures."""
    stored = set(store.read(TOPICS, ["topic_id"])["topic_id"].to_pylist())
    new = [topic for topic in topics.to_pylist() if topic["topic_id"] not in stored]
    store.append(TOPICS, pa.Table.from_pylist(new, schema=TOPICS.schema))


def _collect_placed_rows(store: Store, placed: Assigned, key: str) -> pa.Table:
    """Return the claims placed and those that move with their topic, in one write.

    The history of the latter goes first.
    """
    stored = store.read_ids(OBSERVATIONS, sorted(placed.merged), by="topic_id")
    new = placed.observations["observation_id"].combine_chunks()
    moved = stored.filter(pc.invert(pc.is_in(stored["observation_id"], new)))
    claims = defaultdict[str, list[str]](list)
    for claim, topic in zip(moved["observation_id"].to_pylist(), moved["topic_id"].to_pylist(), strict=True):
        claims[topic].append(claim)
    names = {row["topic_id"]: row["name"] for row in store.read(TOPICS, ["topic_id", "name"]).to_pylist()}
    events = [
        make_history_event("merge", old, into, names, claims[old], key) for old, into in sorted(placed.merged.items())
    ]
    write_history(store, events)
    into = pa.array([placed.merged[topic] for topic in moved["topic_id"].to_pylist()], pa.string())
    return pa.concat_tables([placed.observations, set_columns(moved, topic_id=into)])


def _split_oversized(job: Job, key: str, report: StepReport) -> bool:
    """Cut the largest topic that can be cut in two, where it holds too much of everything; True when it was done."""
    for topic in _find_oversized(job, key):
        active = (pc.field("status") == Status.ACTIVE) & (pc.field("topic_id") == topic)
        moved = split_topic(job.store.read(OBSERVATIONS, where=active), key)
        if moved is not None:
            new = [make_empty_topic(moved["topic_id"][0].as_py(), "", "", key, base=False)]
            opened = pa.Table.from_pylist(new, schema=TOPICS.schema)
            _store_split(job.store, topic, Assigned(moved, opened, {}), key)
            report.counts["topics split"] += 1
            return True
    return False


def _store_split(store: Store, topic: str, parts: Assigned, key: str) -> None:
    """Write down that claims leave a topic, then the topics they go to, then the claims."""
    names = {row["topic_id"]: row["name"] for row in store.read(TOPICS, ["topic_id", "name"]).to_pylist()}
    names |= {row["topic_id"]: row["name"] for row in parts.topics.to_pylist()}
    leaving = defaultdict[str, list[str]](list)
    for row in parts.observations.to_pylist():
        leaving[row["topic_id"]].append(row["observation_id"])
    events = [make_history_event("split", topic, new, names, claims, key) for new, claims in sorted(leaving.items())]
    write_history(store, events)
    _add_missing(store, parts.topics)
    store.merge(OBSERVATIONS, parts.observations)


def make_history_event(
    kind: str, topic: str, other: str, names: Mapping[str, str], claims: Sequence[str], key: str
) -> Row:
    """Return a row of TOPIC_HISTORY."""
    return {
        "event_id": compute_content_id(kind, topic, other, *sorted(claims)),
        "kind": kind,
        "topic_id": topic,
        "name": names.get(topic, ""),
        "other_id": other,
        "other_name": names.get(other, ""),
        "claims": sorted(claims),
        "step_key": key,
    }


def write_history(store: Store, events: list[Row]) -> None:
    """Add events that are not known yet."""
    store.merge_changed(TOPIC_HISTORY, pa.Table.from_pylist(events, schema=TOPIC_HISTORY.schema))


def refresh_topics(job: Job, key: str, *, by_model: bool = False, named: bool = True) -> set[str]:
    """Make name, purpose, text, figures, samples and centroid of every topic what the claims placed in it say.

    Only active claims that were placed under this key count. A topic without any is removed, the base topics apart, and
    those of claims that wait to be placed anew: it stays as it was until they are. `by_model`: a topic that the model
    opened keeps name and purpose. Unless it is `named`, names and overlaps wait for the next call. Returns the topics
    that count.
    """
    # the claims that are placed; where they, and the tables, are as they were, nothing is done
    store = job.store
    active = (pc.field("status") == Status.ACTIVE) & pc.field("topic_id").is_valid()
    waited_for = set(store.read(OBSERVATIONS, ["topic_id"], active)["topic_id"].unique().to_pylist())
    placed = store.read(OBSERVATIONS, SAID, active & (pc.field("assign_key") == key))
    claims = pl.DataFrame(placed).sort("observed_at", "observation_id", nulls_last=True)
    del placed
    state = repr((key, by_model, sorted(filter(None, waited_for)), hash_rows(claims)))
    marks = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "assign").to_pylist()
    if {"unit_id": NAMED, "input_key": _compute_state_key(store, state)} in marks:
        return {
            row["topic_id"]
            for row in store.read(TOPICS, ["topic_id", "base", "size"]).to_pylist()
            if row["base"] or row["size"]
        }
    # what each topic's claims make of it, without their vectors
    stored = store.read(TOPICS)
    before, figures = pl.DataFrame(stored.drop_columns("centroid")), measure_topics(claims)
    uses = count_uses((recall.ids for recall in read(store.dir, Recall)), claims)
    now = before.drop(figures.columns[1:]).join(figures, on="topic_id", how="left", maintain_order="left")
    now = now.with_columns(
        *(pl.col(name).fill_null(pl.lit(value)) for name, value in NO_CLAIMS.items()),
        step_key=pl.lit(key),
        uses=pl.col("topic_id").replace_strict(uses, default=0, return_dtype=pl.Int64),
    )
    # names; the base topics' stay, and so do those that the model gave
    if named:
        opened = (make_topic_id(name) == topic for name, topic in before.select("name", "topic_id").iter_rows())
        theirs = before["base"] | (pl.Series(opened, dtype=pl.Boolean) & by_model)
        unchanged = {*before.filter(theirs)["topic_id"]}
        names = [(topic, *name) for topic, name in name_topics(claims).items() if topic not in unchanged]
        now = now.update(pl.DataFrame(names, dict.fromkeys(NAMES, pl.String), orient="row"), on="topic_id")
    # centres and texts of those whose claims are others, and how near the centres are
    others = (now[name].ne_missing(before[name]) for name in ("member_hash", "step_key"))
    remade = now.filter(pl.any_horizontal(*others))
    made = find_centres_and_texts(job, claims, remade["topic_id"].to_list())
    centred = stored.filter(pc.is_valid(stored["centroid"]))
    centres = dict(zip(centred["topic_id"].to_pylist(), build_vector_matrix(centred["centroid"]), strict=True))
    centres |= {topic: row.pop("centroid") for topic, row in made.items()}
    shape = {"topic_id": pl.String, "cohesion": pl.Float32, "text": pl.String}
    texts = pl.DataFrame([{"topic_id": topic, **row} for topic, row in made.items()], shape)
    now = now.update(texts, on="topic_id", include_nulls=True).select(before.columns)
    if named:
        nearest = measure_overlaps(claims, centres)
        overlap = pl.col("topic_id").replace_strict(nearest, default=None, return_dtype=pl.Float64)
        now = now.with_columns(overlap=overlap)
    # a topic without claims goes, unless some wait for it
    counts = now["base"] | (now["size"] > 0)
    live = {*now.filter(counts)["topic_id"]}
    differs = pl.any_horizontal(*(now[name].ne_missing(before[name]) for name in before.columns))
    rows = [
        {**row, "centroid": centres.get(row["topic_id"])} for row in now.filter(differs, counts).iter_rows(named=True)
    ]
    store.merge(TOPICS, pa.Table.from_pylist(rows, schema=TOPICS.schema))
    store.delete_ids(TOPICS, {*now["topic_id"]} - live - waited_for)
    if named:
        mark_done(store, "assign", [(NAMED, _compute_state_key(store, state), None)])
    return live


def _compute_state_key(store: Store, state: str) -> str:
    """Return hash of what topics are made of, and of the topics as they are: where it is known, they are up to date."""
    counted = [name for name in TOPICS.schema.names if name not in UNCOUNTED]
    rows = pl.DataFrame(store.read(TOPICS, counted)).sort("topic_id")
    return compute_content_id(state, hash_rows(rows))
