"""Conditions on files: absolute paths, files that very many rows are about, and whom a name means."""

from pathlib import Path
from typing import Any

import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.filters import find_passages
from slowwave.recall.hits import KINDS
from slowwave.recall.query import Query, build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import search_words
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, PASSAGES
from slowwave.store.publishing import publish
from slowwave.store.upkeep import compact_store
from tests.recall_store import add, build, message_rows, observation, passage_rows

HOME = "/home/ada/tidepool-ingest"
POLL = f"{HOME}/src/ingest/poll.py"
SAID: list[tuple[str | None, str]] = [
    (HOME, "The poll loop in src/ingest/poll.py sleeps too long."),
    (HOME, f"Edited {POLL}: the poll loop sleeps a second."),
    ("/home/ada/other", "The poll loop of src/ingest/poll.py here is another."),
    (None, "A poll loop, src/ingest/poll.py, in no workspace."),
    (HOME, "The poll loop is tested now."),
]
ASKED = "poll loop sleeps"


@pytest.fixture(params=["held", "lance", "words"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    vectors = request.param != "words"
    store = build(tmp_path, vectors=vectors, index=False)
    first = message_rows()[0]
    rows = [
        first
        | {"message_id": f"m{n}", "session_id": "hash-poll", "seq": n, "native_id": f"poll:{n}", "text": text}
        | {"workspace": workspace}
        for n, (workspace, text) in enumerate(SAID)
    ]
    claim: dict[str, Any] = {"session_id": "hash-poll"}
    claims = [
        observation(
            "o-near", "The poll loop sleeps.", "x", "m4", files=["src/ingest/poll.py"], workspace=HOME, **claim
        ),
        observation("o-whole", "The poll loop is edited.", "x", "m1", files=[POLL], workspace=HOME, **claim),
        observation("o-far", "The poll loop is odd.", "x", "m2", files=["src/ingest/poll.py"], workspace="w", **claim),
    ]
    add(store, MESSAGES, rows)
    add(store, PASSAGES, passage_rows(rows, vectors))
    add(store, OBSERVATIONS, claims)
    compact_store(store)
    publish(store, "more", "hash-384" if vectors else None)
    if request.param == "lance":
        monkeypatch.setattr("slowwave.recall.release.tables.INDEXED_ROWS", 0)
    return Memory.open(tmp_path, encoder=HashEncoder() if vectors else None)


def found(memory: Memory, files: str, **conditions: Any) -> set[str]:
    """Return the ids of what each kind answers, since a message keeps its claim from a place of its own."""
    kinds = (conditions.pop("kinds"),) if "kinds" in conditions else KINDS
    return {hit.id for kind in kinds for hit in memory.recall(ASKED, 50, kind, files=files, **conditions)}


def test_an_absolute_path_finds_both_spellings_of_its_own_workspace(memory: Memory) -> None:
    own = {"m0", "m1", "m3", "m4", "o-near", "o-whole"}
    assert found(memory, POLL) == own
    assert found(memory, POLL.replace("/", "\\")) == own
    assert found(memory, POLL, workspace=HOME) == own - {"m3"}
    assert found(memory, "src/ingest/poll.py") == own | {"m2", "o-far"}
    assert found(memory, "/home/ada/other/src/ingest/poll.py") == {"m2", "m3"}
    assert found(memory, "/elsewhere/src/ingest/poll.py") == set()


def _view_and_query(memory: Memory, text: str = ASKED) -> tuple[View, Query]:
    asked = build_query(text, 5, ("message", "observation"), files="poll.py")
    return memory.get_view(), asked


def test_a_sieve_loses_no_row_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = build(tmp_path, index=False)
    first = message_rows()[0]
    rows = [
        first
        | {"message_id": f"m{n}", "session_id": f"hash-{n}", "seq": 0, "native_id": f"n{n}"}
        | {"text": f"Tide tide tide {n}." if n < 60 else f"The tide of number {n} is read by a loop in src/poll.py."}
        for n in range(66)
    ]
    add(store, MESSAGES, rows)
    add(store, PASSAGES, passage_rows(rows, vectors=True))
    compact_store(store)
    publish(store, "more", "hash-384")
    view, asked = _view_and_query(Memory.open(tmp_path), "tide")
    (vector,), passages = HashEncoder().encode(["Tide tide tide 1."]), find_passages(view, asked)
    assert passages.allowed.sum() == 6

    def look_up(view: View) -> list[list[float]]:
        near, said = passages.search_vectors(vector, 3), passages.search_text(["tide"], 3)
        assert set(near.column_names) == set(said.column_names) == {"_rowid", "_score"}
        ((positions, scores),) = search_words(view, asked)
        assert passages.allowed[positions].all()
        return [near["_score"].to_pylist(), said["_score"].to_pylist(), scores.tolist()]

    monkeypatch.setattr("slowwave.recall.retrieve.lexical.ROWS_A_WORD", 3)
    at_once = look_up(view)
    assert [len(scores) for scores in at_once] == [3, 3, 3]
    monkeypatch.setattr("slowwave.recall.retrieve.rows.MORE", 0.1)  # the rows lie as unevenly as can be
    for scores, others in zip(look_up(View(view.dir, view.release)), at_once, strict=True):
        assert scores == pytest.approx(others)
