"""Two users of one machine at once: each has a resident reader of its own, and sees nothing of the other's memory."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings, find_default_store
from tests.resident_home import ROOT, find_listeners
from tests.talk_files import session

SAID = {
    65_533: "The heron nests at the Kilbrack weir every spring.",
    65_534: "The heron nests at the Skellig light every spring.",
}
"""What each user has told."""
QUESTION = "Where does the heron nest?"
AT_ONCE = 4
"""Commands of each user that run at once."""
SETPRIV = shutil.which("setpriv")
READS_ALL = ("--inh-caps", "--ambient-caps")
"""Both users may read all files: nothing but the readers keeps them apart, and Python may lie in root's home."""

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or SETPRIV is None, reason="only root can be two users"
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a home for each user, and one for temporary files, which anyone may write to."""
    folder = Path(tempfile.mkdtemp(prefix="slowwave-"))
    folder.chmod(0o755)
    shared = folder / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    for user, text in SAID.items():
        home = folder / str(user)
        talk = session(home, "s1", 2, [("user", text)])
        monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
        run_night([talk], Settings(store=find_default_store(), encoder="hash-384"))
        for path in (home, *home.rglob("*")):
            os.chown(path, user, user)
    yield folder
    for pid in find_all_listeners(folder):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)


def find_all_listeners(machine: Path) -> dict[int, int]:
    """Every reader of this machine, with its user."""
    folders = (machine / "tmp").glob("slowwave-*")
    return {
        pid: user for folder in folders for pid, user in find_listeners(folder).items()
    }


def start_as(
    user: int, machine: Path, *words: str, **environ: str
) -> "subprocess.Popen[str]":
    """A command of a user, in a process of its own."""
    home = machine / str(user)
    own = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "TMPDIR": str(machine / "tmp"),
        "SLOWWAVE_RESIDENT": "1",
    }
    become = [
        *(str(SETPRIV), "--reuid", str(user), "--regid", str(user), "--clear-groups"),
        *(word for name in READS_ALL for word in (name, "+dac_read_search")),
    ]
    return subprocess.Popen(
        [*become, sys.executable, "-m", "slowwave", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env=own | environ,
    )


def test_two_users_at_once_have_each_a_reader_and_a_memory_of_their_own(
    machine: Path,
) -> None:
    asking = [
        (user, start_as(user, machine, "recall", QUESTION))
        for _ in range(AT_ONCE)
        for user in SAID
    ]
    answers = {user: set[tuple[str, str, int]]() for user in SAID}
    for user, process in asking:
        answers[user].add((*process.communicate(), process.returncode))
    for user, other in (tuple(SAID), tuple(SAID)[::-1]):
        ((told, errors, status),) = answers[user]
        assert (errors, status) == ("", 0)
        assert SAID[user] in told
        assert SAID[other] not in told
    assert sorted(find_all_listeners(machine).values()) == sorted(SAID)


def test_a_users_reader_answers_nobody_else(machine: Path) -> None:
    """One who names the other's store and folder of temporary files opens that store itself, as files allow."""
    first, second = SAID
    start_as(first, machine, "recall", QUESTION).communicate()
    assert list(find_all_listeners(machine).values()) == [first]
    (folder,) = (machine / "tmp").glob("slowwave-*")
    folder.chmod(0o777)
    for path in folder.glob("*.socket"):
        path.chmod(0o777)
    (machine / "tmp" / f"slowwave-{second}").symlink_to(folder)
    answer, errors = start_as(second, machine, "recall", QUESTION).communicate()
    assert errors == ""
    assert SAID[second] in answer
    assert SAID[first] not in answer
