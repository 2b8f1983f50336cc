"""The pyramid: what is sealed, when, and that sealed groups never move."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.text.pyramid import (
    MASTER,
    Member,
    Pyramid,
    Shape,
    grow,
    split_full_groups,
)
from slowwave.text.summarise import (
    Utterance,
    build_extractive_summary,
    end_sentence,
    truncate_words,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
TOPIC = Shape(first=10, above=10)
SESSION = Shape(first=6, above=3, tiers=3, window=3, master=True)


def members(numbers: range | list[int]) -> list[Member]:
    return [
        Member(
            f"m{n}",
            f"The heron number {n} stood at the pond.",
            START + timedelta(minutes=n),
        )
        for n in numbers
    ]


def grown(*nights: range, shape: Shape = TOPIC) -> Pyramid:
    """A pyramid after nights that each saw all members so far."""
    pyramid, seen = Pyramid(), []
    for night in nights:
        seen = sorted([*seen, *members(night)], key=lambda m: m.at or START)
        grow(pyramid, seen, shape, "topic", "t")
    return pyramid


def sizes(pyramid: Pyramid) -> dict[int, int]:
    return {tier: len(groups) for tier, groups in pyramid.tiers.items() if groups}


def test_groups_of_ten_and_a_group_of_ten_groups() -> None:
    assert sizes(grown(range(9))) == {}
    assert sizes(grown(range(25))) == {0: 2}
    assert sizes(grown(range(105))) == {0: 10, 1: 1}


def test_session_levels_have_a_master_over_what_no_group_holds() -> None:
    # 6 messages a summary, 3 summaries a summary: 40 messages make 6 + 2; the master holds 2 tops and 4 messages.
    pyramid = Pyramid()
    made = grow(pyramid, members(range(40)), SESSION, "session", "s")
    master = made[-1]
    assert sizes(pyramid) == {0: 6, 1: 2}
    assert (master.tier, master.sealed, len(master.members)) == (MASTER, False, 6)
    assert master.members[2:] == ("m36", "m37", "m38", "m39")


def test_session_levels_stop_at_three() -> None:
    pyramid = Pyramid()
    grow(pyramid, members(range(6 * 3 * 3 * 3)), SESSION, "session", "s")
    assert sizes(pyramid) == {0: 27, 1: 9, 2: 3}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(2, 12))
def test_any_nights_hold_each_member_once_and_never_move_a_group(
    nights: list[int], step: int
) -> None:
    pyramid, total, before = Pyramid(), 0, []
    for count in nights:
        total += count
        grow(
            pyramid, members(range(total)), Shape(first=step, above=step), "topic", "t"
        )
        assert pyramid.tiers[0][: len(before)] == before
        before = list(pyramid.tiers[0])
    held = [m for group in pyramid.tiers[0] for m in group.members]
    assert len(held) == len(set(held)) == total // step * step
    # The same members in one night seal the same groups.
    assert [g.members for g in pyramid.tiers[0]] == [
        tuple(m.id for m in group)
        for group in split_full_groups(members(range(total)), step)
    ]


def test_a_summary_is_sentences_of_its_parts_within_its_words() -> None:
    parts = [
        Utterance("We moved the gauge readings to PostgreSQL. It took an hour.", "Ada"),
        Utterance("The gauge readings in PostgreSQL are backed up nightly.", "Ben"),
        Utterance("Lunch was soup.", "Ada"),
    ]
    text = build_extractive_summary(parts, 16)
    assert text == (
        "Ada: We moved the gauge readings to PostgreSQL. Ben: The gauge readings in PostgreSQL are backed up nightly."
    )
    # And the speaker's name.
    assert len(build_extractive_summary(parts, 10).split()) <= 11


def test_a_summary_of_one_endless_sentence_is_cut_at_a_word() -> None:
    text = build_extractive_summary([Utterance("word " * 200)], 12)
    assert text == "word " * 12 + "…"


def test_a_summary_of_nothing_is_empty() -> None:
    assert build_extractive_summary([], 20) == ""
    assert (
        build_extractive_summary([Utterance("the and of it")], 20) == "the and of it."
    )


def test_groups_are_full_by_weight_and_a_short_session_has_none() -> None:
    said = [
        Member(f"m{n}", f"Word {n}.", weight=weight)
        for n, weight in enumerate([5, 5, 30, 2, 2, 2, 9])
    ]
    assert [[m.id for m in group] for group in split_full_groups(said, 10)] == [
        ["m0", "m1"], ["m2"], ["m3", "m4", "m5", "m6"],
    ]  # fmt: skip
    shape = Shape(first=10, above=9, master=True, min_groups=3)
    short, whole = Pyramid(), Pyramid()
    assert [
        (group.tier, len(group.members))
        for group in grow(short, said[:4], shape, "session", "s")
    ] == [(MASTER, 4)]
    assert [(group.tier, len(group.members)) for group in grow(whole, said, shape, "session", "s")] == [
        (0, 2), (0, 1), (0, 4), (MASTER, 3),
    ]  # fmt: skip


def test_words_without_spaces_are_counted_and_cut() -> None:
    # 发票|我们|统一|保存|七年，到期|后: what stands around a comma counts as one
    assert (
        truncate_words("发票我们统一保存七年，到期后自动删除。", 5)
        == "发票我们统一保存七年，到期 …"
    )
    assert len(truncate_words("画像を保存" * 20_000, 60)) < 200
    said = [Utterance("发票我们统一保存七年，到期后自动删除。图片放在云盘。")]
    assert build_extractive_summary(said, 6) == "图片放在云盘。"  # the other has nine


def test_a_sentence_that_has_ended_gets_no_other_mark() -> None:
    assert [end_sentence(text) for text in ("रखते हैं।", "删除。", "Done")] == [
        *("रखते हैं।", "删除。", "Done.")
    ]
