"""A store in a bucket of a real S3 server: what one machine releases another answers from, and no two write at once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import obstore
import pytest
from lance.file import LanceFileReader
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.repair import run_repair
from slowwave.flows.parts.run import open_run
from slowwave.memory import Memory
from slowwave.plugins.fleet import working_copy
from slowwave.schemas.errors import (
    StoreLocked,
    StoreMissing,
    StoreUnreadable,
    StoreUnwritable,
)
from slowwave.schemas.settings import Settings
from slowwave.store.lock import remove_space
from slowwave.store.publishing import read_releases, roll_back
from slowwave.store.releases import list_spaces, load_releases
from slowwave.store.repair import check_store
from slowwave.store.store import Store
from slowwave.tasks.forget.select import Wanted
from tests.fleet.buckets import BUCKET, connect, read_all, serve_badly
from tests.killed_nights import SMALL, digests
from tests.talk_files import session

pytestmark = pytest.mark.fleet
Machine = Callable[[str], Settings]
NIGHT = """
import json, os, signal, sys
from hashlib import sha256
from pathlib import Path
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.plugins.fleet import working_copy

end = working_copy.Lease.end

def pause(lease, **changes):
    if changes:
        print("uploaded", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    end(lease, **changes)

if sys.argv[3] == "pause":
    working_copy.Lease.end = pause
run_night([Path(sys.argv[2])], Settings(store=sys.argv[1], **json.loads(sys.argv[4])))
"""


@pytest.fixture
def url(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(working_copy, "EVERY", timedelta(0))
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def machine(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Settings as on a machine with a disk of its own."""

    def be(name: str) -> Settings:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return Settings(store=url, **SMALL)

    return be


def tell(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    return session(
        folder,
        name,
        2,
        [("user", f"We decided that {text} from now on."), ("assistant", "Noted.")],
    )


def start_night(settings: Settings, path: Path, how: str = "") -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-c",
        NIGHT,
        str(settings.store),
        str(path),
        how,
        json.dumps(SMALL),
    ]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_bucket(url: str) -> tuple[dict[str, object], set[str], dict[str, bytes]]:
    """The pointer, the hashes that it names, and all files that are there."""
    found = read_all(
        os.environ["AWS_ENDPOINT_URL"], f"{url.rpartition('/')[2]}/default"
    )
    pointer = json.loads(found["live.json"])
    files = {
        name.removeprefix("files/"): content
        for name, content in found.items()
        if name != "live.json"
    }
    named = {digest for _, digest in json.loads(files[pointer["listing"]]).values()} | {
        pointer["listing"]
    }
    return pointer, named, files


def holds(content: bytes, word: str, folder: Path) -> bool:
    """Whether a file, of Lance's too, holds a word."""
    (path := folder / "file.lance").write_bytes(content)
    with suppress(OSError):  # a manifest
        if content.endswith(b"LANC"):
            return word in str(
                LanceFileReader(str(path)).read_all().to_table().to_pylist()
            )
    return word.encode() in content


def test_what_one_machine_releases_another_answers_from(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    path = tell(tmp_path / "said", "s1", "PostgreSQL keeps the tickets of the ferry")
    run_night([path], plain := Settings(store=tmp_path / "plain", **SMALL))
    one = machine("one")
    assert (first := run_night([path], one).release)
    other = machine("other")
    assert one.store != other.store
    memory = Memory.open(url)
    assert memory.release.release_id == first.release_id
    assert "PostgreSQL" in memory.recall("what keeps the tickets?")[0].text
    assert digests(other.store) == digests(one.store) == digests(plain.store)
    # The other goes on where the first ended: nothing is new, a note of its own is, and the first sees that.
    assert run_night([path], other).release is None
    memory = Memory.open(url)
    memory.remember("The quay is closed on Mondays.")
    assert run_night([path], other).release
    machine("one")
    memory = Memory.open(url)
    assert "Mondays" in memory.recall("when is the quay closed?")[0].text
    with open_run("trial", other):
        # A note that is taken while another writes waits here, and answers.
        memory.remember("The crane is repaired in May.")
        assert "May" in memory.recall("when is the crane repaired?")[0].text
    machine("other")
    Memory.open(url).remember("The crane is painted in June.")
    noted = str(read_bucket(url)[2].values())
    assert ("June" in noted, "May" in noted) == (True, False)
    assert run_night([path], one).release
    notes = "".join(
        one.read_text() for one in (Path(one.store) / "default" / "notes").glob("*")
    )
    assert [notes.count(month) for month in ("Mondays", "May", "June")] == [1, 1, 1]
    pointer, named, files = read_bucket(url)
    assert (pointer["release"], pointer["holder"], files.keys()) == ("r3", None, named)
    # Rolled back on one, checked and exported on a third.
    with open_run("rollback", machine("other")) as (job, report):
        report.release = roll_back(job.store, "r1", job.run_id)
    third = machine("third")
    assert check_store(third.store / "default").damage == []
    result = CliRunner().invoke(
        app, ["export", str(tmp_path / "out"), "--store", url], catch_exceptions=False
    )
    assert "Release r4 written" in result.output


def test_of_two_nights_at_once_one_is_refused(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    path = tell(tmp_path / "said", "s1", "PostgreSQL keeps the tickets of the ferry")
    nights = [start_night(machine(name), path) for name in ("one", "two")]
    told = [night.communicate()[1] for night in nights]
    codes = sorted(night.returncode for night in nights)
    # One that starts when the other has ended finds nothing to do.
    assert codes in ([0, 1], [0, 0]), told
    assert codes == [0, 0] or "is being written by run " in "".join(told)
    assert [one.name for one in read_releases(Store.open(machine("three").store))] == [
        "r1"
    ]
    assert read_bucket(url)[0]["epoch"] == codes.count(0)


def test_who_was_thought_dead_makes_nothing_live(
    url: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = start_night(
        one := machine("one"),
        tell(tmp_path / "a", "s1", "the pier is made of oak"),
        "pause",
    )
    assert paused.stdout
    assert paused.stdout.readline() == "uploaded\n"
    two, path = machine("two"), tell(tmp_path / "b", "s2", "the pier is made of steel")
    with pytest.raises(StoreLocked, match=r"run .* ends in"):
        run_night([path], two)
    monkeypatch.setattr(working_copy, "LEASE", timedelta(0))
    assert (made := run_night([path], two).release)
    os.kill(paused.pid, signal.SIGCONT)
    assert (
        "another machine took over, and nothing of this run is live"
        in paused.communicate()[1]
    )
    assert paused.returncode == 1
    pointer, named, files = read_bucket(url)
    assert (pointer["release"], pointer["epoch"]) == ("r1", 2)
    left = files.keys() - named
    # Spared: its writer may be at it.
    assert any(holds(files[name], "oak", tmp_path) for name in left)
    assert not any(holds(files[name], "oak", tmp_path) for name in named)
    machine("one")
    memory = Memory.open(url)
    assert memory.release.release_id == made.release_id
    assert "steel" in memory.recall("what is the pier made of?")[0].text
    monkeypatch.setattr(working_copy, "SPARED", timedelta(0))
    time.sleep(1.1)  # of a server that counts seconds
    run_night([tell(tmp_path / "a", "s1", "the pier is made of oak")], one)
    _, named, files = read_bucket(url)
    assert files.keys() == named


@pytest.mark.parametrize("how", ["503", "lost", "cut", "torn", "slow"])
def test_over_a_bad_line_a_night_is_whole(
    how: str,
    bucket: str,
    url: str,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, asked = (
        tell(tmp_path / "said", "s1", "the pier is made of oak"),
        Counter[tuple[str, str]](),
    )

    def spoil(method: str, path: str, number: int) -> str:
        # Of what is asked again and again each third: by number one file could fail each time.
        asked[method, path] += 1
        return (
            how
            if asked[method, path] % 3 == 1 and (how != "torn" or method == "GET")
            else ""
        )

    with serve_badly(bucket, spoil) as (address, line):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        run_night([said], machine("one"))
        machine("other")
        assert "oak" in Memory.open(url).recall("what is the pier made of?")[0].text
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket)
    assert line.spoilt.count(how) > 10
    pointer, named, files = read_bucket(url)
    assert (pointer["release"], pointer["epoch"], pointer["holder"], files.keys()) == (
        "r1",
        1,
        None,
        named,
    )


def test_without_the_bucket_the_copy_answers(
    bucket: str,
    url: str,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, path = machine("one"), tell(tmp_path / "said", "s1", "the pier is made of oak")
    run_night([path], one)
    with serve_badly(bucket, lambda *_: "503") as (address, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert "oak" in Memory.open(url).recall("what is the pier made of?")[0].text
        with pytest.raises(StoreUnwritable, match="503"):
            run_night([path], one)
        with pytest.raises(StoreUnreadable, match="503"):
            Store.open(machine("other").store)
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket)
    run_night([tell(tmp_path / "said", "s2", "tea is free")], one)
    assert read_bucket(url)[0]["release"] == "r2"


def test_a_reader_stays_with_its_release_through_ten_others(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    said, one = tmp_path / "said", machine("one")
    run_night([tell(said, "s0", "boat 0 is called Alma")], one)
    machine("other")
    pinned, live = Memory.open(url, release="r1"), Memory.open(url)
    live.reading.live.WAIT = 0.0
    for number in range(1, 11):
        run_night(
            [tell(said, f"s{number}", f"boat {number} is called Berta{number}")], one
        )
        assert "Alma" in pinned.recall("what is the boat called?")[0].text
        assert (
            f"Berta{number}"
            in live.recall(f"what is boat {number} called? Berta{number}")[0].text
        )
        assert (pinned.release.name, live.release.name) == ("r1", f"r{number + 1}")


def test_what_is_forgotten_is_in_no_object(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    said, one = tmp_path / "said", machine("one")
    run_night(
        [
            tell(said, "s1", "the treasure lies below quixelbrandt rock"),
            tell(said, "s2", "tea is free"),
        ],
        one,
    )
    run_night([tell(said, "s3", "quixelbrandt rock is closed")], one)
    assert any(
        holds(content, "quixelbrandt", tmp_path)
        for content in read_bucket(url)[2].values()
    )
    other = machine("other")
    report, certificates = run_forget(Wanted(matches=("quixelbrandt",)), other)
    assert report.release
    assert certificates
    _, named, files = read_bucket(url)
    assert files.keys() == named
    assert [
        name
        for name, content in files.items()
        if holds(content, "quixelbrandt", tmp_path)
    ] == []
    machine("one")  # whose copy follows
    memory = Memory.open(url)
    assert "tea" in memory.recall("what is free?")[0].text
    copies = [
        path.read_bytes()
        for path in (one.store / "default").rglob("*")
        if path.is_file()
    ]
    assert not any(holds(content, "quixelbrandt", tmp_path) for content in copies)
    remove_space(one.store / "default")
    # Of an empty list.
    assert [len(content) for content in read_bucket(url)[2].values()] == [2]
    assert list_spaces(machine("third").store) == []
    with pytest.raises(StoreMissing):
        load_releases(other.store / "default")


def test_what_a_bucket_lacks_is_found_and_put_back(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    one = machine("one")
    run_night([tell(tmp_path / "said", "s1", "the pier is made of oak")], one)
    pointer, named, _ = read_bucket(url)
    gone = min(named - {pointer["listing"]})
    obstore.delete(
        connect(os.environ["AWS_ENDPOINT_URL"], f"{tmp_path.name}/default"),
        f"files/{gone}",
    )
    damage = check_store(one.store / "default").damage
    assert [(broken.release, broken.what) for broken in damage] == [
        ("the bucket", "is gone or cut")
    ]
    run_repair(one)
    assert check_store(one.store / "default").damage == []
    assert read_bucket(url)[1] == read_bucket(url)[2].keys()


def test_a_bucket_names_no_file_outside_the_space(
    bucket: str, url: str, machine: Machine, tmp_path: Path
) -> None:
    content = json.dumps({"../../outside": [1, sha256(b"x").hexdigest()]}).encode()
    digest, space = (
        sha256(content).hexdigest(),
        connect(bucket, f"{tmp_path.name}/default"),
    )
    for name, written in (
        (f"files/{digest}", content),
        (f"files/{sha256(b'x').hexdigest()}", b"x"),
    ):
        obstore.put(space, name, written)
    obstore.put(
        space, "live.json", json.dumps({"epoch": 1, "listing": digest}).encode()
    )
    with pytest.raises(StoreUnreadable, match="not a file of a space"):
        Memory.open(machine("one").store)
    assert list(tmp_path.rglob("outside")) == []


def test_transcripts_are_read_from_a_prefix(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    path = tell(tmp_path / "said", "s1", "the pier is made of oak")
    transcripts = connect(os.environ["AWS_ENDPOINT_URL"], f"{tmp_path.name}-said/ann")
    obstore.put(transcripts, "2026/s1.jsonl", path.read_bytes())
    words = [
        "run",
        f"{url}-said/{{space}}/",
        "--plain",
        "--store",
        url,
        "--space",
        "ann",
    ]

    def run() -> str:
        result = CliRunner().invoke(
            app, words, env={"SLOWWAVE_ENCODER": "hash-384"}, catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.output

    machine("one")
    assert "Released r1: 2 messages" in run()
    assert "Released" not in run()
    machine("other")
    assert "Released" not in run()
    obstore.put(
        transcripts,
        "2026/s1.jsonl",
        path.read_bytes() + tell(tmp_path / "b", "s2", "tea is free").read_bytes(),
    )
    assert "Released r2: 4 messages" in run()
    missing = CliRunner().invoke(app, ["run", f"{url}-none", "--plain", "--store", url])
    assert (missing.exit_code, "nothing lies at s3://" in missing.output) == (1, True)


def test_what_a_bucket_can_not_do_is_said(
    url: str, machine: Machine, tmp_path: Path
) -> None:
    machine("one")
    (tmp_path / "file").touch()
    result = CliRunner().invoke(
        app, ["restore", str(tmp_path / "file"), "--store", url]
    )
    assert (
        result.exit_code,
        f"{url} is in a bucket: nothing was done" in result.output,
    ) == (1, True), result.output
    result = CliRunner().invoke(app, ["recall", "tea", "--store", url])
    assert (result.exit_code, f"no store at {url}/default" in result.output) == (
        1,
        True,
    ), result.output
