"""Damage of every kind to every table, and what `check` says, `repair` does and recall then answers: real bytes."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow.compute as pc
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.repair import run_repair
from slowwave.memory import Memory
from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RUNS, TABLES
from slowwave.store import Store
from slowwave.store.backup.archive import back_up
from slowwave.store.manifest import REPAIR_FILE, list_versions
from slowwave.store.repair import check_store
from slowwave.tasks.ingest.vault import find_broken_chains
from tests.killed_nights import SAMPLES, digests

QUERY = "Which database does tidepool use for the gauge readings?"
Whole = tuple[dict[str, str], list[tuple[str, str]]]
HELD = [table for table in TABLES.values() if table != RUNS]
FLIPS = int(os.environ.get("SLOWWAVE_FLIPS", "2"))
COMMANDS = """import contextlib, sys
from slowwave.cli.main import app
for words in (['check'], ['recall', sys.argv[1], '--json'], ['run', '--plain', sys.argv[2]]):
    with contextlib.suppress(SystemExit):
        app([*words, '--store', sys.argv[3]], standalone_mode=False)
    print('\\0', end='')
"""


def make_settings(root: Path) -> Settings:
    return Settings(store=root, encoder="hash-384", keywords={"top": 0})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with transcripts, and a store of them."""
    folder = tmp_path_factory.mktemp("repair")
    for name in ("claude-code", "generic"):
        shutil.copytree(SAMPLES / name, folder / "talk" / name)
    run_night([folder / "talk"], make_settings(folder / "store")).check_complete()
    return folder


@pytest.fixture(scope="module")
def whole(built: Path) -> Whole:
    """Digests of the store's tables, and what it answers."""
    return digests(built / "store", HELD), ask(built / "store")


@pytest.fixture
def root(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return shutil.copytree(built / "store", tmp_path / "store")


def ask(root: Path) -> list[tuple[str, str]]:
    return [
        (hit.id, hit.text)
        for hit in Memory.open(root, encoder=HashEncoder()).recall(QUERY)
    ]


def find_data(folder: Path) -> Path | None:
    """The largest data file of a table's newest version."""
    fragments = lance.dataset(str(folder)).get_fragments()
    paths = [
        folder / "data" / file.path
        for fragment in fragments
        for file in fragment.metadata.files
    ]
    return max(paths, key=lambda path: path.stat().st_size, default=None)


def rot(file: Path) -> None:
    """Alter a byte, and nothing else that tells of it."""
    content, stat = bytearray(file.read_bytes()), file.stat()
    content[len(content) // 3] ^= 0x55
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def alter(folder: Path) -> bool:
    if data := find_data(folder):
        rot(data)
        data.touch()
    return data is not None


def cut(folder: Path) -> bool:
    if data := find_data(folder):
        data.write_bytes(data.read_bytes()[:-7])
    return data is not None


def lose_manifest(folder: Path) -> bool:
    manifests = list_versions(folder)
    manifests[max(manifests)].unlink()
    return True


def lose_all(folder: Path) -> bool:
    shutil.rmtree(folder)
    return True


def lose_indexes(folder: Path) -> None:
    shutil.rmtree(folder / "_indices")


def lose_part_of_index(folder: Path) -> None:
    next(folder.glob("_indices/*/part_0_docs.lance")).unlink()


def cut_indexes(folder: Path) -> None:
    for file in folder.glob("_indices/*/part_0_invert.lance"):
        file.write_bytes(file.read_bytes()[:-9])


def empty_indexes(folder: Path) -> None:
    for file in folder.glob("_indices/*/*"):
        file.write_bytes(b"")


def rot_indexes(folder: Path) -> None:
    for file in folder.glob("_indices/*/*"):
        rot(file)


PAIRS = [
    (alter, "messages"),
    (lose_all, "messages"),
    (cut, "claims"),
    (lose_manifest, "claims"),
]
PAIRS += [(lose_manifest, "marks"), (lose_all, "sessions"), (cut, "releases")]


@pytest.mark.parametrize(("damage", "table"), PAIRS)
def test_a_damaged_table_is_found_stops_the_night_and_is_made_what_it_was(
    root: Path, built: Path, whole: Whole, damage: Callable[[Path], bool], table: str
) -> None:
    before, asked = whole
    assert damage(root / "default" / f"{table}.lance")
    assert any(table in one.where for one in check_store(root / "default").damage)
    with pytest.raises(StoreUnreadable, match="slowwave check --repair"):
        run_night([built / "talk"], make_settings(root))
    report = run_repair(make_settings(root))
    assert report.failures == []
    assert any(table in note or note.startswith("r1: its row") for note in report.notes)
    after = digests(root, HELD)
    assert {name for name in before if after[name] != before[name]} <= {"releases"}
    assert (check_store(root / "default").damage, ask(root)) == ([], asked)
    assert find_broken_chains(Store.open(root))[1] == []
    assert run_night([built / "talk"], make_settings(root)).release is None


INDEX_DAMAGE = [
    (lose_indexes, "passages"),
    (lose_part_of_index, "claims"),
    (cut_indexes, "summaries"),
]
INDEX_DAMAGE += [(empty_indexes, "topics"), (rot_indexes, "passages")]


@pytest.mark.parametrize(("damage", "table"), INDEX_DAMAGE)
def test_a_damaged_index_is_built_anew_by_a_repair_and_by_a_night(
    root: Path,
    built: Path,
    whole: Whole,
    tmp_path: Path,
    damage: Callable[[Path], None],
    table: str,
) -> None:
    before, asked = whole
    damage(root / "default" / f"{table}.lance")
    shutil.copytree(root, tmp_path / "other")
    assert any(table in one.where for one in check_store(root / "default").damage)
    report = run_repair(make_settings(root)).check_complete()
    assert f"{table}: its index is rebuilt" in report.notes
    assert (check_store(root / "default").damage, ask(root)) == ([], asked)
    assert {name for name in before if digests(root, HELD)[name] != before[name]} <= {
        "releases"
    }
    assert back_up(root, "default", tmp_path / "backup")["release"] == "r2"
    # The release before has its rows still; what it has lost is said.
    old = Memory.open(root, encoder=HashEncoder(), release="r1")
    assert [hit.text for hit in old.recall(QUERY)]
    # A night needs no repair: an index is no reason to stop.
    night = (
        run_night([built / "talk"], make_settings(tmp_path / "other"))
        .check_complete()
        .release
    )
    assert night
    assert (night.name, ask(tmp_path / "other")) == ("r2", asked)


def test_what_rots_on_the_disk_is_found_before_its_table_is_read_or_written_on(
    tmp_path: Path,
) -> None:
    talk, settings = (
        shutil.copytree(SAMPLES / "generic", tmp_path / "talk"),
        make_settings(tmp_path / "store"),
    )
    run_night([talk], settings).check_complete()
    messages = (store := Store.open(settings.store)).count(TABLES["messages"])
    rot(find_data(store.dir / "claims.lance") or store.dir)
    # Nothing is new, and claims are not read.
    run_night([talk], settings).check_complete()
    whole = (
        newest := max(list_versions(store.dir / "marks.lance").items())[1]
    ).read_bytes()
    rot(newest)  # Lance reads it all the same
    with pytest.raises(StoreUnreadable, match=r"marks.*altered"):
        run_night([talk], settings)
    newest.write_bytes(whole)
    (talk / "new.jsonl").write_text(
        '{"role": "user", "content": "We leave for Hoy on Friday."}\n'
    )
    with pytest.raises(StoreUnreadable, match=r"claims.*altered"):
        run_night([talk], settings)
    assert store.count(TABLES["messages"]) == messages
    rot(find_data(store.dir / "sessions.lance") or store.dir)
    with pytest.raises(StoreUnreadable, match=r"sessions.*altered"):
        run_night([talk], settings)


@pytest.mark.skipif(
    "SLOWWAVE_FLIPS" not in os.environ, reason="takes minutes: SLOWWAVE_FLIPS=4 runs it"
)
def test_after_a_repair_of_any_table_the_store_is_whole_and_nights_go_on(
    root: Path, built: Path
) -> None:
    asked = ask(root)
    for table, damage in (
        (table, damage)
        for table in TABLES
        for damage in (alter, cut, lose_manifest, lose_all)
    ):
        broken = shutil.copytree(root, root.with_name("broken"))
        if damage(broken / "default" / f"{table}.lance"):  # else a table without rows
            run_repair(make_settings(broken)).check_complete()
            assert check_store(broken / "default").damage == [], (table, damage)
            assert run_night([built / "talk"], make_settings(broken)).failures == []
            assert ask(broken) == asked, (table, damage)
        shutil.rmtree(broken)


def test_what_no_transcript_has_any_more_is_named_and_the_rest_goes_on(
    root: Path, tmp_path: Path
) -> None:
    talk = shutil.copytree(SAMPLES / "generic", tmp_path / "talk")
    settings = make_settings(tmp_path / "other")
    run_night([talk], settings)
    messages = Store.open(tmp_path / "other").count(TABLES["messages"])
    alter(tmp_path / "other" / "default" / "messages.lance")
    shutil.rmtree(talk)
    notes = run_repair(settings).notes
    lost = [note for note in notes if "messages are lost" in note]
    assert f"{talk}" in lost[0]
    assert "is gone; only a backup has them" in lost[0]
    assert sum(int(note.split()[2]) for note in lost) == messages
    assert check_store(tmp_path / "other" / "default").damage == []
    assert (
        Store.open(tmp_path / "other").count(
            TABLES["claims"], pc.field("status") == "active"
        )
        == 0
    )


def test_a_ledger_that_is_lost_with_its_manifests_is_begun_anew(
    root: Path, built: Path
) -> None:
    asked = ask(root)
    for gone in ("releases.lance", "manifests"):
        shutil.rmtree(root / "default" / gone)
    assert check_store(root / "default").damage
    with pytest.raises(StoreUnreadable, match="is gone: `slowwave check --repair`"):
        run_night([built / "talk"], make_settings(root))
    run_repair(make_settings(root)).check_complete()
    assert (check_store(root / "default"), ask(root)) == (([], 1, 0), asked)


def test_a_repair_that_was_killed_is_gone_on_with_and_no_night_begins_before(
    root: Path, built: Path
) -> None:
    before = digests(root, HELD)
    store = Store.open(root)
    todo = ["claims", "passages"]
    for table in map(TABLES.__getitem__, todo):
        # What a repair had emptied when it was killed.
        store.delete_ids(table, store.read(table, [table.key])[table.key].to_pylist())
    (root / "default" / REPAIR_FILE).write_text(json.dumps(todo), encoding="utf-8")
    with pytest.raises(StoreUnreadable, match="a repair is unfinished"):
        run_night([built / "talk"], make_settings(root))
    run_repair(make_settings(root)).check_complete()
    after = digests(root, HELD)
    assert {name for name in before if after[name] != before[name]} <= {"releases"}
    assert not (root / "default" / REPAIR_FILE).exists()


def test_bytes_flipped_anywhere_end_no_process_and_are_never_served(
    root: Path, built: Path
) -> None:
    texts = {text for _, text in ask(built / "store")}
    drawn = random.Random(26)
    files = [
        path
        for path in sorted((root / "default").glob("*.lance/**/*"))
        if path.is_file()
    ]
    for path in drawn.sample(files, FLIPS):
        whole = shutil.copytree(root, root.with_name("flipped"))
        content = bytearray((flipped := whole / path.relative_to(root)).read_bytes())
        content[drawn.randrange(len(content))] ^= drawn.randrange(1, 256)
        flipped.write_bytes(content)
        words = [sys.executable, "-c", COMMANDS, QUERY, str(built / "talk"), str(whole)]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=dict(os.environ)
        )
        ended = done.returncode, "Traceback" in done.stderr, "panicked" in done.stderr
        assert ended == (0, False, False), f"{path}\n{done.stderr}"
        hits = (
            json.loads(told)["hits"]
            if (told := done.stdout.split("\0")[1]).strip()
            else []
        )
        assert {hit["text"] for hit in hits} <= texts, path
        shutil.rmtree(whole)
