"""What is built: a wheel that is whole, is the same without links, and clashes with no module of the user's own."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.talk_files import session

ROOT = Path(__file__).parent.parent
TOP = ("flows", "schemas", "tasks")

NIGHT = """
import sys
from pathlib import Path
import slowwave
from prefect.utilities.importtools import import_object
from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

settings = Settings(store=Path(sys.argv[2]), encoder="hash-384")
run_night([Path(sys.argv[1])], settings)
hits = Memory.open(settings.store).recall("Which database keeps the tickets?")
print(slowwave.__file__, import_object("slowwave.flows.prefect.nightly").name, hits[0].text, sep="\\n")
"""

FOUND = """
import sys
from importlib.util import find_spec
import slowwave
from slowwave.tasks.job import Job

specs = [find_spec(name) for name in ("flows", "schemas", "tasks", "tests", "bench", "data", "docs", "deployments")]
places = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
print(Job.__module__, [place for place in places if place.startswith(sys.argv[1])])
"""
"""Prints the module of a class, and which folders of a checkout can be imported by their own names."""
HINT = "from slowwave.schemas.errors import name_install; print(name_install('night'))"


def run(*words: object, cwd: Path, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def build(source: Path, into: Path, *more: str) -> Path:
    """The wheel of a source tree or archive; hatchling where it is installed, else one that pip fetches."""
    alone = ("--no-build-isolation",) if find_spec("hatchling") else ()
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        *alone,
        "-w",
        str(into),
        str(source),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and not alone:
        pytest.skip(
            f"no hatchling here, and none to be fetched: {done.stderr.strip().splitlines()[-1]}"
        )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


def modules(wheel: Path) -> list[str]:
    return sorted(
        name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def files(folder: Path, below: str = "") -> Sequence[str]:
    """Of a package, as the wheel names them."""
    found = (
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    )
    return [below + name for name in found if "__pycache__" not in name]


def test_the_wheel_holds_every_file_of_the_four_folders_and_slowwave_alone_on_top(
    wheel: Path,
) -> None:
    own = [name for name in files(ROOT / "slowwave") if name.split("/")[0] not in TOP]
    inside = [name for top in TOP for name in files(ROOT / top, f"{top}/")]
    assert modules(wheel) == sorted(f"slowwave/{name}" for name in [*own, *inside])
    for data in (
        "schemas/py.typed",
        "tasks/changes/changes.onnx",
        "tasks/changes/changes_unread.onnx",
        "tasks/changes/letters.npz",
        "tasks/changes/reader.npz",
        "tasks/llm/prompts/extract.md",
    ):
        assert f"slowwave/{data}" in modules(wheel)


def test_the_source_archive_which_has_no_links_builds_the_same_wheel(
    wheel: Path, tmp_path: Path
) -> None:
    if not find_spec("hatchling"):
        pytest.skip("no hatchling here")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "sdist",
        "-d",
        tmp_path,
        cwd=ROOT,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    assert modules(build(archive, tmp_path)) == modules(wheel)


def test_an_install_puts_slowwave_alone_on_the_path(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    told = run(sys.executable, "-c", FOUND, ROOT, cwd=tmp_path, env=environment)
    assert told == "slowwave.tasks.job []\n"


def test_a_checkout_that_lost_its_links_says_so_in_a_line(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "slowwave",
        tmp_path / "slowwave",
        ignore=shutil.ignore_patterns(*TOP, "__pycache__"),
    )
    # What Git on Windows makes of a link.
    (tmp_path / "slowwave" / "schemas").write_text("../schemas")
    done = subprocess.run(
        [sys.executable, "-c", "import slowwave"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: this checkout of slowwave lost its symbolic links"
    )


def test_modules_of_the_same_names_beside_a_users_script_break_nothing(
    wheel: Path, tmp_path: Path
) -> None:
    installed, project = tmp_path / "installed", tmp_path / "project"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-compile",
        "--target",
        installed,
        wheel,
        cwd=tmp_path,
    )
    told = run(
        sys.executable,
        "-c",
        HINT,
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"},
    )
    assert wheel.name in told
    # What a message says to type is accepted.
    run(*shlex.split(told), "--dry-run", "--no-deps", cwd=tmp_path)
    project.mkdir()
    for name in TOP:
        (project / f"{name}.py").write_text(
            "raise RuntimeError('a module of the user was imported')\n"
        )
    (project / "script.py").write_text(NIGHT)
    talk = session(
        tmp_path,
        "s1",
        2,
        [("user", "We decided that PostgreSQL keeps the tickets from now on.")],
    )
    environment = {
        "PYTHONPATH": str(installed),
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    told = run(
        sys.executable,
        "script.py",
        talk,
        tmp_path / "store",
        cwd=project,
        env=environment,
    ).splitlines()
    assert told[-3:-1] == [str(installed / "slowwave" / "__init__.py"), "nightly"]
    assert "PostgreSQL keeps the tickets" in told[-1]
