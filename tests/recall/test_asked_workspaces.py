"""Whoever asks names a workspace as they write it: recall, sessions, blocks and briefings find it all the same."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.mcp.server import Tools
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    PASSAGES,
    SESSIONS,
    SUMMARIES,
)
from slowwave.store.notes import read_written
from slowwave.store.publishing import publish
from slowwave.store.store import Store
from tests.command_line import typed
from tests.recall_store import (
    add,
    claim_row,
    message_rows,
    passage_rows,
    session_rows,
    summary,
)

START = datetime(2020, 1, 1, tzinfo=UTC)
"""Before all that was said."""
ASKED = "the session cache moves into Postgres"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("asked") / "api"
    (where / "src").mkdir(parents=True)
    (where / ".git").mkdir()
    return where


@pytest.fixture(scope="module")
def root(folder: Path) -> Path:
    """The small store in two spaces, its first session said in a folder that there is."""
    where = folder.parent / "store"
    for space in ("default", "work"):
        store = Store.open(where, space, create=True)
        messages = [
            row | {"workspace": str(folder) if row["workspace"] == "api" else "home"}
            for row in message_rows()
        ]
        here = {"workspace": str(folder)}
        add(
            store,
            SESSIONS,
            [
                row | (here if row["native_id"] == "ses-a" else {})
                for row in session_rows()
            ],
        )
        add(store, MESSAGES, messages)
        add(store, PASSAGES, passage_rows(messages, vectors=True))
        add(
            store,
            CLAIMS,
            [claim_row("o-new", "We drop Redis.", "x", "ses-a-m0", **here)],
        )
        add(
            store, SUMMARIES, [summary("s-top", -1, "A morning of repairs.", []) | here]
        )
        publish(store, "run", "hash-384")
    return where


@pytest.fixture
def memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.chdir(root.parent)
    return Memory.open(root, encoder=HashEncoder())


@pytest.mark.parametrize(
    "written", ["{0}/", "{0}/src", "./api/", "api/src/..", "API", "{1}/api"]
)
def test_recall_sessions_blocks_and_briefings_know_it(
    memory: Memory, folder: Path, written: str
) -> None:
    plain, asked = str(folder), written.format(folder, folder.parent.name)
    for kinds in ("message", "claim", "summary"):
        hits = memory.recall(ASKED, 20, kinds, workspace=plain)
        assert hits
        assert [hit.id for hit in memory.recall(ASKED, 20, kinds, workspace=asked)] == [
            hit.id for hit in hits
        ]
    assert [one.session for one in memory.sessions(ASKED, workspace=asked)] == ["ses-a"]
    assert (
        memory.context(ASKED, 500, workspace=asked).text
        == memory.context(ASKED, 500, workspace=plain).text
        != ""
    )
    briefed = memory.briefing(workspace=asked)
    assert briefed.text == memory.briefing(workspace=plain).text
    assert (
        "We drop Redis." in briefed.text,
        "A morning of repairs." in briefed.text,
    ) == (True, True)
    assert memory.has_workspace(asked)


def test_an_unknown_one_is_told_with_the_nearest(memory: Memory, folder: Path) -> None:
    told = f"no project 'apo' is known here; the nearest: '{folder}'"
    assert memory.recall(ASKED, workspace="apo").reason == told
    assert memory.sessions(ASKED, workspace="apo").reason == told
    assert memory.context(ASKED, 500, workspace="apo").reason == told
    with pytest.raises(UsageError, match="the nearest"):
        memory.briefing(workspace="apo")
    assert not memory.has_workspace("apo")
    with pytest.raises(UsageError, match="the nearest"):
        memory.refuse_unknown_workspace("apo")


@pytest.mark.parametrize(
    "command", ["recall", "context", "show claims", "briefing", "show habits"]
)
def test_a_command_ends_with_an_error_for_an_unknown_one(
    root: Path, command: str
) -> None:
    words = [ASKED] if command in ("recall", "context") else []
    done = typed(*command.split(), *words, "--project", "apo", "--store", root)
    assert done.exit_code != 0
    assert "no project 'apo' is known here; the nearest:" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("recall", ASKED),
            ("context", ASKED),
            ("show", "claims"),
            ("briefing",),
            ("show", "habits"),
            ("recent",),
        ),
        *(
            ("reprocess", "dedupe"),
            ("forget", "--dry-run"),
            ("project", "--out", "x.md"),
        ),
        ("export", "learnings.json", "--learnings"),
    ],
)
def test_every_command_takes_the_last_part_that_recall_prints(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    copy = Path(shutil.copytree(root, tmp_path / "store"))
    done = typed(
        *words,
        "--project",
        "api",
        "--store",
        copy,
        env={"SLOWWAVE_ENCODER": "hash-384"},
    )
    assert done.exit_code == 0, done.output


def test_what_is_noted_of_a_last_part_is_of_the_known_project(
    root: Path, tmp_path: Path, folder: Path
) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "store"))
    assert (
        f"of {folder}."
        in typed(
            "remember", "We ship on Friday.", "--project", "api", "--store", copy
        ).stdout
    )
    memory = Memory.open(copy, encoder=HashEncoder())
    memory.remember("We deploy on Monday.", workspace="api")
    memory.begin_conversation("api").append("user", "We rest on Sunday.")
    got = Tools(Settings(store=copy, encoder="hash-384")).remember(
        "We test on Tuesday.", workspace="api"
    )
    assert got.startswith("Noted as ")
    written = [
        line["workspace"]
        for line in read_written(copy / "default", ())
        if line["role"] != "agent"
    ]
    assert written == [str(folder)] * 4


def test_a_briefing_of_a_project_is_not_the_one_of_all(
    memory: Memory, root: Path, folder: Path
) -> None:
    whole, own = memory.briefing().text, memory.briefing(workspace=str(folder)).text
    assert whole != own


def test_a_selection_knows_it_and_one_without_a_session_is_refused(
    root: Path, folder: Path
) -> None:
    store = Store.open(root)
    assert Selection(workspace=f"{folder}/src").select_sessions(store)[
        "native_id"
    ].to_list() == ["ses-a"]
    for chosen, told in (
        (Selection(workspace="apo"), "the nearest"),
        (
            Selection(sessions=("ses-a",), since=None, until=START),
            "no session is chosen",
        ),
    ):
        with pytest.raises(UsageError, match=told):
            run_reprocess("dedupe", chosen, Settings(store=root, encoder="hash-384"))


def test_the_space_is_the_settings_unless_it_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_SPACE", "work")
    assert Memory.open(root).space == "work"
    assert Memory.open(root, "default").space == "default"
