"""Which hit comes first, as a table: rows best first, and the order in which they are shown."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from slowwave.recall.order import order_by_change
from slowwave.recall.query import build_query
from slowwave.recall.release.view import Chains
from slowwave.recall.retrieve.candidates import Candidate

PORT, NOW = "The API listens on port 8080.", "The API listens on port 9090 now."
ASKED = "On which port does the API listen?"


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


def said(
    key: str, text: str, at: int, chain: str | None = None, since: int | None = None, likely: float | None = None,
    workspace: str = "tide",
) -> Candidate:  # fmt: skip
    changed = {
        "chain_id": chain,
        "chain_at": since and day(since),
        "chain_likely": likely,
    }
    row = {
        "text": text,
        "ts": day(at),
        "workspace": workspace,
        "speaker": None,
        **changed,
    }
    return Candidate("message", key, row, 1.0, 0.9)


END = {
    "claim_id": "end", "session_id": "s", "summary": "API on port 9090", "observed_at": day(5),
    "utc_offset": None,
    "status": "active", "chain_id": "end", "chain_at": None, "chain_likely": None, "message_ids": ["new"],
}  # fmt: skip
VIEW: Any = SimpleNamespace(
    chains=Chains({"end": END}, {"end": [END]}), find_offsets=lambda table, ids: ()
)

OLD, NEW = said("old", PORT, 2, "end", 5, 0.6), said("new", "It is 9090.", 5, "end")
FAINT, GONE = (said("old", PORT, 2, "end", 5, likely) for likely in (0.3, 1.0))
TEA = said("tea", "Tea is served at five.", 3)


@pytest.mark.parametrize(
    ("found", "more", "shown"),
    [
        ([TEA, OLD], {}, "tea old"),  # nothing newer was found: as they came
        ([OLD, TEA, NEW], {}, "new old tea"),  # in the place of the best of the chain
        ([TEA, NEW, OLD], {}, "tea new old"),
        (
            [said("end", PORT, 2, "end"), said("old", "Port 7070.", 4, "end", 5, 0.6)],
            {},
            "end old",
        ),  # said once more
        (
            [said("old", NOW, 4, "end", 5, 1.0), TEA, said("end", PORT, 2, "end")],
            {},
            "end tea old",
        ),
        ([GONE, TEA, NEW], {}, "new tea old"),  # what is superseded stands last
        ([GONE, TEA], {}, "tea old"),
        ([GONE, NEW], {"as_of": "2026-03-04"}, "old new"),  # not yet
        (
            [FAINT, said("new", NOW, 5, "end")],
            {},
            "new old",
        ),  # less likely: it has the words asked for
        (
            [FAINT, said("new", "Tea at 9090.", 5, "end")],
            {},
            "old new",
        ),  # it lacks them
        (
            [said("old", PORT, 2), said("new", NOW, 5)],
            {},
            "new old",
        ),  # one sentence, another value
        ([said("old", PORT, 5), said("new", NOW, 2)], {}, "old new"),  # said before
        ([said("old", PORT, 2), said("new", NOW, 5, workspace="ferry")], {}, "old new"),
        (
            [said("old", PORT, 2), said("new", "The tide listens on port 9090.", 5)],
            {},
            "old new",
        ),  # of no API
        (
            [
                said("old", PORT, 2),
                said("new", "The API, since the proxy ends TLS: 9090.", 5),
            ],
            {},
            "old new",
        ),
        (
            [said("old", PORT, 2), said("new", f"Since the proxy ends TLS: {NOW}", 5)],
            {},
            "new old",
        ),  # another figure
        (
            [said("old", PORT, 2), said("new", f"Since the proxy ends TLS: {PORT}", 5)],
            {},
            "old new",
        ),  # the same
        ([said("ask", ASKED, 2), TEA], {}, "tea ask"),  # the query itself tells nothing
        (
            [said("ask", f"I moved it. {ASKED}", 2), TEA],
            {},
            "ask tea",
        ),  # no guess at what only asks moves a row
        ([said("ask", ASKED, 2), GONE], {}, "ask old"),
        (
            [OLD, *[said(f"t{n}", "Tea.", 3) for n in range(6)], NEW],
            {},
            "old t0 new t1 t2 t3 t4 t5",
        ),  # five places up at most
        (
            [GONE, *[said(f"t{n}", "Tea.", 3) for n in range(6)], NEW],
            {},
            "new t0 t1 t2 t3 t4 t5 old",
        ),  # surely changed
        (
            [OLD, *[said(f"t{n}", "Tea.", 3) for n in range(9)], NEW],
            {},
            "old t0 t1 t2 t3 t4 t5 t6 t7 t8 new",
        ),
    ],
)
def test_rows_stand_in_order_and_keep_their_scores(
    found: list[Candidate], more: dict[str, str], shown: str
) -> None:
    ordered = order_by_change(VIEW, found, build_query(ASKED, 5, "message", **more))  # type: ignore[arg-type]
    assert [one.id for one in ordered] == shown.split()
    assert {one.id: one.score for one in ordered} == {
        one.id: one.score for one in found
    }


def test_of_a_time_that_is_named_what_was_said_then_stays_first() -> None:
    query = build_query(
        "On which port did the API listen on 2 March 2026?", 5, "message"
    )
    assert [one.id for one in order_by_change(VIEW, [NEW, OLD], query)] == [
        "old",
        "new",
    ]


def test_rows_are_marked_with_what_changed_them() -> None:
    marks = "status", "superseded_by", "perhaps_superseded_by"
    rows = {"gone": GONE, "linked": OLD, "faint": FAINT, "holds": NEW}
    told = {
        key: order_by_change(VIEW, [row], build_query(ASKED, 5, "message"))[0].row
        for key, row in rows.items()
    }
    assert {name: tuple(row[mark] for mark in marks) for name, row in told.items()} == {
        "gone": ("superseded", "end", None),
        "linked": ("active", None, "end"),
        "faint": ("active", None, None),
        "holds": ("active", None, None),
    }
    # No word of it was changed.
    (row,) = order_by_change(VIEW, [OLD], build_query("When is tea?", 5, "message"))
    assert row.row["perhaps_superseded_by"] is None
