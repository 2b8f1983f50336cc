"""Supersede: which later claim changes an earlier one, and what the step does to the table."""

import random
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.observations import MERGES, OBSERVATIONS
from schemas.settings import DedupeSettings
from tasks.amending.cues import Strength, read_cue
from tasks.supersede import affirmed_at, supersede, unsupersede
from tests.claim_rows import DAY, observation

SETTINGS = DedupeSettings()


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=OBSERVATIONS.schema)


def successors(rows: pa.Table, **values: object) -> dict[str, str]:
    """loser -> winner."""
    merges = supersede(rows, SETTINGS, "k", **values).merges.to_pylist()
    return {m["loser_id"]: m["winner_id"] for m in merges}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We use Celery for the background jobs", "We switched from Celery to Dramatiq for the background jobs"),
        ("The booking API listens on port 7070", "The booking API listens on port 8200 now"),
        ("Commit messages are written in German", "Commit messages are written in English from now on"),
        ("The unit tests run in Jest", "Replace Jest with Vitest for the unit tests"),
        ("Deploys of the shop happen on Friday", "Deploys of the shop happen on Tuesday instead"),
        ("Feature flags are stored in Redis", "Feature flags are no longer stored in Redis"),
        ("The ingest service listens on 9090", "The ingest service listens on 9190"),
        ("We support Node 18 and up", "Node 18 is end of life, so the minimum is Node 22"),
        ("I drink my coffee with oat milk", "I've gone off oat milk, I take my coffee black"),
        ("I live in Bristol with my wife", "Big news, we bought a house in Bath"),
        ("The soundtrack is made by Jonah", "Jonah is too busy, Lucia makes the soundtrack"),
    ],
)
def test_later_claim_retires_the_earlier_that_it_changes(earlier: str, later: str) -> None:
    assert successors(table(observation(0, earlier), observation(1, later))) == {"o000": "o001"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The booking API listens on port 7070", "The admin panel listens on port 7071"),
        ("Ada likes green tea", "Ada likes black coffee"),
        ("Lena reviews the database changes", "Marco reviews the styling"),
        ("We use Redis for the session cache", "We switched from Jest to Vitest for the unit tests"),
        ("I ran 5 km in the park today", "I ran 8 km in the park today"),
        ("The importer skips empty rows", "The importer skips empty rows and logs them"),
        ("Login with Google loops for some users", "Login with Microsoft loops for some users"),
        ("Replaced in 14 forms, dialogs work as before", "Replaced in 4 forms, dialogs work as before"),
        ("The app crashes when the basket is opened", "The app crashes when the profile is opened"),
    ],
)
def test_unrelated_claims_do_not_retire_each_other(earlier: str, later: str) -> None:
    category = "event" if earlier.startswith("I ran") else "fact"
    assert successors(table(observation(0, earlier, category=category), observation(1, later, category=category))) == {}


def test_a_refusal_to_stop_is_no_giving_up() -> None:
    assert "dream" in read_cue("I quit on my dreams").old
    assert read_cue("I won't quit on my dreams").strength is Strength.NONE


def test_two_people_two_projects_and_unknown_times_stay_apart() -> None:
    said = "My favourite author is Haruki Murakami", "My favourite author is Olga Tokarczuk now"
    talk = {"pack": "personal", "category": "preference"}
    ada, ben = {**talk, "speaker": "Ada"}, {**talk, "speaker": "Ben"}
    assert successors(table(observation(0, said[0], **ada), observation(1, said[1], **ada))) == {"o000": "o001"}
    assert successors(table(observation(0, said[0], **ada), observation(1, said[1], **ben))) == {}
    shared = "The summer holiday goes to Brittany", "The summer holiday goes to Slovenia instead"
    ada, ben = ({**who, "category": "plan"} for who in (ada, ben))
    of_both = observation(0, shared[0], **ada), observation(1, shared[1], **ben)
    assert successors(table(*of_both)) == {}  # nothing tells that they share a holiday
    talk_with_her = observation(2, "The tent is in the cellar", **ben) | {"session_id": of_both[0]["session_id"]}
    assert successors(table(*of_both, talk_with_her)) == {"o000": "o001"}
    ports = "The API listens on port 7070", "The API listens on port 8200 now"
    assert successors(table(observation(0, ports[0]), observation(1, ports[1], workspace="/other"))) == {}
    assert successors(table(observation(0, ports[0]), observation(1, ports[1], observed_at=None))) == {}


def test_retired_row_points_to_its_successor_and_ends_when_that_begins() -> None:
    rows = table(
        observation(0, "The API listens on port 7070"),
        observation(1, "The API listens on port 8200 now"),
        observation(2, "The API listens on port 9300 now"),
    )
    found = supersede(rows, SETTINGS, "k")
    first, second = found.observations.to_pylist()
    assert (first["status"], first["superseded_by"], first["valid_to"]) == (
        "superseded",
        "o001",
        DAY + timedelta(days=1),
    )
    assert second["superseded_by"] == "o002"
    assert "“The API listens on port 7070” → “The API listens on port 8200 now”" in found.merges["reason"][0].as_py()
    mine = {"status", "reason", "superseded_by", "valid_to"}
    theirs = [n for n in OBSERVATIONS.schema.names if n not in mine]
    assert found.observations.select(theirs).equals(rows.slice(0, 2).select(theirs))


def test_older_claim_said_again_since_retires_the_newer() -> None:
    rows = table(
        observation(0, "The API listens on port 7070"),
        observation(1, "The API listens on port 8200 now"),
        observation(2, "the API listens on port 7070", status="duplicate", canonical_id="o000"),
    )
    assert affirmed_at(rows) == {"o000": DAY + timedelta(days=2)}
    assert successors(rows, affirmed=affirmed_at(rows)) == {"o001": "o000"}


def test_echoes_of_echoes_come_to_an_end() -> None:
    said = ["Noted, the crawler is deployed on Heroku", "So the crawler is on Heroku", "Yes, the crawler on Heroku"]
    echoes = [
        observation(0, text, observation_id=f"e{i}", message_ids=[f"e{i}"])
        | {"observed_at": DAY + timedelta(minutes=2 * i + 2)}
        for i, text in enumerate(said)
    ]
    later = observation(3, "We moved the crawler from Heroku to Fly")
    found = successors(table(observation(0, "We run the crawler on Heroku"), *echoes, later))
    assert found == dict.fromkeys(("o000", "e0", "e1", "e2"), "o003")


def test_echo_of_a_retired_claim_goes_with_it_and_what_was_said_beside_names_the_old() -> None:
    echo = observation(0, "Noted, the crawler is deployed on Heroku", session_id="s0", observation_id="o000b")
    echo |= {"observed_at": DAY + timedelta(minutes=2), "message_ids": ["m0b"]}
    later = observation(1, "The crawler is deployed to Fly.io as of this week", detail="Heroku's bill tripled")
    rows = table(observation(0, "We run the crawler on Heroku"), echo, later)
    assert successors(rows) == {"o000": "o001", "o000b": "o001"}


def test_claim_is_active_again_when_its_successor_is_withdrawn_or_itself_said_again() -> None:
    rows = table(observation(0, "The API listens on port 7070"), observation(1, "The API listens on port 8200 now"))
    retired = supersede(rows, SETTINGS, "k").observations
    (again,) = supersede(retired, SETTINGS, "k").observations.to_pylist()
    assert (again["observation_id"], again["status"], again["valid_to"]) == ("o000", "active", None)
    said = table(observation(2, "the API listens on port 7070", status="duplicate", canonical_id="o000"))
    found = supersede(pa.concat_tables([retired, rows.slice(1), said]), SETTINGS, "k").observations
    assert dict(zip(found["observation_id"].to_pylist(), found["status"].to_pylist(), strict=True)) == {
        "o000": "active",
        "o001": "superseded",
    }


def test_a_supersession_taken_back_is_not_made_again() -> None:
    rows = table(observation(0, "The API listens on port 7070"), observation(1, "The API listens on port 8200 now"))
    found = supersede(rows, SETTINGS, "k")
    back = unsupersede(found.observations, found.merges, found.merges["merge_id"][0].as_py())
    assert back.observations.equals(rows.slice(0, 1))
    assert back.merges["undone"].to_pylist() == [True]
    assert successors(rows, undone={("o000", "o001")}) == {}
    with pytest.raises(KeyError, match="no supersession"):
        unsupersede(found.observations, MERGES.empty(), "none")


TEXTS = (
    "The API listens on port 7070",
    "The API listens on port 8200 now",
    "We use Celery for the background jobs",
    "We switched from Celery to Dramatiq for the background jobs",
    "Commit messages are written in German",
    "Commit messages are written in English from now on",
    "The seat map is a Svelte component",
)


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_any_order_gives_the_same_and_a_second_run_nothing(said: list[str], shuffle: random.Random) -> None:
    rows = table(*(observation(n, text) for n, text in enumerate(said)))
    mixed = rows.take(shuffle.sample(range(rows.num_rows), rows.num_rows))
    one, two = supersede(rows, SETTINGS, "k"), supersede(mixed, SETTINGS, "k")
    assert one.observations.equals(two.observations)
    assert one.merges.equals(two.merges)
    retired = set(one.observations["observation_id"].to_pylist())
    left = [r for r in rows.to_pylist() if r["observation_id"] not in retired]
    assert successors(table(*left)) == {}
