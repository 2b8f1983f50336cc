"""What fails in a night stops nothing else: the rest is released, and the next night tries it again."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import NightIncomplete
from slowwave.schemas.errors import BadRows, StoreUnwritable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    MARKS,
    PASSAGES,
    QUARANTINE,
    RELEASED,
    RUNS,
    SESSIONS,
    SUMMARIES,
    TOPICS,
)
from slowwave.store import Store
from slowwave.tasks.isolate import do_apart
from tests.command_line import typed
from tests.killed_nights import digests
from tests.talk_files import session

TALK = {
    "ferry": [
        "We take the ferry to Hoy on 4 May.",
        "The cabin costs 240 euros, Ann paid for it.",
    ],
    "gauge": [
        "The gauge at Hoy reads 1.83 m too high.",
        "We decided to poll every 10 minutes.",
    ],
    "poison": ["The harbour master is called Grieg.", "He wants the list by Friday."],
}
DERIVED = tuple(table for table in RELEASED if table is not QUARANTINE)

pytestmark = pytest.mark.failing


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talk") / "talk"
    for day, (name, said) in enumerate(TALK.items(), 1):
        session(folder, name, day, [("user", text) for text in said], speakers=["Ben"])
    return folder


def settings(root: Path) -> Settings:
    return Settings(
        store=root, encoder="hash-384", keywords={"top": 0}, gists="extractive"
    )


@pytest.fixture(scope="module")
def undisturbed(talk: Path) -> dict[str, str]:
    root = talk.parent / "whole"
    run_night([talk], settings(root))
    return digests(root, (*DERIVED, MARKS))


def fail_on_poison(function: Callable[..., Any]) -> Callable[..., Any]:
    """The pure function, which raises where the session's words are among what it is given."""

    def failing(rows: Any, *args: Any, **named: Any) -> Any:
        if "Grieg" in str(rows.to_pylist() if isinstance(rows, pa.Table) else rows):
            raise KeyError("x")
        return function(rows, *args, **named)

    return failing


def open_failures(root: Path) -> list[tuple[str, str]]:
    rows = Store.open(root).read(QUARANTINE).to_pylist()
    return [(row["step"], row["reason"]) for row in rows if not row["resolved"]]


def sessions_in(root: Path, table: Any, column: str = "session_id") -> set[str]:
    store = Store.open(root)
    names = {
        row["session_id"]: row["native_id"] for row in store.read(SESSIONS).to_pylist()
    }
    return {
        names[key]
        for key in store.read(table, [column])[column].to_pylist()
        if key in names
    }


PURE = {
    "passages": ("slowwave.tasks.passages.task.build_passages", PASSAGES, "session_id"),
    "observe": ("slowwave.tasks.observe.task.observe", CLAIMS, "session_id"),
    "rollup": ("slowwave.tasks.summarize.task._build_scope", SUMMARIES, "scope_id"),
}
"""Of each step the function that is given texts, the table it fills, and the column of the session."""


def test_a_session_that_fails_stops_no_other(
    talk: Path,
    tmp_path: Path,
    undisturbed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path / "store"
    with monkeypatch.context() as broken:
        for name, _, _ in PURE.values():
            module, _, function = name.rpartition(".")
            right = getattr(sys.modules[module], function)
            if function == "_build_scope":
                # It is given generators: what fails is a session's own.
                only_words = fail_on_poison(
                    lambda _, build=right, **given: build(**given)
                )
                broken.setattr(
                    name,
                    lambda only=only_words, **given: only(given["members"], **given),
                )
            else:
                broken.setattr(name, fail_on_poison(right))
        report = run_night([talk], settings(root))
        assert report.release is not None
        for step, (_, table, column) in PURE.items():
            assert sessions_in(root, table, column) == {"ferry", "gauge"}, step
            assert (step, "KeyError: 'x'") in open_failures(root)
        rows = Store.open(root).read(QUARANTINE).to_pylist()
        # The end of the traceback.
        assert all(
            "in failing" in row["excerpt"] for row in rows if row["step"] in PURE
        )
        assert sum(
            line.endswith("tried again next night: KeyError: 'x'")
            for line in report.failures
        ) == len(PURE)
        assert "Not everything was done" in report.format_verdict()
        versions = Store.open(root).read_versions(RELEASED)
        # It fails again, and writes nothing.
        assert run_night([talk], settings(root)).release is None
        assert Store.open(root).read_versions(RELEASED) == versions
    mended = run_night([talk], settings(root))
    assert mended.release is not None
    assert (mended.failures, open_failures(root)) == ([], [])
    assert digests(root, (*DERIVED, MARKS)) == undisturbed
    runs = sorted(
        Store.open(root).read(RUNS).to_pylist(), key=lambda row: str(row["started_at"])
    )
    assert [row["status"] for row in runs] == ["incomplete", "incomplete", "done"]


STEPS = {
    "passages": "slowwave.tasks.passages.task.find_missing_messages",
    "gists": "slowwave.tasks.gists.task.find_missing_messages",
    "boilerplate": "slowwave.tasks.boilerplate.task.compute_step_key",
    "habits": "slowwave.tasks.habits.task.find_patterns",
    "observe": "slowwave.tasks.observe.task.find_pending_sessions",
    "dedupe": "slowwave.tasks.dedupe.task.compute_step_key",
    "supersede": "slowwave.tasks.changes.task.compute_step_key",
    "relate": "slowwave.tasks.relate.task.read_claims",
    "assign": "slowwave.tasks.topics.task._collect_placed_rows",
    "rollup": "slowwave.tasks.summarize.task.find_pending_sessions",
}
"""Of each step a function that it can't do without; of `assign` one that is called when half is written."""


@pytest.mark.parametrize(
    "steps",
    [
        ["passages", "boilerplate", "dedupe", "relate", "assign"],
        ["gists", "habits", "observe", "supersede", "rollup"],
    ],
)
def test_a_step_that_fails_stops_no_other(
    steps: list[str],
    talk: Path,
    tmp_path: Path,
    undisturbed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    root = tmp_path / "store"
    with monkeypatch.context() as broken:
        for step in steps:
            broken.setattr(STEPS[step], fail)
        report = run_night([talk], settings(root))
    assert report.release is not None
    why = "ZeroDivisionError: of all things"
    assert report.failures == [
        f"{step} failed, what it had made before stands: {why}" for step in steps
    ]
    with pytest.raises(NightIncomplete, match=report.run_id) as incomplete:
        report.check_complete()
    assert str(pickle.loads(pickle.dumps(incomplete.value))) == str(incomplete.value)
    assert sorted(open_failures(root)) == sorted((step, why) for step in steps)
    if "assign" in steps:
        assert Store.open(root).count(TOPICS) == 0  # nothing half done is released
    mended = run_night([talk], settings(root))
    assert (mended.failures, open_failures(root)) == ([], [])
    assert digests(root, (*DERIVED, MARKS)) == undisturbed


def test_what_fails_everywhere_ends_the_night(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreUnwritable(tmp_path, "no room")

    monkeypatch.setattr("slowwave.tasks.observe.task.observe", full)
    with pytest.raises(StoreUnwritable):
        run_night([talk], settings(tmp_path / "store"))
    assert [
        row["status"] for row in Store.open(tmp_path / "store").read(RUNS).to_pylist()
    ] == ["failed"]


def test_the_failing_are_found_by_halves() -> None:
    done: list[str] = []

    def do(units: Any) -> None:
        if bad := [one for one in units if one in ("c", "g")]:
            raise BadRows("t", bad[0])
        done.extend(units)

    failed = do_apart(list("abcdefgh"), do)
    assert sorted(failed) == ["c", "g"]
    assert sorted(done) == list("abdefh")  # each once
    with pytest.raises(OSError, match="full"):
        do_apart(["a"], lambda _: (_ for _ in ()).throw(OSError(28, "full")))


def test_sessions_that_share_a_moment_end_no_night(tmp_path: Path) -> None:
    said = [
        "The boat is moored at pier 4.",
        "The boat is moored at pier 9.",
        "The boat is moored at pier 7.",
    ]
    lines = [
        {
            "session_id": f"s{n % 4}",
            "message_id": f"m{n}",
            "role": "user",
            "content": said[n % 3],
            "workspace": "w",
        }
        | {"ts": "2026-11-03" if n % 4 < 3 else "2026-11-04"}
        for n in range(12)
    ]
    path = tmp_path / "bulk.jsonl"
    for some in (lines[:9], lines):
        path.write_text(
            "".join(json.dumps(line) + "\n" for line in some), encoding="utf-8"
        )
        report = run_night([path], settings(tmp_path / "store"))
        assert report.release is not None
        assert report.failures == []


def test_the_command_ends_with_its_own_status(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    words = ["run", "--plain", str(talk), "--store", str(tmp_path / "store")]
    with monkeypatch.context() as broken:
        from slowwave.tasks.observe import task

        broken.setattr(task, "observe", fail_on_poison(task.observe))
        done = typed(*words)
        assert (done.exit_code, "Released r1" in done.output) == (3, True), done.output
        assert (
            "a session of observe failed, tried again next night: KeyError: 'x'"
            in done.output
        )
    assert typed(*words).exit_code == 0
