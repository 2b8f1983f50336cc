"""Claims gather into topics: of talk three base ones by rule, the rest as they arise, by likeness, each of one project.

New claims are gathered into bundles of what is nearly the same, and bundles and topics merge by average link
(`slowwave.tasks.topics.cluster`), so a topic is as tight whatever came first. What a topic already holds is never sent
again: its centroid, cohesion and size stand for it. `bench/nights/topics.py` shows what that gives beside leader
clustering alone.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import BASE_TOPICS, OBSERVATIONS, TOPICS
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.progress import track_items
from slowwave.tasks.topics.cluster import (
    BASE_PURPOSES,
    Bundle,
    TopicLimits,
    bisect_vectors,
    cluster_by_leader,
    match_base_topic,
    merge_bundles,
)
from slowwave.tasks.vector_columns import build_vector_matrix

VERSION = "assign/5"
PLACED = ["topic_id", "session_id", "pack", "workspace"]
AT_ONCE = 2_000
"""New claims sorted together: the likenesses of their bundles are held in memory."""

Row = dict[str, Any]
Place = str | None
"""Where claims may gather: within a project, or everywhere, for what is about people."""


@dataclass(frozen=True)
class Assigned:
    """Claims with their topic, topics that are new (without figures), and topics that are one now."""

    observations: pa.Table
    topics: pa.Table
    merged: dict[str, str]
    """Topic that went -> the one it went into."""


def build_base_topics(key: str) -> list[Row]:
    """Return rows of TOPICS for self, user and system, without members."""
    return [
        make_empty_topic(compute_content_id("topic", name), name, BASE_PURPOSES[name], key, base=True)
        for name in BASE_TOPICS
    ]


def get_place(claim: Mapping[str, Any]) -> Place:
    """Return where a claim (`pack`, `workspace`) may gather: what is said over code within its project, "" where it has
    none; everyday talk anywhere.
    """
    return claim["workspace"] or "" if claim["pack"] == "coding" else None


def assign(
    pending: pa.Table, topics: pa.Table, limits: TopicLimits, key: str, placed: pa.Table | None = None
) -> Assigned:
    """Give each claim a topic.

    Args:
        pending: rows of OBSERVATIONS; `vector` may be null or zeros, and such a claim goes by workspace and category.
        topics: every row of TOPICS so far, with figures; none: the base topics alone.
        limits: how near is near enough.
        key: the step's key, written to `assign_key`.
        placed: PLACED of OBSERVATIONS whose topics are among `topics`: what place each is of.

    Returns:
        The same rows with `topic_id` and `assign_key`, in order of time; topics that are new; merges of old ones.
    """
    board = _Board(
        topics, limits, key, pl.DataFrame((placed or OBSERVATIONS.make_empty_table()).select(PLACED)), pending
    )
    # place the claims in batches
    rows = pending.sort_by([("observed_at", "ascending"), ("observation_id", "ascending")])
    ids = rows["observation_id"].to_pylist()
    for start in track_items("assign", range(0, len(ids), AT_ONCE)):
        batch = rows.slice(start, AT_ONCE)
        vectors = build_vector_matrix(batch["vector"])
        board.place(batch.drop_columns("vector").to_pylist(), vectors, [bool(vector.any()) for vector in vectors])
    # the topics that were opened and are used, and the base topics
    places = [board.get_topic(claim) for claim in ids]
    done = set_columns(rows.select(OBSERVATIONS.schema.names), topic_id=pa.array(places, pa.string()), assign_key=key)
    used = {*places} | {t["topic_id"] for t in board.known.values() if t["base"]}
    new = [topic for topic in board.opened.values() if topic["topic_id"] in used]
    fresh = [topic for topic in board.known.values() if topic["base"] and topic["size"] == 0]
    return Assigned(
        done,
        pa.Table.from_pylist([*fresh, *new], schema=TOPICS.schema),
        {old: resolve_topic(old, board.gone) for old in board.gone if old in board.known},
    )


def sort_by_time(claims: pa.Table) -> list[Row]:
    """Return the claims in the order they were said, those without a time last."""
    return sorted(
        claims.to_pylist(), key=lambda r: (r["observed_at"] is None, r["observed_at"] or 0, r["observation_id"])
    )


def resolve_topic(topic: str, into: Mapping[str, str]) -> str:
    """Return where a topic's claims are in the end."""
    while topic in into:
        topic = into[topic]
    return topic


class _Board:
    """Topics while claims are placed."""

    def __init__(
        self, topics: pa.Table, limits: TopicLimits, key: str, placed: pl.DataFrame, pending: pa.Table
    ) -> None:
        self.limits, self.key = limits, key
        rows = topics.drop_columns("centroid").to_pylist() or build_base_topics(key)
        self.known = {t["topic_id"]: t for t in rows}
        self.opened: dict[str, Row] = {}
        self.gone: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        self.over_code = {*placed.filter(pl.col("pack") == "coding")["session_id"]}
        self.count = sum(t["size"] for t in rows)
        # the topics of the places that the pending claims are of
        columns = ["topic_id", "pack", "workspace"]
        places = {
            row["topic_id"]: get_place(row)
            for row in placed.select(columns).unique("topic_id", keep="last").iter_rows(named=True)
        }
        fresh = {get_place(row) for row in pending.select(columns[1:]).to_pylist()}
        self.bundles: defaultdict[Place, dict[str, Bundle]] = defaultdict(dict)
        for topic, centre in zip(rows, build_vector_matrix(topics["centroid"]), strict=False):
            place = places.get(topic["topic_id"])
            if place in fresh and centre.any() and not topic["base"]:
                self.bundles[place][topic["topic_id"]] = _restore_bundle(topic, centre)

    def place(self, rows: list[Row], vectors: Vectors, has: list[bool]) -> None:
        """Place claims, each with its vector where it has one: by rule what is not over code, by workspace where there
        is no vector, the others by likeness.

        What is no coding claim of a session over code a person said of themselves: that is the user.
        """
        self.count += len(rows)
        self.over_code |= {row["session_id"] for row in rows if row["pack"] == "coding"}
        by_likeness: defaultdict[Place, list[int]] = defaultdict(list)
        for at, row in enumerate(rows):
            # by rule, by workspace and category, or by likeness
            aside = row["pack"] == "personal" and row["session_id"] in self.over_code
            ruled = match_base_topic(row["summary"], row.get("by_agent", False)) if get_place(row) is None else None
            base = ruled or ("user" if aside else None)
            if base:
                self.placed[row["observation_id"]] = compute_content_id("topic", base)
            elif not has[at]:
                self.placed[row["observation_id"]] = self._open_topic(
                    compute_content_id("topic", row["workspace"], row["category"])
                )
            else:
                by_likeness[get_place(row)].append(at)
        for place, own in by_likeness.items():
            self._place_by_similarity([rows[at] for at in own], vectors[own], self.bundles[place])

    def _place_by_similarity(self, rows: list[Row], vectors: Vectors, earlier: dict[str, Bundle]) -> None:
        groups = cluster_by_leader(vectors, self.limits.threshold)
        fresh = [_make_bundle([rows[i] for i in group], vectors[group]) for group in groups]
        members = {b.id: [rows[i]["observation_id"] for i in g] for b, g in zip(fresh, groups, strict=True)}
        bundles = [*(earlier[key] for key in sorted(earlier)), *fresh]
        largest = max(self.limits.compute_largest(self.count), self.limits.small)
        for together in merge_bundles(bundles, self.limits, largest):
            self._merge_group([bundles[i] for i in together], members, earlier)
        self._reassign_to_nearest(rows, vectors, earlier)

    def _reassign_to_nearest(self, rows: list[Row], vectors: Vectors, bundles: dict[str, Bundle]) -> None:
        """Move each new claim to the topic it is nearest to now that all stand; what was placed earlier stays."""
        ids = sorted(bundles)
        centres = np.array([bundles[key].mean for key in ids])
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
        likeness = np.round(vectors.astype(np.float64) @ centres.T, 6)
        for row, vector, own in zip(rows, vectors, likeness, strict=True):
            old = self.get_topic(row["observation_id"])
            new = ids[int(np.argmax(own))]
            if new == old or bundles[old].size == 1:
                continue
            self.placed[row["observation_id"]] = new
            for topic, sign in ((old, -1), (new, 1)):
                bundle = bundles[topic]
                bundles[topic] = Bundle(topic, bundle.total + sign * vector, bundle.size + sign, known=True)

    def _merge_group(self, group: list[Bundle], members: dict[str, list[str]], bundles: dict[str, Bundle]) -> None:
        """Make one topic: the largest of those that stood before, else a new one named by its first claim."""
        old = [b for b in group if b.known]
        lead = max(old, key=lambda b: (b.size, b.id)) if old else group[0]
        topic = lead.id if old else self._open_topic(lead.id)
        for bundle in group:
            for claim in members.get(bundle.id, []):
                self.placed[claim] = topic
            if bundle.known and bundle is not lead:
                self.gone[bundle.id] = topic
                del bundles[bundle.id]
        total = np.sum([b.total for b in group], axis=0)
        bundles[topic] = Bundle(topic, total, sum(b.size for b in group), known=True)

    def _open_topic(self, topic_id: str) -> str:
        if topic_id not in self.known and topic_id not in self.opened:
            self.opened[topic_id] = make_empty_topic(topic_id, "", "", self.key, base=False)
        return topic_id

    def get_topic(self, claim: str) -> str:
        """Return the topic a claim was placed in."""
        return resolve_topic(self.placed[claim], self.gone)


def _restore_bundle(topic: Row, centroid: Vectors) -> Bundle:
    centre = centroid.astype(np.float64) * (topic["cohesion"] or 0.0)
    return Bundle(topic["topic_id"], centre * topic["size"], topic["size"], known=True)


def _make_bundle(rows: list[Row], vectors: Vectors) -> Bundle:
    first = compute_content_id("topic", rows[0]["observation_id"])
    return Bundle(first, vectors.astype(np.float64).sum(axis=0), len(rows), known=False)


def find_oversized_topics(sizes: Mapping[str, int], everything: int, limits: TopicLimits) -> list[str]:
    """Return the topics that hold more than their share of all claims, the largest first."""
    largest = limits.compute_largest(everything)
    large = [topic for topic in sizes if sizes[topic] > largest]
    return sorted(large, key=lambda topic: (sizes[topic], topic), reverse=True)


def split_topic(members: pa.Table, key: str) -> pa.Table | None:
    """Return the claims that leave a topic that is too large, with the topic they open; None where it can't be cut.

    Args:
        members: rows of OBSERVATIONS, all of one topic. Those without a vector stay.
        key: the step's key.

    The larger half keeps the topic. The new one's id is made of its first claim.
    """
    rows = members.filter(members["vector"].is_valid()).sort_by("observation_id")
    side = bisect_vectors(build_vector_matrix(rows["vector"])) if rows.num_rows > 1 else None
    if side is None:
        return None
    moved = rows.filter(pa.array(side if 2 * int(side.sum()) <= rows.num_rows else ~side))
    topic = compute_content_id("topic", "split", moved["topic_id"][0].as_py(), moved["observation_id"][0].as_py())
    return set_columns(moved.select(OBSERVATIONS.schema.names), topic_id=topic, assign_key=key)


def make_empty_topic(topic_id: str, name: str, purpose: str, key: str, *, base: bool) -> Row:
    """Return a row of TOPICS without members."""
    return {
        "topic_id": topic_id,
        "name": name,
        "purpose": purpose,
        "base": base,
        "samples": [],
        **dict.fromkeys(("text", "workspace", "first_at", "last_at", "centroid", "cohesion", "share", "overlap")),
        **dict.fromkeys(("size", "strength", "sessions", "uses"), 0),
        "member_hash": "",
        "step_key": key,
    }
