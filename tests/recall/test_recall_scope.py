"""Conditions on who spoke and on files: they hold for every kind and in every way that rows are looked up; absolute
paths, files that very many rows are about, and whom a name means."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.hits import KINDS
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import Rows, find_passages, search_words
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import CLAIMS, MESSAGES, PASSAGES, TOPICS
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from slowwave.tasks.changes.task import write_chains
from tests.recall_store import (
    START,
    add,
    build,
    build_wordless,
    claim_row,
    message_rows,
    passage_rows,
)

SAID = [
    ("Ada Lovelace", "The connection pool in src/db.py leaks connections under load."),
    ("Bob", "Agreed, the pool closes connections in a finally block now."),
    (
        "Ada Lovelace",
        "Connections in mydb.py and in db.pyc are fine, and so is the pool there.",
    ),
    ("Ada Byron", "On Windows the pool of connections stands in src\\db.py."),
    (
        "bob",
        "A pool of connections for the billiard hall, db.py/pool is no file of ours.",
    ),
]
ASKED = "connections of the pool"
HOME = "/home/ada/tidepool-ingest"
POLL = f"{HOME}/src/ingest/poll.py"
POLLED: list[tuple[str | None, str]] = [
    (HOME, "The poll loop in src/ingest/poll.py sleeps too long."),
    (HOME, f"Edited {POLL}: the poll loop sleeps a second."),
    ("/home/ada/other", "The poll loop of src/ingest/poll.py here is another."),
    (None, "A poll loop, src/ingest/poll.py, in no workspace."),
    (HOME, "The poll loop is tested now."),
]


def messages() -> list[dict[str, object]]:
    first = message_rows()[0]
    return [
        first
        | {
            "message_id": f"m{n}",
            "session_id": "hash-db",
            "seq": n,
            "native_id": f"db:{n}",
            "speaker": speaker,
        }
        | {"text": text, "role": "user", "origin": "human"}
        for n, (speaker, text) in enumerate(SAID)
    ] + [
        first
        | {
            "message_id": f"p{n}",
            "session_id": "hash-poll",
            "seq": n,
            "native_id": f"poll:{n}",
            "text": text,
        }
        | {"workspace": workspace}
        for n, (workspace, text) in enumerate(POLLED)
    ]


def claims() -> list[dict[str, object]]:
    said: dict[str, Any] = {"session_id": "hash-db"}
    return [
        claim_row(
            "o-ada",
            "The connection pool leaks.",
            "x",
            "m0",
            speaker="Ada Lovelace",
            files=["src/db.py"],
            **said,
        ),
        claim_row(
            "o-bob",
            "The pool closes connections.",
            "x",
            "m1",
            speaker="Bob",
            files=["./lib/src/db.py"],
            **said,
        ),
        claim_row(
            "o-mine",
            "The pool of mydb is fine.",
            "x",
            "m2",
            speaker="Ada Lovelace",
            files=["mydb.py"],
            **said,
        ),
        claim_row(
            "o-bad",
            "Pool connections!",
            "x",
            "m4",
            speaker="Bob",
            files=["db.py"],
            status="quarantined",
            **said,
        ),
        claim_row(
            "o-none", "The pool of connections is for the hall.", "x", "m4", **said
        ),
        *(
            claim_row(
                key,
                text,
                "x",
                message,
                session_id="hash-poll",
                files=[file],
                workspace=place,
            )
            for key, text, message, file, place in (
                ("o-near", "The poll loop sleeps.", "p4", "src/ingest/poll.py", HOME),
                ("o-whole", "The poll loop is edited.", "p1", POLL, HOME),
                ("o-far", "The poll loop is odd.", "p2", "src/ingest/poll.py", "w"),
            )
        ),
    ]


def stored(root: Path, *, vectors: bool = True, index: bool = True) -> Store:
    store = build(root, vectors=vectors, index=False)
    add(store, MESSAGES, messages())
    add(store, PASSAGES, passage_rows(messages(), vectors))
    add(store, CLAIMS, claims())
    if index:
        compact_store(store)
    publish(store, "more", "hash-384" if vectors else None)
    return store


@pytest.fixture(scope="module", params=("held", "lance", "words", "no index"))
def memory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Memory]:
    """The same store read in each way: vectors in memory, compared by Lance, none at all; without full text."""
    root, words = tmp_path_factory.mktemp("scope") / "store", request.param == "words"
    stored(root, vectors=not words, index=request.param != "no index")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "lance":
            patch.setattr("slowwave.recall.release.tables.INDEXED_ROWS", 0)
        yield Memory.open(root, encoder=None if words else HashEncoder())


def found(memory: Memory, **conditions: Any) -> set[str]:
    """Return the ids of what each kind answers, since a message keeps its claim from a place of its own."""
    kinds = (conditions.pop("kinds"),) if "kinds" in conditions else KINDS
    asked = conditions.pop("asked", ASKED)
    return {
        hit.id
        for kind in kinds
        for hit in memory.recall(asked, 50, kind, everything=True, **conditions)
    }


def test_only_the_speaker_answers(memory: Memory) -> None:
    assert {"m0", "m1", "o-ada", "o-bob", "o-none"} <= found(memory)
    assert found(memory, speaker="ada  LOVELACE") == {"m0", "m2", "o-ada", "o-mine"}
    # In whatever case; what is in quarantine never does.
    assert found(memory, speaker="Bob") == {
        "m1",
        "m4",
        "o-bob",
    }
    assert found(memory, speaker="bob", kinds="message") == {"m1", "m4"}
    assert found(memory, speaker="Bob", workspace="home") == set()


def test_a_first_name_stands_for_those_who_have_more(memory: Memory) -> None:
    assert found(memory, speaker="ada") == {"m0", "m2", "m3", "o-ada", "o-mine"}
    for nobody in ("Lovelace", "Ad", "Zed", "' OR 1=1 --"):
        silent = memory.recall(ASKED, speaker=nobody)
        assert silent == []
        assert silent.reason == f"nobody called {nobody!r} speaks in this memory"


def test_only_what_is_about_the_files_answers(memory: Memory) -> None:
    # Bob names no file; the claim made in his message does.
    about = {
        "m0",
        "m1",
        "m3",
        "o-ada",
        "o-bob",
    }
    assert (
        found(memory, files="src/db.py")
        == found(memory, files=".\\src\\db.py")
        == about
    )
    assert found(memory, files="db.py") == about
    assert found(memory, files=["lib/src/db.py", "mydb.py"]) == {
        "m1",
        "m2",
        "o-bob",
        "o-mine",
    }
    assert found(memory, files=iter(["lib/src/db.py", "mydb.py"]), kinds="message") == {
        "m1",
        "m2",
    }
    assert found(memory, files="db.py", speaker="Bob") == {"m1", "o-bob"}
    for path in ("b.py", "DB.py", "%", ".*", "x' OR 'a'='a"):
        silent = memory.recall(ASKED, files=path)
        assert silent == []
        assert silent.reason == f"no claim and no message is about {path!r}"
    silent = memory.recall(ASKED, kinds="summary", files="db.py")
    assert silent.reason == "summaries and topics have neither a speaker nor files"


def test_an_absolute_path_finds_both_spellings_of_its_own_workspace(
    memory: Memory,
) -> None:
    def about(files: str, **more: Any) -> set[str]:
        return found(memory, asked="poll loop sleeps", files=files, **more)

    own = {"p0", "p1", "p3", "p4", "o-near", "o-whole"}
    assert about(POLL) == own
    assert about(POLL.replace("/", "\\")) == own
    assert about(POLL, workspace=HOME) == own - {"p3"}
    assert about("src/ingest/poll.py") == own | {"p2", "o-far"}
    assert about("/home/ada/other/src/ingest/poll.py") == {"p2", "p3"}
    assert about("/elsewhere/src/ingest/poll.py") == set()


def test_what_is_asked_is_heard_beside_the_speaker_too(tmp_path: Path) -> None:
    stored(tmp_path / "store", vectors=False)
    memory = Memory.open(tmp_path / "store")
    # Words of Ada's, which he answers.
    best = memory.recall("leaks under load", 1, "message", speaker="Bob")
    assert [hit.id for hit in best] == ["m1"]


def test_a_successor_by_somebody_else_is_named_and_not_brought_in(
    tmp_path: Path,
) -> None:
    store = stored(tmp_path / "store")
    said: dict[str, Any] = {"session_id": "hash-db", "observed_at": START}
    changed = {
        "status": "superseded",
        "superseded_by": "o-heir",
        "valid_to": START,
        "files": ["port.toml"],
    }
    old = claim_row(
        "o-port",
        "The pool listens on port 7070.",
        "x",
        "m0",
        speaker="Ada Lovelace",
        **said,
        **changed,
    )
    heir = claim_row(
        "o-heir", "The pool listens on port 8200.", "x", "m1", speaker="Bob", **said
    )
    add(store, CLAIMS, [old, heir])
    write_chains(store)
    publish(store, "changed", "hash-384")
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    asked = ("Which port does the pool listen on?", 50, "claim")
    assert {"o-port", "o-heir"} <= {hit.id for hit in memory.recall(*asked)}
    for conditions in ({"speaker": "Ada Lovelace"}, {"files": "port.toml"}):
        hits = {hit.id: hit for hit in memory.recall(*asked, **conditions)}  # type: ignore[arg-type]
        assert "o-heir" not in hits
        assert hits["o-port"].superseded_by == "o-heir"


@pytest.mark.parametrize(
    "conditions",
    [
        *({"speaker": value} for value in (" ", "Ann\nBen", ["Ann"])),
        *({"files": value} for value in ([], "./", 5, ["db.py", None], "db\x00.py")),
    ],
)
def test_what_is_no_name_and_no_path_is_refused(
    tmp_path: Path, conditions: dict[str, Any]
) -> None:
    build(tmp_path)
    with pytest.raises(UsageError, match=next(iter(conditions))):
        Memory.open(tmp_path).recall("cache", **conditions)


def test_a_memory_without_claims_or_words(tmp_path: Path) -> None:
    build_wordless(tmp_path)
    assert (
        Memory.open(tmp_path).recall("x", speaker="Ann").reason
        == "nobody called 'Ann' speaks in this memory"
    )
    assert (
        Memory.open(tmp_path).recall("x", files="db.py").reason
        == "no claim and no message is about 'db.py'"
    )


def test_a_sieve_loses_no_row_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build(tmp_path, index=False)
    first = message_rows()[0]
    rows = [
        first
        | {
            "message_id": f"m{n}",
            "session_id": f"hash-{n}",
            "seq": 0,
            "native_id": f"n{n}",
        }
        | {
            "text": f"Tide tide tide {n}."
            if n < 60
            else f"The tide of number {n} is read by a loop in src/poll.py."
        }
        for n in range(66)
    ]
    add(store, MESSAGES, rows)
    add(store, PASSAGES, passage_rows(rows, vectors=True))
    compact_store(store)
    publish(store, "more", "hash-384")
    view, asked = (
        Memory.open(tmp_path).get_view(),
        build_query("tide", 5, ("message", "claim"), files="poll.py"),
    )
    (vector,), passages = (
        HashEncoder().encode(["Tide tide tide 1."]),
        find_passages(view, asked),
    )
    assert passages.allowed.sum() == 6

    def look_up(view: View) -> list[list[float]]:
        near, said = (
            passages.search_vectors(vector, 3),
            passages.search_text(["tide"], 3),
        )
        assert set(near.column_names) == set(said.column_names) == {"_rowid", "_score"}
        ((positions, scores),) = search_words(view, asked)
        assert passages.allowed[positions].all()
        return [near["_score"].to_pylist(), said["_score"].to_pylist(), scores.tolist()]

    monkeypatch.setattr("slowwave.recall.retrieve.rows.ROWS_A_WORD", 3)
    at_once = look_up(view)
    assert [len(scores) for scores in at_once] == [3, 3, 3]
    # The rows lie as unevenly as can be.
    monkeypatch.setattr("slowwave.recall.retrieve.rows.MORE", 0.1)
    for scores, others in zip(
        look_up(View(view.dir, view.release)), at_once, strict=True
    ):
        assert scores == pytest.approx(others)


def test_topics_in_memory_pass_a_condition_as_they_do_with_lance(
    samples_night: tuple[Path, object],
) -> None:
    view, where = (
        View.open(samples_night[0], "default"),
        pc.field("workspace") == "/home/ada/tidepool",
    )
    groups, (vector,) = (
        Rows(view=view, table=TOPICS, where=where),
        HashEncoder().encode(["Which port is it?"]),
    )
    near, by_lance = (
        search(vector, 5)["_score"].to_pylist()
        for search in (groups.find_nearest, groups.search_vectors)
    )
    assert near == pytest.approx(by_lance, abs=1e-3)
