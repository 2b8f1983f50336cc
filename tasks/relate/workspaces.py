"""Which workspaces have to be related, and what is found there without a model."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, MERGES, MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind, Status
from slowwave.store.store import Store
from slowwave.tasks.relate.relate import COLUMNS, Relation, find_relations

Row = dict[str, Any]

DECIDING = ["observation_id", "summary", "session_id", "message_ids", "files", "observed_at", "status", "workspace"]
DECIDING += ["superseded_by", "detail", "speaker"]
"""With the vector, which the summary and the encoder make once that is there, what relations depend on."""
LEDGER = ["loser_id", "winner_id", "scores"]


@dataclass(frozen=True)
class Pending:
    """The claims of the store, and the workspaces that have to be related, by their marks' names."""

    rows: list[Row]
    home: dict[str, str]
    """Each claim's workspace."""
    changes: list[Row]
    inputs: dict[str, str]
    """Each workspace's hash of all that its relations are made of."""
    done: dict[str, str]
    """The same when it was last related."""

    @property
    def units(self) -> list[str]:
        """The workspaces of which the two differ."""
        return sorted(unit for unit, now in self.inputs.items() if self.done.get(unit) != now)


def find_pending(store: Store, key: str) -> Pending:
    """Return the claims as they are, and what was related when; `key` is what relations depend on beside them."""
    rows = store.read(OBSERVATIONS, DECIDING).sort_by("observation_id").to_pylist()
    unencoded = store.open_dataset(OBSERVATIONS).to_table(columns=["observation_id"], filter="vector IS NULL")
    waiting = set(unencoded["observation_id"].to_pylist())
    rows = [{**row, "encoded": row["observation_id"] not in waiting} for row in rows]
    home = {row["observation_id"]: name_unit(row["workspace"]) for row in rows}
    changes = read_changes(store, rows)
    inputs = hash_units(rows, changes, home, key)
    known = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "relate").to_pylist()
    return Pending(rows, home, changes, inputs, {row["unit_id"]: row["input_key"] for row in known})


def name_unit(workspace: str | None) -> str:
    """Return the mark's name of a workspace; a hash, so that it says nothing of one that is forgotten."""
    return compute_content_id("workspace", workspace)


def read_changes(store: Store, claims: list[Row]) -> list[Row]:
    """Return the rows of MERGES in force that say what changed, in order of their claims; of the doubts too few are
    right.
    """
    by = {row["observation_id"]: row["superseded_by"] for row in claims if row["status"] == Status.SUPERSEDED}
    changed = (pc.field("kind") == pa.scalar(LedgerKind.SUPERSESSION)) & ~pc.field("undone")
    rows = store.read(MERGES, LEDGER, changed).to_pylist()
    held = {row["observation_id"] for row in claims}
    rows = [row for row in rows if row["winner_id"] in held and by.get(row["loser_id"]) == row["winner_id"]]
    return sorted(rows, key=lambda row: (row["loser_id"], row["winner_id"]))


def hash_units(rows: list[Row], changes: list[Row], home: dict[str, str], key: str) -> dict[str, str]:
    """Return for each workspace the hash of all that its relations are made of."""
    parts = defaultdict[str, list[str]](list)
    for row in rows:
        parts[home[row["observation_id"]]].append(repr([row[name] for name in (*DECIDING, "encoded")]))
    for row in changes:
        parts[home[row["winner_id"]]].append(repr([row[name] for name in LEDGER]))
    return {unit: compute_content_id(key, *some) for unit, some in parts.items()}


def find_unit_relations(store: Store, unit: str, pending: Pending) -> list[Relation]:
    """Return the relations of one workspace, as they are found without a model."""
    home = pending.home
    mine = [row for row in pending.rows if home[row["observation_id"]] == unit and row["status"] == Status.ACTIVE]
    claims = store.read_ids(OBSERVATIONS, [row["observation_id"] for row in mine], COLUMNS)
    said = {message for row in mine for message in row["message_ids"]}
    messages = store.read_ids(MESSAGES, sorted(said), ["message_id", "seq"])
    places = dict(zip(messages["message_id"].to_pylist(), messages["seq"].to_pylist(), strict=True))
    return find_relations(claims, places, [row for row in pending.changes if home[row["winner_id"]] == unit])
