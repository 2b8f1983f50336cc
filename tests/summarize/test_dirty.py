"""Members that went: their group keeps its place and the rest of its members, and only what lies above is made anew."""

import random
from collections.abc import MutableSequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, SUMMARIES, TABLES
from slowwave.store import Store
from slowwave.tasks.summarize.mend import mend
from slowwave.tasks.topics import cluster
from slowwave.tasks.topics.cluster import TopicLimits
from slowwave.text.pyramid import (
    Group,
    GrowthResult,
    Member,
    Pyramid,
    Shape,
    grow,
    grow_by_tier,
    grow_many,
)
from tests.talk_files import chat

START = datetime(2026, 11, 1, tzinfo=UTC)
SHAPE = Shape(first=3, above=3)


def members(numbers: list[int]) -> list[Member]:
    return [
        Member(
            f"m{n}",
            f"The heron number {n} stood at the pond.",
            START + timedelta(minutes=n),
        )
        for n in numbers
    ]


def night(
    pyramid: Pyramid, live: list[int], shape: Shape = SHAPE
) -> tuple[list[Group], list[str]]:
    """A night over the live members: what it writes and what it deletes."""
    before = ids(pyramid)
    mend(pyramid, members(live), "topic", "t")
    made = grow(pyramid, members(live), shape, "topic", "t")
    return made, sorted(before - ids(pyramid))


def ids(pyramid: Pyramid) -> set[str]:
    return {
        g.compute_id("topic", "t") for groups in pyramid.tiers.values() for g in groups
    }


def copy(pyramid: Pyramid) -> Pyramid:
    return Pyramid({tier: list(groups) for tier, groups in pyramid.tiers.items()})


steps = st.lists(
    st.tuples(st.integers(0, 8), st.lists(st.integers(0, 60), max_size=4)),
    min_size=1,
    max_size=6,
)


class LosesTheLast(random.Random):
    """An order of arrival in which 5, 6 and 7 are the last group of the first night, and two wait."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        first = [1, 2, 3, 5, 6, 7, 50, 51, 52, 53]
        x[:] = first + [n for n in x if n not in first]


@examples(max_examples=80, deadline=None)
@example(
    nights=[(8, [0]), (2, [5, 6, 7])], chance=LosesTheLast()
)  # its place stays empty
@given(steps, st.randoms(use_true_random=False))
def test_any_arrivals_and_losses_hold_each_live_member_at_most_once(
    nights: list[tuple[int, list[int]]], chance: random.Random
) -> None:
    pyramid, order, lost, total = Pyramid(), list(range(61)), set[int](), 0
    chance.shuffle(order)  # any order of arrival
    for arriving, going in nights:
        total += arriving
        before = {g.seq: g for g in pyramid.tiers.get(0, [])}
        live = sorted(n for n in order[:total] if n not in (lost := lost | set(going)))
        night(pyramid, live)
        held = [m for g in pyramid.tiers.get(0, []) for m in g.members]
        assert len(held) == len(set(held))
        assert set(held) <= {f"m{n}" for n in live}
        assert len(live) - len(held) < SHAPE.first
        after = {g.seq: g for g in pyramid.tiers.get(0, [])}
        for seq, group in before.items():  # sealed: members only ever go, in order
            left = tuple(m for m in group.members if int(m[1:]) not in lost)
            assert (after[seq].members if seq in after else ()) == left
        for tier in range(1, max(pyramid.tiers, default=0) + 1):
            below = {g.compute_id("topic", "t") for g in pyramid.tiers[tier - 1]}
            assert {m for g in pyramid.tiers[tier] for m in g.members} <= below
        assert night(pyramid, live) == ([], [])  # a second night finds nothing to do


@examples(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, 60), max_size=6)),
        min_size=1,
        max_size=6,
    )
)
def test_a_pyramid_is_settled_exactly_if_a_night_would_change_nothing(
    nights: list[tuple[int, list[int]]],
) -> None:
    pyramid, lost, total = Pyramid(), set[int](), 0
    for arriving, going in nights:
        total += arriving
        lost |= set(going)
        live = [n for n in range(total) if n not in lost]
        level = [f"m{n}" for n in live]
        settled = pyramid.is_settled("t", level, 3)
        assert settled == (night(pyramid, live) == ([], []))
        assert pyramid.is_settled("t", level, 3)
        assert not pyramid.is_settled("t", [*level, "new", "newer", "newest"], 3)
        for _, groups in sorted(pyramid.tiers.items()):
            held = [m for g in groups for m in g.members]
            assert len(held) == len(set(held))
            assert set(held) <= set(level)
            assert not any(g.stale for g in groups)
            assert len(level) - len(held) < 3  # those in no group wait for the next one
            level = [g.compute_id("topic", "t") for g in groups]


def test_a_topic_that_lost_a_group_and_what_stood_above_it_is_not_settled() -> None:
    pyramid = Pyramid()
    night(pyramid, list(range(12)))
    assert pyramid.is_settled("t", [f"m{n}" for n in range(12)], 3)
    pyramid.tiers = {0: pyramid.tiers[0][1:], 1: []}  # as forgetting leaves it
    live = list(range(3, 12))
    assert not pyramid.is_settled("t", [f"m{n}" for n in live], 3)
    made, _ = night(pyramid, live)
    assert [group.tier for group in made] == [1]
    assert pyramid.is_settled("t", [f"m{n}" for n in live], 3)


def test_groups_that_lost_members_stay_short_and_late_members_open_the_next_one() -> (
    None
):
    pyramid = Pyramid()
    night(pyramid, list(range(9)))
    # Of three groups 2, 2 and 0 members are left; two wait for a third.
    late = [
        0,
        1,
        3,
        4,
        9,
        10,
    ]
    night(pyramid, late)
    assert [g.members for g in pyramid.tiers[0]] == [("m0", "m1"), ("m3", "m4")]
    assert [g.members for g in pyramid.tiers[1]] == [
        tuple(g.compute_id("topic", "t") for g in pyramid.tiers[0])
    ]
    kept = list(pyramid.tiers[0])
    made, gone = night(pyramid, [*late, 11])
    # Seq 2 stays empty.
    assert [(g.tier, g.seq, g.members) for g in made] == [(0, 3, ("m9", "m10", "m11"))]
    assert (pyramid.tiers[0][:2], gone) == (kept, [])


def test_words_that_cannot_be_written_again_stand_stale_and_are_asked_for_until_they_can() -> (
    None
):
    pyramid = Pyramid()
    night(pyramid, list(range(9)))
    live = members([n for n in range(9) if n != 4])

    def grow_with(text: str | None) -> GrowthResult:
        mend(pyramid, live, "topic", "t")
        return grow_many(
            [grow_by_tier(pyramid, live, SHAPE, "topic", "t")],
            lambda drafts: [text] * len(drafts),
        )[0]

    said = [pyramid.tiers[0][1].text, pyramid.tiers[1][0].text]
    # A tier above waits for the one below.
    assert grow_with(None) == GrowthResult([], complete=True)
    stale = [g for tier in (0, 1) for g in pyramid.tiers[tier] if g.stale]
    assert [(g.tier, g.seq, g.text) for g in stale] == [
        (0, 1, said[0]),
        (1, 0, said[1]),
    ]
    assert stale[0].members == ("m3", "m5")
    assert [(g.tier, g.text, g.stale) for g in grow_with("anew").groups] == [
        (0, "anew", False),
        (1, "anew", False),
    ]
    assert grow_with("once more").groups == []


@examples(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 26), min_size=1, max_size=6))
def test_a_run_killed_between_writing_and_deleting_is_mended(going: set[int]) -> None:
    pyramid = Pyramid()
    night(pyramid, list(range(27)))
    killed, live = copy(pyramid), [n for n in range(27) if n not in going]
    made, _ = night(pyramid, live)
    for group in made:  # written beside the old ones, which are still there
        killed.tiers[group.tier].append(group)
    _, gone = night(killed, live)
    assert ids(killed) == ids(pyramid)
    assert not set(gone) & ids(killed)


TEXTS = [f"I bought {n} pounds of {what} at the market in Porto." for n, what in enumerate(
    ["apples", "pears", "plums", "figs", "quinces", "cherries", "almonds", "olives"], 2)]  # fmt: skip


def test_a_message_taken_back_leaves_the_sessions_summaries(tmp_path: Path) -> None:
    options = Settings(
        store=tmp_path / "s", encoder="hash-384", pyramid={"n_sum": 2, "n_sum_sum": 2}
    )
    run_night([chat(tmp_path, "a", 1, TEXTS)], options)
    rows = Store.open(options.store).read(SUMMARIES).to_pylist()
    before = {(r["tier"], r["seq"]): r for r in rows if r["scope"] == "session"}
    run_night(
        [
            chat(
                tmp_path,
                "a",
                1,
                [*TEXTS[:2], "I sold all my plums to the baker.", *TEXTS[3:]],
            )
        ],
        options,
    )
    rows = Store.open(options.store).read(SUMMARIES).to_pylist()
    after = {(r["tier"], r["seq"]): r for r in rows if r["scope"] == "session"}
    assert len(rows) == len({r["summary_id"] for r in rows})
    assert len(after[0, 1]["member_ids"]) == 1  # of plums and figs, figs are left
    assert not any("plums at the market" in r["text"] for r in after.values())
    same = {place for place, row in before.items() if after.get(place) == row}
    assert {(0, 0), (0, 2), (0, 3), (1, 1)} <= same
    assert after[1, 0]["member_hash"] != before[1, 0]["member_hash"]


def test_a_claim_that_is_retired_leaves_its_topics_summaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(merge_at=-1, fold_at=-1))
    options = Settings(store=tmp_path / "s", encoder="hash-384", pyramid={"step": 3})
    run_night([chat(tmp_path, "a", 1, TEXTS)], options)
    store = Store.open(options.store)
    group = next(
        r
        for r in store.read(SUMMARIES).to_pylist()
        if r["scope"] == "topic" and r["tier"] == 0
    )
    retired = store.read_ids(CLAIMS, group["member_ids"][:1]).to_pylist()[0]
    row = {**retired, "status": "superseded", "reason": "changed by hand"}
    store.merge(CLAIMS, pa.Table.from_pylist([row], schema=CLAIMS.schema))
    run_night([tmp_path / "a.jsonl"], options)
    mended = [
        r
        for r in store.read(SUMMARIES).to_pylist()
        if r["scope"] == "topic" and r["seq"] == group["seq"]
    ]
    (whole,) = [r["member_ids"] for r in mended if r["tier"] == 0]
    # Shorter: one that waits for a group does not take the place.
    assert whole == group["member_ids"][1:]
    assert retired["summary"] not in mended[0]["text"]
    versions = store.read_versions(TABLES.values())
    run_night([tmp_path / "a.jsonl"], options)
    assert store.read_versions(TABLES.values()) == versions
