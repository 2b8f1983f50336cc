"""Every id that a command prints, whole or short, is taken by every command that takes ids."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.recall.release import tables
from slowwave.recall.views.show import show
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS, SUMMARIES
from slowwave.store import Store
from slowwave.ui.app import make_app
from tests.command_line import typed

ASKED = ("database gauge readings", "port", "lessons on Wednesdays", "tests")
HASH = re.compile(r"\b[0-9a-f]{12}(?:[0-9a-f]{20})?\b")


@pytest.fixture(autouse=True)
def plain_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("COLUMNS", "250")


@pytest.fixture
def folder(samples_night: tuple[Path, RunReport], tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples_night[0], tmp_path / "store"))


def find_ids(data: Any) -> set[str]:
    """Every value of JSON that is named as an id."""
    if isinstance(data, dict):
        own = {
            value
            for name, value in data.items()
            if name in NAMED and isinstance(value, str) and value
        }
        return own.union(*map(find_ids, data.values()))
    return set().union(*map(find_ids, data)) if isinstance(data, list) else set()


NAMED = (
    "id",
    "session",
    "message",
    "session_id",
    "message_id",
    "claim_id",
    "merge_id",
    "span_id",
    "topic_id",
)


def run(*words: object, store: Path) -> str:
    done = typed(*words, "--store", store)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_show_takes_what_recall_show_inspect_and_the_pages_print(folder: Path) -> None:
    printed, data = list[str](), list[Any]()
    for words in (
        *(("recall", query, "-k", 5) for query in ASKED),
        ("recent", 5),
        ("show", "claims", "--limit", 5),
    ):
        printed.append(run(*words, store=folder))
        data.append(json.loads(run(*words, "--json", store=folder)))
    data.append(
        json.loads(run("recall", ASKED[0], "--kind", "session", "--json", store=folder))
    )
    for kind in ("summary", "topic"):
        printed.append(run("recall", ASKED[0], "--kind", kind, store=folder))
    for ledger in ("merges", "changes", "junk", "usage"):
        printed.append(run("inspect", ledger, store=folder))
        data += json.loads(run("inspect", ledger, "--json", store=folder))[:4]
    data += [json.loads(run("show", "habits", "--all", "--json", store=folder))[:3]]
    app = make_app(Settings(store=folder, encoder="hash-384"))
    pages = TestClient(
        app,
        "http://127.0.0.1",
        headers={"authorization": f"Bearer {app.state.explorer.token}"},
    )
    data += [
        pages.get(address).json()
        for address in ("/search.json?q=port", "/search.json", "/topics.json")
    ]
    short = {key for text in printed for key in HASH.findall(text)}
    whole = find_ids(data)
    assert len(short) > 40
    assert len(whole) > 40
    view = Memory.open(folder).get_view()
    kinds = {show(view, key, 0).node.kind for key in short}
    assert kinds >= {"message", "claim", "summary", "topic", "merge"}
    natives = set(view.native_sessions.values())
    messages = {
        row["native_id"]
        for row in Store.open(folder).read(MESSAGES, ["native_id"]).to_pylist()
    }
    # Several sessions may have one: SESSION/MESSAGE says which.
    sources = {key for key in whole if key in messages}
    assert {show(view, key, 0).node.kind for key in whole - sources} >= {
        "message",
        "claim",
        "session",
        "habit",
    }
    assert natives & whole


def test_exclude_takes_what_recall_prints_and_include_takes_the_same_back(
    folder: Path,
) -> None:
    store = Store.open(folder)
    rows = {
        table.name: store.read(table).to_pylist()
        for table in (MESSAGES, CLAIMS, SUMMARIES)
    }
    claim = next(row for row in rows["claims"] if row["status"] == "active")
    message = claim["message_ids"][0]
    of_session = next(
        row
        for row in rows["summaries"]
        if row["scope"] == "session" and row["tier"] == -1
    )
    of_topic = next(row for row in rows["summaries"] if row["scope"] == "topic")
    before = active(store)
    for name in (
        message,
        claim["claim_id"],
        of_session["summary_id"],
        of_topic["summary_id"],
        claim["topic_id"],
    ):
        out = run("exclude", name[:12], "--why", "made up", store=folder)
        assert "left out (made up): " in out
        assert before - active(store), name
        assert run("inspect", "excluded", store=folder).count("made up") >= 1
        # It is left out.
        assert (
            typed("exclude", name[:12], "--why", "made up", "--store", folder).exit_code
            == 1
        )
        run("include", name[:12], store=folder)
        assert active(store) == before, name
    assert run("inspect", "excluded", store=folder) == "Nothing in excluded.\n"


def active(store: Store) -> set[str]:
    rows = store.read(CLAIMS, ["claim_id", "status"]).to_pylist()
    return {row["claim_id"] for row in rows if row["status"] == "active"}


def test_a_message_that_is_left_out_stays_out_when_its_transcript_grows(
    tmp_path: Path,
) -> None:
    chat, store = tmp_path / "chat.jsonl", tmp_path / "s"
    said = [
        "The boiler in the cellar of the Umea house leaks.",
        "Noted.",
        "We decided to paint the fence green.",
    ]

    def write(texts: list[str]) -> None:
        lines = [
            {
                "session_id": "talk",
                "message_id": f"m{n}",
                "role": "user" if n % 2 == 0 else "assistant",
            }
            | {"content": text, "ts": f"2026-11-01T10:0{n}:00Z"}
            for n, text in enumerate(texts)
        ]
        chat.write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(said)
    run("run", chat, store=store)
    run("exclude", "talk/m0", "--why", "wrong house", store=store)
    assert (
        "left out already"
        in typed("exclude", "talk/m0", "--why", "x", "--store", store).stderr
    )
    write([*said, "Agreed.", "The gate will be painted green too."])
    run("run", chat, store=store)
    found = run("recall", "which house has a boiler that leaks", store=store)
    assert "cellar of the Umea" not in found
    assert "gate" in run("recall", "the gate", store=store)
    run("include", "talk/m0", store=store)
    assert "cellar of the Umea" in run(
        "recall", "which house has a boiler that leaks", store=store
    )


def test_the_other_commands_take_short_ids_too(folder: Path) -> None:
    store = Store.open(folder)
    sessions = store.read(SESSIONS, ["session_id", "native_id"]).to_pylist()
    session = next(row for row in sessions if len(row["native_id"]) == 36)
    claim = next(
        row for row in store.read(CLAIMS).to_pylist() if row["status"] == "active"
    )
    for name in (
        session["session_id"][:12],
        session["native_id"][:13],
        session["native_id"],
    ):
        assert "1 session chosen" in run(
            "reprocess", "dedupe", "--session", name, store=folder
        )
        assert "Would go" in run("forget", "--session", name, "--dry-run", store=folder)
    for name in (claim["message_ids"][0][:12], claim["claim_id"][:12]):
        assert "Would go: 1 message" in run(
            "forget", "--message", name, "--dry-run", store=folder
        )
        run("show", "related", name, store=folder)
    refused = typed(
        "forget", "--message", claim["topic_id"][:12], "--dry-run", "--store", folder
    )
    assert (
        refused.exit_code,
        "is a topic, which is made of many" in refused.stderr,
    ) == (1, True)
    release = json.loads(run("inspect", "releases", "--json", store=folder))[0]
    for name in (
        release["name"],
        release["release_id"],
        release["release_id"][:12],
        release["run_id"],
    ):
        assert "the same claims" in run("diff", name, store=folder)
        refused = typed("show", name, "--store", folder)
        # A release, or a run.
        assert (refused.exit_code, " is a r" in refused.stderr) == (
            1,
            True,
        )
    for name in ("ab", "ffffffffffff", "talk/", "/m1", ""):
        for words in (
            ("show", name),
            ("exclude", name, "--why", "x"),
            ("forget", "--session", name, "--dry-run"),
        ):
            assert typed(*words, "--store", folder).exit_code == 1, words


def test_a_note_that_no_night_has_read_is_found_by_what_recall_prints(
    folder: Path,
) -> None:
    note = (
        run("remember", "The spare key hangs behind the blue door.", store=folder)
        .split()[2]
        .rstrip(",;")
    )
    line = run("recall", "where does the spare key hang", store=folder)
    (printed,) = re.findall(r"note-[\w/]+", line)
    assert printed == note
    for name in (note, f"{note}/m1", note[:14], note.removeprefix("note-")):
        assert "behind the blue door" in run("show", name, store=folder)
    run("exclude", printed, "--why", "moved", store=folder)
    assert "blue door" not in run(
        "recall", "where does the spare key hang", store=folder
    )


@pytest.mark.parametrize("hashed", [hash, len])
def test_keys_are_found_by_their_hash_even_if_others_have_the_same(
    monkeypatch: pytest.MonkeyPatch, hashed: Callable[[str], int]
) -> None:
    monkeypatch.setattr(tables, "hash", hashed, raising=False)
    keys = [f"key {number}" for number in range(200)]
    random.Random(3).shuffle(keys)
    places = tables.KeyPlaces(pa.array(keys))
    wanted = ["key 7", "key 150", "key 7", "key 201", "other"]
    found = places.find(wanted).tolist()
    assert found == sorted((keys.index("key 7"), keys.index("key 150")))
    assert places.find(["other"]).tolist() == []
    assert tables.KeyPlaces(pa.array([], pa.string())).find(["key 7"]).tolist() == []
