"""Sessions that are asked for as such: which come, what tells of each, and what the conditions leave out."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.sessions import rank_sessions, read_session_ids
from slowwave.schemas.errors import StoreMissing
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS, SUMMARIES
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.text.pyramid import compute_master_id
from tests.command_line import typed
from tests.recall_store import START, TALK, add, build, summary
from tests.talk_files import session

CACHE = "Where did the session cache of Redis go?"
MORNING = "A morning of repairs to cache and parser."


def build_told(root: Path) -> None:
    """The small store, whose first session has a span, a workspace, a title and a master summary."""
    store = build(root)
    told = {
        "workspace": "api",
        "title": "Repairs",
        "started_at": START,
        "ended_at": START + timedelta(minutes=3),
    }
    row = next(
        one for one in store.read(SESSIONS).to_pylist() if one["native_id"] == "ses-a"
    )
    store.delete_ids(SESSIONS, [row["session_id"]])
    add(store, SESSIONS, [row | told])
    add(
        store,
        SUMMARIES,
        [summary(compute_master_id("hash-ses-a"), -1, MORNING, ["s-0", "s-1"])],
    )
    publish(store, "run", "hash-384")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sessions")
    build_told(root)
    return root


@pytest.fixture
def memory(root: Path) -> Memory:
    return Memory.open(root, encoder=HashEncoder())


def test_a_session_comes_with_what_tells_of_it(memory: Memory) -> None:
    found = memory.sessions(CACHE)
    first = found[0]
    assert (first.session, first.workspace, first.title, first.summary) == (
        "ses-a",
        "api",
        "Repairs",
        MORNING,
    )
    assert (first.started_at, first.ended_at) == (START, START + timedelta(minutes=3))
    assert first.sources[0].quote in TALK["ses-a"][:2]  # the two messages on the cache
    assert {one.session for one in first.sources} == {"ses-a"}
    assert len({one.message for one in first.sources}) == len(first.sources) <= 3
    assert found == sorted(found, key=lambda one: -one.probability)
    assert sum(one.probability for one in found) == pytest.approx(1.0)
    told = json.loads(json.dumps(first.as_dict()))
    assert (told["kind"], told["sources"][0]["quote"]) == (
        "session",
        first.sources[0].quote,
    )


def test_without_full_text_the_sessions_of_a_report_are_told_by_meaning(
    root: Path,
) -> None:
    asked = build_query("What does Nina do in Lisbon?", 2, "message")
    vector = HashEncoder().encode([asked.text])[0]
    view = View.open(root, "default")
    (first, probability), (_, less) = rank_sessions(
        view, asked, vector, full_text=False
    )
    assert read_session_ids(view, [first]) == ["hash-ses-b"]
    assert probability > less


def test_conditions_hold_as_for_messages(memory: Memory) -> None:
    def sessions(**filters: object) -> list[str]:
        return [
            one.session
            for one in memory.sessions("the cache and the boiler", **filters)
        ]  # type: ignore[arg-type]

    assert set(sessions()) == {"ses-a", "ses-b"}
    assert sessions(workspace="api") == ["ses-a"]
    assert sessions(speaker="Ann") == ["ses-b"]
    assert sessions(since="2025-03-02") == ["ses-b"]
    assert sessions(until="2025-03-02") == ["ses-a"]
    assert sessions(as_of="2025-02-01") == []
    with pytest.raises(TypeError, match="category"):
        memory.sessions("cache", category="decision")  # type: ignore[call-arg]


def test_as_of_a_moment_nothing_tells_of_what_came_later(memory: Memory) -> None:
    (then,) = memory.sessions(CACHE, as_of=START + timedelta(minutes=1))
    assert (then.summary, then.ended_at) == (None, START + timedelta(minutes=1))
    assert {one.message for one in then.sources} <= {"ses-a:0", "ses-a:1"}


def test_a_query_of_nothing_but_a_time_finds_who_talked_then(memory: Memory) -> None:
    march, april = (
        memory.sessions("What was said in March 2025?"),
        memory.sessions("What was said on 31 March 2025?"),
    )
    # 1 March, and 30 days later.
    assert {one.session for one in march} == {
        "ses-a",
        "ses-b",
    }
    assert [one.session for one in april] == ["ses-b"]


def test_what_was_taken_back_finds_no_session_and_is_not_quoted(tmp_path: Path) -> None:
    talk, settings = (
        tmp_path / "trip.jsonl",
        Settings(store=tmp_path / "store", encoder="hash-384"),
    )
    for second in (
        "We will sail to Rousay with the catamaran.",
        "We will go to Rousay by bus.",
    ):
        # A turn rewritten.
        said = {"c1": "The ferry to Hoy leaves from Stromness.", "c2": second}
        talk.write_text(
            "".join(
                json.dumps(
                    {
                        "session_id": "trip",
                        "message_id": key,
                        "role": "user",
                        "content": text,
                    }
                )
                + "\n"
                for key, text in said.items()
            ),
            encoding="utf-8",
        )
        run_night([talk], settings)
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    (found,) = memory.sessions("Which ferry leaves from Stromness?")
    assert {one.quote for one in found.sources} == set(said.values())
    assert "catamaran" not in str(found.as_dict())
    assert Store.open(settings.store).count(MESSAGES) == 3  # the vault keeps it


def test_silence_and_a_store_that_is_away(root: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(root, tmp_path / "store"))
    memory = Memory.open(moved, encoder=HashEncoder())
    nothing = memory.sessions("zzyzx", workspace="nowhere")
    assert (nothing, nothing.reason) == ([], "no project 'nowhere' is known here")
    assert memory.sessions(CACHE)
    moved.rename(tmp_path / "away")
    with pytest.raises(StoreMissing):
        Memory.open(moved, encoder=HashEncoder())


def test_the_command_tells_sessions(root: Path) -> None:
    def run(*words: str) -> str:
        done = typed("recall", CACHE, "--store", root, *words)
        return (
            done.output if done.exit_code == 0 else f"{done.exit_code}: {done.output}"
        )

    told = run("--kind", "session", "-k", "1")
    assert "\n1. session ses-a · 1 Mar 2025 · api · likely " in f"\n{told}"
    assert MORNING in told
    assert "message ses-a:" in told
    plain = json.loads(run("--kind", "session", "--json"))
    assert plain["hits"][0]["kind"] == "session"
    assert plain["hits"][0]["started_at"] == START.isoformat()
    assert run("--kind", "session", "--kind", "message").startswith("1: ")
    assert "sessions have none" in run("--kind", "session", "--category", "decision")


def test_as_many_sessions_are_told_as_are_asked_for_however_unlikely(
    tmp_path: Path,
) -> None:
    texts = ["The ferry to Hoy leaves from Stromness at nine."] + [
        f"Berth {n} of the quay gets a bollard, painted {n} times." for n in range(40)
    ]
    talks = [
        session(tmp_path, f"s{n}", 1, [("user", text)]) for n, text in enumerate(texts)
    ]
    run_night(talks, Settings(store=tmp_path / "store", encoder="hash-384"))
    found = Memory.open(tmp_path / "store").sessions(
        "When does the ferry to Hoy leave from Stromness?", 41
    )
    assert (len(found), found[0].session, found.warnings) == (41, "s0", ())
    assert found[-1].probability < 0.005
