"""Assign claims to topics: three base topics by rule, the others by similarity within one project.

New claims are gathered into bundles of nearly the same text. Bundles and topics are then merged by average link
(`slowwave.tasks.topics.cluster`), so a topic is as tight whatever came first. Claims placed earlier are not sent again:
the topic's centroid, cohesion and size represent them. `bench/nights/topics.py` compares this with leader clustering
alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, TopicRow
from slowwave.schemas.tables import BASE_TOPICS, CLAIMS, TOPICS
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

VERSION = "assign/6"
PLACED = ["topic_id", "session_id", "pack", "workspace"]
AT_ONCE = 2_000
"""New claims placed in one batch; the similarities of its bundles are kept in memory."""

Place = str | None
"""The project whose claims share topics, or None for claims of everyday life, which share topics everywhere."""


@dataclass(frozen=True)
class Assigned:
    """Claims with their topic, new topics (without figures), and merged topics."""

    claims: pa.Table
    topics: pa.Table
    merged: dict[str, str]
    """Removed topic -> the topic that it was merged into."""


def build_base_topics(key: str) -> list[TopicRow]:
    """Return rows of TOPICS for self, user and system, without members."""
    return [
        make_empty_topic(
            topic_id=compute_content_id("topic", name),
            name=name,
            purpose=BASE_PURPOSES[name],
            key=key,
            base=True,
        )
        for name in BASE_TOPICS
    ]


def get_place(claim: Mapping[str, Any]) -> Place:
    """Return the place of a claim (`pack`, `workspace`): its project ("" without one) if about code, else None."""
    return claim["workspace"] or "" if claim["pack"] == "coding" else None


def assign(
    pending: pa.Table,
    topics: pa.Table,
    limits: TopicLimits,
    key: str,
    placed: pa.Table | None = None,
) -> Assigned:
    """Give each claim a topic.

    Args:
        pending: rows of CLAIMS. A claim whose `vector` is null or zeros is placed by workspace and category.
        topics: every row of TOPICS so far, with figures; if empty, the base topics are used.
        limits: least similarities and sizes.
        key: the step's key, written to `assign_key`.
        placed: the columns PLACED of CLAIMS whose topics are among `topics`; they give the place of each topic.

    Returns:
        The same rows with `topic_id` and `assign_key`, in order of time; new topics; merges of old ones.
    """
    settled = pl.DataFrame((placed or CLAIMS.make_empty_table()).select(PLACED))
    board = _Board(
        topics=topics, limits=limits, key=key, placed=settled, pending=pending
    )
    rows = pending.sort_by([("observed_at", "ascending"), ("claim_id", "ascending")])
    ids = rows["claim_id"].to_pylist()
    for start in track_items("assign", range(0, len(ids), AT_ONCE)):
        batch = rows.slice(start, AT_ONCE)
        vectors = build_vector_matrix(batch["vector"])
        board.place(
            batch.drop_columns("vector").to_pylist(),
            vectors,
            [bool(vector.any()) for vector in vectors],
        )
    places = [board.get_topic(claim) for claim in ids]
    claims = rows.select(CLAIMS.schema.names)
    return Assigned(
        claims=set_columns(
            claims, topic_id=pa.array(places, pa.string()), assign_key=key
        ),
        topics=pa.Table.from_pylist(
            board.list_new_topics({*places}), schema=TOPICS.schema
        ),
        merged=board.find_merged(),
    )


class PlacedClaimRow(ClaimRow, total=False):
    """A claim to be placed."""

    by_agent: bool
    """True if a model wrote the message that it quotes."""


def sort_by_time(claims: pa.Table) -> list[PlacedClaimRow]:
    """Return the claims in order of time, those without a time last."""
    return sorted(
        claims.to_pylist(),
        key=lambda r: (
            r["observed_at"] is None,
            r["observed_at"] or 0,
            r["claim_id"],
        ),
    )


def resolve_topic(topic: str, into: Mapping[str, str]) -> str:
    """Return the topic that a topic was finally merged into, or itself."""
    while topic in into:
        topic = into[topic]
    return topic


class _Board:
    """The topics while claims are placed."""

    def __init__(
        self,
        topics: pa.Table,
        limits: TopicLimits,
        key: str,
        placed: pl.DataFrame,
        pending: pa.Table,
    ) -> None:
        self.limits = limits
        self.key = key
        rows = topics.drop_columns("centroid").to_pylist() or build_base_topics(key)
        self.known = {t["topic_id"]: t for t in rows}
        self.opened: dict[str, TopicRow] = {}
        self.gone: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        self.over_code = {*placed.filter(pl.col("pack") == "coding")["session_id"]}
        self.count = sum(t["size"] for t in rows)
        # the topics of the places that the pending claims are of
        columns = ["topic_id", "pack", "workspace"]
        places = {
            row["topic_id"]: get_place(row)
            for row in placed.select(columns)
            .unique("topic_id", keep="last")
            .iter_rows(named=True)
        }
        fresh = {get_place(row) for row in pending.select(columns[1:]).to_pylist()}
        self.bundles: defaultdict[Place, dict[str, Bundle]] = defaultdict(dict)
        for topic, centre in zip(
            rows, build_vector_matrix(topics["centroid"]), strict=False
        ):
            place = places.get(topic["topic_id"])
            if place in fresh and centre.any() and not topic["base"]:
                self.bundles[place][topic["topic_id"]] = _restore_bundle(topic, centre)

    def place(
        self,
        rows: list[PlacedClaimRow],
        vectors: Vectors,
        has: list[bool],
    ) -> None:
        """Place claims: by rule if a rule matches, else by similarity, or by workspace and category without a vector.

        A personal claim of a session about code is about the user.
        """
        self.count += len(rows)
        self.over_code |= {row["session_id"] for row in rows if row["pack"] == "coding"}
        by_likeness: defaultdict[Place, list[int]] = defaultdict(list)
        for at, row in enumerate(rows):
            base = self._find_base_topic(row)
            if base:
                self.placed[row["claim_id"]] = compute_content_id("topic", base)
            elif has[at]:
                by_likeness[get_place(row)].append(at)
            else:
                topic = compute_content_id("topic", row["workspace"], row["category"])
                self.placed[row["claim_id"]] = self._open_topic(topic)
        for place, own in by_likeness.items():
            self._place_by_similarity(
                [rows[at] for at in own], vectors[own], self.bundles[place]
            )

    def _find_base_topic(self, row: PlacedClaimRow) -> str | None:
        """Return the name of the base topic that a claim belongs to by rule, or None.

        The rules also place a claim that a model made, as it has no topic of a model.
        """
        if get_place(row) is None:
            ruled = match_base_topic(row["summary"], row.get("by_agent", False))
            if ruled:
                return ruled
        is_personal = row["pack"] == "personal"
        return "user" if is_personal and row["session_id"] in self.over_code else None

    def _place_by_similarity(
        self,
        rows: list[PlacedClaimRow],
        vectors: Vectors,
        earlier: dict[str, Bundle],
    ) -> None:
        groups = cluster_by_leader(vectors, self.limits.threshold)
        fresh = [
            _make_bundle([rows[i] for i in group], vectors[group]) for group in groups
        ]
        members = {
            b.id: [rows[i]["claim_id"] for i in g]
            for b, g in zip(fresh, groups, strict=True)
        }
        bundles = [*(earlier[key] for key in sorted(earlier)), *fresh]
        largest = max(self.limits.compute_largest(self.count), self.limits.small)
        for together in merge_bundles(bundles, self.limits, largest):
            self._merge_group([bundles[i] for i in together], members, earlier)
        self._reassign_to_nearest(rows, vectors, earlier)

    def _reassign_to_nearest(
        self,
        rows: list[PlacedClaimRow],
        vectors: Vectors,
        bundles: dict[str, Bundle],
    ) -> None:
        """Move each new claim to the topic nearest to it after all merges; earlier claims stay."""
        ids = sorted(bundles)
        centres = np.array([bundles[key].mean for key in ids])
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
        likeness = np.round(vectors.astype(np.float64) @ centres.T, 6)
        for row, vector, own in zip(rows, vectors, likeness, strict=True):
            old = self.get_topic(row["claim_id"])
            new = ids[int(np.argmax(own))]
            if new == old or bundles[old].size == 1:
                continue
            self.placed[row["claim_id"]] = new
            for topic, sign in ((old, -1), (new, 1)):
                bundle = bundles[topic]
                bundles[topic] = Bundle(
                    topic, bundle.total + sign * vector, bundle.size + sign, known=True
                )

    def _merge_group(
        self,
        group: list[Bundle],
        members: dict[str, list[str]],
        bundles: dict[str, Bundle],
    ) -> None:
        """Merge a group into its largest existing topic, or into a new one named after its first claim."""
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
            self.opened[topic_id] = make_empty_topic(
                topic_id=topic_id, name="", purpose="", key=self.key, base=False
            )
        return topic_id

    def get_topic(self, claim: str) -> str:
        """Return the topic that a claim was placed in."""
        return resolve_topic(self.placed[claim], self.gone)

    def list_new_topics(self, used: Set[str]) -> list[TopicRow]:
        """Return the empty base topics, and the topics that were opened and are used."""
        base = [topic for topic in self.known.values() if topic["base"]]
        kept = used | {topic["topic_id"] for topic in base}
        opened = [topic for topic in self.opened.values() if topic["topic_id"] in kept]
        return [*(topic for topic in base if topic["size"] == 0), *opened]

    def find_merged(self) -> dict[str, str]:
        """Return each earlier topic that was merged, with the topic that it was merged into."""
        return {
            old: resolve_topic(old, self.gone) for old in self.gone if old in self.known
        }


def _restore_bundle(topic: TopicRow, centroid: Vectors) -> Bundle:
    centre = centroid.astype(np.float64) * (topic["cohesion"] or 0.0)
    return Bundle(topic["topic_id"], centre * topic["size"], topic["size"], known=True)


def _make_bundle(rows: list[PlacedClaimRow], vectors: Vectors) -> Bundle:
    first = compute_content_id("topic", rows[0]["claim_id"])
    return Bundle(first, vectors.astype(np.float64).sum(axis=0), len(rows), known=False)


def find_oversized_topics(
    sizes: Mapping[str, int], everything: int, limits: TopicLimits
) -> list[str]:
    """Return the topics with more than their share of all claims, the largest first."""
    largest = limits.compute_largest(everything)
    large = [topic for topic in sizes if sizes[topic] > largest]
    return sorted(large, key=lambda topic: (sizes[topic], topic), reverse=True)


def split_topic(members: pa.Table, key: str) -> pa.Table | None:
    """Return the claims that leave an oversized topic, with their new topic, or None if it cannot be split.

    Args:
        members: rows of CLAIMS, all of one topic. Those without a vector stay.
        key: the step's key.

    The larger half keeps the topic. The id of the new topic is a hash that includes its first claim.
    """
    rows = members.filter(members["vector"].is_valid()).sort_by("claim_id")
    side = (
        bisect_vectors(build_vector_matrix(rows["vector"]))
        if rows.num_rows > 1
        else None
    )
    if side is None:
        return None
    moved = rows.filter(
        pa.array(side if 2 * int(side.sum()) <= rows.num_rows else ~side)
    )
    topic = compute_content_id(
        "topic",
        "split",
        moved["topic_id"][0].as_py(),
        moved["claim_id"][0].as_py(),
    )
    return set_columns(
        moved.select(CLAIMS.schema.names), topic_id=topic, assign_key=key
    )


def make_empty_topic(
    topic_id: str,
    name: str,
    purpose: str,
    key: str,
    *,
    base: bool,
) -> TopicRow:
    """Return a row of TOPICS without members."""
    return {
        "topic_id": topic_id,
        "name": name,
        "purpose": purpose,
        "base": base,
        "samples": [],
        "text": None,
        "workspace": None,
        "first_at": None,
        "last_at": None,
        "centroid": None,
        "cohesion": None,
        "share": None,
        "overlap": None,
        "size": 0,
        "strength": 0,
        "sessions": 0,
        "uses": 0,
        "member_hash": "",
        "step_key": key,
    }
