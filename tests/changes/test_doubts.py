"""A later claim that may change an earlier one, through whole nights: both stand, and recall tells of both."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.recall.views.show import show
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest
from slowwave.tasks.changes.task import find_settled_doubts, read_scope
from tests.claim_rows import claim_row
from tests.command_line import typed
from tests.talk_files import session

FIRST = (
    "In Marlow against Denholm the hearing is listed for 3 June in room 4 at Reading.",
    "The bundle is due 14 days before a hearing.",
    "Large sourdough loaves cost 4.20 at the bakery next door.",
    "The office is closed on Fridays.",
    "My sister plays the viola in Leeds.",
    "We take the train at 7:40 from Paddington.",
    "Invoices are sent by post to clients over seventy.",
    "The kitchen will be painted sage green.",
)
LATER = (
    "The new notice for Marlow against Denholm: hearing listed for 17 July, room 2.",
)
ASKED = "What do we know about Marlow against Denholm?"


def answered(said: tuple[str, ...]) -> list[tuple[str, str]]:
    """What a person said, each noted by the assistant."""
    return [turn for text in said for turn in (("user", text), ("assistant", "Noted."))]


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doubts")
    nights = Settings(store=folder / "store")
    run_night([session(folder, "a", 2, answered(FIRST), "law")], nights)
    run_night([session(folder, "b", 9, answered(LATER), "law")], nights)
    return folder


@pytest.fixture
def doubting(two_nights: Path, tmp_path: Path) -> Settings:
    shutil.copytree(two_nights, tmp_path, dirs_exist_ok=True)
    return Settings(store=tmp_path / "store")


def test_a_doubt_leaves_both_standing_and_is_told(doubting: Settings) -> None:
    store = Store.open(doubting.store)
    doubt = next(m for m in store.read(MERGES).to_pylist() if m["kind"] == "doubt")
    claims = {row["claim_id"]: row for row in store.read(CLAIMS).to_pylist()}
    assert "3 June" in claims[doubt["from_id"]]["summary"]
    assert "17 July" in claims[doubt["into_id"]]["summary"]
    assert {claims[doubt[name]]["status"] for name in ("from_id", "into_id")} == {
        "active"
    }

    hits = Memory.open(doubting.store).recall(ASKED, kinds="claim")
    told = {hit.id: hit for hit in hits}
    assert told[doubt["from_id"]].perhaps_superseded_by == doubt["into_id"]
    assert told[doubt["from_id"]].status == "active"


def test_who_shows_a_doubted_claim_sees_the_doubt(doubting: Settings) -> None:
    store = Store.open(doubting.store)
    doubt = next(m for m in store.read(MERGES).to_pylist() if m["kind"] == "doubt")
    earlier = show(Memory.open(doubting.store).get_view(), doubt["from_id"]).node
    assert earlier.facts["perhaps_superseded_by"] == doubt["into_id"]
    assert "17 July" in earlier.facts["later"]
    shown = typed("show", doubt["from_id"], "--store", str(doubting.store))
    first, *rest = shown.output.splitlines()
    assert "(perhaps changed)" in first
    assert any(line.startswith("  later: (perhaps until ") for line in rest)
    later = show(Memory.open(doubting.store).get_view(), doubt["into_id"]).node
    assert "later" not in later.facts


def test_what_is_doubted_is_less_sure_and_as_much_so_wherever_it_is_told(
    doubting: Settings,
) -> None:
    memory = Memory.open(doubting.store)
    listed = {one.id: one.confidence for one in memory.claims(limit=None)}
    hits = memory.recall(ASKED, 10, "claim", everything=True)
    assert {hit.id: hit.confidence for hit in hits} == {
        hit.id: listed[hit.id] for hit in hits
    }
    doubted = [hit.confidence for hit in hits if hit.perhaps_superseded_by]
    assert doubted
    assert max(doubted) < min(
        hit.confidence for hit in hits if not hit.perhaps_superseded_by
    )


def test_a_doubt_hides_nothing_and_tells_the_later_first(doubting: Settings) -> None:
    told = Memory.open(doubting.store).recall(ASKED)
    doubt = next(
        m
        for m in Store.open(doubting.store).read(MERGES).to_pylist()
        if m["kind"] == "doubt"
    )
    run_exclude([doubt["merge_id"]], "wrong", doubting)
    without = Memory.open(doubting.store).recall(ASKED)
    assert {h.id for h in told} == {h.id for h in without}
    assert [h.score for h in told] == [h.score for h in without]
    claims = {
        claim.id: claim.summary
        for claim in Memory.open(doubting.store).claims(limit=None)
    }
    texts = [h.claim for h in told]
    assert texts.index(claims[doubt["into_id"]]) < texts.index(claims[doubt["from_id"]])


def test_the_later_comes_first_though_it_lacks_a_word_of_the_question(
    doubting: Settings,
) -> None:
    found = [
        hit.text
        for hit in Memory.open(doubting.store).recall("Is a hearing listed at Reading?")
    ]
    assert found.index(LATER[0]) < found.index(FIRST[0])


def test_what_was_not_found_is_not_brought_up_by_a_doubt(doubting: Settings) -> None:
    hits = Memory.open(doubting.store).recall(
        "Is a hearing listed at Reading?", until="2026-03-05"
    )
    assert "Reading" in hits[0].text
    assert any(hit.perhaps_superseded_by is not None for hit in hits)
    assert not any(
        "17 July" in hit.text.partition(" (perhaps until ")[0] for hit in hits
    )


def test_before_the_later_was_said_there_is_no_doubt(doubting: Settings) -> None:
    hits = Memory.open(doubting.store).recall(ASKED, as_of="2026-03-05")
    assert hits
    assert {hit.perhaps_superseded_by for hit in hits} == {None}


def test_a_doubt_is_listed_told_in_the_terminal_and_can_be_taken_back(
    doubting: Settings,
) -> None:
    listed = typed("inspect", "merges", "--store", doubting.store, "--json")
    row = next(r for r in json.loads(listed.output) if r["kind"] == "doubt")
    assert row["state"] == "in force"
    shown = typed("recall", ASKED, "--store", doubting.store)
    assert f"perhaps changed since by “{row['into']}”, 9 Mar 2026" in shown.output

    run_exclude([row["merge_id"]], "wrong", doubting)
    undone = [
        m["undone"]
        for m in Store.open(doubting.store).read(MERGES).to_pylist()
        if m["kind"] == "doubt"
    ]
    assert undone == [True]
    hits = Memory.open(doubting.store).recall(ASKED, kinds="claim")
    assert {hit.perhaps_superseded_by for hit in hits} == {None}


def test_changes_are_listed_with_how_many_to_expect_wrong(doubting: Settings) -> None:
    listed = typed("inspect", "changes", "--store", doubting.store, "--json")
    rows = json.loads(listed.output)
    doubt = next(row for row in rows if row["kind"] == "doubt")
    wrong = sum(1 - row["scores"]["likely"] for row in rows if row["kind"] == "doubt")
    shown = typed("inspect", "changes", "--store", doubting.store).output
    assert doubt["decision"] == "perhaps changed"
    assert f"{doubt['scores']['likely']:.0%} " in shown
    assert f"perhaps changed (about {wrong:.1f} expected to be wrong)." in " ".join(
        shown.split()
    )
    run_exclude([doubt["merge_id"]], "wrong", doubting)
    left = typed("inspect", "changes", "--store", doubting.store, "--json")
    assert doubt["merge_id"] not in [row["merge_id"] for row in json.loads(left.output)]


def test_a_doubt_that_is_not_found_again_is_gone_and_one_taken_back_stays(
    doubting: Settings,
) -> None:
    store = Store.open(doubting.store)
    doubt = next(m for m in store.read(MERGES).to_pylist() if m["kind"] == "doubt")
    assert find_settled_doubts(store, store.read(MERGES), set()) == []
    assert find_settled_doubts(store, MERGES.make_empty_table(), set()) == [
        doubt["merge_id"]
    ]
    assert (
        find_settled_doubts(store, MERGES.make_empty_table(), {doubt["from_id"]}) == []
    )
    run_exclude([doubt["merge_id"]], "wrong", doubting)
    assert (
        find_settled_doubts(
            Store.open(doubting.store), MERGES.make_empty_table(), set()
        )
        == []
    )


def test_news_of_another_workspace_leaves_a_doubt_as_it_is(
    doubting: Settings, tmp_path: Path
) -> None:
    before = Store.open(doubting.store).read(MERGES).sort_by("merge_id")
    news = answered(
        ("The deploy script needs Python 3.12.", "The staging host is called heron.")
    )
    report = run_night([session(tmp_path, "c", 12, news, "heron")], doubting)
    assert next(step.rows_in for step in report.steps if step.step == "supersede") > 0
    assert Store.open(doubting.store).read(MERGES).sort_by("merge_id").equals(before)


def test_a_new_claim_is_judged_among_those_of_its_workspace_and_what_is_tied_to_them(
    tmp_path: Path,
) -> None:
    everyday = {"workspace": "/home", "pack": "personal"}
    rows = [
        claim_row(1, "The port is 8080"),
        claim_row(2, "The port is 9090"),
        claim_row(3, "The port was 80", status="superseded", superseded_by="o004"),
        claim_row(4, "The port is 81", workspace="/other"),
        claim_row(
            5,
            "The port is 81 again",
            workspace="/third",
            status="duplicate",
            canonical_id="o004",
        ),
        claim_row(6, "Linked with the first", workspace="/fourth"),
        claim_row(7, "Of no concern", workspace="/fifth"),
        claim_row(8, "Said nowhere in particular", workspace=None),
        claim_row(9, "Said at home", **everyday),
        claim_row(10, "Said at another home", **everyday | {"workspace": "/away"}),
        claim_row(11, "Said of work in between", session_id="s9", workspace="/home"),
        claim_row(
            12,
            "Said in one session with another project",
            session_id="s7",
            workspace="/sixth",
        ),
    ]
    store = Store.open(tmp_path, create=True)
    store.append(CLAIMS, pa.Table.from_pylist(rows, schema=CLAIMS.schema))

    def read(fresh: str) -> tuple[list[str], list[str]]:
        claims, elsewhere = read_scope(store, {fresh}, {("o006", "o001"): 0.5})
        return sorted(claims["claim_id"].to_pylist()), sorted(elsewhere)

    assert read("o002") == (
        [f"o00{n}" for n in (1, 2, 3, 4, 5, 6)],
        [f"o{n:03}" for n in (7, 8, 9, 10, 11, 12)],
    )
    assert read("o007")[0] == ["o007", "o012"]
    assert read("o008")[0] == ["o008"]
    assert read("o010")[0] == read("o011")[0] == ["o009", "o010", "o011"]
    assert read("gone")[0] == []


def test_a_night_judges_what_is_new_and_a_full_pass_finds_the_same(
    doubting: Settings,
) -> None:
    store = Store.open(doubting.store)

    def judge(report: RunReport) -> tuple[int, dict[str, str]]:
        rows = next(step.rows_in for step in report.steps if step.step == "supersede")
        return rows, {
            table.name: compute_table_digest(table, store.read(table))
            for table in (MERGES, CLAIMS)
        }

    third = session(
        doubting.store.parent,
        "c",
        16,
        answered(("Large sourdough loaves cost 4.80 from now on.",)),
        "law",
    )
    few, found = judge(run_night([third], doubting))
    every, again = judge(run_reprocess("supersede", Selection(), doubting))
    assert (few, every) == (1, 9)  # what is retired stays so
    assert again == found
    assert store.count(MERGES) == 2


def test_a_night_without_news_raises_no_doubt_again(
    doubting: Settings, two_nights: Path
) -> None:
    before = Store.open(doubting.store).read_versions([MERGES, CLAIMS])
    assert run_night([two_nights / "a.jsonl"], doubting).release is None
    assert Store.open(doubting.store).read_versions([MERGES, CLAIMS]) == before
