"""Supersede: which later claim changes an earlier one, and what the step does to the table."""

import random
from datetime import timedelta
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.engines.encoders.load import load_query_encoder
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import LEADS, NARROWED, OF_ANOTHER
from slowwave.tasks.changes.decide import (
    PERHAPS,
    ChangeDecision,
    ChangeGuesses,
    decide,
    select_doubts,
)
from slowwave.tasks.changes.outcome import Known, supersede, unsupersede
from slowwave.tasks.changes.pairs import build_candidate_claims
from tests.claim_rows import DAY, claim_row


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CLAIMS.schema)


def pairs(rows: pa.Table, kind: str, **values: object) -> dict[str, str]:
    """from -> into, of the ledger's rows of one kind."""
    merges = supersede(rows, Known("k", **values)).merges.to_pylist()
    return {m["from_id"]: m["into_id"] for m in merges if m["kind"] == kind}


def successors(rows: pa.Table, **values: object) -> dict[str, str]:
    return pairs(rows, "supersession", **values)


COMPANY = (
    "The bundle is due 14 days before a hearing",
    "Large sourdough loaves cost 4.20",
    "The office is closed on Fridays",
    "My sister plays the viola in Leeds",
    "We take the train at 7:40 from Paddington",
    "Invoices are sent by post to clients over seventy",
    "The kitchen will be painted sage green",
)
"""What has nothing to do with what is told."""
SAME = "The API listens on port 7070"
MOVED = "The API listens on port 8200 from now on"
AGAIN = "The API listens on port 9300 from now on"


@cache
def encode(text: str) -> npt.NDArray[np.float32]:
    return load_query_encoder("all-MiniLM-L6-v2").encode([text])[0]


def claim(number: int, text: str, **values: object) -> dict[str, object]:
    """A claim with its vector, `number` days after DAY."""
    return claim_row(number, text, **{"vector": encode(text), **values})


def told(earlier: str, later: str, **values: object) -> pa.Table:
    """Two claims a month apart, among claims of other sessions."""
    return told_by(claim(0, earlier, **values), claim(30, later, **values))


def told_by(*claims: dict[str, object]) -> pa.Table:
    """Claims among claims of other sessions."""
    return table(*claims, *(claim(n, text) for n, text in enumerate(COMPANY, 60)))


def judge(rows: pa.Table) -> str:
    """What is made of the two."""
    found = {
        m["from_id"]: (m["kind"], m["into_id"])
        for m in supersede(rows, Known("k")).merges.to_pylist()
    }
    kind, winner = found.get("o000", ("nothing", "o030"))
    assert winner == "o030"
    return str(kind)


def test_a_correction_within_a_session_counts_as_one_between_sessions() -> None:
    soon = {"session_id": "s0", "observed_at": DAY + timedelta(minutes=9)}
    assert judge(told_by(claim(0, SAME), claim(30, MOVED, **soon))) == "supersession"
    hearing = (
        "The hearing is on 3 June in room 4",
        "The hearing was moved from 3 June to 17 July",
    )
    # Likely: linked, both stand.
    assert (
        judge(told_by(claim(0, hearing[0]), claim(30, hearing[1], **soon))) == "doubt"
    )
    assert (
        judge(
            told_by(claim(0, SAME), claim(30, "The API answers within 200 ms", **soon))
        )
        == "nothing"
    )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (SAME, MOVED),
        (SAME, "The API listens on port 8200 now instead of port 7070"),
        (SAME, "We moved the API from port 7070 to port 8200"),
        (
            "We use Celery for the background jobs",
            "We switched from Celery to Dramatiq for the background jobs",
        ),
        (
            "Deploys of the shop happen on Friday",
            "Deploys of the shop happen on Tuesday instead of Friday",
        ),
        (
            "The hearing is on 3 June in room 4",
            "The hearing was moved from 3 June to 17 July",
        ),
        (
            "The retention of raw data is 7 years",
            "The retention of raw data changes from 7 years to 4 years",
        ),
        (
            "Commit messages are written in German",
            "Commit messages are written in English from now on",
        ),
    ],
)
def test_what_is_told_anew_retires_the_earlier_or_is_linked_to_it(
    earlier: str, later: str
) -> None:
    assert judge(told(earlier, later)) in ("supersession", "doubt")


def test_what_was_said_again_since_is_linked_as_the_later_of_the_two() -> None:
    first, later = (
        "We use Celery for the background jobs",
        "We switched from Celery to Dramatiq for the background jobs",
    )
    again = claim(40, first, status="duplicate", canonical_id="o000")
    assert pairs(told(first, later), "doubt") == {"o000": "o030"}
    told_again = told_by(claim(0, first), claim(30, later), again)
    assert pairs(told_again, "doubt") == {"o030": "o000"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (
            "Port 7070 on the Pi belongs to the chart plotter",
            "We moved the API from port 7070 to port 8200",
        ),
        (
            "The crew tool clashes with 7070",
            "We moved the API from port 7070 to port 8200",
        ),
        ("The API has 12 routes", "We moved the API from port 7070 to port 8200"),
        (SAME, "Should we move the API from port 7070 to port 8200?"),
        (SAME, "We will not move the API from port 7070 to port 8200"),
        (SAME, "We could move the API from port 7070 to port 8200"),
        (SAME, "For the demo the API listens on port 8200 instead of port 7070"),
        (SAME, "Someone in the other team moved their API from port 7070 to port 6060"),
        (
            "The scheduler uses Celery",
            "We rejected the proposal to switch the scheduler from Celery to Dramatiq",
        ),
        (
            "The backup runs on Friday",
            "We discussed moving the backup from Friday to Sunday but decided to keep it",
        ),
        (
            "The timeout is 30 seconds",
            "I changed the timeout from 30 seconds to 60 seconds and reverted it",
        ),
        (
            "The cache uses Redis",
            "Yesterday I tried Memcached instead of Redis for the cache",
        ),
        (
            "The queue uses RabbitMQ",
            "The competitor replaced RabbitMQ with Kafka in the queue",
        ),
        (
            "The salary is paid on the 25th",
            "In December the salary is paid on the 20th instead of the 25th",
        ),
        ("The parser reads Latin-1", "The parser converts text from Latin-1 to UTF-8"),
        (
            "The docs are hosted on Netlify",
            "The blog moved from Netlify to Vercel, the docs stay",
        ),
        (
            "The booking API listens on port 7070",
            "The admin panel listens on port 7071",
        ),
        (
            "Login with Google loops for some users",
            "Login with Microsoft loops for some users",
        ),
        (
            "The app crashes when the basket is opened",
            "The app crashes when the profile is opened",
        ),
    ],
)
def test_who_asks_denies_or_tells_of_something_else_retires_nothing(
    earlier: str, later: str
) -> None:
    assert judge(told(earlier, later)) != "supersession"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Ada likes green tea", "Ada likes black coffee"),
        ("Lena reviews the database changes", "Marco reviews the styling"),
        (
            "We use Redis for the session cache",
            "We switched from Jest to Vitest for the unit tests",
        ),
        (
            "The importer skips empty rows",
            "The importer skips empty rows and logs them",
        ),
    ],
)
def test_unrelated_claims_change_nothing_and_are_not_linked(
    earlier: str, later: str
) -> None:
    assert set(
        supersede(told(earlier, later), Known("k")).merges["rule"].to_pylist()
    ) <= {LEADS}


def test_two_people_two_projects_and_unknown_times_stay_apart() -> None:
    said = (
        "My favourite author is Haruki Murakami",
        "My favourite author is Olga Tokarczuk now instead of Haruki Murakami",
    )
    talk = {"pack": "personal", "category": "preference"}
    ada, ben = {**talk, "speaker": "Ada"}, {**talk, "speaker": "Ben"}
    assert judge(told(*said, **ada)) != "nothing"
    assert (
        judge(told_by(claim(0, said[0], **ada), claim(30, said[1], **ben))) == "nothing"
    )
    shared = (
        "The summer holiday goes to Brittany",
        "The summer holiday goes to Slovenia now instead of Brittany",
    )
    ada, ben = ({**who, "category": "plan"} for who in (ada, ben))
    of_both = claim(0, shared[0], **ada), claim(30, shared[1], **ben)
    # Nothing tells that they share a holiday.
    assert judge(told_by(*of_both)) == "nothing"
    talk_with_her = claim(2, "The tent is in the cellar", **ben) | {
        "session_id": of_both[0]["session_id"]
    }
    assert judge(told_by(*of_both, talk_with_her)) != "nothing"
    assert (
        judge(told_by(claim(0, SAME), claim(30, MOVED, workspace="/other")))
        == "nothing"
    )
    assert (
        judge(told_by(claim(0, SAME), claim(30, MOVED, observed_at=None))) == "nothing"
    )


def test_two_sessions_of_one_moment_beside_a_third_with_a_claim_like_theirs() -> None:
    at = {"observed_at": DAY}
    same = claim(0, SAME, **at), claim(1, "The API listens on port 8200", **at)
    # Which of the two holds nobody knows.
    assert supersede(told_by(*same), Known("k")).merges.num_rows == 0
    merges = supersede(told_by(*same, claim(30, AGAIN)), Known("k")).merges
    assert set(merges["into_id"].to_pylist()) <= {"o030"}


def test_retired_row_points_to_its_successor_and_ends_when_that_begins() -> None:
    rows = table(claim_row(0, SAME), claim_row(1, MOVED))
    found = supersede(rows, Known("k"))
    ended = {
        "status": "superseded",
        "superseded_by": "o001",
        "valid_to": DAY + timedelta(days=1),
    }
    (first,) = found.claims.to_pylist()
    assert first == rows.to_pylist()[0] | ended | {"reason": first["reason"]}
    assert f"“{SAME}” → “{MOVED}”" in found.merges["reason"][0].as_py()


def test_a_supersession_taken_back_is_not_made_again() -> None:
    rows = table(claim_row(0, SAME), claim_row(1, MOVED))
    found = supersede(rows, Known("k"))
    back = unsupersede(found.claims, found.merges, found.merges["merge_id"][0].as_py())
    assert back.claims.equals(rows.slice(0, 1))
    assert back.merges["undone"].to_pylist() == [True]
    twice = unsupersede(found.claims, back.merges, found.merges["merge_id"][0].as_py())
    # Another may have retired it since.
    assert (twice.claims.num_rows, twice.merges.num_rows) == (
        0,
        0,
    )
    assert successors(rows, undone={("o000", "o001")}) == {}
    with pytest.raises(KeyError, match="no supersession"):
        unsupersede(found.claims, MERGES.make_empty_table(), "none")


TEXTS = (
    SAME,
    "We moved the API from port 7070 to port 8200",
    MOVED,
    "We use Celery for the background jobs",
    "We switched from Celery to Dramatiq for the background jobs",
    "Commit messages are written in German",
    "Commit messages are written in English from now on",
    "The seat map is a Svelte component",
)


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
@settings(max_examples=50, deadline=None)
def test_any_order_gives_the_same_and_a_second_run_nothing(
    said: list[str], shuffle: random.Random
) -> None:
    rows = table(*(claim_row(n, text) for n, text in enumerate(said)))
    mixed = rows.take(shuffle.sample(range(rows.num_rows), rows.num_rows))
    one, two = supersede(rows, Known("k")), supersede(mixed, Known("k"))
    assert one.claims.equals(two.claims)
    assert one.merges.equals(two.merges)
    changed = {row["claim_id"]: row for row in one.claims.to_pylist()}
    after = table(*(changed.get(str(row["claim_id"]), row) for row in rows.to_pylist()))
    assert supersede(after, Known("k")).claims.num_rows == 0


@pytest.mark.parametrize(
    ("p", "retired", "key", "linked"),
    [
        # Production gave way to nothing: the later claim is about staging, whose earlier value it surely replaced.
        (0.45, {1: 2}, None, False),
        # Likelier than not: one change can be told of two statements.
        (0.6, {1: 2}, None, True),
        # Nothing says what else the later claim changed.
        (0.45, {}, None, True),
        # A model has read the pair.
        (0.45, {1: 2}, "model", True),
    ],
)
def test_a_claim_that_surely_changed_another_is_hardly_a_change_of_a_third(
    p: float,
    retired: dict[int, int],
    key: str | None,
    linked: bool,
) -> None:
    doubt = ChangeDecision(0, 2, PERHAPS, DAY, p, "perhaps told anew", key=key)
    assert select_doubts([doubt], retired) == [doubt] * linked


@pytest.mark.parametrize(
    ("kind", "p", "other", "taken_back", "kinds"),
    [
        (NARROWED, 0.99, 0.0, True, []),
        (OF_ANOTHER, 0.45, 0.0, False, []),
        (OF_ANOTHER, 0.6, 0.0, False, [PERHAPS]),
        # Another claim is the likelier target.
        (OF_ANOTHER, 0.6, 0.7, False, []),
        (OF_ANOTHER, 0.45, 0.0, True, ["perhaps retracted"]),
        ("", 0.45, 0.7, False, [PERHAPS]),
    ],
)
def test_what_is_narrowed_or_of_another_thing_stays_as_it_is(
    kind: str, p: float, other: float, taken_back: bool, kinds: list[str]
) -> None:
    rows = told_by(claim(0, SAME), claim(1, "The web port is 80"), claim(30, MOVED))
    claims = build_candidate_claims(rows, {})
    pair = (0, 2)
    guesses = ChangeGuesses(
        {pair: p, (1, 2): other},
        frozenset((pair,) if taken_back else ()),
        {pair: kind},
    )
    found = decide(claims, guesses, {}, {}, frozenset())
    made = [*found.changes, *found.doubts]
    assert [one.kind for one in made if one.earlier == 0] == kinds


@pytest.mark.parametrize(
    ("p", "by_model", "session", "linked"),
    [
        (0.45, [False, True], "s030", False),
        (0.6, [False, True], "s030", True),
        (0.6, [False, True], "s000", False),
        (0.6, [True, True], "s000", True),
        (0.45, [False, False], "s030", True),
    ],
)
def test_what_an_agent_says_is_hardly_a_change_of_what_a_person_said(
    p: float, by_model: list[bool], session: str, linked: bool
) -> None:
    rows = table(
        claim(0, SAME, session_id="s000"), claim(30, MOVED, session_id=session)
    )
    claims = build_candidate_claims(
        rows.append_column("by_model", pa.array(by_model)), {}
    )
    guesses = ChangeGuesses({(0, 1): p}, frozenset())
    assert bool(decide(claims, guesses, {}, {}, frozenset()).doubts) == linked
