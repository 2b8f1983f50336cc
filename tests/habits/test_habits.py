"""Habits of whole sessions: of each tool, counted by turns, and gone with what they stood on."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.flows.parts.run import open_run
from slowwave.memory import Memory
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import ACTIONS, MESSAGES, PATTERNS, SESSIONS, Table
from slowwave.store.manifest import compute_table_digest
from slowwave.store.store import Store
from slowwave.tasks.habits import patterns
from slowwave.tasks.habits.patterns import CHANCE, compute_chance
from slowwave.tasks.habits.task import find_habits
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.publish.task import publish_release

Call = tuple[str, dict[str, Any]]
EDIT_BOTH: list[Call] = [
    ("Edit", {"file_path": "/w/a.py"}),
    ("Edit", {"file_path": "/w/b.py"}),
]
EDIT_C: list[Call] = [("Edit", {"file_path": "/w/c.py"})]
CHECK: Call = ("Bash", {"command": "make check 2>&1"})
CHECK_THERE: Call = ("Bash", {"command": "cd /w && make check"})


def claude(
    folder: Path, name: str, turns: Sequence[Sequence[Call]], cwd: str = "/w"
) -> Path:
    """A session of Claude Code: what is called in each turn, all of it done well."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, content: object) -> None:
        lines.append({
            "type": kind, "uuid": f"{name}-{len(lines)}", "parentUuid": lines[-1]["uuid"] if lines else None,
            "sessionId": name, "cwd": cwd, "timestamp": f"2026-03-01T10:{len(lines) // 60:02d}:{len(lines) % 60:02d}Z",
            "message": {"role": kind, "content": content, "id": f"{name}-{len(lines)}"},
        })  # fmt: skip

    for number, calls in enumerate(turns):
        add("user", f"Please do the next thing, number {number}.")
        for tool, given in calls:
            key = f"call-{len(lines)}"
            add(
                "assistant",
                [{"type": "tool_use", "id": key, "name": tool, "input": given}],
            )
            add(
                "user",
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": key,
                        "content": "ok",
                        "is_error": False,
                    }
                ],
            )
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def settled(folder: Path, *paths: Path, **more: Any) -> Settings:
    """Settings of a store into which the paths are read, and their habits found."""
    settings = Settings(
        store=folder / "store", encoder="hash-384", embeddings=False, **more
    )
    with open_run("test", settings, create=True) as (job, _):
        if paths:
            read_transcripts(job, list(paths))
        find_habits(job)
    return settings


def rows(settings: Settings, table: Table = PATTERNS) -> list[dict[str, Any]]:
    return sorted(
        Store.open(settings.store, create=True).read(table).to_pylist(),
        key=lambda row: str(row[table.key]),
    )


def items(settings: Settings) -> dict[tuple[str, ...], tuple[str, int]]:
    return {
        tuple(row["items"]): (row["kind"], row["support"]) for row in rows(settings)
    }


def test_what_comes_together_in_turns_is_a_habit(tmp_path: Path) -> None:
    turns = [
        [*EDIT_BOTH, CHECK],
        [*EDIT_BOTH, CHECK],
        [*EDIT_C, CHECK_THERE],
        *[EDIT_C] * 7,
    ]
    settings = settled(tmp_path, claude(tmp_path, "s", turns))
    # By accident in 1 of 45: 2 of 10 turns, and 2 of the same 10.
    assert items(settings) == {
        ("a.py", "b.py"): (
            "co_edit",
            2,
        ),
        ("edit", "make check"): ("sequence", 3),
        ("make check",): ("command", 3),
    }
    found = {tuple(row["items"]): row for row in rows(settings)}
    pair, command = found["a.py", "b.py"], found[("make check",)]
    assert (pair["share"], pair["lift"], pair["turns"]) == (1.0, 5.0, [2, 2])
    assert (
        command["role"],
        command["times"],
        command["share"],
        command["sessions"],
    ) == ("test", 3, 1.0, 1)
    held = {
        row["message_id"]
        for row in Store.open(settings.store, create=True).read(MESSAGES).to_pylist()
    }
    assert all(
        row["examples"] and held.issuperset(row["examples"]) for row in found.values()
    )


def test_what_chance_would_bring_is_none() -> None:
    assert compute_chance(2, 2, 2, 10) == pytest.approx(1 / 45)
    assert compute_chance(3, 10, 7, 53) > CHANCE > compute_chance(3, 5, 10, 53)
    # Where nothing else was changed, nothing tells.
    assert compute_chance(2, 2, 2, 2) == pytest.approx(1)
    assert compute_chance(50, 60, 70, 100_000) < 1e-9


@pytest.mark.parametrize(
    "files", [["x.lock", "deep/node_modules/b.js"], ["/elsewhere/a", "/elsewhere/b"]]
)
def test_files_that_programs_write_or_of_other_places_are_tied_to_nothing(
    tmp_path: Path, files: list[str]
) -> None:
    calls: list[Call] = [("Edit", {"file_path": name}) for name in ["/w/a.py", *files]]
    assert (
        items(settled(tmp_path, claude(tmp_path, "s", [calls, calls, *[EDIT_C] * 8])))
        == {}
    )


def test_an_edit_that_failed_and_a_turn_of_many_files_count_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = claude(tmp_path, "s", [EDIT_BOTH, EDIT_BOTH, *[EDIT_C] * 8])
    path.write_text(path.read_text().replace('"is_error": false', '"is_error": true'))
    assert items(settled(tmp_path, path)) == {}
    many = [*EDIT_BOTH, *EDIT_C]
    monkeypatch.setattr(patterns, "MOST_FILES", 2)
    assert items(settled(tmp_path, claude(tmp_path, "m", [many, many]))) == {}


def test_plain_talk_has_no_habits(tmp_path: Path) -> None:
    settings = settled(
        tmp_path, Path("data/samples/generic"), Path("data/samples/claude-ai")
    )
    assert rows(settings) == rows(settings, ACTIONS) == []


def test_a_rewound_branch_and_a_session_that_is_gone_leave_nothing(
    tmp_path: Path,
) -> None:
    path = claude(tmp_path, "s", [[EDIT_C[0]], [CHECK], [CHECK]])
    settings = settled(tmp_path, path)
    assert items(settings) == {("make check",): ("command", 2)}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # Beside the second thing that was asked.
    again = lines[3] | {
        "uuid": "new",
        "timestamp": "2026-03-01T11:00:00Z",
    }
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, again]))
    assert items(settled(tmp_path, path)) == {}
    assert [row["path"] for row in rows(settings, ACTIONS)] == ["c.py"]

    other = claude(tmp_path, "t", [[CHECK], [CHECK]])
    assert items(settled(tmp_path, other)) == {("make check",): ("command", 2)}
    store = Store.open(settings.store, create=True)
    gone = [
        row["session_id"]
        for row in store.read(SESSIONS).to_pylist()
        if row["native_id"] == "t"
    ]
    store.delete_ids(SESSIONS, gone)
    settled(tmp_path)
    assert (items(settings), [row["path"] for row in rows(settings, ACTIONS)]) == (
        {},
        ["c.py"],
    )


def test_only_touched_workspaces_change_and_a_second_time_nothing(
    tmp_path: Path,
) -> None:
    settings = settled(
        tmp_path,
        claude(tmp_path, "s", [[CHECK], [CHECK]]),
        claude(tmp_path, "o", [[CHECK], [CHECK]], "/o"),
    )
    versions = Store.open(settings.store, create=True).read_versions(
        [ACTIONS, PATTERNS]
    )
    settled(tmp_path)
    assert (
        Store.open(settings.store, create=True).read_versions([ACTIONS, PATTERNS])
        == versions
    )
    before = {row["workspace"]: row for row in rows(settings)}
    settled(tmp_path, claude(tmp_path, "p", [[CHECK]], "/w"))
    after = {row["workspace"]: row for row in rows(settings)}
    assert after["/o"] == before["/o"]
    assert (after["/w"]["support"], after["/w"]["sessions"]) == (3, 2)
    assert all(
        row["step_key"] != before["/o"]["step_key"]
        for row in rows(settled(tmp_path, habits={"exclude": ["*.lock"]}))
    )


@pytest.mark.failing
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_killed_between_its_writes_and_done_again_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Also where a session has moved: what it left behind is still found."""

    def moved(folder: Path, writes: int) -> dict[str, str]:
        folder.mkdir()
        settings = settled(folder, claude(folder, "s", [[CHECK], [CHECK]]))
        store = Store.open(settings.store, create=True)
        there = [
            row | {"workspace": "/moved", "head_hash": "other"}
            for row in store.read(SESSIONS).to_pylist()
        ]
        store.merge(SESSIONS, pa.Table.from_pylist(there, schema=SESSIONS.schema))
        left, merge = [writes], Store.merge

        def dying(self: Store, table: Table, rows: Any) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return merge(self, table, rows)

        with monkeypatch.context() as patched, open_run("test", settings) as (job, _):
            patched.setattr(Store, "merge", dying)
            try:
                find_habits(job)
            except KeyboardInterrupt:
                assert writes < 3
        settled(folder)
        return {
            t.name: compute_table_digest(
                t, Store.open(settings.store, create=True).read(t)
            )
            for t in (ACTIONS, PATTERNS)
        }

    assert moved(tmp_path / "killed", writes) == moved(tmp_path / "whole", 99)
    found = rows(Settings(store=tmp_path / "killed" / "store"))
    assert [(row["workspace"], row["items"]) for row in found] == [
        ("/moved", ["make check"])
    ]


def test_the_samples_habits_are_told_by_the_memory(
    samples_night: tuple[Path, Any],
) -> None:
    memory = Memory.open(samples_night[0])
    told = {
        (one.workspace.rpartition("/")[2], one.describe()) for one in memory.habits()
    }
    assert told == {
        ("tidepool", "uv run pytest -q (test): 6 times in 5 turns of 5 sessions"),
        ("tidepool-ingest", "make check (test): 3 times in 3 turns, 100% went well"),
        (
            "tidepool-ingest",
            "`make check` follows edit (3 of 3 times)",
        ),
    }
    (one,) = memory.habits("/home/ada/tidepool/", "command")
    assert one.sources[0].session == "77d03c1f-95e8-4a26-8f7b-c6e1a2509d3b"
    assert memory.habits(files="app/main.py") == []
    for wrong in (
        {"kind": "x"},
        {"workspace": "tidepoool"},
        {"kind": "command", "files": "a"},
    ):
        with pytest.raises(UsageError):
            memory.habits(**wrong)


def test_a_pair_is_told_from_the_file_that_is_asked_for(tmp_path: Path) -> None:
    turns = [EDIT_BOTH, EDIT_BOTH, [EDIT_BOTH[0]], *[EDIT_C] * 8]
    settings = settled(tmp_path, claude(tmp_path, "s", turns))
    with open_run("test", settings) as (job, _):
        publish_release(job)
    memory = Memory.open(settings.store)
    for asked, items, share in (
        ("/w/a.py", ("a.py", "b.py"), 2 / 3),
        ("b.py", ("b.py", "a.py"), 1.0),
    ):
        (one,) = memory.habits(files=asked)
        assert (one.items, one.share) == (items, pytest.approx(share))
    assert memory.habits(files=["a.py", "b.py"]) == []
