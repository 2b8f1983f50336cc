"""A decision amended in a later session, through a whole night: what recall says now, and of then."""

import json
import re
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Kind
from slowwave.recall.release.view import mark_changes
from slowwave.recall.views.show import show
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.store import Store
from slowwave.tasks.changes.outcome import unsupersede
from slowwave.text.fence import fence_block
from tests.command_line import typed
from tests.talk_files import session

FIRST = [
    ("user", "Decision: the booking API listens on port 7070."),
    ("assistant", "Done, the booking API is on port 7070."),
    ("user", "Backups of the bookings are kept for 30 days."),
    ("assistant", "Noted."),
]
LATER = [
    ("user", "Which port does the booking API listen on?"),
    ("assistant", "Let me look it up."),
    ("user", "Move the booking API from port 7070 to port 8200."),
    ("assistant", "The booking API listens on port 8200 from now on."),
]
BACK = [
    ("user", "Decision: the booking API listens on port 7070."),
    ("assistant", "Changed."),
]
WEDDING = [
    (
        "user",
        "The wedding cake comes from Bageriet Aspen now instead of Konditorei Lindt.",
    ),
    ("user", "Her flight lands on 28 April now instead of 14 April."),
]
ASKED = "Which port does the booking API listen on?"


def settings(store: Path) -> Settings:
    return Settings(store=store, encoder="hash-384")


def memory(store: Path) -> Memory:
    return Memory.open(store, encoder=HashEncoder())


@pytest.fixture(scope="module")
def amended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("amended")
    run_night([session(folder, "a", 2, FIRST)], settings(folder))
    run_night([session(folder, "b", 9, LATER)], settings(folder))
    return folder


def test_what_is_stale_stands_below_everything_that_is_not(amended: Path) -> None:
    hits = memory(amended).recall("booking API port backups", k=12, everything=True)
    stale = [hit.status == "superseded" for hit in hits]
    assert any(stale)
    assert stale == sorted(stale)


def test_what_holds_comes_first_and_what_does_not_is_marked(amended: Path) -> None:
    hits = memory(amended).recall(ASKED)
    assert "8200" in hits[0].text
    stale = [
        h
        for h in hits
        if h.kind != "summary" and "7070" in h.text and "8200" not in h.text
    ]
    assert {h.status for h in stale} == {"superseded"}
    claims = {r["claim_id"]: r for r in Store.open(amended).read(CLAIMS).to_pylist()}
    assert all("8200" in claims[h.superseded_by]["summary"] for h in stale)
    assert all(h.successor.text == claims[h.superseded_by]["summary"] for h in stale)
    told = json.loads(json.dumps(stale[0].as_dict()))
    assert (told["status"], told["successor"]["text"]) == (
        "superseded",
        stale[0].successor.text,
    )


def test_a_stale_hit_is_shown_with_what_holds_now_and_no_id(amended: Path) -> None:
    told = typed("recall", ASKED, "--store", amended).stdout
    assert re.search(r"7070.*\n.* · superseded by “[^”]*8200[^”]*”, 9 Mar 2026", told)
    assert not re.search("[0-9a-f]{32}", told)


def test_the_question_asked_before_does_not_lead(amended: Path) -> None:
    hits = memory(amended).recall(ASKED, kinds="message")
    assert "?" not in hits[0].text
    assert any(ASKED in (h.text, *(s.quote for s in h.sources)) for h in hits)


def test_as_of_a_day_in_between_the_old_was_true(amended: Path) -> None:
    hits = memory(amended).recall(ASKED, as_of="2026-03-05")
    assert "7070" in hits[0].text
    assert {h.status for h in hits} == {"active"}
    assert not any("8200" in h.text for h in hits)


def test_a_block_as_of_a_day_in_between_tells_the_old_and_nothing_later(
    amended: Path,
) -> None:
    then, now = (
        memory(amended).context(ASKED, 200, as_of=day).text
        for day in ("2026-03-05", None)
    )
    assert "7070" in then
    assert "8200" not in then
    assert "8200" in now
    assert memory(amended).context(ASKED, 200, as_of="2026-03-01").text == ""
    shown = typed(
        "context", ASKED, "--budget", 200, "--as-of", "2026-03-05", "--store", amended
    )
    assert shown.stdout == fence_block(then) + "\n"


def test_a_block_as_of_a_moment_within_a_session_that_changed_its_mind(
    tmp_path: Path,
) -> None:
    run_night([session(tmp_path, "one", 2, FIRST[:2] + LATER[2:])], settings(tmp_path))
    then = memory(tmp_path).context(ASKED, 200, as_of="2026-03-02T10:01:30Z").text
    now = memory(tmp_path).context(ASKED, 200).text
    assert "listens on port 7070" in then
    assert "8200" not in then
    assert "8200" in now
    assert (
        "listens on port 7070." not in now
        or "listens on port 7070. (perhaps until 2 Mar 2026" in now
        or "listens on port 7070. (until 2 Mar 2026" in now
    )


def test_as_of_leaves_out_summaries_that_tell_of_what_came_later(amended: Path) -> None:
    asked = "booking API port backups"
    ends = [
        hit.observed_at
        for hit in memory(amended).recall(asked, 50, "summary", everything=True)
    ]
    some = memory(amended).recall(
        asked, 50, "summary", everything=True, as_of="2026-03-05"
    )
    assert some
    assert all(hit.observed_at is not None and hit.observed_at.day <= 5 for hit in some)
    assert any(at is not None and at.day == 9 for at in ends)
    # Two minutes before the first session's end, which its summary tells of.
    begun = "2026-03-02T10:01:30Z"
    assert memory(amended).recall(asked, 50, "summary", as_of=begun) == []
    assert memory(amended).recall(asked, 50, "message", as_of=begun) != []


def test_what_another_thing_does_by_now_is_not_told_first(tmp_path: Path) -> None:
    said = [("user", "The dev server listens on port 3000."), ("assistant", "Noted.")]
    later = [
        ("user", "The API listens on port 9300 now."),
        ("user", "The dev server is slow."),
    ]
    run_night(
        [session(tmp_path, "a", 2, said), session(tmp_path, "b", 9, later)],
        settings(tmp_path),
    )
    kinds: tuple[Kind, ...] = ("message", "claim")
    for kind in kinds:
        first = memory(tmp_path).recall(
            "On which port does the dev server listen?", kinds=kind
        )[0]
        assert "3000" in first.text
    assert (
        "9300" in memory(tmp_path).recall("On which port does the API listen?")[0].text
    )


def test_who_says_the_old_again_takes_it_up_again(
    amended: Path, tmp_path: Path
) -> None:
    nights = settings(tmp_path)
    for path in (
        session(tmp_path, "a", 2, FIRST),
        session(tmp_path, "b", 9, LATER),
        session(tmp_path, "c", 20, BACK),
    ):
        run_night([path], nights)
    rows = Store.open(tmp_path).read(CLAIMS).to_pylist()
    by_text = {
        r["summary"]: r["status"]
        for r in rows
        if r["session_id"] and r["status"] != "duplicate"
    }
    assert by_text["Decision: the booking API listens on port 7070"] == "active"
    assert by_text["The booking API listens on port 8200 from now on"] == "superseded"
    assert (
        "listens on port 7070" in memory(tmp_path).recall(ASKED, kinds="claim")[0].text
    )


def test_a_supersession_taken_back_stays_so(amended: Path, tmp_path: Path) -> None:
    nights = settings(tmp_path)
    run_night(
        [session(tmp_path, "a", 2, FIRST), session(tmp_path, "b", 9, LATER)], nights
    )
    store = Store.open(tmp_path)
    merge = next(
        m for m in store.read(MERGES).to_pylist() if m["kind"] == "supersession"
    )
    back = unsupersede(store.read(CLAIMS), store.read(MERGES), merge["merge_id"])
    store.merge(CLAIMS, back.claims)
    store.merge(MERGES, back.merges)
    run_night(
        [
            session(
                tmp_path,
                "d",
                25,
                [("user", "The seat map is red."), ("assistant", "Yes.")],
            )
        ],
        nights,
    )
    rows = {r["claim_id"]: r for r in Store.open(tmp_path).read(CLAIMS).to_pylist()}
    pairs = {
        (r["from_id"], r["into_id"])
        for r in Store.open(tmp_path).read(MERGES).to_pylist()
        if not r["undone"]
    }
    assert (merge["from_id"], merge["into_id"]) not in pairs
    assert rows[merge["from_id"]]["superseded_by"] != merge["into_id"]


def test_what_is_left_of_a_message_stands_and_what_changed_in_it_does_not(
    tmp_path: Path,
) -> None:
    first = [
        ("user", "The wedding cake comes from Konditorei Lindt."),
        ("user", "My aunt paid for it."),
        ("assistant", "Lindt, three tiers. What about pictures?"),
        ("user", "Harriet is coming from Enugu. Her flight lands on 14 April."),
    ]
    store = tmp_path / "store"
    run_night(
        [session(tmp_path, "first", 1, first), session(tmp_path, "later", 9, WEDDING)],
        Settings(store=store),
    )
    recall = Memory.open(store).recall
    told = {hit.text: hit for hit in recall("the wedding cake of Lindt", k=10)}
    cake = told["The wedding cake comes from Konditorei Lindt."]
    assert cake.successor is not None
    assert "Aspen" in cake.successor.text  # linked from .4; retired only from .94
    assert told["My aunt paid for it."].successor is None
    landing = {
        hit.text: hit.status
        for hit in recall("When does her flight land in April?", k=10)
    }
    assert (
        landing["Harriet is coming from Enugu. Her flight lands on 14 April."]
        == "superseded"
    )


def test_a_message_that_two_claims_changed_leads_to_the_one_asked_for(
    tmp_path: Path,
) -> None:
    said = "The wedding cake comes from Konditorei Lindt. Her flight lands on 14 April."
    first = [("user", said), ("assistant", "Noted.")]
    store = tmp_path / "store"
    run_night(
        [session(tmp_path, "first", 1, first), session(tmp_path, "later", 9, WEDDING)],
        Settings(store=store),
    )
    for asked, holds in (
        ("Who makes the wedding cake?", "Aspen"),
        ("When does her flight land in April?", "28 April"),
    ):
        (stale,) = (
            hit
            for hit in Memory.open(store).recall(asked)
            if hit.text == said and hit.kind == "message"
        )
        assert stale.successor is not None
        assert holds in stale.successor.text


def test_a_summary_of_the_session_that_names_what_was_changed_is_marked_in_other_words_too(
    amended: Path,
) -> None:
    view = memory(amended).get_view()
    change, *_ = [
        row
        for row in view.chains.claims.values()
        if "7070" in str(row["summary"]) and row["chain_at"]
    ]
    text = "They settled how the API is reached, which is by way of 7070. The tea is green."
    marked = mark_changes(view.chains, text, str(change["session_id"]))
    assert "8200" in marked.split(" The tea")[0]
    assert mark_changes(view.chains, text, "another session") == text


def test_a_session_summary_tells_what_changed_behind_what_it_says_wherever_it_is_shown(
    amended: Path,
) -> None:
    mine = memory(amended)

    def tell(as_of: str | None) -> set[str]:
        told = [
            *mine.sessions(ASKED, 5, as_of=as_of),
            *mine.recall(ASKED, 20, "summary", everything=True, as_of=as_of),
        ]
        return {one.text for one in told if "listens on port 7070" in one.text}

    summaries = [
        node
        for node in show(mine.get_view(), "a").node.below
        if "listens on port 7070" in node.text
    ]
    told = tell(None) | {node.text for node in summaries}
    assert summaries
    assert told
    assert all("until 9 Mar 2026" in text for text in told)
    assert not any("until" in text for text in tell("2026-03-05"))
