"""Packages that add a reader, a command, a place and an executor: the examples of docs/plugins.md, installed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench_inputs import ROOT
from tests.killed_nights import digests
from tests.transcript_rows import put

TALK = {
    "key": 7,
    "about": "Ferry",
    "turns": [
        {"who": "user", "body": "The gauge reads 40 cm.", "at": "2026-03-01T09:00:00Z"},
        {"who": "assistant", "body": "Noted.", "at": "2026-03-01T09:00:05Z"},
    ],
}
NIGHT = """
import json, sys
from pathlib import Path
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.store.store import Store

settings = Settings(store=Path(sys.argv[2]), encoder="hash-384")
run_night([Path(sys.argv[1])], settings)
store = Store.open(settings.store, settings.space)
tables = store.read(MESSAGES, ["source", "role", "text"]), store.read(SESSIONS, ["title"])
print(json.dumps([table.to_pylist() for table in tables]))
"""
EXAMPLES = dict(
    re.findall(
        r"```python\n# (\w+)\.py\n(.*?)```",
        (ROOT / "docs" / "plugins.md").read_text(),
        re.DOTALL,
    )
)
ENTRIES = re.findall(
    r"```toml\n\[project\.entry-points\.\"([\w.]+)\"\]\n(.*?)\n```",
    (ROOT / "docs" / "plugins.md").read_text(),
)


def install(folder: Path, name: str, entries: str, code: str) -> None:
    """Lay a package down as an installer does."""
    put(folder / f"{name}.py", code)
    put(
        folder / f"{name}-1.0.dist-info" / "METADATA",
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    )
    put(folder / f"{name}-1.0.dist-info" / "entry_points.txt", entries)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the four packages of docs/plugins.md."""
    assert len(EXAMPLES) == len(ENTRIES) == 4
    for group, entry in ENTRIES:
        name = re.split(r'[":]', entry)[1]
        install(
            tmp_path / "site",
            name,
            f"[{group}]\n{entry.replace(chr(34), '')}\n",
            EXAMPLES[name],
        )
    return tmp_path / "site"


def call(
    site: Path, *words: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages installed."""
    paths = {
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
        "HOME": str(site),
        "SLOWWAVE_ENCODER": "hash-384",
    }
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, **paths, **environment},
        capture_output=True,
        text=True,
    )


def slowwave(site: Path, *words: object, **environment: str) -> str:
    """Return what the command prints."""
    done = call(site, "-m", "slowwave", *words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_night_reads_a_format_that_a_package_adds(site: Path, tmp_path: Path) -> None:
    broken = "[slowwave.readers]\nbroken = broken_chat:READER\nnone = acme_chat:ACME\n"
    install(site, "broken_chat", broken, "import nothing_of_that_name\n")
    put(tmp_path / "talks" / "ferry.acme", TALK)
    ran = call(site, "-c", NIGHT, tmp_path / "talks", tmp_path / "store")
    messages, sessions = json.loads(ran.stdout.splitlines()[-1])
    assert messages == [
        {"source": "acme", "role": "user", "text": "The gauge reads 40 cm."},
        {"source": "acme", "role": "assistant", "text": "Noted."},
    ]
    assert sessions == [{"title": "Ferry"}]
    assert (
        "the reader 'broken' can't be loaded, and is left out: ModuleNotFoundError"
        in ran.stderr
    )
    assert (
        "acme_chat:ACME is not a Reader, and is left out: got ChatFormat(" in ran.stderr
    )


def test_a_command_a_place_and_an_executor_that_packages_add(
    site: Path, tmp_path: Path
) -> None:
    talk = put(tmp_path / "talks" / "ferry.acme", TALK)
    there = f"mirror://{tmp_path / 'shared'}"
    one, two = ({"XDG_CACHE_HOME": str(tmp_path / name)} for name in ("one", "two"))
    slowwave(
        site,
        "run",
        talk,
        "--plain",
        "--store",
        there,
        "--engine",
        "threads",
        "--address",
        "2",
        **one,
    )
    slowwave(site, "run", talk, "--plain", "--store", tmp_path / "plain", **one)
    # An executor gives the same tables.
    assert digests(tmp_path / "shared") == digests(tmp_path / "plain")
    # On another machine.
    assert "The gauge reads 40 cm." in slowwave(
        site, "recall", "gauge", "--store", there, **two
    )
    assert json.loads(slowwave(site, "people", "--store", there, **two)) == []
    helped = slowwave(site, "--help", **one)
    assert helped.index("Plugins") < helped.index("people")


ORDER = """
from slowwave.schemas.plugins import find_plugins
from slowwave.tasks.ingest.formats.registry import load_readers

names = [reader.name for reader in load_readers()]
print(names[0], names.index("openai-chat") < names.index("claude-code"), names[-1])
print(find_plugins("slowwave.executors")["ray"].value, find_plugins("slowwave.executors")["threads"].value)
"""


def test_another_packages_entry_counts_before_slowwaves_own(site: Path) -> None:
    install(
        site, "own_ray", "[slowwave.executors]\nray = acme_threads:open_threads\n", ""
    )
    told = call(site, "-c", ORDER)
    assert told.stdout.splitlines() == [
        # A package's reader, then our plugins', then the core's, the generic one last.
        "acme True generic",
        "acme_threads:open_threads acme_threads:open_threads",
    ], told.stderr


def test_what_no_package_adds_is_an_error_in_a_line(site: Path, tmp_path: Path) -> None:
    refused = call(
        site, "-m", "slowwave", "run", tmp_path, "--plain", "--engine", "fibres"
    )
    assert (refused.returncode, refused.stderr) == (
        1,
        "slowwave: --engine is ray or threads\n",
    )
    install(
        site,
        "broken",
        "[slowwave.commands]\nbroken = broken:broken\n",
        "import nothing_of_that_name\n",
    )
    called = call(site, "-m", "slowwave", "broken")
    assert called.returncode == 2
    assert "nothing_of_that_name" in called.stderr
    assert "people" in slowwave(site, "--help")  # one that is broken hides no other
