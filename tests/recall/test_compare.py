"""Two releases compared: what came, what went, and what took its place."""

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from slowwave.recall.views.compare import compare_releases
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Snapshot, Store
from slowwave.store.publishing import publish, roll_back
from tests.command_line import typed
from tests.recall_store import claim_row
from tests.talk_files import session


def claim(key: str, **other: object) -> dict[str, object]:
    return claim_row(key, f"the claim {key}", f"the claim {key}", "m", **other)


def write(store: Store, *rows: dict[str, Any]) -> None:
    store.merge(CLAIMS, pa.Table.from_pylist(list(rows), schema=CLAIMS.schema))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two releases: of six claims each has another fate."""
    made = Store.open(tmp_path, create=True)
    write(
        made,
        *(claim(name) for name in ("stays", "old", "twice", "vague", "lost", "asleep")),
    )
    write(made, claim("asleep", status="superseded"))
    publish(made, "a", None)
    write(
        made,
        claim("new"),
        claim("old", status="superseded", superseded_by="new"),
        claim("asleep"),
    )
    write(
        made,
        claim("twice", status="duplicate", canonical_id="stays"),
        {**claim("vague"), "summary": "now said better"},
    )
    made.delete_ids(CLAIMS, ["lost"])
    publish(made, "b", None)
    return made


def test_each_fate_has_its_name_and_what_took_its_place(store: Store) -> None:
    found = compare_releases(Snapshot(store.root, release="r1"), Snapshot(store.root))
    assert [(one.kind, one.claim_id, one.by) for one in found] == [
        ("added", "new", None),
        ("returned", "asleep", None),
        ("changed", "vague", None),
        ("superseded", "old", "new"),
        ("merged", "twice", "stays"),
        ("gone", "lost", None),
    ]
    assert found[2].summary == "now said better"
    assert found[2].reason == "was decision: the claim vague"


def test_the_command_compares_the_last_two(store: Store) -> None:
    told = typed("diff", "--store", store.root).stdout
    assert told.startswith(
        "r1 to r2: 1 added, 1 returned, 1 changed, 1 superseded, 1 merged, 1 gone\n"
    )
    assert "  old  the claim old\n    now new  the claim new\n" in told
    plain = typed("diff", "r1", "r2", "--json", "--store", store.root).stdout
    assert [one["kind"] for one in orjson.loads(plain)["differences"]][:2] == [
        "added",
        "returned",
    ]


def test_the_first_release_has_none_before_it(store: Store) -> None:
    shown = typed("diff", "--store", store.root)
    assert shown.exit_code == 0
    alone = typed("diff", "r7", "--store", store.root)
    assert alone.exit_code == 1
    assert "no release 'r7'" in alone.stderr


def test_after_the_first_night_there_is_nothing_to_compare_yet(tmp_path: Path) -> None:
    chat = session(tmp_path, "chat", 2, [("user", "The boiler in the cellar leaks.")])
    where = ("--store", tmp_path / "s")
    assert typed("diff", *where).exit_code == 1  # there is no store
    assert typed("run", chat, "--no-embeddings", *where).exit_code == 0
    told = typed("diff", *where)
    first = "r1 is the first release: there is nothing to compare it with yet.\n"
    assert (told.exit_code, told.stdout) == (0, first)
    assert json.loads(typed("diff", "--json", *where).stdout) == {
        "old": None,
        "new": "r1",
        "differences": [],
    }


def test_a_roll_back_says_until_when_it_holds_and_what_makes_it_last(
    tmp_path: Path,
) -> None:
    where = ("--store", tmp_path / "s")
    for number, text in enumerate(
        ("The boiler in the cellar leaks.", "We decided to paint the fence green.")
    ):
        chat = session(tmp_path, f"chat{number}", 2, [("user", text)])
        assert typed("run", chat, "--no-embeddings", *where).exit_code == 0
    told = typed("rollback", "r1", *where).stdout
    assert told.startswith(
        "Live now: r3, with the tables of r1.\nIt stays live until a run finds something new."
    )
    (words,) = [
        line.partition("slowwave ")[2].rstrip("`")
        for line in told.splitlines()
        if "make it last" in line
    ]
    assert words == "exclude r2 --why …"
    assert typed(*words.split(), *where).exit_code == 0
    news = session(tmp_path, "chat9", 3, [("user", "The gate is made of oak.")])
    assert typed("run", news, "--no-embeddings", *where).exit_code == 0
    assert "fence" not in typed("recall", "which colour has the fence", *where).stdout
    assert "oak" in typed("recall", "what is the gate made of", *where).stdout


def test_rolling_back_to_what_is_live_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="live already"):
        roll_back(store, "r2", "back")
    assert roll_back(store, "r1", "back").name == "r3"
    with pytest.raises(UsageError, match="live already"):
        roll_back(store, "r1", "back")


def test_check_tells_what_it_looked_at_and_fails_on_damage(store: Store) -> None:
    whole = typed("check", "--store", store.root)
    assert whole.exit_code == 0
    assert whole.stdout.startswith("2 releases, ")
    assert whole.stdout.endswith(" checked: 0 damaged\n")
    data = next((store.dir / "claims.lance" / "data").iterdir())
    data.write_bytes(data.read_bytes()[:-1] + b"\x00")
    harmed = typed("check", "--json", "--store", store.root)
    assert harmed.exit_code == 1
    assert orjson.loads(harmed.stdout)["damage"]
