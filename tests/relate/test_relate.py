"""Relations: of each kind, bounded, gone with what they stood on, and told by name and id."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from slowwave.flows.export import export_tables
from slowwave.flows.parts.run import open_run
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.memory import Memory
from slowwave.recall.views.show import show
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, RELATIONS
from slowwave.store.manifest import compute_table_digest
from slowwave.store.store import Store
from slowwave.tasks.publish.task import publish_release
from slowwave.tasks.relate.relate import MOST, find_relations, resolve_paths
from slowwave.tasks.relate.task import relate_claims
from tests.claim_rows import claim_row

Row = dict[str, Any]


def vector(*towards: float) -> list[float]:
    """A unit vector with these first components and the rest in the last."""
    one = np.zeros(384)
    one[: len(towards)] = towards
    one[-1] = np.sqrt(max(0.0, 1 - sum(x * x for x in towards)))
    return [float(x) for x in one]


def pairs(rows: list[Row]) -> set[tuple[str, str, str]]:
    """Kind, later and earlier claim of each relation."""
    found = find_relations(pa.Table.from_pylist(rows, schema=CLAIMS.schema))
    assert all(0 < one.weight <= 1.0001 for one in found)
    return {(one.kind, one.start, one.end) for one in found}


def far(number: int, summary: str, **values: Any) -> Row:
    """A claim whose vector is like nobody's."""
    return claim_row(
        number, summary, vector=[float(at == number) for at in range(384)], **values
    )


def test_a_file_that_one_of_them_spells_out_ties_two_claims() -> None:
    near = {"vector": vector(0.7), "files": ["src/app/store.py"]}
    spelt = claim_row(1, "The lock is in store.py.", **near)
    other = claim_row(
        2, "Writes wait for each other.", vector=vector(-0.1), files=["store.py"]
    )
    apart = claim_row(3, "Readers never wait.", vector=vector(-0.1), files=["store.py"])
    rest = [far(n, f"Something else, number {n}.") for n in range(4, 9)]
    found = pairs(
        [spelt, other | {"vector": vector(0.0)}, apart | {"vector": vector(0.0)}, *rest]
    )
    assert {("same_file", "o002", "o001"), ("same_file", "o003", "o001")} <= found
    assert ("same_file", "o003", "o002") not in found  # neither says so
    # One message says both.
    assert not pairs([spelt, other | {"message_ids": ["m1"]}, *rest])


def test_a_part_of_a_path_is_the_longer_one_where_there_is_just_one() -> None:
    assert resolve_paths([["./a/b.py"], ["b.py"], ["c\\b.py"]]) == [
        {"a/b.py"},
        {"b.py"},
        {"c/b.py"},
    ]
    assert resolve_paths([["x/a/b.py"], ["a/b.py", "b.py"]]) == [
        {"x/a/b.py"},
        {"x/a/b.py"},
    ]


def test_a_rare_name_or_near_vectors_tie_two_claims() -> None:
    one = claim_row(1, "We leave Redis for the queue.", vector=vector(0.6))
    two = claim_row(2, "The bill of Redis has doubled.", vector=vector(0.6, 0.3))
    like = claim_row(
        3,
        "Nightly copies go to a bucket.",
        vector=[float(at == 200) for at in range(384)],
    )
    same = claim_row(
        4,
        "Backups land in object storage.",
        vector=[float(at == 200) for at in range(384)],
    )
    rest = [far(n, f"Something else, number {n}.") for n in range(5, 9)]
    assert pairs([two, same, one, like, *rest]) == {
        ("same_thing", "o002", "o001"),
        ("same_thing", "o004", "o003"),
    }
    without = [row | {"vector": None} for row in (one, two, like, same, *rest)]
    assert pairs(without) == set()  # one name alone is not enough then


def test_no_claim_has_more_of_a_kind_than_the_bound() -> None:
    rows = [
        claim_row(n, f"Redis, {n}.", vector=vector(0.6, n / 100)) for n in range(12)
    ]
    found = pairs([*rows, *(far(n, f"Something else, {n}.") for n in range(20, 40))])
    ends = [end for _, *both in found for end in both]
    assert found
    assert max(map(ends.count, ends)) == MOST


def settled(folder: Path, *claims: Row) -> Settings:
    """Settings of a store with these claims, related and released."""
    settings = Settings(store=folder / "store", encoder="hash-384")
    with open_run("test", settings, create=True) as (job, _):
        job.store.merge(
            CLAIMS, pa.Table.from_pylist(list(claims), schema=CLAIMS.schema)
        )
        relate_claims(job)
        publish_release(job)
    return settings


def told(settings: Settings) -> set[tuple[str, str, str]]:
    rows = Store.open(settings.store).read(RELATIONS).to_pylist()
    return {(row["kind"], row["from_id"], row["to_id"]) for row in rows}


REDIS = [
    claim_row(
        n,
        text,
        vector=vector(0.6, n / 50),
        claim_id=f"{n:08x}",
        speaker=speaker,
        files=files,
    )
    for n, text, speaker, files in (
        (1, "We leave Redis for the queue.", "Ada", []),
        (2, "The bill of Redis has doubled.", None, ["ops/bill.md"]),
        (3, "In May Redis goes.", None, []),
    )
]
OTHERS = [
    far(n, f"Something else, number {n}.", workspace="/v/tide") for n in range(5, 12)
]


def test_only_a_workspace_whose_claims_changed_is_related_again(tmp_path: Path) -> None:
    settings = settled(tmp_path, *REDIS, *OTHERS)
    three = {
        ("same_thing", f"{b:08x}", f"{a:08x}") for a, b in ((1, 2), (1, 3), (2, 3))
    }
    assert told(settings) == three
    before = Store.open(settings.store).read_versions([RELATIONS])
    with open_run("test", settings) as (job, _):
        assert relate_claims(job).rows_in == 0
        job.store.merge(
            CLAIMS,
            pa.Table.from_pylist([OTHERS[0] | {"files": ["x"]}], schema=CLAIMS.schema),
        )
        assert relate_claims(job).rows_in == len(OTHERS)
    assert Store.open(settings.store).read_versions([RELATIONS]) == before
    digest = compute_table_digest(RELATIONS, Store.open(settings.store).read(RELATIONS))
    with open_run("test", settings) as (job, _):
        job.store.delete_ids(CLAIMS, [REDIS[2]["claim_id"]])
        relate_claims(job)
    assert told(settings) == {("same_thing", "00000002", "00000001")}
    with open_run("test", settings) as (job, _):
        job.store.merge(CLAIMS, pa.Table.from_pylist([REDIS[2]], schema=CLAIMS.schema))
        relate_claims(job)
    assert (
        compute_table_digest(RELATIONS, Store.open(settings.store).read(RELATIONS))
        == digest
    )


def test_what_superseded_a_claim_contradicts_it_unless_taken_back(
    tmp_path: Path,
) -> None:
    old = OTHERS[0] | {
        "status": "superseded",
        "superseded_by": OTHERS[1]["claim_id"],
    }
    settings = settled(
        tmp_path,
        old,
        *OTHERS[1:],
        REDIS[0] | {"status": "superseded", "superseded_by": "nobody"},
    )
    assert told(settings) == {("contradicts", old["superseded_by"], old["claim_id"])}
    with open_run("test", settings) as (job, _):
        elsewhere = old | {"superseded_by": REDIS[1]["claim_id"]}
        job.store.merge(
            CLAIMS,
            pa.Table.from_pylist([elsewhere, REDIS[1]], schema=CLAIMS.schema),
        )
        relate_claims(job)
    assert told(settings) == {
        ("contradicts", elsewhere["superseded_by"], old["claim_id"])
    }
    with open_run("test", settings) as (job, _):
        job.store.merge(CLAIMS, pa.Table.from_pylist([OTHERS[0]], schema=CLAIMS.schema))
        relate_claims(job)
    assert told(settings) == set()


def test_they_are_told_by_id_and_by_name(tmp_path: Path) -> None:
    settings = settled(tmp_path, *REDIS, *OTHERS)
    memory = Memory.open(settings.store)
    found = memory.related("00000001")
    assert {(one.id, one.relation, one.reason) for one in found} == {
        ("00000002", "same_thing", "redis"),
        ("00000003", "same_thing", "redis"),
    }
    asked = {
        "redis": "names",
        "bill.md": "of_file",
        "ADA": "said_by",
        "tide": "of_project",
    }
    assert {name: memory.related(name)[0].relation for name in asked} == asked
    first, *rest = (one.id for one in memory.related("bill.md", 2))
    # These two are as close, but for rounding.
    assert (first, {*rest}) == (
        "00000002",
        {"00000001", "00000003"},
    )
    assert len(memory.related("tide", limit=2)) == 2
    for wrong in (("nobody", 1), ("", 1), ("redis", 0), ("redis", 6), ("000000", 1)):
        with pytest.raises(UsageError):
            memory.related(*wrong)
    shown = show(memory.get_view(), "00000001").as_dict()
    assert {one["id"] for one in shown["related"]} == {"00000002", "00000003"}


def test_a_file_of_a_project_that_nothing_names_is_not_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "tide"
    (here / ".git").mkdir(parents=True)
    (here / "src").mkdir()
    (here / "src" / "new.py").touch()
    rows = [row | {"workspace": str(here)} for row in REDIS]
    memory = Memory.open(settled(tmp_path, *rows).store)
    monkeypatch.chdir(here)
    for name in ("src/new.py", "src", str(here / "src" / "new.py"), "./gone.py"):
        with pytest.raises(UsageError, match="the memory knows nothing of"):
            memory.related(name)
    for name in (".", str(here), "tide"):
        assert memory.related(name)[0].relation == "of_project"


def test_the_graph_has_every_claim_and_relation(tmp_path: Path) -> None:
    odd = REDIS[0] | {"summary": "Redis & <co> \x07 goes."}
    settings = settled(tmp_path, odd, *REDIS[1:], *OTHERS)
    manifest = export_tables(settings, tmp_path / "out", "graphml")
    assert {name: one["rows"] for name, one in manifest["tables"].items()} == {
        "claims": 10,
        "relations": 3,
    }
    graph = ElementTree.parse(tmp_path / "out" / "relations.graphml").getroot()[-1]
    ids = [one.get("id") for one in graph if one.tag.endswith("node")]
    edges = {
        (one.get("source"), one.get("target"))
        for one in graph
        if one.tag.endswith("edge")
    }
    assert set(ids) == {row["claim_id"] for row in (*REDIS, *OTHERS)}
    assert edges == {(later, earlier) for _, later, earlier in told(settings)}
    with pytest.raises(UsageError, match="leave out --table"):
        export_tables(settings, tmp_path / "more", "graphml", ["claims"])


def test_it_can_be_done_again_for_a_workspace(
    samples_night: tuple[Path, Any], tmp_path: Path
) -> None:
    import shutil

    store = tmp_path / "store"
    shutil.copytree(samples_night[0], store)
    before = compute_table_digest(RELATIONS, Store.open(store).read(RELATIONS))
    report = run_reprocess(
        "relate",
        Selection(workspace="/home/ada/tidepool"),
        Settings(store=store, encoder="hash-384"),
    )
    done = {step.step: step.rows_in for step in report.steps}
    assert 0 < done["relate"] < Store.open(store).count(CLAIMS)
    assert compute_table_digest(RELATIONS, Store.open(store).read(RELATIONS)) == before
