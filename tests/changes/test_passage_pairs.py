"""What recall orders or marks by a pair of messages is in the list of changes, with both texts, date and kind."""

import json
from datetime import UTC, datetime

import pyarrow.compute as pc
import pytest

from slowwave import Memory
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.flows.passage_pairs import KIND
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import PASSAGES
from slowwave.schemas.vocabulary import PERHAPS_CHANGED
from tests.command_line import typed
from tests.talk_files import session

OLD = "Is the export limit of the pier at 400 rows?"
NEW = "Is the export limit of the pier at 900 rows?"
BESIDE = "Who paints the lighthouse this summer?"
PORT = "The harbour service listens on port 7070."
MOVED = "The harbour service listens on port 8200 from now on."
ECHO = "The harbour service now listens on port 7070."


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("pairs")
    said = {
        "a": (2, [("user", OLD), ("user", PORT), ("assistant", ECHO)]),
        "b": (9, [("user", NEW), ("user", BESIDE), ("user", MOVED)]),
    }
    talks = [
        session(folder, name, day, turns, "pier", ("Ada",))
        for name, (day, turns) in said.items()
    ]
    nights = Settings(store=folder / "store")
    run_night(talks, nights).check_complete()
    return nights


def test_a_pair_that_recall_orders_is_listed(settings: Settings) -> None:
    texts = [
        hit.text
        for hit in Memory.open(settings.store).recall(
            "export limit of the pier in rows", 5, everything=True
        )
        if hit.kind == "message"
    ]
    assert texts.index(NEW) < texts.index(OLD)
    rows = [
        row for row in LEDGERS["changes"](settings, True).rows if row["kind"] == KIND
    ]
    (row,) = [row for row in rows if row["from"] == OLD]
    assert (row["into"], row["rule"], row["by"]) == (NEW, "another figure", "recall")
    assert row["said_at"] == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert row["at"] == datetime(2026, 3, 9, 10, tzinfo=UTC)
    assert BESIDE not in [text for row in rows for text in (row["from"], row["into"])]


def test_a_message_that_is_marked_by_a_claim_is_listed_with_it(
    settings: Settings,
) -> None:
    snapshot = Memory.open(settings.store).snapshot
    (marked,) = snapshot.read(
        PASSAGES, ["chain_likely"], pc.field("text") == ECHO
    ).to_pylist()
    assert marked["chain_likely"] > PERHAPS_CHANGED
    listed = typed("inspect", "changes", "--all", "--json", "--store", settings.store)
    rows = json.loads(listed.output)
    (row,) = [row for row in rows if row["from"] == ECHO]
    assert (row["rule"], row["into"]) == ("in other words", MOVED[:-1])


def test_the_short_list_has_decisions_alone(settings: Settings) -> None:
    assert KIND not in {row["kind"] for row in LEDGERS["changes"](settings, False).rows}
