"""Dedupe: which claims are one, and what the step does to the table."""

import random
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.store import Store
from slowwave.tasks.dedupe.decide import Decision, Rules, decide
from slowwave.tasks.dedupe.dedupe import dedupe, unmerge
from slowwave.tasks.dedupe.normalise import normalise_claim
from tests import claim_rows
from tests.claim_rows import DAY
from tests.talk_files import session

RULES = Rules()


def claim_row(number: int, summary: str, **values: object) -> dict[str, object]:
    """A claim of one of four sessions, in no workspace, said `number` hours after DAY."""
    session = f"s{number % 4}"
    own = {"session_id": session, "workspace": None, "evidence_sessions": [session]}
    return claim_rows.claim_row(
        number, summary, **own | {"observed_at": DAY + timedelta(hours=number)} | values
    )


def compare(
    a: str, b: str, first: str | None = None, second: str | None = None
) -> Decision:
    """What is decided of two sentences, without vectors, and of who said them."""
    left, right = normalise_claim(a, first), normalise_claim(b, second)
    return decide(
        left, right, fuzz.ratio(left.sorted_words, right.sorted_words), None, RULES
    )


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CLAIMS.schema)


NONE = CLAIMS.make_empty_table()
TEXTS = (
    "The API runs on port 8080",
    "the API runs on port 8080.",
    "The API runs on port 9090",
    "The API is running on port 8080",
    "We use uv to install the dependencies",
    "We use uv for installing dependencies",
    "We do not use uv to install the dependencies",
    "Migrations run before each deployment",
    "Migrations run after each deployment",
)


def test_a_rule_told_again_in_another_frame_is_one_claim_and_other_rules_stay() -> None:
    told = [
        "Convention: all exports go through the index file.",
        "Remember: all exports go through the index file.",
    ]
    told += [
        "All exports go through the index file, please keep that.",
        "Every export goes through the index file.",
    ]
    apart = [
        "Some exports go through the index file.",
        "No export goes through the index file.",
    ]
    apart += ["All imports go through the index file."]
    rows = [claim_row(number, text) for number, text in enumerate([*told, *apart])]
    found = dedupe(table(*rows), NONE, RULES, "k").claims.to_pylist()
    first, *others = sorted(found, key=lambda row: row["claim_id"])
    assert [row["canonical_id"] for row in others] == [first["claim_id"]] * 3 + [
        None
    ] * 3


@pytest.mark.parametrize(
    ("a", "b", "rule"),
    [
        ("The API listens on port 8080", "The API listens on port 9090", "figures"),
        ("Deploys need a review", "Deploys don't need a review", "negation"),
        (
            "Pin torch to 2.13.0 in the project file",
            "Pin torch to 2.14.0 in the project file",
            "figures",
        ),
        (
            "The rename happens before the fsync",
            "The rename happens after the fsync",
            "opposites",
        ),
        (
            "Ada visited Lisbon on 2026-03-01",
            "Ada visited Lisbon on 2026-03-08",
            "dates",
        ),
        (
            "Locks live in slowwave/store/lock.py",
            "Locks live in slowwave/store/integrity/digest.py",
            "identifiers",
        ),
        (
            "Copy rows from staging to archive",
            "Copy rows from archive to staging",
            "order",
        ),
        (
            "A node raises the low battery alarm when the cell falls under 3.3 V",
            "I've changed it: a node raises the low battery alarm when the cell falls under 3.45 V; it was 3.3 V",
            "change",
        ),
    ],
)
def test_guard_names_what_differs(a: str, b: str, rule: str) -> None:
    decision = compare(a, b)
    assert (decision.same, decision.rule) == (False, rule)
    assert decision.reason


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("हम मीरा को रोज़ फोन करते हैं", "हम मोरा को रोज़ फोन करते हैं"),  # one vowel sign
        ("Wir nutzen Redis für den Cache", "Wir nutzen Redis nie für den Cache"),
        ("画像はS3に保存する", "画像はS3に保存しない"),
        ("ไม้อยู่ในห้องครัวของเรา", "ไหมอยู่ในห้องครัวของเรา"),
    ],
)
def test_in_other_languages_only_the_same_words_are_one_claim(a: str, b: str) -> None:
    assert not compare(a, b).same
    assert compare(a, f"{a}.").same


def test_first_person_claims_of_two_people_are_two() -> None:
    assert not compare("I like tea", "I like tea", "Ada", "Ben").same
    assert compare("I like tea", "I like tea.", "Ada", "ada").same


def test_repeat_in_another_session_becomes_evidence() -> None:
    out = dedupe(
        table(*(claim_row(n, t) for n, t in enumerate(TEXTS[:3]))), NONE, RULES, "k"
    )
    rows = {r["claim_id"]: r for r in out.claims.to_pylist()}
    assert rows["o001"]["status"] == "duplicate"
    assert rows["o001"]["canonical_id"] == "o000"
    assert rows["o000"]["evidence_sessions"] == ["s0", "s1"]
    assert rows["o002"]["status"] == "active"
    assert {r["dedupe_key"] for r in rows.values()} == {"k"}
    assert out.merges["rule"].to_pylist() == ["exact"]


def test_known_row_stays_canonical_and_is_returned_with_its_evidence() -> None:
    known = table(
        claim_row(5, TEXTS[0], dedupe_key="old"),
        claim_row(6, TEXTS[4], dedupe_key="old"),
    )
    out = dedupe(table(claim_row(0, TEXTS[1])), known, RULES, "k")
    rows = {r["claim_id"]: r for r in out.claims.to_pylist()}
    assert rows.keys() == {"o000", "o005"}
    assert rows["o000"]["canonical_id"] == "o005"
    assert rows["o005"]["evidence_sessions"] == ["s0", "s1"]
    assert rows["o005"]["valid_from"] == DAY


def test_coding_claims_of_two_workspaces_stay_apart() -> None:
    rows = table(
        claim_row(0, TEXTS[0], workspace="/a"),
        claim_row(1, TEXTS[0], workspace="/b"),
    )
    assert dedupe(rows, NONE, RULES, "k").merges.num_rows == 0
    rows = table(claim_row(0, TEXTS[0], workspace="/a"), claim_row(1, TEXTS[0]))
    assert dedupe(rows, NONE, RULES, "k").merges.num_rows == 1


@pytest.mark.parametrize("places", [("/ferry", None), (None, "/ferry")])
def test_a_claim_in_no_workspace_repeats_one_of_another_night_in_any(
    places: tuple[str | None, ...], tmp_path: Path
) -> None:
    options = Settings(
        store=tmp_path / "store", encoder="hash-384", observe={"pack": "coding"}
    )
    said = [
        ("user", "We decided that the deploy script needs Python 3.12 and uv."),
        ("assistant", "Noted."),
    ]
    for night, place in enumerate(places):
        run_night([session(tmp_path, f"s{night}", 2 + night, said, place)], options)
    statuses = Store.open(options.store).read(CLAIMS, ["status"])["status"].to_pylist()
    assert sorted(statuses) == ["active", "duplicate"]


def test_columns_of_others_are_untouched() -> None:
    pending = table(
        *(
            claim_row(n, t, vector=[0.0] * 383 + [1.0], keywords=["k"])
            for n, t in enumerate(TEXTS)
        )
    )
    out = dedupe(pending, NONE, RULES, "k").claims.sort_by("claim_id")
    mine = {
        "status",
        "reason",
        "canonical_id",
        "evidence_sessions",
        "valid_from",
        "dedupe_key",
    }
    theirs = [n for n in CLAIMS.schema.names if n not in mine]
    assert out.schema.equals(CLAIMS.schema)
    assert out.select(theirs).equals(pending.select(theirs))


def test_a_merge_taken_back_is_not_made_again() -> None:
    pending = table(claim_row(0, TEXTS[0]), claim_row(1, TEXTS[1]))
    out = dedupe(pending, NONE, RULES, "k")
    back = unmerge(out.claims, out.merges, out.merges["merge_id"][0].as_py())
    assert back.merges["undone"].to_pylist() == [True]
    assert (
        dedupe(pending, NONE, RULES, "k", undone={("o001", "o000")}).merges.num_rows
        == 0
    )
    with pytest.raises(KeyError, match="no merge"):
        unmerge(out.claims, MERGES.make_empty_table(), "none")


claims = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(["s0", "s1", "s2"])),
    min_size=1,
    max_size=9,
)


def pending_of(said: list[tuple[str, str]]) -> pa.Table:
    return table(
        *(
            claim_row(n, t, session_id=s, evidence_sessions=[s])
            for n, (t, s) in enumerate(said)
        )
    )


@given(claims, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_of_arrival_does_not_matter(
    said: list[tuple[str, str]], shuffle: random.Random
) -> None:
    pending = pending_of(said)
    shuffled = pending.take(shuffle.sample(range(pending.num_rows), pending.num_rows))
    one, two = dedupe(pending, NONE, RULES, "k"), dedupe(shuffled, NONE, RULES, "k")
    assert one.claims.equals(two.claims)
    assert one.merges.equals(two.merges)


@given(claims)
@settings(max_examples=60, deadline=None)
def test_second_run_finds_nothing_and_no_canonical_row_is_a_duplicate(
    said: list[tuple[str, str]],
) -> None:
    out = dedupe(pending_of(said), NONE, RULES, "k")
    rows = {r["claim_id"]: r for r in out.claims.to_pylist()}
    left = out.claims.filter(pa.compute.equal(out.claims["status"], "active"))
    assert dedupe(NONE, left, RULES, "k").merges.num_rows == 0
    assert all(
        rows[r["canonical_id"]]["status"] == "active"
        for r in rows.values()
        if r["canonical_id"]
    )
    assert dedupe(left, NONE, RULES, "k").merges.num_rows == 0


@given(claims)
@settings(max_examples=60, deadline=None)
def test_unmerge_of_every_merge_restores_every_row(said: list[tuple[str, str]]) -> None:
    pending = pending_of(said)
    out = dedupe(pending, NONE, RULES, "k")
    rows = {r["claim_id"]: r for r in out.claims.to_pylist()}
    for merge_id in out.merges["merge_id"].to_pylist():
        now = pa.Table.from_pylist(list(rows.values()), schema=CLAIMS.schema)
        for row in unmerge(now, out.merges, merge_id).claims.to_pylist():
            rows[row["claim_id"]] = row
    for before in pending.to_pylist():
        restored = {
            **rows[before["claim_id"]],
            "dedupe_key": None,
            "valid_from": None,
        }
        assert restored == before
