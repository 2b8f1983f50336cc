"""Topics by the language model, on the store's rows: where new claims go, and what topics are for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.protocol import EngineUnavailable
from slowwave.schemas.tables import OBSERVATIONS, TOPIC_HISTORY, TOPICS
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import Model, quarantine_rejected
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.topics import assign_llm as topic_llm
from slowwave.tasks.topics import cluster
from slowwave.tasks.topics.assign import Assigned, assign, make_empty_topic
from slowwave.tasks.topics.assign_llm import Batch, Board, Topic
from slowwave.tasks.topics.merge import find_same_topics, resolve_topic
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import attach_vectors_if_there

Names = Mapping[str, tuple[str, str]]
"""Topic to its name and purpose."""


def place_by_model(
    job: Job, pending: pa.Table, topics: pa.Table, key: str, model: Model, report: StepReport
) -> Assigned:
    """Return topics for the pending claims: the model's, or by likeness where it failed; those that have to wait are
    left out.

    In and out as in `slowwave.tasks.topics.assign.assign`.
    """
    rows = sorted(
        pending.to_pylist(), key=lambda r: (r["observed_at"] is None, r["observed_at"] or 0, r["observation_id"])
    )
    board = Board(_build_board_topics(job.store, topics), cluster.LIMITS.samples, _read_aliases(job.store, topics))
    waiting, rejected, settled = _place_in_waves(rows, board, model)
    report.counts["claims placed by the model"] += len(board.placed)
    report.counts["claims left for another night"] += len(waiting)
    report.counts["rows in quarantine"] += quarantine_rejected(job.store, "assign", rejected, settled)
    new = [make_empty_topic(t.id, t.name, t.purpose, key, base=False) for t in board.list_opened()]
    mine = [
        {**row, "topic_id": board.placed[row["observation_id"]], "assign_key": key}
        for row in rows
        if row["observation_id"] in board.placed
    ]
    rest = [r for r in rows if r["observation_id"] not in board.placed and r["observation_id"] not in waiting]
    others = assign(pa.Table.from_pylist(rest, schema=OBSERVATIONS.schema), topics, cluster.LIMITS, key)
    return Assigned(
        pa.concat_tables([pa.Table.from_pylist(mine, schema=OBSERVATIONS.schema), others.observations]),
        pa.concat_tables([pa.Table.from_pylist(new, schema=TOPICS.schema), others.topics]),
        {},  # topics that a model keeps apart are not put together by their claims' likeness alone
    )


def _place_in_waves(
    rows: Sequence[Mapping[str, Any]], board: Board, model: Model
) -> tuple[set[str], list[Rejected], set[str]]:
    """Return claims that have to wait, what could not be used, and the requests that went well.

    The rest is on the board.
    """
    waiting = set[str]()
    rejected: list[Rejected] = []
    settled: set[str] = set()
    for wave in topic_llm.split_waves(rows, topic_llm.SIZES.batch):
        try:
            window = model.llm.context_window
            batches = [board.build_batch(claims, model.library, model.count, window) for claims in wave]
        except EngineUnavailable:
            if not model.extractive:
                waiting |= {row["observation_id"] for claims in wave for row in claims}
            continue
        answers = model.ask([batch.request for batch in batches], "topics")
        for batch in batches:
            completion = answers[batch.request.id]
            if completion.ok:
                board.apply_answer(batch, completion)
                settled.add(batch.request.id)
            elif model.is_postponed(completion):
                waiting |= _collect_claim_ids(batch)
            if completion.error and completion.error != "budget":
                rejected.append(Rejected(batch.request.id, f"{completion.error}: {completion.reason}", completion.text))
    return waiting, rejected, settled


def _collect_claim_ids(batch: Batch) -> set[str]:
    return {claim["observation_id"] for claim in batch.claims.values()}


def _read_aliases(store: Store, topics: pa.Table) -> dict[str, str]:
    """Return names of topics that were merged -> the topic that has their claims: the model may name them again."""
    merged = store.read(TOPIC_HISTORY, where=pc.field("kind") == "merge").to_pylist()
    into = {row["topic_id"]: row["other_id"] for row in merged}
    live = set(topics["topic_id"].to_pylist())
    found = {row["name"]: resolve_topic(row["topic_id"], into) for row in merged}
    return {name: topic for name, topic in found.items() if topic in live}


def find_merges_by_model(job: Job, report: StepReport) -> dict[str, str]:
    """Return topic -> the one it is the same as, by what they are called and for and by their claims.

    Without an encoder none: words alone don't tell.
    """
    rows = job.store.read(TOPICS).sort_by("topic_id").to_pylist()
    said = pa.table({"text": [f"{row['name']}. {row['purpose']}" for row in rows]})
    encoded = attach_vectors_if_there(job, said, "text", report)
    if "vector" not in encoded.column_names:
        return {}
    purposes = build_vector_matrix(encoded["vector"])
    return find_same_topics(rows, purposes, cluster.LIMITS)


def _build_board_topics(store: Store, topics: pa.Table) -> list[Topic]:
    """Return the board's topics from rows of TOPICS."""
    rows = topics.to_pylist()
    ids = [oid for row in rows for oid in row["samples"]]
    found = store.read_ids(OBSERVATIONS, ids, ["observation_id", "summary"]).to_pylist()
    said = {row["observation_id"]: row["summary"] for row in found}
    return [
        Topic(
            row["topic_id"],
            row["name"],
            row["purpose"],
            [said[oid] for oid in row["samples"] if oid in said],
            None if row["centroid"] is None else np.asarray(row["centroid"], dtype="float32"),
            row["size"],
            row["base"],
        )
        for row in rows
    ]


def name_topics_by_model(
    model: Model, rows: Sequence[Mapping[str, Any]], claims: Mapping[str, Sequence[str]], by_words: Names
) -> Names:
    """Return names and purposes: the model's where it opened the topic; a purpose from random claims where these are
    enough.

    Args:
        model: whom to ask; answers it gave before cost nothing.
        rows: rows of TOPICS.
        claims: topic to its claims' summaries, in order of time.
        by_words: names and purposes without a model.
    """
    names = dict(by_words)
    for row in rows:
        if topic_llm.make_topic_id(row["name"]) == row["topic_id"] and row["topic_id"] in names:
            names[row["topic_id"]] = (row["name"], row["purpose"])
    requests = []
    for topic_id, (name, purpose) in sorted(names.items()):
        topic = Topic(topic_id, name, purpose)
        request = topic_llm.build_purpose_request(topic, claims[topic_id], model.library)
        requests += [request] if request else []
    for request_id, completion in model.ask(requests, "purposes").items():
        topic_id = request_id.split("/")[0]
        written = topic_llm.parse_purpose(completion) if completion.ok else None
        if written:
            names[topic_id] = (names[topic_id][0], written)
    return names
