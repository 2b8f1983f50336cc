"""What several tests share: the real encoder, the plain one, and the folder of benchmark data."""

import gc
import logging
import os
import pickle
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, settings

from slowwave.engines.encoders.load import load_encoder, load_original
from slowwave.engines.encoders.protocol import Encoder, HashEncoder
from slowwave.engines.encoders.torch import SentenceTransformerEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.tasks.isolate import LOG
from tests.kept_folders import make_once
from tests.killed_nights import SAMPLES, SMALL, digests

for name in (
    "COLUMNS",
    "LINES",
):
    # A worker of pytest-xdist may have both: a console made then keeps to them, and no.
    os.environ.pop(name, None)  # test can widen it


ROOMY = 8 << 30
"""Bytes; the suite writes 4 GB, and has at most a part of it at once."""


def has_room(memory: Path) -> bool:
    """Return True if so much memory is free, and so much of it may hold files."""
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = dict(line.split(":") for line in lines)["MemAvailable"]
        return (
            int(free.split()[0]) << 10 > ROOMY
            and shutil.disk_usage(memory).free > ROOMY
        )
    return False


if has_room(MEMORY := Path("/dev/shm")):
    # Stores in memory: to write, copy and delete one takes half the system's time, and waits for no disk.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
OWN = Path(mkdtemp(prefix="slowwave-tests-"))
# Where releases note which stores there are.
os.environ["XDG_STATE_HOME"] = str(OWN / "state")
# Where a command that names no store has its own.
os.environ["XDG_DATA_HOME"] = str(OWN / "data")


def pytest_unconfigure() -> None:
    shutil.rmtree(OWN, ignore_errors=True)


os.environ["TZ"] = "UTC"  # Days are shown in the machine's zone.
time.tzset()
os.environ["SLOWWAVE_RESIDENT"] = "0"  # else each store of a test gets a process


settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

LONGEST = (
    "bench/test_bench.py",
    "flows/test_faults.py",
    "flows/test_serve.py",
    "forget/test_forget.py",
    "ui/test_ui.py",
)
"""They are begun first: one that is begun last has two cores for itself."""


gc.disable()  # To collect 3,600 tests, every import included, takes a quarter less without it.


def pytest_collection_finish() -> None:
    """What was imported stays: it is never looked through for garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


@pytest.fixture(autouse=True)
def own_terminal() -> Iterator[None]:
    """Give the commands this process's terminal again: a resident reader within it leaves them its last client's."""
    yield
    if common := sys.modules.get("slowwave.cli.common"):
        common.OUT.renew(os.environ, stderr=False)
        common.ERR.renew(os.environ, stderr=True)


class Failures(logging.Handler):
    """Keeps what failed alone while the rest of a night went on."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def nothing_fails_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A night goes on where a step or a session fails; a test fails, unless it is about that."""
    failures, level = Failures(), LOG.level
    LOG.addHandler(failures)
    LOG.setLevel(logging.INFO)
    yield
    LOG.removeHandler(failures)
    LOG.setLevel(level)
    assert not failures.lines or request.node.get_closest_marker("failing"), "\n".join(
        failures.lines
    )


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced() -> Iterator[None]:
    """No store of a test outlives the machine's start; a night syncs hundreds of files. What is synced when is tested
    in processes of their own (`tests/flows/test_faults.py`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """all-MiniLM-L6-v2 from its package."""
    return load_encoder("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def original() -> SentenceTransformerEncoder:
    """The same model by sentence-transformers."""
    return load_original("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def fake_encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture(scope="session")
def samples_night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunReport]:
    """The store of one night over data/samples by the plain encoder, and its report. Who uses the store copies it.

    The first of pytest-xdist's workers that needs it does the night, and each has a copy.
    """

    def make(folder: Path) -> None:
        report = run_night(
            [SAMPLES],
            Settings(store=folder / "store", encoder="hash-384", gists="extractive"),
        )
        (folder / "report").write_bytes(pickle.dumps(report))

    made = make_once(tmp_path_factory, "night over samples", make)
    own = tmp_path_factory.mktemp("samples") / "store"
    return Path(shutil.copytree(made / "store", own)), pickle.loads(
        (made / "report").read_bytes()
    )


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of the tables after a night of `tests/killed_nights.py` that nobody killed, done in a test's process."""

    def make(store: Path) -> None:
        run_night([SAMPLES], Settings(store=store, **SMALL)).check_complete()

    return digests(make_once(tmp_path_factory, "undisturbed night", make))


@pytest.fixture(scope="session")
def bench_data() -> Path:
    folder = os.environ.get("SLOWWAVE_BENCH_DATA")
    if not folder:
        pytest.skip("SLOWWAVE_BENCH_DATA names no folder of benchmark data")
    return Path(folder)
