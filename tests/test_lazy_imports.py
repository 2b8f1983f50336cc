"""What a command has no use for, it does not import: torch, Prefect, scikit-learn and their like take seconds each."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.resident.client import find_readers
from slowwave.schemas.tables import MERGES
from slowwave.store.store import Store
from tests.resident_home import Home
from tests.talk_files import session

ROOT = Path(__file__).parent.parent
HEAVY = (
    *(
        "torch",
        "transformers",
        "sentence_transformers",
        "prefect",
        "sklearn",
        "scipy",
        "keybert",
        "polars",
        "onnx",
    ),
    *("optuna", "matplotlib", "tomlkit"),
)
SHOWN = """
import json, sys
from slowwave.cli.main import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["slowwave", *words]
    try:
        main()
    except SystemExit as ended:
        print(json.dumps([ended.code or 0, sorted(sys.modules)]), file=sys.stderr)
        if ended.code:
            break
"""


def import_by(*words: object, store: Path) -> set[str]:
    """Which of the heavy packages, and LanceDB, pydantic and numpy, one command imports."""
    return import_by_all([*map(str, words)], store=store)


def import_by_all(*commands: list[str], store: Path) -> set[str]:
    """Which of them these commands import, one after the other in one process."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SLOWWAVE_STORE": str(store),
        "XDG_CONFIG_HOME": str(store),
    }
    call = [sys.executable, "-c", SHOWN, json.dumps(commands)]
    done = subprocess.run(
        call,
        cwd=store.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    status, modules = json.loads(done.stderr.splitlines()[-1])
    assert status == 0, done.stderr
    return {*HEAVY, "lancedb", "pydantic", "numpy", "httpx"} & set(modules)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = [
        (
            "user",
            "We decided that PostgreSQL keeps the tickets from now on. The API listens on port 7070.",
        ),
        ("assistant", "Noted, it does."),
        ("user", "The API listens on port 8200 now."),
    ]
    return session(tmp_path_factory.mktemp("lazy"), "s1", 2, said)


@pytest.fixture(scope="module")
def store(talk: Path) -> Path:
    """A store after its first night."""
    where = talk.parent / "store"
    brought = import_by("run", talk, "--plain", store=where)
    assert {"sklearn", "keybert", "polars"} <= brought  # it had news
    # And claims of which one may change the other.
    assert Store.open(where).count(MERGES)
    # Its tables are LanceDB's, written by Lance alone.
    assert not {"torch", "transformers", "prefect", "lancedb"} & brought
    return where


def test_help_brings_nothing(tmp_path: Path) -> None:
    assert import_by("--help", store=tmp_path) == set()
    # Typer's own, for a command's options.
    assert import_by("recall", "--help", store=tmp_path) <= {"pydantic"}


LIGHT = """
import sys
from slowwave.__main__ import main

try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*sys.modules, file=sys.stderr)
"""
"""The command as its script calls it, and the modules that it imported."""


PATIENT = """
from slowwave.cli import answered
from slowwave.cli.agents import hook
from slowwave.resident import client

answered.SECONDS = hook.SECONDS = client.GREETING_SECONDS = 600.0
"""
"""What makes a command wait for the resident reader however busy the machine is; it imports the standard library."""


def import_as_script(
    *words: str, given: object = None, program: str = LIGHT, **environ: str
) -> set[str]:
    """Which packages beside the standard library and slowwave a command imports."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    tops = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    ours = {"slowwave", "__main__", "__mp_main__"}
    return {top for top in tops - sys.stdlib_module_names - ours if top[0] != "_"}


def test_hooks_and_the_version_import_nothing_before_they_need_it(
    tmp_path: Path, store: Path
) -> None:
    bare = import_as_script("--version")
    assert not {"typer", "click", "rich", "pydantic", "pyarrow", "numpy"} & bare
    no_question = {"cwd": "/x", "prompt": ""}
    assert import_as_script("hook", "user-prompt", given=no_question) == bare
    assert import_as_script("hook", "no-such-event", given={}) == bare
    # the night of a session that has ended is another process, which finds no transcript
    ended = {"transcript_path": str(tmp_path / "none.jsonl")}
    where = {"SLOWWAVE_STORE": str(tmp_path / "store"), "SLOWWAVE_SAME_DAY": "0"}
    assert import_as_script("hook", "session-end", given=ended, **where) == bare
    # a prompt that this process itself has to look up
    asked = {"cwd": "/x", "prompt": "which tickets?"}
    where = {"SLOWWAVE_STORE": str(store), "XDG_CONFIG_HOME": str(store)}
    brought = import_as_script("hook", "user-prompt", given=asked, **where)
    assert {"pyarrow", "lance"} <= brought
    assert not {"typer", "rich", *HEAVY} & brought


@pytest.fixture
def home(store: Path, tmp_path: Path) -> Iterator[Home]:
    """A home whose commands a resident reader answers."""
    made = Home(tmp_path, store)
    yield made
    made.close()
    shutil.rmtree(made.runtime)


def test_who_asks_the_resident_reader_imports_the_standard_library_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = import_as_script("--version")
    asked = {"cwd": "/ferry", "prompt": "Which port does the API listen on?"}
    calls: list[tuple[list[str], object]] = [
        (["hook", "user-prompt"], asked),  # starts the reader
        (["hook", "user-prompt"], asked),
        (["hook", "session-start"], {"cwd": "/ferry", "source": "startup"}),
        (["recall", "tickets"], None),
        (["context", "tickets"], None),
        (["briefing"], None),
        (["recent"], None),
    ]
    for number, (words, given) in enumerate(calls, 1):
        brought = import_as_script(
            *words, given=given, program=PATIENT + LIGHT, **home.environ
        )
        assert brought == bare, words
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.runtime))
        (reader,) = find_readers(home.store, "default")
        assert reader["answers"] == number, words


@pytest.mark.parametrize("resident", ["0", "1"])
def test_a_hook_in_an_empty_cache_makes_no_graph_of_the_encoder(
    home: Home, tmp_path: Path, resident: str
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    own = {"XDG_CACHE_HOME": str(cache), "SLOWWAVE_RESIDENT": resident}
    asked = {"cwd": "/ferry", "prompt": "Which port does the API listen on?"}
    assert home.call("hook", "user-prompt", given=asked, **own)[::2] == (0, b"")
    assert len(home.find_pids()) == int(resident)
    assert [path for path in cache.rglob("*") if path.suffix == ".onnx"] == []


def test_a_night_without_news_brings_what_reads_tables_alone(
    store: Path, talk: Path
) -> None:
    assert import_by("run", talk, "--plain", store=store) == {
        "polars",
        "pydantic",
        "numpy",
    }


def test_reading_and_looking_bring_nothing_heavy(
    store: Path,
) -> None:
    commands = [
        *(
            "recall tickets",
            "context tickets",
            "briefing",
            "show habits",
            "show related ferry",
        ),
        *("project --out - --project /ferry", "skill --project /ferry"),
        *(f"inspect {ledger}" for ledger in ("releases", "merges", "runs", "junk")),
    ]
    assert import_by_all(*map(str.split, commands), store=store) == {
        "pydantic",
        "numpy",
    }


def test_what_leaves_prefect_alone(store: Path) -> None:
    commands = [
        words.split() for words in ("check", "plan", "export out", "reprocess dedupe")
    ]
    assert not {"prefect", "torch", "transformers"} & import_by_all(
        *commands, store=store
    )
