"""Summaries of a running conversation are the pyramid's own: sealed as they fill, the master always up to date."""

from slowwave.context.running import RunningSummary, build_conversation_shape
from slowwave.schemas.settings import PyramidSettings
from slowwave.text.pyramid import MASTER, Member, Pyramid, grow

SETTINGS = PyramidSettings()
TURNS = [
    ("Ada" if n % 2 else "Ben", f"Point {n}: station {n} reports the tide in metres every {n} minutes.")
    for n in range(60)
]


def running(turns: int) -> RunningSummary:
    one = RunningSummary("chat", SETTINGS)
    one.extend(TURNS[:turns])
    return one


def test_groups_are_sealed_by_six_and_by_three_up_to_three_levels() -> None:
    tiers = running(60).pyramid.tiers  # 60 turns: 10 groups of 6, 3 of 3 groups, 1 of 3 of those
    assert {tier: len(groups) for tier, groups in tiers.items()} == {0: 10, 1: 3, 2: 1}


def test_turn_by_turn_gives_what_the_night_makes_of_the_same_turns() -> None:
    one = running(40)
    members = [Member(f"chat-{n}", text, speaker=speaker) for n, (speaker, text) in enumerate(TURNS[:40])]
    made = grow(Pyramid(), members, build_conversation_shape(SETTINGS), "session", "chat")
    sealed = {(g.tier, g.seq): g.text for g in made if g.tier != MASTER}
    assert {(g.tier, g.seq): g.text for groups in one.pyramid.tiers.values() for g in groups} == sealed
    assert one.pyramid.master is not None
    assert one.pyramid.master.text == made[-1].text


def test_the_master_follows_each_turn_and_sealed_groups_never_change() -> None:
    one = running(6)
    first = one.pyramid.tiers[0][0]
    before = one.pyramid.master
    one.extend([("Ada", "Everything moves to Lisbon in May, and the Porto gauge is given up.")])
    assert one.pyramid.tiers[0][0] == first
    assert one.pyramid.master != before


def test_every_sealed_turn_stands_under_one_summary() -> None:
    one = running(23)
    spans = [(summary.tier, summary.first, summary.last) for summary in one.summaries]
    assert spans == [(MASTER, 1, 23), (1, 1, 18)]  # three groups under one
    assert [line.partition(": ")[0] for line in one.render_summary().split("\n")] == [
        "So far, turns 1 to 23",
        "Level 2, turns 1 to 18",
    ]
    more = [(summary.tier, summary.turns) for summary in running(40).summaries[1:]]
    assert more == [(1, "turns 1 to 18"), (1, "turns 19 to 36")]
    assert [(one.tier, one.turns) for one in running(60).summaries] == [
        (MASTER, "turns 1 to 60"),
        (2, "turns 1 to 54"),
        (0, "turns 55 to 60"),
    ]


def test_nothing_said_gives_nothing() -> None:
    one = RunningSummary("chat", SETTINGS)
    assert (one.render_summary(), one.pyramid.master, one.summaries) == ("", None, [])
