"""Trouble that is nobody's mistake in the program is told in one line: full disks, torn tables, pipes, odd numbers."""

import os
import resource
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import QUARANTINE
from slowwave.store import Snapshot, Store
from slowwave.store.logs import log_recall
from slowwave.tasks.ingest.parsing.records import NoSuchPath
from tests.command_line import typed
from tests.talk_files import session
from tests.waiting import PATIENCE

QUERY = "Where do the tide gauge readings go?"
SAID = [
    ("user", "Where do the tide gauge readings go now?"),
    ("assistant", "The tide gauge readings go to PostgreSQL 17, partitioned by month."),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("SLOWWAVE_GISTS", "off")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trouble")
    run_night(
        [session(folder, "ferry", 1, SAID)],
        Settings(store=folder / "store", encoder="hash-384", gists="off"),
    )
    return folder / "store"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "store")


def in_one_line(result: Result, *words: str) -> bool:
    lines = result.stderr.splitlines()
    return (
        result.exit_code == 1
        and len(lines) == 1
        and all(word in lines[0] for word in ("slowwave: ", *words))
    )


@contextmanager
def no_room(for_files_over: int) -> Iterator[None]:
    """A disk that takes no larger file: Lance meets what it meets on a full one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (for_files_over, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("said", "most", "why"),
    [
        (
            " ".join(secrets.token_hex(8) for _ in range(2_000)),
            20_000,
            "its last release stays",
        ),
        ("The kettle leaks again.", 5_000, ""),
    ],
    ids=["at once", "at its end"],
)
def test_a_night_on_a_full_disk_is_one_line_and_its_store_answers_and_goes_on(
    root: Path, tmp_path: Path, said: str, most: int, why: str
) -> None:
    more = session(tmp_path, "more", 2, [("user", said), ("assistant", "Noted.")])
    with no_room(for_files_over=most):
        night = typed("run", "--plain", more, "--store", root)
    assert in_one_line(night, "can't be written to", why)
    assert "PostgreSQL" in typed("recall", QUERY, "--store", root).stdout
    again = typed("run", "--plain", more, "--store", root)
    assert (again.exit_code, Snapshot(root).release.name) == (0, "r2")
    assert Snapshot(root).release.counts["messages"] == 4
    assert typed("check", "--store", root).exit_code == 0


def test_a_release_that_was_not_written_to_its_end_is_none(
    root: Path, tmp_path: Path
) -> None:
    short = session(
        tmp_path,
        "short",
        2,
        [("user", "The kettle leaks again."), ("assistant", "Noted.")],
    )
    noted = root / "default" / "manifest.json"
    before = noted.read_bytes()
    run_night([short], Settings(store=root, encoder="hash-384", gists="off"))
    cut(
        max(
            (root / "default" / "releases.lance" / "data").iterdir(),
            key=lambda path: path.stat().st_mtime_ns,
        )
    )
    # Its manifest says: it was whole.
    assert in_one_line(
        typed("recall", QUERY, "--store", root), "slowwave check --repair"
    )
    manifest = root / "default" / "manifests" / "r2.json"
    # A run that was stopped before it was.
    manifest.rename(manifest.with_suffix(".part"))
    noted.write_bytes(before)
    assert Snapshot(root).release.name == "r1"
    assert "PostgreSQL" in typed("recall", QUERY, "--store", root).stdout
    assert typed("run", "--plain", short, "--store", root).exit_code == 0
    assert (Snapshot(root).release.name, Snapshot(root).release.counts["messages"]) == (
        "r2",
        4,
    )


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def scrambled(path: Path) -> None:
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


@pytest.mark.parametrize("torn", [cut, emptied, scrambled, Path.unlink])
@pytest.mark.parametrize("part", ["data", "_versions"])
def test_check_names_a_torn_table(
    root: Path, torn: Callable[[Path], None], part: str
) -> None:
    for path in (root / "default" / "messages.lance" / part).iterdir():
        torn(path)
    told = typed("check", "--store", root)
    assert (
        told.exit_code,
        "messages.lance" in told.stderr,
        "Traceback" in told.output,
    ) == (1, True, False)


def test_a_night_over_a_torn_table_is_one_line(root: Path, tmp_path: Path) -> None:
    for path in (root / "default" / "passages.lance" / "data").iterdir():
        cut(path)
    assert in_one_line(
        typed("run", "--plain", tmp_path, "--store", root), "can't be read"
    )


def test_more_hits_than_there_can_be_are_all_there_are(root: Path) -> None:
    memory = Memory.open(root, encoder=HashEncoder())
    assert memory.recall(QUERY, 10**30) == memory.recall(QUERY, 10_000)
    told = typed("recall", QUERY, "-k", 10**30, "--store", root)
    assert (told.exit_code, "PostgreSQL" in told.stdout) == (0, True)


def test_nested_lines_in_the_log_of_recalls_are_passed_over(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "default").mkdir(parents=True)
    assert log_recall(
        store / "default", {"o1": ["The kettle leaks again every other morning."]}
    )
    with (store / "default" / "recalls.jsonl").open("a") as stream:
        stream.write("[" * 100_000 + "\n" + '{"at": "2026-11-01T1\n')
    short = session(
        tmp_path,
        "short",
        2,
        [("user", "The ladder is in the shed."), ("assistant", "Noted.")],
    )
    assert (
        run_night([short], Settings(store=store, encoder="hash-384"))
        .check_complete()
        .release
        is not None
    )


@pytest.fixture
def within_seconds() -> Iterator[None]:
    """Whoever waits for a pipe that nobody writes to waits for ever: the test fails instead."""

    def late(*_: object) -> None:
        raise AssertionError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("within_seconds")
def test_pipes_and_devices_are_refused_or_quarantined_and_never_waited_for(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    for pipe in (
        tmp_path / "pipe",
        folder / "pipe.jsonl",
        folder / "sessions.json",
        folder / "manifest.json",
    ):
        os.mkfifo(pipe)
    session(
        folder,
        "short",
        2,
        [("user", "The ladder is in the shed."), ("assistant", "Noted.")],
    )
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    for named in (
        tmp_path / "pipe",
        Path("/dev/zero"),
    ):
        # What is named itself is refused before a store is made.
        with pytest.raises(NoSuchPath, match="a pipe or a device"):
            run_night([named, folder], settings)
        assert not settings.store.exists()
    run_night([folder], settings)
    store = Store.open(tmp_path / "store")
    reasons = {row["path"]: row["reason"] for row in store.read(QUARANTINE).to_pylist()}
    assert reasons.keys() == {str(folder / "pipe.jsonl"), str(folder / "manifest.json")}
    assert all("neither a file nor a folder" in reason for reason in reasons.values())
    assert Snapshot(tmp_path / "store").release.counts["messages"] == 2


@pytest.mark.usefixtures("within_seconds")
def test_a_pipe_for_a_document_or_a_projects_git_settings_is_one_line_or_passed_over(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.json")
    assert in_one_line(
        typed("import", pipe, "--as", "ann", "--store", root), "it is not a file"
    )
    assert in_one_line(
        typed("forget", "--check", pipe, "--store", root), "is not a certificate"
    )
    (tmp_path / "project" / ".git").mkdir(parents=True)
    os.mkfifo(tmp_path / "project" / ".git" / "config")
    monkeypatch.chdir(tmp_path / "project")
    assert typed("briefing", "--store", root).exit_code == 0
    export = tmp_path / "export"
    assert typed("export", export, "--format", "jsonl", "--store", root).exit_code == 0
    (export / "messages.jsonl").unlink()
    os.mkfifo(export / "messages.jsonl")
    assert typed("run", "--plain", export, "--store", tmp_path / "other").exit_code == 0
    assert (
        "holds no messages"
        in typed(
            "inspect", "quarantine", "--json", "--store", tmp_path / "other"
        ).stdout
    )


@pytest.mark.parametrize(
    "words",
    [["run", "--plain"], ["remember", "tea"], ["rollback", "r1"],
     ["promote", "--why", "x"], ["forget", "--match", "tide", "--yes"], ["exclude", "ferry", "--why", "x"], ["export"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_every_command_that_writes_says_in_a_line_that_there_is_no_room(
    root: Path, words: list[str]
) -> None:
    place = [root.with_name("out")] if words == ["export"] else []
    with no_room(for_files_over=0):
        assert in_one_line(typed(*words, *place, "--store", root), "too large")
