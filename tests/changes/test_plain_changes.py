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

LINKED = [
    ("We deploy to Heroku.", "We moved from Heroku to Fly.io.", "Where do we deploy?"),
    (
        "We write commit messages in French.",
        "Forget what I said about French commit messages.",
        "In which language are commit messages?",
    ),
    (
        "My sister Ana lives in Porto.",
        "Ana has packed up and is living in Bergen these days.",
        "Where does my sister Ana live?",
    ),
    (
        "We bill customers in dollars.",
        "Since the new contract everything is invoiced in euros.",
        "In which currency do we bill customers?",
    ),
    (
        "Tom is the one who approves releases.",
        "Tom has left, so releases go past Ines now.",
        "Who approves releases?",
    ),
]
"""Earlier, later, and a question; the night links the two."""
UNLINKED = [
    ("We lint with eslint.", "We replaced eslint by biome.", "Which linter do we use?"),
    (
        "Stand-up is at half past nine.",
        "Stand-up has been pushed to ten.",
        "When is stand-up?",
    ),
    (
        "The importer retries a failed row three times.",
        "Five retries a row in the importer, three was too few.",
        "How many times does the importer retry a failed row?",
    ),
    (
        "Always ask me before you add a package.",
        "You may add packages without asking from now on.",
        "Do you ask me before you add a package?",
    ),
]
"""The same of changes that the night does not see."""
CHANGES = [*LINKED, *UNLINKED]
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
PAIRS = [*((earlier, later) for earlier, later, _ in CHANGES), *LOOK_ALIKES]
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


def name_project(later: str) -> str:
    """Return the project in which a statement of PAIRS was made."""
    return f"project-{[text for _, text in PAIRS].index(later)}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    talks = [session(folder, "brook", 2, TESTS, "brook")]
    for at, said in enumerate(PAIRS):
        for name, day, text in zip(("earlier", "later"), (3, 20), said, strict=True):
            turns = [("user", text), ("assistant", "Noted.")]
            talks.append(
                session(folder, f"{at}-{name}", day, turns, name_project(said[1]))
            )
    nights = Settings(store=folder / "store")
    run_night(talks, nights)
    return nights.store


@pytest.fixture(scope="module")
def found(store: Path) -> set[str]:
    """The texts of the claims that another changed, or may have."""
    opened = Store.open(store)
    said = opened.read(CLAIMS, ["claim_id", "quote"]).to_pylist()
    quotes = {row["claim_id"]: row["quote"] for row in said}
    assert {earlier.rstrip(".") for earlier, *_ in PAIRS} <= {*quotes.values()}
    return {
        quotes[row["from_id"]]
        for row in opened.read(MERGES).to_pylist()
        if row["kind"] in (LedgerKind.DOUBT, LedgerKind.SUPERSESSION)
        and row["rule"] != LEADS
    }


@pytest.mark.parametrize(("earlier", "later", "query"), LINKED)
def test_a_plain_change_is_linked_and_comes_first(
    store: Path, found: set[str], earlier: str, later: str, query: str
) -> None:
    assert earlier.rstrip(".") in found
    (hit,) = Memory.open(store).recall(query, 1, workspace=name_project(later))
    assert later in hit.text


@pytest.mark.parametrize(("earlier", "later", "query"), CHANGES)
def test_a_block_has_the_old_statement_never_alone(
    store: Path, earlier: str, later: str, query: str
) -> None:
    memory = Memory.open(store)
    texts = [
        memory.context(query, budget, workspace=name_project(later)).text
        for budget in BUDGETS
    ]
    told = [text for text in texts if earlier in text]
    assert told
    assert all(later.rstrip(".") in text for text in told)


@pytest.mark.parametrize(("earlier", "later"), LOOK_ALIKES)
def test_what_only_looks_like_a_change_leaves_both_as_they_are(
    found: set[str], earlier: str, later: str
) -> None:
    assert not {earlier.rstrip("."), later.rstrip(".")} & found


@pytest.mark.parametrize("query", ["Do the tests of brook pass?", "Is brook released?"])
def test_a_report_is_never_shown_without_its_denial(store: Path, query: str) -> None:
    memory = Memory.open(store)
    texts = [
        memory.context(query, budget, workspace="brook").text for budget in BUDGETS
    ]
    for most in (1, 2, 3, 10):
        hits = memory.recall(query, most, everything=True, workspace="brook")
        beside = [one.text for hit in hits for one in hit.pair]
        texts.append(" ".join([*(hit.text for hit in hits), *beside]))
    told = [text for text in texts if REPORT in text]
    assert told
    assert all(DENIAL in text for text in told)
