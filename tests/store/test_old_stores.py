"""Stores that earlier states of slowwave's tables were released in, packed as they were left (`old_stores/`).

Each is a night with `hash-384` over `TALK`. To add one: before a table changes its shape, pack such a store.
"""

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, RELEASES, TABLES
from slowwave.store import Store
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.ingest.verify import find_broken_chains
from tests.words_in_store import SECRET, find_word

PACKED = sorted((Path(__file__).parent / "old_stores").glob("*.tar.zst"))
TALK = (
    f"We decided to move the {SECRET} deployment from Redis to Postgres because sessions went stale.",
    f"Agreed: the {SECRET} deployment keeps its sessions in Postgres from now on.",
    "I always keep the spare key of the Lisbon office in the blue cabinet.",
    "Noted: the spare key of the Lisbon office lies in the blue cabinet.",
)
"""What its session `told` says, a minute apart from 09:00 UTC on 1 March 2026."""
MORE = "We decided to rent a van in April to bring the furniture to Porto."


@pytest.fixture(params=PACKED, ids=lambda path: path.name.split(".")[0])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    data = zstandard.ZstdDecompressor().stream_reader(request.param.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        packed.extractall(tmp_path / "store", filter="data")
    return tmp_path / "store"


def make_settings(root: Path) -> Settings:
    return Settings(store=root, encoder="hash-384", gists="extractive")


def run_one_more_night(root: Path) -> Store:
    """A night in which the session `told` has one line more, which is released."""
    lines = [
        {"session_id": "told", "message_id": f"told-{n}", "role": ("user", "assistant")[n % 2], "content": text,
         "ts": f"2026-03-01T09:{n:02}:00+00:00"}
        for n, text in enumerate((*TALK, MORE))
    ]  # fmt: skip
    path = root.with_name("told.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = run_night([path], make_settings(root))
    report.check_complete()
    assert report.release
    return Store.open(root)


def digest_files(root: Path) -> dict[Path, str]:
    return {path: sha256(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}


def test_an_old_store_answers_and_not_a_byte_of_it_changes(root: Path) -> None:
    before = digest_files(root)
    hits = Memory.open(root, encoder=HashEncoder()).recall("Where does the deployment keep its sessions?")
    assert any(SECRET in hit.text for hit in hits)
    assert digest_files(root) == before


def test_a_night_over_an_old_store_keeps_what_it_held_and_releases_one_line_more(root: Path) -> None:
    store = Store.open(root)
    held = {table.name: store.read(table, [table.key])[table.key].to_pylist() for table in (MESSAGES, OBSERVATIONS)}
    store = run_one_more_night(root)
    said = store.read(MESSAGES).to_pylist()
    assert {row["message_id"] for row in said} > set(held["messages"])
    assert len(said) == len(held["messages"]) + 1
    assert {row["observation_id"] for row in store.read(OBSERVATIONS).to_pylist()} >= set(held["observations"])
    assert find_broken_chains(store)[1] == []
    assert all(set(store.open_table(table).schema.names) == set(table.schema.names) for table in TABLES.values())
    assert store.read(RELEASES).num_rows == 2
    hits = Memory.open(root, encoder=HashEncoder()).recall("a van to bring the furniture to Porto")
    assert any("van in April" in hit.text for hit in hits)
    checked = CliRunner().invoke(app, ["check", "--store", str(root)])
    assert checked.exit_code == 0, checked.output


def test_what_an_old_store_is_told_to_forget_leaves_no_byte(root: Path) -> None:
    assert find_word(root)
    run_forget(Wanted(match=SECRET), make_settings(root))
    assert find_word(root) == []
    assert Store.open(root).read(MESSAGES).num_rows == 8
