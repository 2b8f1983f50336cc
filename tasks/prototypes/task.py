"""Prototypes brought up to date: what is new snaps in, what is no longer active leaves, the log is written first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import OBSERVATIONS, PROTOTYPE_MEMBERS, PROTOTYPES
from slowwave.schemas.vocabulary import Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.prototypes.prototypes import (
    VERSION,
    Event,
    Prototype,
    Prototypes,
    Vector,
    compute_coherence,
    extend_prototypes,
    replay_events,
)
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import describe_encoder
from slowwave.text.summarise import Part, build_extractive_summary

CLAIM = ["observation_id", "summary", "speaker", "observed_at", "evidence_sessions", "status", "vector"]
NEAREST = 5
"""Members whose words make a prototype's text."""
Row = dict[str, Any]


class Claims(Mapping[str, Vector]):
    """Every claim that has a vector: its columns by id, its vector out of one matrix."""

    def __init__(self, store: Store) -> None:
        table = store.read(OBSERVATIONS, CLAIM)
        table = table.filter(table["vector"].is_valid()).sort_by("observation_id")
        self.matrix = build_vector_matrix(table["vector"]) if table.num_rows else np.zeros((0, 0), dtype=np.float32)
        self.rows: list[Row] = table.drop_columns(["vector"]).to_pylist()
        self.place = {row["observation_id"]: at for at, row in enumerate(self.rows)}

    def __getitem__(self, claim: str) -> Vector:
        vector: Vector = self.matrix[self.place[claim]]
        return vector

    def __iter__(self) -> Iterator[str]:
        return iter(self.place)

    def __len__(self) -> int:
        return len(self.place)

    def list_active(self) -> list[str]:
        """Return ids of the active ones in order of time."""
        live = [row for row in self.rows if row["status"] == Status.ACTIVE]
        live.sort(key=lambda r: (r["observed_at"] is None, r["observed_at"] or 0, r["observation_id"]))
        return [row["observation_id"] for row in live]

    def get_rows(self, claims: Sequence[str]) -> list[Row]:
        """Return rows of the claims."""
        return [self.rows[self.place[claim]] for claim in claims]


def update_prototypes(job: Job) -> StepReport:
    """Fold what changed into the prototypes. A log made under other settings is begun anew."""
    with report_step("prototypes") as report:
        encoder = describe_encoder(job.settings)
        key = compute_step_key("prototypes", 1, VERSION, job.settings.prototypes, encoder)
        claims = Claims(job.store)
        log = job.store.read(PROTOTYPE_MEMBERS, where=pc.field("step_key") == key).sort_by("seq").to_pylist()
        held = {row["prototype_id"]: row for row in job.store.read(PROTOTYPES).to_pylist()}
        state, rebuilt = _load_state(job, [_parse_event(row) for row in log], held, claims, key)
        members = {claim for one in state.by_id.values() for claim in one.members}
        active = claims.list_active()
        fresh = [claim for claim in active if claim not in members]
        events = extend_prototypes(state, fresh, members.difference(active), claims)
        report.rows_in = len(fresh)
        report.rows_out = _write_log(job.store, events, len(log), key)
        report.counts["prototypes"] = len(state.by_id)
        touched = set(state.by_id) if rebuilt else {event.prototype for event in events}
        _write_state(job, state, held, touched, claims, key)
    return report


def _load_state(job: Job, log: list[Event], held: dict[str, Row], claims: Claims, key: str) -> tuple[Prototypes, bool]:
    """Return the prototypes so far, and whether they had to be replayed from the log: after a crash between log and
    state.
    """
    members: dict[str, dict[str, None]] = {}
    counts: dict[str, int] = {}
    for event in log:
        counts[event.prototype] = counts.get(event.prototype, 0) + 1
        mine = members.setdefault(event.prototype, {})
        if event.kind == "leave":
            del mine[event.claim]
        else:
            mine[event.claim] = None
    live = {one: mine for one, mine in members.items() if mine}
    as_logged = {one: counts[one] for one in live}
    if as_logged != {one: row["events"] for one, row in held.items() if row["step_key"] == key}:
        return replay_events(log, claims, job.settings.prototypes), True
    state = Prototypes(job.settings.prototypes)
    for one, mine in live.items():
        vector, origin = (np.asarray(held[one][name], dtype=np.float32) for name in ("vector", "origin"))
        state.put(Prototype(one, vector, origin, mine, counts[one]))
    return state, False


def _parse_event(row: Row) -> Event:
    return Event(row["kind"], row["prototype_id"], row["observation_id"], row["from_id"], row["similarity"])


def _write_log(store: Store, events: list[Event], start: int, key: str) -> int:
    """Append the events; rows of a log under other settings go first."""
    stale = store.read(PROTOTYPE_MEMBERS, ["event_id"], pc.field("step_key") != key)
    store.delete_ids(PROTOTYPE_MEMBERS, stale["event_id"].to_pylist())
    rows = [
        {
            "event_id": compute_content_id(key, str(seq), event.kind, event.prototype, event.claim),
            "seq": seq,
            "kind": event.kind,
            "prototype_id": event.prototype,
            "observation_id": event.claim,
            "from_id": event.from_id,
            "similarity": event.similarity,
            "step_key": key,
        }
        for seq, event in enumerate(events, start)
    ]
    return store.merge(PROTOTYPE_MEMBERS, pa.Table.from_pylist(rows, schema=PROTOTYPE_MEMBERS.schema))


def _write_state(
    job: Job, state: Prototypes, held: dict[str, Row], touched: set[str], claims: Claims, key: str
) -> None:
    rows = [
        _build_prototype_row(
            one, None if one.id in touched else held.get(one.id), claims, job.settings.prototypes.max_words, key
        )
        for one in state.by_id.values()
    ]
    job.store.merge_changed(PROTOTYPES, pa.Table.from_pylist(rows, schema=PROTOTYPES.schema))
    job.store.delete_ids(PROTOTYPES, sorted(set(held) - set(state.by_id)))


def _build_prototype_row(one: Prototype, before: Row | None, claims: Claims, max_words: int, key: str) -> Row:
    """Return a row of PROTOTYPES; of one that no event touched, only the strength is looked at again."""
    members = claims.get_rows(list(one.members))
    strength = float(sum(len(row["evidence_sessions"]) for row in members))
    if before is not None:
        return {**before, "strength": strength}
    vectors = np.array([claims[row["observation_id"]] for row in members])
    likeness = np.round(vectors @ one.vector, 6)
    nearest = sorted(np.argsort(-likeness, kind="stable")[:NEAREST].tolist())
    times = sorted(row["observed_at"] for row in members if row["observed_at"])
    return {
        "prototype_id": one.id,
        "text": build_extractive_summary(
            [Part(members[i]["summary"], members[i]["speaker"]) for i in nearest], max_words
        ),
        "vector": one.vector.tolist(),
        "origin": one.origin.tolist(),
        "size": len(members),
        "strength": strength,
        "coherence": compute_coherence(one.vector, vectors),
        "drift": round(one.drift, 6),
        "first_at": times[0] if times else None,
        "last_at": times[-1] if times else None,
        "events": one.events,
        "step_key": key,
    }
