"""A space as a file and back; spaces as walls; disks that are encrypted. Real files, cut and altered for real."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import pyrage
import pytest
import zstandard
from mcp.server.mcpserver.exceptions import ToolError
from pyarrow.parquet.encryption import create_decryption_properties

from slowwave.flows.nightly import run_night
from slowwave.mcp.server import Tools
from slowwave.memory import Memory
from slowwave.schemas.errors import StoreLocked, UsageError
from slowwave.schemas.settings import Settings
from slowwave.store.backup.age import MAGIC, decrypt
from slowwave.store.backup.archive import FORMAT, MANIFEST
from slowwave.store.encrypted_disk import find_encryption
from slowwave.store.lock import writer_lock
from tests.command_line import typed
from tests.talk_files import session
from tests.waiting import PATIENCE

SAID = [
    ("user", "I live in Porto with my sister Nina, and I prefer tea to coffee."),
    ("assistant", "Noted."),
]
OTHER = [
    ("user", "I live in Oslo with my brother Ulrik, and I prefer milk to coffee."),
    ("assistant", "Noted."),
]
OF_RUNS = ("writer.lock", "writer.json")
PHRASE = "correct horse battery"
SECRET = str(pyrage.x25519.Identity.generate())


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.delenv("SLOWWAVE_BACKUP_KEY", raising=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    run_night([session(folder, "ferry-1", 2, SAID)], make_settings(folder, "default"))
    return folder


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def make_settings(folder: Path, space: str) -> Settings:
    return Settings(
        store=folder / "store", space=space, encoder="hash-384", keywords={"top": 0}
    )


def digest(folder: Path) -> dict[str, str]:
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in OF_RUNS
    )
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.mark.parametrize("given", [{}, {"_COMMAND": f"printf '{SECRET}\n'"}])
def test_a_restored_space_has_the_same_bytes_passes_every_check_and_goes_on(
    store: Path, tmp_path: Path, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"SLOWWAVE_BACKUP_KEY{name}", value)
    # As long a name as a disk takes.
    file, other = (
        tmp_path / f"{'one' * 80}.slowwave",
        tmp_path / "other",
    )
    assert typed("backup", file, "--store", store).exit_code == 0
    assert file.stat().st_mode & 0o077 == 0
    assert file.read_bytes().startswith(MAGIC) == bool(given)
    done = typed("restore", file, "--store", other)
    assert done.exit_code == 0, done.output
    assert digest(other / "default") == digest(store / "default")
    assert typed("check", "--store", other).exit_code == 0
    assert "Porto" in typed("recall", "where does Nina live", "--store", other).stdout
    run_night(
        [session(tmp_path, "ferry-2", 3, OTHER)],
        make_settings(tmp_path, "default").model_copy(update={"store": other}),
    )
    assert Memory.open(other).release.name == "r2"


def test_an_encrypted_backup_is_opened_by_any_tool_of_age_and_may_be_made_with_a_public_key(
    store: Path, tmp_path: Path
) -> None:
    key, (file, other) = (
        pyrage.x25519.Identity.from_str(SECRET),
        (tmp_path / "one", tmp_path / "other"),
    )
    (tmp_path / "phrase").write_text(PHRASE)
    (tmp_path / "public").write_text(str(key.to_public()))
    assert (
        typed(
            "backup", file, "--key-file", tmp_path / "phrase", "--store", store
        ).exit_code
        == 0
    )
    assert (
        typed(
            "backup", other, "--key-file", tmp_path / "public", "--store", store
        ).exit_code
        == 0
    )
    for packed in (
        pyrage.passphrase.decrypt(file.read_bytes(), PHRASE),
        pyrage.decrypt(other.read_bytes(), [key]),
    ):
        with (
            zstandard.open(io.BytesIO(packed)) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            first = tar.next()
            assert first is not None
            assert first.name == MANIFEST
    told = typed(
        "restore",
        other,
        "--key-file",
        tmp_path / "public",
        "--store",
        tmp_path / "back",
    )
    assert (told.exit_code, "passphrase is wrong" in told.stderr) == (1, True), (
        told.output
    )


def test_what_is_altered_cut_foreign_or_locked_restores_nothing(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sealed, key = tmp_path / "plain", tmp_path / "sealed", tmp_path / "key"
    key.write_text(SECRET)
    assert typed("backup", plain, "--store", store).exit_code == 0
    assert typed("backup", sealed, "--key-file", key, "--store", store).exit_code == 0
    # It is there already.
    assert typed("backup", plain, "--store", store).exit_code == 1
    assert b"Porto" not in sealed.read_bytes()
    whole, other = sealed.read_bytes(), tmp_path / "other"
    (tmp_path / "wrong").write_text(str(pyrage.x25519.Identity.generate()))
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 1
    for name, content in {
        "altered": bytes(altered),
        "cut": whole[:-9],
        "foreign": b"no backup",
    }.items():
        (tmp_path / name).write_bytes(content)
        told = typed("restore", tmp_path / name, "--key-file", key, "--store", other)
        assert (told.exit_code, told.stderr.count("\n")) == (1, 1), told.output
    (tmp_path / "half").write_bytes(plain.read_bytes()[:-2_000])
    assert (
        "nothing was restored"
        in typed("restore", tmp_path / "half", "--store", other).stderr
    )
    assert (
        "passphrase is wrong"
        in typed(
            "restore", sealed, "--key-file", tmp_path / "wrong", "--store", other
        ).stderr
    )
    assert "is encrypted" in typed("restore", sealed, "--store", other).stderr
    assert (
        "is not encrypted"
        in typed("restore", plain, "--key-file", key, "--store", other).stderr
    )
    assert (
        "already: nothing was restored; --space NAME"
        in typed("restore", plain, "--store", store).stderr
    )
    # Would be held in memory as a name.
    (long := tarfile.TarInfo("long")).type, long.size = (
        tarfile.XHDTYPE,
        1 << 28,
    )
    (tmp_path / "long").write_bytes(
        zstandard.compress(long.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20))
    )
    assert (
        "268,435,456 bytes"
        in typed("restore", tmp_path / "long", "--store", other).stderr
    )
    assert list(other.glob("*")) == []
    monkeypatch.setenv("SLOWWAVE_BACKUP_KEY_COMMAND", "false")
    assert "gave no passphrase" in typed("restore", sealed, "--store", other).stderr
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for left in (
        old := store / ".restoring-a",
        tmp_path / "slowwave-copy-b",
        new := store / ".restoring-c",
    ):
        left.mkdir()
        os.utime(left, (1, 1) if left != new else None)
    # What was killed leaves nothing in plain.
    run_night([], make_settings(tmp_path, "default"))
    assert (old.exists(), (tmp_path / "slowwave-copy-b").exists(), new.exists()) == (
        False,
        False,
        True,
    )


def test_a_backup_that_names_a_place_outside_the_store_is_refused_and_none_is_made_inside_its_own_space(
    store: Path, tmp_path: Path
) -> None:
    inside = store / "default" / "mine"
    assert (
        "would lie in the space itself"
        in typed("backup", inside, "--store", store).stderr
    )
    assert not inside.exists()
    listed: object
    own = {"format": FORMAT, "space": "mine"}
    for listed, told in (
        ({**own, "space": "../out", "files": {}}, "is not a valid name"),
        ([], "is not a backup"),
        ({**own, "files": [1]}, "is not a backup"),
        ({**own, "files": {"a": [1 << 60, ""]}}, "are free"),
        ({**own, "files": {"a": [1, ""]}}, "with another size"),
    ):
        with (
            zstandard.open(tmp_path / "listed", "wb") as out,
            tarfile.open(fileobj=out, mode="w|") as packed,
        ):
            for name, raw in (
                (MANIFEST, json.dumps(listed).encode()),
                ("a", b"longer than it says"),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(raw)
                packed.addfile(member, io.BytesIO(raw))
        done = typed("restore", tmp_path / "listed", "--store", tmp_path / "other")
        assert (done.exit_code, told in done.stderr) == (1, True), done.output
    assert not (tmp_path / "out").exists()


def test_what_was_forgotten_since_a_backup_is_told_when_it_is_restored(
    store: Path, tmp_path: Path
) -> None:
    assert typed("backup", tmp_path / "old", "--store", store).exit_code == 0
    time.sleep(1)  # certificates and backups tell their second
    assert typed("forget", "--match", "Porto", "--yes", "--store", store).exit_code == 0
    (made,) = (store / "default" / "certificates").glob("*.json")
    done = typed("restore", tmp_path / "old", "--space", "again", "--store", store)
    assert done.exit_code == 0, done.output
    assert f"(see {made.name} of space default) is in it again" in done.stdout
    # where nothing was forgotten, nothing is said of it
    assert (
        "forgotten"
        not in typed("restore", tmp_path / "old", "--store", tmp_path / "other").stdout
    )
    # nor where a backup is younger than the forgetting
    assert typed("backup", tmp_path / "new", "--store", store).exit_code == 0
    done = typed("restore", tmp_path / "new", "--space", "later", "--store", store)
    assert (done.exit_code, "forgotten" in done.output) == (0, False), done.output


def test_what_was_forgotten_left_no_release_before_and_all_commands_say_so(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed("forget", "--match", "Nina", "--yes", "--store", store).exit_code == 0
    for command in (
        *(
            ["diff", "r1", "r2"],
            ["export", tmp_path / "out", "--release", "r1"],
            ["rollback", "r1"],
        ),
        ["recall", "Porto", "--release", "r1"],
    ):
        told = typed(*command, "--store", store)
        assert (
            told.exit_code,
            "r1 of" in told.stderr and "no longer kept" in told.stderr,
        ) == (1, True), told.output
    listed = json.loads(typed("inspect", "releases", "--json", "--store", store).stdout)
    assert [(one["name"], one["kept"]) for one in listed] == [
        ("r2", True),
        ("r1", False),
    ]
    monkeypatch.setenv("COLUMNS", "120")
    assert "no longer kept" in typed("inspect", "releases", "--store", store).stdout


def test_a_space_is_a_wall_one_reads_none_of_another_and_outlives_it(
    tmp_path: Path,
) -> None:
    for space, said in (("ann", SAID), ("ben", OTHER)):
        (tmp_path / space).mkdir()
        run_night(
            [session(tmp_path / space, "ferry-1", 2, said)],
            make_settings(tmp_path, space),
        )
        Memory.open(tmp_path / "store", space).recall(
            "who lives where, and prefers what?"
        )
    store, before = tmp_path / "store", digest(tmp_path / "store" / "ben")
    assert not any(
        b"Porto" in path.read_bytes()
        for path in (store / "ben").rglob("*")
        if path.is_file()
    )
    for word in ("Porto", "Nina"):
        told = Memory.open(store, "ben").recall(f"{word}?", 20, everything=True)
        assert not any(word in hit.text for hit in told)
    spaces = json.loads(typed("inspect", "spaces", "--json", "--store", store).stdout)
    assert [one["space"] for one in spaces] == ["ann", "ben"]
    assert (
        typed(
            "forget", "--everything", "--space", "ann", "--yes", "--store", store
        ).exit_code
        == 0
    )
    assert not (store / "ann").exists()
    assert digest(store / "ben") == before
    assert not any(
        b"Porto" in path.read_bytes()
        for path in (tmp_path / "cache").rglob("*")
        if path.is_file()
    )


def test_a_space_that_is_written_is_not_removed_and_one_that_is_removed_is_not_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, removed, remove = store / "default", list[str](), shutil.rmtree
    before = digest(space)
    with writer_lock(space, "r", "nightly"):
        told = typed(
            "forget", "--everything", "--space", "default", "--yes", "--store", store
        )
        assert (told.exit_code, "is being written" in told.stderr) == (1, True), (
            told.output
        )
    assert digest(space) == before

    def watch(path: Path) -> None:
        removed.append(path.name)
        with pytest.raises(StoreLocked), writer_lock(space, "r", "nightly"):
            pass
        remove(path)

    monkeypatch.setattr("slowwave.store.lock.shutil.rmtree", watch)
    assert (
        typed(
            "forget", "--everything", "--space", "default", "--yes", "--store", store
        ).exit_code
        == 0
    )
    assert removed[-1] == "releases.lance"
    assert not space.exists()


def test_an_encrypted_disk_is_known_by_its_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts, sys = tmp_path / "mountinfo", tmp_path / "sys"
    line = "36 35 {} / {} rw - {} /dev/x rw\n"
    block = sys / "dev" / "block"
    for device, uuid in (("253:0", "CRYPT-LUKS2-ab"), ("253:1", "LVM-ab"), ("8:1", "")):
        (block / device / "dm").mkdir(parents=True)
        (block / device / "dm" / "uuid").write_text(uuid)
    (block / "253:1" / "slaves").mkdir()
    (block / "253:1" / "slaves" / "dm-0").symlink_to(block / "253:0")
    for device, kind, told in (
        *(
            ("253:0", "ext4", "dm-crypt"),
            ("253:1", "ext4", "dm-crypt"),
            ("8:1", "ext4", None),
        ),
        ("0:9", "fuse.gocryptfs", "gocryptfs"),
    ):
        mounts.write_text(
            line.format("8:1", "/", "ext4") + line.format(device, tmp_path, kind)
        )
        assert find_encryption(tmp_path / "not" / "made" / "yet", mounts, sys) == told
    monkeypatch.setenv("HOME", str(tmp_path))
    for said, told in (("FileVault is On.", "FileVault"), ("FileVault is Off.", None)):
        (tmp_path / "fdesetup").write_text(f"#!/bin/sh\necho {said}\n")
        (tmp_path / "fdesetup").chmod(0o700)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert find_encryption(tmp_path, tmp_path / "none") == told


def test_nothing_is_written_where_no_encryption_is_known_and_is_asked_for(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_encryption(tmp_path):
        pytest.skip("this disk is encrypted")
    made, learnt, key = tmp_path / "made", tmp_path / "learnt.json", tmp_path / "key"
    typed("backup", made, "--store", store)
    typed("export", learnt, "--learnings", "--store", store)
    key.write_text(PHRASE)
    monkeypatch.setenv("SLOWWAVE_STORAGE__REQUIRE_ENCRYPTED", "true")
    before, out = digest(tmp_path), tmp_path / "out"
    for words in (
        *(
            ("run", "--plain", tmp_path),
            ("remember", "The kettle is new."),
            ("talk",),
            ("import", learnt, "--as", "ann"),
        ),
        *(
            ("backup", out),
            ("backup", out, "--key-file", key),
            ("export", out),
            ("export", out, "--learnings"),
        ),
        *(
            ("restore", made, "--space", "new"),
            ("forget", "--match", "Porto", "--yes"),
            ("exclude", "x", "--why", "y"),
        ),
    ):
        refused = typed(*words, "--store", store)
        assert (refused.exit_code, "no encryption is known" in refused.stderr) == (
            1,
            True,
        ), (words, refused.output)
    memory, tools = Memory.open(store), Tools(Settings(store=store))
    for write in (
        *(
            lambda: memory.remember("x y"),
            memory.begin_conversation,
            lambda: tools.remember("x y"),
        ),
        lambda: tools.rate(memory.claims()[0].id, "bad"),
    ):
        with pytest.raises((UsageError, ToolError), match="no encryption is known"):
            write()
    assert "Porto" in typed("recall", "Where do I live?", "--store", store).stdout
    # Hashes and numbers alone.
    assert {*digest(tmp_path).items()} ^ {*before.items()} == {
        item
        for item in digest(tmp_path).items()
        if item[0].endswith(("recalls.jsonl", "asked.jsonl"))
    }


def test_an_encrypted_export_is_read_by_its_passphrase_alone(
    store: Path, tmp_path: Path
) -> None:
    out, key = tmp_path / "out", tmp_path / "key"
    told = typed("export", out, "--encrypted", "--store", store)
    assert (told.exit_code, "needs a passphrase" in told.stderr, out.exists()) == (
        1,
        True,
        False,
    ), told.output
    key.write_text(PHRASE)
    told = typed(
        "export",
        out,
        "--format",
        "jsonl",
        "--encrypted",
        "--key-file",
        key,
        "--store",
        store,
    )
    assert (told.exit_code, "as Parquet alone" in told.stderr, out.exists()) == (
        1,
        True,
        False,
    ), told.output
    assert (
        typed(
            "export", out, "--encrypted", "--key-file", key, "--store", store
        ).exit_code
        == 0
    )
    assert not any(b"Porto" in path.read_bytes() for path in out.iterdir())
    facts = json.loads((out / "manifest.json").read_bytes())["tables"]["messages"]

    def read(phrase: str) -> list[str]:
        salt = bytes.fromhex(facts["salt"])
        made = hashlib.scrypt(
            phrase.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32
        )
        opened = pq.read_table(
            out / facts["file"],
            decryption_properties=create_decryption_properties(made),
        )
        texts: list[str] = opened["text"].to_pylist()
        return texts

    assert SAID[0][1] in read(PHRASE)
    with pytest.raises(OSError, match="ecrypt"):
        read("another horse battery")
    with pytest.raises(OSError, match="encrypted"):
        pq.read_table(out / facts["file"])
    assert typed("run", out, "--plain", "--store", tmp_path / "back").exit_code == 0
    assert (
        "this export is encrypted"
        in typed("inspect", "quarantine", "--json", "--store", tmp_path / "back").stdout
    )
    seen = typed("forget", "--match", "Porto", "--dry-run", "--json", "--store", store)
    # Nobody can look into it: it may hold it.
    assert json.loads(seen.stdout)["exports"] == [str(out)]


@pytest.mark.skipif(not shutil.which("gocryptfs"), reason="gocryptfs is not installed")
def test_the_recipe_of_the_docs_moves_a_store_into_an_encrypted_folder(
    store: Path,
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "install.md").read_text(
        encoding="utf-8"
    )
    place, *lines = (
        text.partition("### An encrypted store")[2]
        .split("```bash\n")[1]
        .split("\n```")[0]
        .splitlines()
    )
    assert (place, len(lines)) == ("STORE=~/.local/share/slowwave/store", 8)
    before = digest(store)

    def run(line: str, phrase: str = PHRASE) -> int:
        # gocryptfs stays in the background, so it gets no pipe of this test
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = {**os.environ, "STORE": str(store)}
        done = subprocess.run(
            ["bash", "-c", line],
            env=env,
            input=phrase.encode(),
            timeout=PATIENCE,
            check=False,
            **quiet,
        )
        return done.returncode

    try:
        for line in lines:
            if line.startswith("cp "):  # half moved
                held = typed("remember", "The kettle is new.", "--store", store)
                assert (held.exit_code, "is not mounted there" in held.stderr) == (
                    1,
                    True,
                ), held.output
            assert run(line) == 0, line
        assert digest(store) == before
        assert sorted(path.name for path in store.parent.glob("store*")) == [
            "store",
            "store.encrypted",
        ]
        sealed = [
            path
            for path in store.with_name("store.encrypted").rglob("*")
            if path.is_file()
        ]
        assert not any(
            word in path.read_bytes()
            for path in sealed
            for word in (b"Porto", b"messages")
        )
        assert (
            "encryption  by gocryptfs, unlocked"
            in typed("status", "--store", store).stdout
        )
        assert typed("remember", "The kettle is new.", "--store", store).exit_code == 0
        assert "kettle" in typed("recall", "kettle", "--store", store).stdout
        assert run('fusermount3 -u "$STORE"') == 0
        for command in (
            ("status",),
            ("recall", "kettle"),
            ("run", "--plain", store.parent),
            ("remember", "x y"),
        ):
            held = typed(*command, "--store", store)
            assert (held.exit_code, "store.encrypted" in held.stderr) == (1, True), (
                held.output
            )
        assert not [*store.iterdir()]  # nothing was written in plain
        assert (
            run('gocryptfs "$STORE.encrypted" "$STORE"', "another horse battery") != 0
        )
        assert run('gocryptfs "$STORE.encrypted" "$STORE"') == 0
        assert "kettle" in typed("recall", "kettle", "--store", store).stdout
    finally:
        run('fusermount3 -u "$STORE.copy"; fusermount3 -u "$STORE"')


def test_no_export_or_backup_is_written_through_a_link(
    store: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    targets = {"to a folder": away, "to a file": away / "a", "to nothing": away / "b"}
    targets["to a file"].write_text("theirs")
    for name, target in targets.items():
        link = tmp_path / name
        link.symlink_to(target)
        for command in (
            ["export", link, "--format", "jsonl"],
            ["export", link, "--learnings"],
            ["backup", link],
        ):
            told = typed(*command, "--store", store)
            assert (told.exit_code, len(told.stderr.splitlines())) == (1, 1), command
            assert link.is_symlink()
    assert [path.name for path in away.iterdir()] == ["a"]
    assert targets["to a file"].read_text() == "theirs"


def test_what_a_killed_export_or_backup_left_is_not_followed_and_in_nobody_s_way(
    store: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    here = tmp_path / "here"
    (here / "out").mkdir(parents=True)
    (here / "out").chmod(0o750)
    for left in (".out.part", ".claims.json.new", "space.tar.part"):
        (here / left).symlink_to(away)
    for command in (
        ["export", here / "out", "--format", "jsonl"],
        ["export", here / "claims.json", "--learnings"],
        ["backup", here / "space.tar"],
    ):
        assert typed(*command, "--store", store).exit_code == 0, command
    assert not any(away.iterdir())
    # an empty folder is replaced by the whole export, and keeps its permissions
    assert (here / "out" / "manifest.json").exists()
    assert (here / "out").stat().st_mode & 0o777 == 0o750
    assert sorted(path.name for path in here.iterdir()) == [
        "claims.json",
        "out",
        "space.tar",
    ]


def test_a_passphrase_that_asks_too_much_of_a_busy_machine_is_not_called_wrong() -> (
    None
):
    sealed = pyrage.passphrase.encrypt(b"a backup", PHRASE)
    head, factor, rest = re.split(rb" (\d\d)\n", sealed, maxsplit=1)
    assert int(factor) < 40
    with pytest.raises(UsageError, match="too busy, or too slow"):
        decrypt(io.BytesIO(head + b" 60\n" + rest), io.BytesIO(), PHRASE)
