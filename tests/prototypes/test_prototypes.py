"""Prototypes: what snaps, what spawns, how they move, and that a replay of the log makes the same."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import PrototypeSettings, Settings
from slowwave.schemas.tables import OBSERVATIONS, PROTOTYPE_MEMBERS, PROTOTYPES
from slowwave.store import Store
from slowwave.store.digest import compute_table_digest
from slowwave.tasks.prototypes.prototypes import Prototypes, Vector, extend_prototypes, move_centroid, replay_events

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
SETTINGS = PrototypeSettings()


def unit(*values: float) -> Vector:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def test_the_near_snap_and_the_far_spawn() -> None:
    vectors = {"a": unit(1, 0, 0), "b": unit(0.9, 0.2, 0), "c": unit(0, 0, 1)}
    state = Prototypes(SETTINGS)
    events = extend_prototypes(state, ["a", "b", "c"], [], vectors)
    assert [e.kind for e in events] == ["spawn", "join", "spawn"]
    assert events[1].prototype == events[0].prototype
    # .9 of (1, 0, 0) and .1 of b, at unit length
    expected = unit(0.9 + 0.1 * float(vectors["b"][0]), 0.1 * float(vectors["b"][1]), 0)
    assert np.allclose(state.by_id[events[0].prototype].vector, expected, atol=1e-6)
    assert state.by_id[events[2].prototype].drift == pytest.approx(0, abs=1e-6)


def test_one_without_members_is_gone_and_two_that_meet_become_one() -> None:
    vectors = {"a": unit(1, 0), "b": unit(0, 1), "c": unit(1, 1)}
    state = Prototypes(PrototypeSettings(tau=0.99, merge_at=0.7))
    extend_prototypes(state, ["a", "b"], [], vectors)
    assert len(state.by_id) == 2
    extend_prototypes(state, ["c"], [], vectors)  # its prototype is as near to both as 0.707
    assert sorted(len(p.members) for p in state.by_id.values()) == [1, 2]
    assert [e.from_id is not None for e in state.log if e.kind == "join"] == [True]
    extend_prototypes(state, [], ["a", "b", "c"], vectors)
    assert state.by_id == {}


def test_a_large_one_that_does_not_hold_together_is_split() -> None:
    left = {f"l{i:02}": unit(1, 0.02 * i, 0) for i in range(8)}
    right = {f"r{i:02}": unit(-1, 0.02 * i, 0.1) for i in range(8)}
    vectors = left | right
    state = Prototypes(PrototypeSettings(tau=-1, split_below=0.9, split_size=12, merge_at=1))
    extend_prototypes(state, sorted(vectors), [], vectors)
    assert [set(p.members) for p in state.by_id.values()] == [set(left), set(right)]


seeds = st.integers(0, 1 << 16)


@examples(max_examples=40, deadline=None)
@given(seeds, st.lists(st.integers(1, 25), min_size=1, max_size=5), st.sampled_from([0.1, 0.4, 0.8]))
def test_a_replay_makes_the_same_and_each_claim_is_in_one(seed: int, nights: list[int], tau: float) -> None:
    chance = np.random.default_rng(seed)
    given_settings = PrototypeSettings(tau=tau, merge_at=0.6, split_below=0.7, split_size=4)
    vectors = {f"c{n:03}": unit(*chance.normal(size=6)) for n in range(sum(nights))}
    state, arrived, gone = Prototypes(given_settings), 0, set[str]()
    for count in nights:
        fresh = sorted(vectors)[arrived : arrived + count]
        arrived += count
        leaving = {c for c in sorted(vectors)[: arrived - count] if chance.random() < 0.1} - gone
        gone |= leaving
        extend_prototypes(state, fresh, leaving, vectors)
    held = [c for p in state.by_id.values() for c in p.members]
    assert sorted(held) == sorted(set(vectors) - gone)
    again = replay_events(state.log, vectors, given_settings)
    assert {i: (p.vector.tobytes(), list(p.members), p.events) for i, p in again.by_id.items()} == {
        i: (p.vector.tobytes(), list(p.members), p.events) for i, p in state.by_id.items()
    }


def test_a_moving_average_keeps_unit_length() -> None:
    assert float(np.linalg.norm(move_centroid(unit(1, 0), unit(0, 1), 0.3))) == pytest.approx(1)


def test_the_night_keeps_them_and_a_lost_state_is_made_again_from_the_log(tmp_path: Path) -> None:
    options = Settings(store=tmp_path / "s", encoder="hash-384", prototypes={"tau": 0.2, "enabled": True})
    run_night([SAMPLES], options)
    store = Store.open(options.store)
    rows = store.read(PROTOTYPES).to_pylist()
    active = [r for r in store.read(OBSERVATIONS).to_pylist() if r["status"] == "active"]
    assert sum(r["size"] for r in rows) == len(active)
    assert sum(r["strength"] for r in rows) == sum(len(r["evidence_sessions"]) for r in active)
    before = {t.name: compute_table_digest(t, store.read(t)) for t in (PROTOTYPES, PROTOTYPE_MEMBERS)}
    shutil.copytree(options.store, tmp_path / "t")
    lost = Store.open(tmp_path / "t")
    lost.delete_ids(PROTOTYPES, [r["prototype_id"] for r in rows[::2]])
    run_night([SAMPLES], options.model_copy(update={"store": tmp_path / "t"}))
    assert {t.name: compute_table_digest(t, lost.read(t)) for t in (PROTOTYPES, PROTOTYPE_MEMBERS)} == before
