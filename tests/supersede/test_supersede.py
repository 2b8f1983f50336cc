"""Supersede: which later claim changes an earlier one, and what the step does to the table."""

import random
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.schemas.settings import DedupeSettings
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.tasks.supersede import cues
from slowwave.tasks.supersede.claims import find_affirmed_times
from slowwave.tasks.supersede.cues import Phrase, Strength, find_cue
from slowwave.tasks.supersede.supersede import supersede, unsupersede
from slowwave.text.words import LATIN
from tests.bench_inputs import ROOT
from tests.claim_rows import DAY, observation

SETTINGS = DedupeSettings()


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=OBSERVATIONS.schema)


def pairs(rows: pa.Table, kind: str, **values: object) -> dict[str, str]:
    """loser -> winner, of the ledger's rows of one kind."""
    merges = supersede(rows, SETTINGS, "k", **values).merges.to_pylist()
    return {m["loser_id"]: m["winner_id"] for m in merges if m["kind"] == kind}


def successors(rows: pa.Table, **values: object) -> dict[str, str]:
    return pairs(rows, "supersession", **values)


SAME = "The API listens on port 7070"
MOVED = "We moved the API from port 7070 to port 8200"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (SAME, MOVED),
        ("We use Celery for the background jobs", "We switched from Celery to Dramatiq for the background jobs"),
        ("The unit tests run in Jest", "Replace Jest with Vitest for the unit tests"),
        ("Deploys of the shop happen on Friday", "Deploys of the shop happen on Tuesday instead of Friday"),
        ("The hearing is on 3 June in room 4", "The hearing was moved from 3 June to 17 July"),
        ("The retention of raw data is 7 years", "The retention of raw data changes from 7 years to 4 years"),
    ],
)
def test_a_later_claim_with_both_values_of_the_same_thing_retires_the_earlier(earlier: str, later: str) -> None:
    assert successors(table(observation(0, earlier), observation(1, later))) == {"o000": "o001"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (SAME, "The API listens on port 8200 now"),
        ("Commit messages are written in German", "Commit messages are written in English from now on"),
        ("Feature flags are stored in Redis", "Feature flags are no longer stored in Redis"),
        ("We support Node 18 and up", "Node 18 is end of life, so the minimum is Node 22"),
        ("I drink my coffee with oat milk", "I've gone off oat milk, I take my coffee black"),
        ("I live in Bristol with my wife", "Big news, we bought a house in Bath"),
        ("The soundtrack is made by Jonah", "Jonah is too busy, Lucia makes the soundtrack"),
    ],
)
def test_a_change_that_is_not_said_with_both_values_is_a_doubt(earlier: str, later: str) -> None:
    rows = table(observation(0, earlier), observation(1, later))
    assert (successors(rows), pairs(rows, "doubt")) == ({}, {"o000": "o001"})
    assert supersede(rows, SETTINGS, "k").observations.num_rows == 0


@pytest.mark.parametrize(
    "earlier",
    [
        "Port 7070 on the Pi belongs to the chart plotter",  # it is about the port, which goes on
        "The crew tool clashes with 7070",  # of something else
        "The API has 12 routes",  # nothing of it is given up
    ],
)
def test_what_is_said_of_something_else_with_the_same_value_stays(earlier: str) -> None:
    assert successors(table(observation(0, earlier), observation(1, MOVED))) == {}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (SAME, "Should we move the API from port 7070 to port 8200?"),
        (SAME, "We will not move the API from port 7070 to port 8200"),
        (SAME, "We could move the API from port 7070 to port 8200"),
        (SAME, "For the demo the API listens on port 8200 instead of port 7070"),
        (SAME, "Someone in the other team moved their API from port 7070 to port 6060"),
        ("The scheduler uses Celery", "We rejected the proposal to switch the scheduler from Celery to Dramatiq"),
        ("The backup runs on Friday", "We discussed moving the backup from Friday to Sunday but decided to keep it"),
        ("The timeout is 30 seconds", "I changed the timeout from 30 seconds to 60 seconds and reverted it"),
        ("The cache uses Redis", "Yesterday I tried Memcached instead of Redis for the cache"),
        ("The queue uses RabbitMQ", "The competitor replaced RabbitMQ with Kafka in the queue"),
        ("The salary is paid on the 25th", "In December the salary is paid on the 20th instead of the 25th"),
        ("The parser reads Latin-1", "The parser converts text from Latin-1 to UTF-8"),
        ("The docs are hosted on Netlify", "The blog moved from Netlify to Vercel, the docs stay"),
    ],
)
def test_who_asks_denies_or_tells_of_something_else_changes_nothing(earlier: str, later: str) -> None:
    assert successors(table(observation(0, earlier), observation(1, later))) == {}


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
def test_unrelated_claims_leave_nothing_in_the_ledger(earlier: str, later: str) -> None:
    category = "event" if earlier.startswith("I ran") else "fact"
    rows = table(observation(0, earlier, category=category), observation(1, later, category=category))
    assert supersede(rows, SETTINGS, "k").merges.num_rows == 0


def test_a_refusal_to_stop_is_no_giving_up() -> None:
    assert "dream" in find_cue("I quit on my dreams").old
    assert find_cue("I won't quit on my dreams").strength is Strength.NONE


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("We banned force pushes to main", {"forc", "push"}),
        ("We ripped out the Redis layer", {"redi", "layer"}),
        ("We are getting rid of the Redis layer", {"redi", "layer"}),
    ],
)
def test_every_form_of_a_verb_that_gives_up_is_heard(text: str, old: set[str]) -> None:
    cue = find_cue(text)
    assert (cue.strength, cue.old) == (Strength.STATED, old)


def test_no_cue_is_missed_because_the_words_it_needs_are_listed_wrongly() -> None:
    phrases = [cues.STATED, cues.GAVE_UP, *cues.GIVEN_UP, *cues.CHANGED, *cues.BESIDE, *cues.NEW]
    paths = sorted((ROOT / "data" / "labelled").glob("amendments_fresh*.jsonl"))
    lines = [line.lower() for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    ends = {f"we {word}{tail} it" for words, tail in cues._GIVE_UP_FORMS for word in words.split() if "(" not in tail}
    for text in [*lines, *sorted(ends)]:
        opening = frozenset(word[:4] for word in LATIN.findall(text))
        assert [one.pattern.pattern for one in phrases if _is_missed(one, text, opening)] == []


def _is_missed(phrase: Phrase, text: str, opening: frozenset[str]) -> bool:
    return phrase.needs.isdisjoint(opening) and phrase.pattern.search(text) is not None


def test_two_people_two_projects_and_unknown_times_stay_apart() -> None:
    said = "My favourite author is Haruki Murakami", "My favourite author is Olga Tokarczuk instead of Haruki Murakami"
    talk = {"pack": "personal", "category": "preference"}
    ada, ben = {**talk, "speaker": "Ada"}, {**talk, "speaker": "Ben"}
    assert successors(table(observation(0, said[0], **ada), observation(1, said[1], **ada))) == {"o000": "o001"}
    assert successors(table(observation(0, said[0], **ada), observation(1, said[1], **ben))) == {}
    shared = "The summer holiday goes to Brittany", "The summer holiday goes to Slovenia instead of Brittany"
    ada, ben = ({**who, "category": "plan"} for who in (ada, ben))
    of_both = observation(0, shared[0], **ada), observation(1, shared[1], **ben)
    assert successors(table(*of_both)) == {}  # nothing tells that they share a holiday
    talk_with_her = observation(2, "The tent is in the cellar", **ben) | {"session_id": of_both[0]["session_id"]}
    assert successors(table(*of_both, talk_with_her)) == {"o000": "o001"}
    assert successors(table(observation(0, SAME), observation(1, MOVED, workspace="/other"))) == {}
    assert successors(table(observation(0, SAME), observation(1, MOVED, observed_at=None))) == {}


def test_two_sessions_of_one_moment_beside_a_third_with_a_claim_like_theirs() -> None:
    at = {"observed_at": DAY}
    same = observation(0, SAME, **at), observation(1, "The API listens on port 8200 now", **at)
    third = observation(2, "The API listens on port 9300 now")
    assert successors(table(*same)) == {}  # which of the two holds nobody knows
    assert pairs(table(*same, third), "doubt") == {"o000": "o002", "o001": "o002"}


def test_retired_row_points_to_its_successor_and_ends_when_that_begins() -> None:
    rows = table(
        observation(0, SAME),
        observation(1, MOVED),
        observation(2, "The API moves from port 8200 to port 9300"),
    )
    found = supersede(rows, SETTINGS, "k")
    first, second = found.observations.to_pylist()
    assert (first["status"], first["superseded_by"], first["valid_to"]) == (
        "superseded",
        "o001",
        DAY + timedelta(days=1),
    )
    assert second["superseded_by"] == "o002"
    assert f"“{SAME}” → “{MOVED}”" in found.merges["reason"][0].as_py()
    mine = {"status", "reason", "superseded_by", "valid_to"}
    theirs = [n for n in OBSERVATIONS.schema.names if n not in mine]
    assert found.observations.select(theirs).equals(rows.slice(0, 2).select(theirs))


def test_older_claim_said_again_since_retires_the_newer() -> None:
    rows = table(
        observation(0, SAME),
        observation(1, MOVED),
        observation(2, "the API listens on port 7070", status="duplicate", canonical_id="o000"),
    )
    assert find_affirmed_times(rows) == {"o000": DAY + timedelta(days=2)}
    assert successors(rows, affirmed=find_affirmed_times(rows)) == {"o001": "o000"}


def test_claim_is_active_again_when_its_successor_is_withdrawn_or_itself_said_again() -> None:
    rows = table(observation(0, SAME), observation(1, MOVED))
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
    rows = table(observation(0, SAME), observation(1, MOVED))
    found = supersede(rows, SETTINGS, "k")
    back = unsupersede(found.observations, found.merges, found.merges["merge_id"][0].as_py())
    assert back.observations.equals(rows.slice(0, 1))
    assert back.merges["undone"].to_pylist() == [True]
    assert successors(rows, undone={("o000", "o001")}) == {}
    with pytest.raises(KeyError, match="no supersession"):
        unsupersede(found.observations, MERGES.make_empty_table(), "none")


TEXTS = (
    SAME,
    "The API listens on port 8200 now",
    MOVED,
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
