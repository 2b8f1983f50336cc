"""Plain changes and their look-alikes, two sessions each in a project of its own: what one night makes of them all."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import LEADS, LedgerKind
from slowwave.store import Store
from tests.talk_files import session

UNSEEN, LINKED, RETIRED = range(3)
CHANGES = [
    ("We deploy to Heroku.", "We moved from Heroku to Fly.io.", LINKED),
    ("We lint with eslint.", "We replaced eslint by biome.", UNSEEN),
    (
        "We write commit messages in French.",
        "Forget what I said about French commit messages.",
        LINKED,
    ),
    (
        "Stand-up is at half past nine.",
        "Stand-up has been pushed to ten.",
        UNSEEN,
    ),
    (
        "My sister Ana lives in Porto.",
        "Ana has packed up and is living in Bergen these days.",
        LINKED,
    ),
    (
        "The importer retries a failed row three times.",
        "Five retries a row in the importer, three was too few.",
        UNSEEN,
    ),
    (
        "Always ask me before you add a package.",
        "You may add packages without asking from now on.",
        UNSEEN,
    ),
    (
        "We bill customers in dollars.",
        "Since the new contract everything is invoiced in euros.",
        LINKED,
    ),
    (
        "Tom is the one who approves releases.",
        "Tom has left, so releases go past Ines now.",
        LINKED,
    ),
]
"""Earlier, later, and the least that the night makes of them."""
LOOK_ALIKES = [
    (
        "The staging database runs Postgres 15.",
        "The production database runs Postgres 16.",
    ),
    ("The API listens on port 8080.", "The metrics endpoint listens on port 9100."),
    ("We use tabs in the Go code.", "In the Python code we use four spaces."),
    (
        "Backups run every night at two.",
        "Maybe one day we should run the backups every hour.",
    ),
    ("I drink my coffee black.", "My brother takes his coffee with milk."),
    (
        "Feature flags live in Unleash.",
        "LaunchDarkly would have been nicer for feature flags, but it costs too much.",
    ),
    (
        "Log lines are written as JSON.",
        "The old service wrote plain text log lines until 2023.",
    ),
]
"""Two statements that both hold."""
REPORT, DENIAL = "All 212 tests pass", "14 of them failed"
BUDGETS = (60, 100, 250, 500, 2_000)
TESTS = [
    ("user", "Run the tests of brook."),
    ("assistant", "All 212 tests pass, the release of brook is ready."),
    ("user", "That's not true, 14 of them failed. Look again."),
    (
        "assistant",
        "You are right, 14 tests fail because the fixture server is missing.",
    ),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    talks = [session(folder, "brook", 2, TESTS, "brook")]
    pairs = [(earlier, later) for earlier, later, _ in CHANGES] + LOOK_ALIKES
    for at, said in enumerate(pairs):
        for name, day, text in zip(("earlier", "later"), (3, 20), said, strict=True):
            turns = [("user", text), ("assistant", "Noted.")]
            talks.append(session(folder, f"{at}-{name}", day, turns, f"project-{at}"))
    nights = Settings(store=folder / "store")
    run_night(talks, nights)
    return nights.store


@pytest.fixture(scope="module")
def found(store: Path) -> dict[str, int]:
    """Text of a claim that another may have changed -> LINKED or RETIRED."""
    opened = Store.open(store)
    said = opened.read(CLAIMS, ["claim_id", "quote"]).to_pylist()
    quotes = {row["claim_id"]: row["quote"] for row in said}
    kinds = {LedgerKind.DOUBT: LINKED, LedgerKind.SUPERSESSION: RETIRED}
    return {
        quotes[row["from_id"]]: kinds[row["kind"]]
        for row in opened.read(MERGES).to_pylist()
        if row["kind"] in kinds and row["rule"] != LEADS
    }


@pytest.mark.parametrize(("earlier", "later", "least"), CHANGES)
def test_no_plain_change_that_was_seen_is_lost(
    found: dict[str, int], earlier: str, later: str, least: int
) -> None:
    assert found.get(earlier.rstrip("."), UNSEEN) >= least, later


@pytest.mark.parametrize(("earlier", "later"), LOOK_ALIKES)
def test_what_only_looks_like_a_change_leaves_both_as_they_are(
    found: dict[str, int], earlier: str, later: str
) -> None:
    assert not {earlier.rstrip("."), later.rstrip(".")} & found.keys()


@pytest.mark.parametrize("query", ["Do the tests of brook pass?", "Is brook released?"])
def test_a_report_is_never_shown_without_its_denial(store: Path, query: str) -> None:
    memory = Memory.open(store)
    texts = [
        memory.context(query, budget, workspace="brook").text for budget in BUDGETS
    ]
    for most in (1, 2, 3, 10):
        hits = memory.recall(query, most, everything=True, workspace="brook")
        texts.append(" ".join(one.text for hit in hits for one in (hit, *hit.pair)))
    told = [text for text in texts if REPORT in text]
    assert told
    assert all(DENIAL in text for text in told)
