"""A store of one night that several files begin with, each test at the same place: nights know their files by path."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.gates import Bounds
from slowwave.tasks.topics import cluster
from slowwave.tasks.topics.cluster import TopicLimits
from tests.kept_folders import make_once, restore
from tests.talk_files import write_talk
from tests.waiting import PATIENCE

GIVEN = {"ENCODER": "hash-384", "KEYWORDS__TOP": "0"}
"""The settings of these nights, for a command too."""


@pytest.fixture(scope="session")
def night_of_twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `a.jsonl`, twelve sessions of three claims, and the store of a night over it."""
    folder = tmp_path_factory.mktemp("twelve") / "used"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        give(patch)
        run_night(
            [write_talk(folder / "a.jsonl", 0, 12)], Settings(store=folder / "store")
        ).check_complete()
    shutil.copytree(folder, folder.with_name("kept"))
    return folder


@pytest.fixture(scope="session")
def night_of_fifteen(night_of_twelve: Path) -> Path:
    """The same after a second night, over `poison.jsonl` of three sessions; its copy, which is put in the place."""
    folder = restore(night_of_twelve, "kept")
    with pytest.MonkeyPatch.context() as patch:
        give(patch)
        run_night(
            [write_talk(folder / "poison.jsonl", 20, 3)],
            Settings(store=folder / "store"),
        ).check_complete()
    return Path(shutil.copytree(folder, folder.with_name("kept of two")))


@pytest.fixture(scope="session")
def prefect_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of Prefect's. Its hundred migrations cost a server more than all else of its start."""

    def make(folder: Path) -> None:
        url = f"sqlite+aiosqlite:///{folder / 'prefect.db'}"
        own = {
            **os.environ,
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": url,
        }
        words = ["-m", "prefect", "server", "database", "upgrade", "--yes"]
        subprocess.run([sys.executable, *words], env=own, check=True)

    return make_once(tmp_path_factory, "prefect database", make) / "prefect.db"


@pytest.fixture
def prefect_home(prefect_database: Path, tmp_path: Path) -> Path:
    """A folder for a Prefect server of a test's own, with a database."""
    home = tmp_path / "prefect"
    home.mkdir()
    shutil.copy(prefect_database, home)
    return home


@pytest.fixture(scope="module")
def server(prefect_database: Path) -> Iterator[None]:
    """A real Prefect server for a file's tests. They ignore warnings: it gives some at its end, on some machines."""
    from prefect.testing import utilities  # seconds for whoever collects this file

    folder = mkdtemp()  # the server deletes it
    shutil.copy(prefect_database, Path(folder) / "prefect-test.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utilities, "mkdtemp", lambda: folder)
        with utilities.prefect_test_harness(server_startup_timeout=PATIENCE):
            yield


def give(patch: pytest.MonkeyPatch) -> None:
    for name, value in GIVEN.items():
        patch.setenv(f"SLOWWAVE_{name}", value)
    # To cut topics in two takes as long as all else.
    patch.setattr(cluster, "LIMITS", TopicLimits(min_to_split=1_000))


@pytest.fixture
def fifteen(
    night_of_twelve: Path, night_of_fifteen: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder as it was after the second night."""
    give(monkeypatch)
    return restore(night_of_twelve, night_of_fifteen.name)


@pytest.fixture
def gated(twelve: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A store of one night whose shares are looked at from ten claims on."""
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10))
    monkeypatch.setenv("SLOWWAVE_GATES__MAX_LOST", "0.2")
    return Settings(store=twelve / "store")


@pytest.fixture
def twelve(night_of_twelve: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as it was."""
    give(monkeypatch)
    return restore(night_of_twelve, "kept")
