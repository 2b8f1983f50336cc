"""An old value that is stated again changes what had replaced it: by words, and through whole nights."""

import shutil
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Store
from slowwave.tasks.changes.again import names_both, states_again
from slowwave.tasks.dedupe.normalise import normalise_claim
from tests.command_line import typed
from tests.talk_files import session

DAYS = (2, 9, 16)
RESTORED = {
    "fjord": (
        "We run the tests with nose.",
        "We switched the tests from nose to pytest.",
        "We are back to nose for the tests, pytest was too slow.",
    ),
    "wharf": (
        "We host the shop on Heroku.",
        "We moved the shop from Heroku to Fly.io.",
        "The shop is on Heroku again, Fly.io kept crashing.",
    ),
    "kai": (
        "Die Datenbank ist MySQL.",
        "Die Datenbank ist jetzt PostgreSQL.",
        "Die Datenbank ist doch wieder MySQL.",
    ),
    "gang": ("日志保留七天。", "日志改为保留十四天。", "日志又改回保留七天。"),
    "quay": (
        "Linting is done by ruff.",
        "Linting is done by flake8 now.",
        "Linting is done by ruff.",  # word for word: a repetition
    ),
}
CALM = {
    "bayou": (
        "The tests of bayou are run with nose.",
        "The tests of bayou are run with pytest from now on.",
        "As I said, the tests of bayou are run with pytest.",
    ),
    "crane": (
        "Linting of the crane is done by ruff.",
        "Linting of the crane is done by flake8 now.",
        "Linting of the crane is done by pylint now.",
    ),
    "dock": (
        "Linting of the worker is done by ruff.",
        "Linting of the worker is done by flake8 now.",
        "Ruff was too slow for the worker, so flake8 does the linting.",
    ),
    "lock": (
        "The API listens on port 7070.",
        "The API listens on port 8200 from now on.",
        "The admin page listens on port 7070.",
    ),
}
Said = dict[str, tuple[str, str, str]]


@pytest.mark.parametrize("texts", RESTORED.values())
def test_the_third_statement_has_the_value_of_the_first(
    texts: tuple[str, str, str],
) -> None:
    assert states_again(*map(normalise_claim, texts))


@pytest.mark.parametrize(
    "texts",
    [
        CALM["bayou"],
        CALM["crane"],
        ("The port is 7070", "The port is 8200", "The port is 9300"),
        ("We use nose", "We use pytest", "We do not use nose"),
    ],
)
def test_another_value_or_a_negation_is_no_old_value_again(
    texts: tuple[str, str, str],
) -> None:
    assert not states_again(*map(normalise_claim, texts))


def test_whether_it_names_the_new_value_too_is_told_apart() -> None:
    assert names_both(*map(normalise_claim, RESTORED["wharf"]))
    assert names_both(*map(normalise_claim, CALM["dock"]))
    assert not names_both(*map(normalise_claim, RESTORED["gang"]))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("restored")
    nights = Settings(store=folder / "store")
    said: Said = RESTORED | CALM
    for at, day in enumerate(DAYS):
        talks = [
            session(
                folder,
                f"{name}-{day}",
                day,
                [("user", texts[at]), ("assistant", "OK.")],
                name,
            )
            for name, texts in said.items()
        ]
        run_night(talks, nights).check_complete()
    return nights


def list_restored(settings: Settings) -> dict[str, tuple[str, str]]:
    """The ledger's restorations in force, by project: the claim between, and the one that restores."""
    claims = Store.open(settings.store).read(CLAIMS, ["claim_id", "workspace"])
    places = dict(
        zip(
            claims["claim_id"].to_pylist(), claims["workspace"].to_pylist(), strict=True
        )
    )
    rows = LEDGERS["changes"](settings, False).rows
    return {
        places[row["from_id"]]: (row["from"], row["into"])
        for row in rows
        if row["rule"] in ("restored", "perhaps restored")
    }


def test_each_old_value_again_is_listed_and_no_calm_pair_is(settings: Settings) -> None:
    found = list_restored(settings)
    assert found.keys() == RESTORED.keys()
    for name, (between, again) in found.items():
        first, second, third = (text.rstrip(".") for text in RESTORED[name])
        assert between == second
        assert again in (first, third)
    listed = typed("inspect", "changes", "--json", "--store", str(settings.store))
    assert "perhaps restored" in listed.output


def test_what_was_between_is_marked_as_reverted_and_stands_behind(
    settings: Settings,
) -> None:
    memory = Memory.open(settings.store)
    hits = memory.recall("What do we run the tests with?", 5, workspace="fjord")
    first, second, third = RESTORED["fjord"]
    texts = [hit.text for hit in hits]
    assert texts.index(third) < texts.index(second)
    between = hits[texts.index(second)].successor
    assert between is not None
    assert (between.text, between.restores) == (third[:-1], True)
    assert hits[texts.index(first)].successor is None  # holds again
    asked = ("recall", "What do we run the tests with?", "--project", "fjord")
    shown = typed(*asked, "--store", str(settings.store)).output
    assert "perhaps reverted by" in " ".join(shown.split())
    block = memory.context("What do we run the tests with?", workspace="fjord").text
    assert "(perhaps reverted on 16 Mar 2026" in block


@pytest.mark.parametrize("order", ["forget", "exclude"])
@pytest.mark.parametrize("gone", [0, 1])
def test_what_depended_on_a_claim_that_goes_is_judged_again(
    settings: Settings,
    tmp_path: Path,
    order: str,
    gone: int,
) -> None:
    store = tmp_path / "store"
    shutil.copytree(settings.store, store)
    name = f"fjord-{DAYS[gone]}"
    rest = ("--session", name, "--yes") if order == "forget" else (name, "--why", "x")
    assert typed(order, *rest, "--store", str(store)).exit_code == 0
    texts = [text for at, text in enumerate(RESTORED["fjord"]) if at != gone]
    left = Settings(store=store)
    found = [
        (row["from"], row["into"], row["rule"])
        for row in LEDGERS["changes"](left, False).rows
        if row["from"] in [text.rstrip(".") for text in RESTORED["fjord"]]
    ]
    first, second = (text.rstrip(".") for text in texts)
    assert found == [(first, second, "perhaps")]
    hits = Memory.open(store).recall(
        "What do we run the tests with?", 5, workspace="fjord"
    )
    (successor,) = [hit.successor for hit in hits if hit.text == texts[0]]
    assert successor is not None
    assert not successor.restores
