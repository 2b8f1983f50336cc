"""Assign a topic to each active claim. Figures are computed from the claims, so a crash in between is repaired."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.counters import Count
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import TopicEventRow, TopicRow
from slowwave.schemas.tables import CLAIMS, MARKS, MESSAGES, TOPIC_HISTORY, TOPICS
from slowwave.schemas.vocabulary import Origin, Status
from slowwave.store.logs import Recall, read
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
from slowwave.tasks.topics.by_model import (
    find_merges_by_model,
    make_topic_id,
    place_by_model,
    split_by_model,
)
from slowwave.tasks.topics.figures import (
    NO_CLAIMS,
    UNCOUNTED,
    count_uses,
    find_centres_and_texts,
    measure_overlaps,
    measure_topics,
)
from slowwave.tasks.topics.names import VERSION as NAMES_VERSION
from slowwave.tasks.topics.names import name_topics
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import describe_encoder
from slowwave.text.cells import shorten_text

SAID = [
    "claim_id",
    "topic_id",
    "observed_at",
    "summary",
    "category",
    "workspace",
    "keywords",
]
SAID += ["evidence_sessions", "message_ids", "pack"]
MOST_LOOKS = 4
"""Most rounds of merging and splitting a night; stops a model that undoes its own changes."""
NAME_CHARS = 60
"""Characters of a claim that stands for a topic's name."""
NAMES = ("topic_id", "name", "purpose")
PLACE = ["claim_id", "topic_id", "assign_key"]
"""A claim's key, and the columns that this step writes."""
NAMED_BY = ["topic_id", "claim_id", "summary"]
"""Columns of the claims that leave a topic by which its history tells of them."""
HAS_CLAIMS = pl.col("base") | (pl.col("size") > 0)
"""The topics that are kept, unless claims wait to be placed again."""
Centres = dict[str, Vectors | None]
"""Topic -> its centroid."""
UNIT = "topics"
NAMED = "names"
"""Units of the marks: all topics are reviewed, and named, together."""


def assign_topics(job: Job) -> StepReport:
    """Place the claims without a topic under these settings, then refresh, merge and split the topics."""
    with report_step("assign") as report:
        model = get_model(job, "topics")
        key = compute_assign_key(job, model)
        refresh = partial(refresh_topics, job, key, by_model=model is not None)
        _place_claims(job=job, model=model, key=key, refresh=refresh, report=report)
        refresh()
        if model:
            _review_by_model(
                job=job, model=model, key=key, refresh=refresh, report=report
            )
            model.record_usage(report)
        else:
            while _split_oversized(job, key, report):
                refresh()  # until nothing is left to split, else the next night would
        report.counts[Count.TOPICS] = job.store.count(TOPICS)
    return report


def _place_claims(
    job: Job,
    model: Model | None,
    key: str,
    refresh: Callable[..., set[str]],
    report: StepReport,
) -> None:
    """Place the active claims that were not placed under this key; write new topics before their claims."""
    active = pc.field("status") == Status.ACTIVE
    placed_by = pc.field("assign_key")
    placed = active & (placed_by == key)
    waiting = active & (placed_by.is_null() | (placed_by != key))
    report.rows_in = job.store.count(CLAIMS, waiting)
    if not report.rows_in:
        return
    live = refresh(named=False)  # claims retired since no longer count for a centre
    pending = job.store.read(CLAIMS, where=waiting)
    settled = job.store.read(CLAIMS, PLACED, placed)
    live_topics = _read_live_topics(job.store, key, live)
    if model:
        assigned = place_by_model(
            job=job,
            pending=pending,
            topics=live_topics,
            key=key,
            model=model,
            report=report,
        )
    else:
        assigned = assign(
            pending=_mark_agents(job.store, pending),
            topics=live_topics,
            limits=cluster.LIMITS,
            key=key,
            placed=settled,
        )
    del pending  # with its vectors: writing takes as much memory again
    _add_missing(job.store, assigned.topics)
    report.rows_out = _store_places(
        job.store, _collect_placed_rows(job.store, assigned, key)
    )


def _mark_agents(store: Store, claims: pa.Table) -> pa.Table:
    """Return claims with a column `by_agent`, True if a model wrote the quoted message."""
    first = pc.list_element(claims["message_ids"], 0)
    messages = store.read_ids(
        MESSAGES,
        first.unique(),
        ["message_id"],
        where=pc.field("origin") == Origin.MODEL,
    )
    return claims.append_column(
        "by_agent", pc.is_in(first, messages["message_id"].combine_chunks())
    )


def _review_by_model(
    job: Job,
    model: Model,
    key: str,
    refresh: Callable[[], object],
    report: StepReport,
) -> None:
    """Merge and split topics by the model. Topics that it has reviewed are not shown again."""
    marks = job.store.read(
        MARKS, ["unit_id", "input_key"], pc.field("step") == "assign"
    ).to_pylist()
    if {"unit_id": UNIT, "input_key": _compute_topics_key(job, key)} in marks:
        return
    for _ in range(MOST_LOOKS):
        changed = _merge_or_split(job=job, model=model, key=key, report=report)
        if changed is None:
            return
        if not changed:
            break
        refresh()
    mark_done(job.store, "assign", [(UNIT, _compute_topics_key(job, key), None)])


def _merge_or_split(
    job: Job,
    model: Model,
    key: str,
    report: StepReport,
) -> bool | None:
    """Merge topics by the model, or else split an oversized one; return True if a topic was changed.

    Return None if the model has to be asked another night.
    """
    merged = find_merges_by_model(job, model, report)
    if merged:
        report.counts[Count.TOPICS_MERGED] += len(merged)
        none = Assigned(CLAIMS.make_empty_table(), TOPICS.make_empty_table(), merged)
        _store_places(job.store, _collect_placed_rows(job.store, none, key))
    if merged is None:
        return None
    if merged:
        return True
    for topic in _find_oversized(job):
        parts = split_by_model(
            job=job, model=model, topic=topic, key=key, report=report
        )
        if parts is None:
            return None
        if parts.claims.num_rows:
            report.counts[Count.TOPICS_SPLIT] += 1
            _store_splits(
                store=job.store, splits=[(topic, parts)], moved=parts.claims, key=key
            )
            return True
    return False


def _compute_topics_key(job: Job, key: str) -> str:
    """Return a hash of the topics as a model sees them: names, purposes, and the claims of oversized ones."""
    rows = job.store.read(TOPICS).sort_by("topic_id").to_pylist()
    large = _find_oversized(job)
    shown = [
        (
            row["name"],
            row["purpose"],
            row["member_hash"] if row["topic_id"] in large else "",
        )
        for row in rows
    ]
    return compute_content_id(key, *(part for row in shown for part in row))


def _find_oversized(job: Job) -> list[str]:
    """Return topics above their share of all claims, the largest first."""
    rows = job.store.read(TOPICS, ["topic_id", "size"]).to_pylist()
    sizes = {row["topic_id"]: row["size"] for row in rows}
    return find_oversized_topics(sizes, sum(sizes.values()), cluster.LIMITS)


def measure_base_share(store: Store) -> float:
    """Return the share of all claims that are in the largest base topic."""
    rows = store.read(TOPICS, ["size", "base"]).to_pylist()
    largest: int = max((row["size"] for row in rows if row["base"]), default=0)
    everything: int = sum(row["size"] for row in rows)
    return largest / max(1, everything)


def compute_assign_key(job: Job, model: Model | None) -> str:
    """Return the key of everything but the claims that a topic assignment depends on."""
    encoder = describe_encoder(job.settings)
    key = compute_step_key("assign", 4, VERSION, encoder)
    return (
        compute_model_key(model, "assign", by_model.VERSION, by_model.PROMPTS, key)
        if model
        else key
    )


def _read_live_topics(store: Store, key: str, live: set[str]) -> pa.Table:
    """Return the topics that the claims placed under this key make, as a run without a crash would see them."""
    topics = store.read(TOPICS)
    if topics.num_rows == 0:
        return pa.Table.from_pylist(build_base_topics(key), schema=TOPICS.schema)
    return topics.filter(
        pc.is_in(topics["topic_id"], pa.array(sorted(live), pa.string()))
    ).sort_by("topic_id")


def _add_missing(store: Store, topics: pa.Table) -> None:
    """Add new topics without figures; `refresh_topics` computes their names and figures."""
    stored = set(store.read(TOPICS, ["topic_id"])["topic_id"].to_pylist())
    new = [topic for topic in topics.to_pylist() if topic["topic_id"] not in stored]
    store.append(TOPICS, pa.Table.from_pylist(new, schema=TOPICS.schema))


def _collect_placed_rows(store: Store, placed: Assigned, key: str) -> pa.Table:
    """Return the placed claims and the claims of merged topics, to write at once.

    The merges are added to the topics' history first.
    """
    stored = store.read_ids(CLAIMS, sorted(placed.merged), by="topic_id")
    new = placed.claims["claim_id"].combine_chunks()
    moved = stored.filter(pc.invert(pc.is_in(stored["claim_id"], new)))
    claims = defaultdict[str, list[str]](list)
    for claim, topic in zip(
        moved["claim_id"].to_pylist(), moved["topic_id"].to_pylist(), strict=True
    ):
        claims[topic].append(claim)
    names = {
        row["topic_id"]: row["name"]
        for row in store.read(TOPICS, ["topic_id", "name"]).to_pylist()
    }
    events = [
        make_history_event(
            kind="merge",
            topic=old,
            other=into,
            names=names,
            claims=claims[old],
            key=key,
        )
        for old, into in sorted(placed.merged.items())
    ]
    write_history(store, events)
    into = pa.array(
        [placed.merged[topic] for topic in moved["topic_id"].to_pylist()], pa.string()
    )
    return pa.concat_tables([placed.claims, set_columns(moved, topic_id=into)])


def _split_oversized(job: Job, key: str, report: StepReport) -> bool:
    """Split oversized topics, always the largest, until none can be split; return True if one was.

    All splits are written at once: `refresh_topics` reads every claim, so it runs once for all of them.
    """
    rows = job.store.read(TOPICS, ["topic_id", "size", "base", "step_key"]).to_pylist()
    sizes = {row["topic_id"]: row["size"] for row in rows if _may_split(row, key)}
    everything = sum(row["size"] for row in rows)
    splits, moved = _collect_splits(
        store=job.store, sizes=sizes, everything=everything, key=key
    )
    if splits:
        _store_splits(store=job.store, splits=splits, moved=moved, key=key)
    report.counts[Count.TOPICS_SPLIT] += len(splits)
    return bool(splits)


def _collect_splits(
    store: Store,
    sizes: dict[str, int],
    everything: int,
    key: str,
) -> tuple[list[tuple[str, Assigned]], pa.Table]:
    """Return the splits in their order, and the claims that moved as the last of them left them.

    Args:
        store: the store.
        sizes: claims of each topic that may be split; they follow the splits.
        everything: all claims.
        key: the step's key.
    """
    splits = list[tuple[str, Assigned]]()
    moved = CLAIMS.make_empty_table()
    indivisible = set[str]()
    while large := [
        topic
        for topic in find_oversized_topics(sizes, everything, cluster.LIMITS)
        if topic not in indivisible
    ]:
        claims = split_topic(_read_members(store, large[0], moved), key)
        if claims is None:
            indivisible.add(large[0])
            continue
        new = claims["topic_id"][0].as_py()
        sizes[large[0]] -= claims.num_rows
        sizes[new] = sizes.get(new, 0) + claims.num_rows
        indivisible.discard(new)
        opened = [
            make_empty_topic(topic_id=new, name="", purpose="", key=key, base=False)
        ]
        topics = pa.Table.from_pylist(opened, schema=TOPICS.schema)
        splits.append((large[0], Assigned(claims, topics, {})))
        moved = _overlay_claims(moved, claims)
    return splits, moved


def _may_split(topic: TopicRow, key: str) -> bool:
    """Return True if a row of TOPICS is of this key and not a base topic."""
    return bool(topic["step_key"] == key and not topic["base"])


def _read_members(store: Store, topic: str, moved: pa.Table) -> pa.Table:
    """Return the active claims of a topic, with the claims that moved since they were written."""
    active = (pc.field("status") == Status.ACTIVE) & (pc.field("topic_id") == topic)
    stored = store.read(CLAIMS, where=active)
    return _overlay_claims(stored, moved).filter(pc.field("topic_id") == topic)


def _overlay_claims(claims: pa.Table, newer: pa.Table) -> pa.Table:
    """Return the rows of both tables, for a claim that is in both the newer one."""
    ids = newer["claim_id"].combine_chunks()
    older = claims.filter(pc.invert(pc.is_in(claims["claim_id"], ids)))
    return pa.concat_tables([older, newer])


def _store_splits(
    store: Store,
    splits: Sequence[tuple[str, Assigned]],
    moved: pa.Table,
    key: str,
) -> None:
    """Write splits in their order: first the history, then the new topics, then the claims.

    Args:
        store: the store.
        splits: each topic that was split, with the claims that left it and the topics that they opened.
        moved: those claims as the last split left them.
        key: the step's key.
    """
    names = {
        row["topic_id"]: row["name"]
        for row in store.read(TOPICS, ["topic_id", "name"]).to_pylist()
    }
    events = []
    for topic, parts in splits:
        names |= {row["topic_id"]: row["name"] for row in parts.topics.to_pylist()}
        leaving = defaultdict[str, list[str]](list)
        for row in parts.claims.select(NAMED_BY).to_pylist():
            leaving[row["topic_id"]].append(row["claim_id"])
            # A topic without a name is called by a claim that leaves it.
            said = " ".join(row["summary"].split())
            names[topic] = names.get(topic) or shorten_text(said, NAME_CHARS)
        events += [
            make_history_event(
                kind="split",
                topic=topic,
                other=new,
                names=names,
                claims=claims,
                key=key,
            )
            for new, claims in sorted(leaving.items())
        ]
    write_history(store, events)
    _add_missing(store, pa.concat_tables([parts.topics for _, parts in splits]))
    _store_places(store, moved)


def _store_places(store: Store, claims: pa.Table) -> int:
    """Write the topics of claims; return how many rows were written."""
    return store.update(CLAIMS, claims.select(PLACE))


def make_history_event(
    kind: str,
    topic: str,
    other: str,
    names: Mapping[str, str],
    claims: Sequence[str],
    key: str,
) -> TopicEventRow:
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


def write_history(store: Store, events: list[TopicEventRow]) -> None:
    """Add events that are not stored yet."""
    store.merge_changed(
        TOPIC_HISTORY, pa.Table.from_pylist(events, schema=TOPIC_HISTORY.schema)
    )


def refresh_topics(
    job: Job,
    key: str,
    *,
    by_model: bool = False,
    named: bool = True,
) -> set[str]:
    """Compute name, purpose, text, figures, samples and centroid of every topic from its claims.

    Only active claims placed under this key count. A topic without such claims is removed, unless it is a base topic.
    A topic whose claims wait to be placed again is also kept, as it was, until they are.

    Args:
        job: the store and settings.
        key: the step's key.
        by_model: keep name and purpose of the topics that the model opened.
        named: compute names and overlaps too; otherwise the next call does.

    Returns the ids of the topics with claims and of the base topics.
    """
    store = job.store
    topics_with_claims = _read_topics_with_claims(store)
    claims = _read_placed_claims(store, key)
    state = repr(
        (
            key,
            NAMES_VERSION,
            by_model,
            sorted(filter(None, topics_with_claims)),
            hash_rows(claims),
        )
    )
    if _is_up_to_date(store, state):
        return _read_live_ids(store)
    stored = store.read(TOPICS)
    before = pl.DataFrame(stored.drop_columns("centroid"))
    topics = _measure_figures(store=store, topics=before, claims=claims, key=key)
    if named:
        topics = _name_topics(topics, before, claims, by_model=by_model)
    topics, centres = _measure_centres(
        job=job, topics=topics, stored=stored, before=before, claims=claims
    )
    if named:
        nearest = measure_overlaps(claims, centres)
        overlap = pl.col("topic_id").replace_strict(
            nearest, default=None, return_dtype=pl.Float64
        )
        topics = topics.with_columns(overlap=overlap)
    live = {*topics.filter(HAS_CLAIMS)["topic_id"]}
    _write_changed_topics(store=store, topics=topics, before=before, centres=centres)
    store.delete_ids(TOPICS, {*topics["topic_id"]} - live - topics_with_claims)
    if named:
        mark_done(store, "assign", [(NAMED, _compute_state_key(store, state), None)])
    return live


def _read_topics_with_claims(store: Store) -> set[str | None]:
    """Return the topics of active claims, whatever key these were placed under."""
    has_topic = (pc.field("status") == Status.ACTIVE) & pc.field("topic_id").is_valid()
    return set(
        store.read(CLAIMS, ["topic_id"], has_topic)["topic_id"].unique().to_pylist()
    )


def _read_placed_claims(store: Store, key: str) -> pl.DataFrame:
    """Return the active claims placed under a key, in order of time, without their vectors."""
    has_topic = (pc.field("status") == Status.ACTIVE) & pc.field("topic_id").is_valid()
    placed = store.read(CLAIMS, SAID, has_topic & (pc.field("assign_key") == key))
    return pl.DataFrame(placed).sort("observed_at", "claim_id", nulls_last=True)


def _is_up_to_date(store: Store, state: str) -> bool:
    """Return True if the claims and the topics are as the last refresh left them."""
    marks = store.read(
        MARKS, ["unit_id", "input_key"], pc.field("step") == "assign"
    ).to_pylist()
    return {"unit_id": NAMED, "input_key": _compute_state_key(store, state)} in marks


def _read_live_ids(store: Store) -> set[str]:
    """Return the ids of the topics with claims and of the base topics."""
    rows = store.read(TOPICS, ["topic_id", "base", "size"]).to_pylist()
    return {row["topic_id"] for row in rows if row["base"] or row["size"]}


def _measure_figures(
    store: Store,
    topics: pl.DataFrame,
    claims: pl.DataFrame,
    key: str,
) -> pl.DataFrame:
    """Return the topics with the figures of their claims that need no vectors."""
    figures = measure_topics(claims)
    uses = count_uses((recall.ids for recall in read(store.dir, Recall)), claims)
    measured = topics.drop(figures.columns[1:]).join(
        figures, on="topic_id", how="left", maintain_order="left"
    )
    return measured.with_columns(
        *(pl.col(name).fill_null(pl.lit(value)) for name, value in NO_CLAIMS.items()),
        step_key=pl.lit(key),
        uses=pl.col("topic_id").replace_strict(uses, default=0, return_dtype=pl.Int64),
    )


def _name_topics(
    topics: pl.DataFrame,
    before: pl.DataFrame,
    claims: pl.DataFrame,
    *,
    by_model: bool,
) -> pl.DataFrame:
    """Return the topics with new names; base topics, and with `by_model` those that a model named, keep theirs."""
    opened = (
        make_topic_id(name) == topic
        for name, topic in before.select("name", "topic_id").iter_rows()
    )
    keeps_name = before["base"] | (pl.Series(opened, dtype=pl.Boolean) & by_model)
    unchanged = {*before.filter(keeps_name)["topic_id"]}
    names = [
        (topic, *name)
        for topic, name in name_topics(claims).items()
        if topic not in unchanged
    ]
    return topics.update(
        pl.DataFrame(names, dict.fromkeys(NAMES, pl.String), orient="row"),
        on="topic_id",
    )


def _measure_centres(
    job: Job,
    topics: pl.DataFrame,
    stored: pa.Table,
    before: pl.DataFrame,
    claims: pl.DataFrame,
) -> tuple[pl.DataFrame, Centres]:
    """Return the topics with text and cohesion, and the centre of each; compute these anew if a topic's claims changed.

    Args:
        job: the store and settings.
        topics: the topics with their new figures.
        stored: the rows of TOPICS as stored, with centroids.
        before: the same without centroids.
        claims: the claims placed in them.
    """
    has_changed = (
        topics[name].ne_missing(before[name]) for name in ("member_hash", "step_key")
    )
    changed = topics.filter(pl.any_horizontal(*has_changed))
    made = find_centres_and_texts(job, claims, changed["topic_id"].to_list())
    centred = stored.filter(pc.is_valid(stored["centroid"]))
    centres: Centres = {}
    centres |= zip(
        centred["topic_id"].to_pylist(),
        build_vector_matrix(centred["centroid"]),
        strict=True,
    )
    centres |= {topic: row["centroid"] for topic, row in made.items()}
    shape = {"topic_id": pl.String, "cohesion": pl.Float32, "text": pl.String}
    texts = pl.DataFrame(
        [(topic, row["cohesion"], row["text"]) for topic, row in made.items()],
        shape,
        orient="row",
    )
    return topics.update(texts, on="topic_id", include_nulls=True).select(
        before.columns
    ), centres


def _write_changed_topics(
    store: Store,
    topics: pl.DataFrame,
    before: pl.DataFrame,
    centres: Centres,
) -> None:
    """Write the base topics and the topics with claims whose row has changed."""
    differs = pl.any_horizontal(
        *(topics[name].ne_missing(before[name]) for name in before.columns)
    )
    rows = []
    for row in topics.filter(differs, HAS_CLAIMS).iter_rows(named=True):
        rows.append({**row, "centroid": centres.get(row["topic_id"])})
    store.merge(TOPICS, pa.Table.from_pylist(rows, schema=TOPICS.schema))


def _compute_state_key(store: Store, state: str) -> str:
    """Return a hash of the topics' input and of the stored topics; if a mark has it, they are up to date."""
    counted = [name for name in TOPICS.schema.names if name not in UNCOUNTED]
    rows = pl.DataFrame(store.read(TOPICS, counted)).sort("topic_id")
    return compute_content_id(state, hash_rows(rows))
