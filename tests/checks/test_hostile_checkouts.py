"""A checkout that nobody vouches for: nothing outside is read, nothing is run, nothing is waited for."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.schemas.ids import compute_tags_id
from slowwave.tasks.checks.branches import read_branches
from slowwave.tasks.checks.check import Text, check_texts
from slowwave.tasks.checks.checkout import (
    BIG_FILE,
    CheckoutRefused,
    GitOutput,
    find_checkout,
    open_git,
)
from slowwave.tasks.checks.tags import find_tags
from tests.checkouts import LATER, commit, git

SHOWN = ("path", "text", "instead")
"""Columns with words of the checkout."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    commit(tmp_path / "demo", {"a.py": "x = 1\n"})
    return tmp_path / "demo"


def read_all(folder: Path) -> dict[str, bytes | None]:
    """What git gives of each file of HEAD, and all of its history."""
    with open_git(find_checkout(folder), 60) as opened:
        entries = opened.list_tree()
        blobs = list(opened.read_blobs(entry.blob for entry in entries))
        assert list(opened.log("-p"))
        return dict(zip([entry.path for entry in entries], blobs, strict=True))


def test_nothing_that_its_configuration_says_is_carried_out(
    folder: Path, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    run = f"touch {touched}"
    secret = tmp_path / "secret.config"
    secret.write_text(f"[core]\n\tfsmonitor = {run}\n", encoding="utf-8")
    commit(
        folder, {"a.py": "x = 2\n", ".gitattributes": "*.py diff=evil filter=evil\n"}
    )
    blob = git(folder, "rev-parse", "HEAD:a.py")
    with (folder / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(
            f'[core]\n\tfsmonitor = {run}\n\tpager = {run}\n\thooksPath = {tmp_path}\n'
            f'[alias]\n\tlog = !{run}\n\tls-tree = !{run}\n[include]\n\tpath = {secret}\n'
            f'[diff "evil"]\n\ttextconv = {run};cat\n\tcommand = {run}\n[diff]\n\texternal = {run}\n'
            f'[filter "evil"]\n\tsmudge = {run}\n\tclean = {run}\n[gpg]\n\tprogram = {run}\n'
            f'[log]\n\tshowSignature = true\n[credential]\n\thelper = !{run}\n'
            f'[extensions]\n\tpartialClone = away\n[remote "away"]\n\turl = ext::{run}\n\tpromisor = true\n'
        )  # fmt: skip
    for hook in ("post-index-change", "reference-transaction"):
        path = folder / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
        path.chmod(0o755)
    assert read_all(folder)["a.py"] == b"x = 2\n"
    # a missing object is not fetched
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with open_git(find_checkout(folder), 60) as opened:
        assert list(opened.read_blobs([blob])) == [None]
    assert not touched.exists()
    git(folder, "status")
    assert touched.exists()  # else the test would show nothing


def test_what_leads_out_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    commit(other, {"secret.py": "key = 1\n"})
    # a .git that is a link, or a file that names another repository
    linked, pointed = tmp_path / "linked", tmp_path / "pointed"
    linked.mkdir()
    pointed.mkdir()
    (linked / ".git").symlink_to(other / ".git")
    (pointed / ".git").write_text(f"gitdir: {other}/.git\n", encoding="utf-8")
    for root in (linked, pointed):
        with pytest.raises(CheckoutRefused):
            find_checkout(root)
    # objects that lie elsewhere, by a list, a link or a pipe
    git_folder = folder / ".git"
    alternates = git_folder / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{other}/.git/objects\n", encoding="utf-8")
    with pytest.raises(CheckoutRefused, match="elsewhere"):
        find_checkout(folder)
    alternates.unlink()
    loose = next(path for path in (git_folder / "objects").glob("??/*"))
    moved = loose.rename(tmp_path / "moved")
    loose.symlink_to(moved)
    with pytest.raises(CheckoutRefused, match="link"):
        find_checkout(folder)
    loose.unlink()
    os.mkfifo(loose)
    with pytest.raises(CheckoutRefused, match="device"):
        find_checkout(folder)


@pytest.mark.parametrize(
    "head",
    [
        "ref: refs/heads/../../../../etc/hostname",
        "ref: refs/heads/.invalid",
        "--output=/tmp/x",
        "ref: refs/heads/nothing",
        "",
    ],
)
def test_a_head_that_names_no_commit_is_refused(folder: Path, head: str) -> None:
    (folder / ".git" / "HEAD").write_text(head, encoding="utf-8")
    with pytest.raises(CheckoutRefused):
        find_checkout(folder)


def test_pipes_in_place_of_files_are_not_waited_for(folder: Path) -> None:
    for name in ("HEAD", "packed-refs"):
        path = folder / ".git" / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        with pytest.raises(CheckoutRefused):
            find_checkout(folder)
        path.unlink()
        path.write_text("ref: refs/heads/nothing\n", encoding="utf-8")


def test_a_work_tree_of_ones_own_is_read(folder: Path, tmp_path: Path) -> None:
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert read_all(tmp_path / "tree") == {"a.py": b"x = 1\n"}


def test_another_users_folder_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(CheckoutRefused, match="another user"):
        find_checkout(folder)


def test_links_names_and_big_files_of_the_tree(folder: Path) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    odd = 'a\n"\x1b[31m\tb'
    (folder / odd).write_text("odd = 1\n", encoding="utf-8")
    with (folder / "big.py").open("wb") as big:
        big.truncate(BIG_FILE * 40)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "more")
    with open_git(find_checkout(folder), 60) as opened:
        sizes = {entry.path: entry.size for entry in opened.list_tree()}
    # a link has no size: its target is never looked up
    assert sizes == {"a.py": 6, "out": 0, odd: 8, "big.py": BIG_FILE * 40}


def list_branches(folder: Path) -> tuple[set[str], set[str], bool]:
    """The branches and tags that are read, those that were there once, and whether these are all."""
    read = read_branches(find_checkout(folder))
    return read.local | read.remote | read.tags, set(read.once), read.is_whole


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads",
        "refs/remotes",
        "refs/tags",
        "packed-refs",
        "logs",
        "logs/HEAD",
        "config",
    ],
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_branches_outside_are_not_read(
    folder: Path, tmp_path: Path, name: str, kind: str
) -> None:
    other = tmp_path / "other"
    commit(other, {"a.py": "x = 1\n"})
    for words in (["-b", "secret/plan"], ["main"], ["--detach"]):
        git(other, "checkout", "-q", *words)
    git(other, "update-ref", "refs/remotes/away/secret/main", "HEAD")
    git(other, "tag", "secret/tag")
    if name == "packed-refs":
        git(other, "pack-refs", "--all")
    git(folder, "checkout", "-q", "--detach")
    path = folder / ".git" / name
    if path.exists():
        path.rename(tmp_path / "moved")
    if kind == "link":
        path.symlink_to(other / ".git" / name)
    else:
        os.mkfifo(path)
    present, once, is_whole = list_branches(folder)
    assert not [one for one in present | once if "secret" in one]
    assert not is_whole or name.startswith("logs")


def test_a_branch_that_is_a_link_or_an_odd_name_is_not_opened(
    folder: Path, tmp_path: Path
) -> None:
    heads = folder / ".git" / "refs" / "heads"
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "inside").write_text("x", encoding="utf-8")
    (heads / "out").symlink_to(secret)
    os.mkfifo(heads / "waits")
    (heads / 'odd\n"\x1b[31m').write_text("no commit", encoding="utf-8")
    present, _, is_whole = list_branches(folder)
    assert present == {"main", "out", "waits", 'odd\n"\x1b[31m'}
    assert not is_whole


def test_a_huge_list_of_references_is_cut_and_nothing_is_gone(folder: Path) -> None:
    with (folder / ".git" / "packed-refs").open("w", encoding="utf-8") as packed:
        packed.write(f"{'1' * 40} refs/heads/early/one\n")
        packed.truncate(2 << 30)
    present, _, is_whole = list_branches(folder)
    assert (present, is_whole) == ({"main", "early/one"}, False)


def test_a_head_that_is_a_link_and_a_submodule_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    commit(whole, {"b.py": "y = 1\n"})
    words = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"]
    git(whole, *words, str(folder), "part")
    with pytest.raises(CheckoutRefused, match="elsewhere"):
        find_checkout(whole / "part")
    git(whole, "commit", "-qm", "part")
    with open_git(find_checkout(whole), 60) as opened:
        assert {one.path: one.size for one in opened.list_tree()}["part"] == 0
    head = folder / ".git" / "HEAD"
    head.unlink()
    head.symlink_to(whole / ".git" / "HEAD")
    with pytest.raises(CheckoutRefused):
        find_checkout(folder)


def test_a_log_that_lies_names_branches_alone(folder: Path, tmp_path: Path) -> None:
    log = folder / ".git" / "logs" / "HEAD"
    old = "1" * 40
    times = ["99999999999999999999", "-5", "1700000000"]
    lines = [
        f"{old} {old} a <a@b> {at} +0000\tcheckout: moving from x/{at} to y\n"
        for at in times
    ]
    hidden = f"{old} {old} a <a@b> 1 +0000\tcheckout: moving from ../../x to $(id)\n"
    log.write_bytes("".join([*lines, hidden]).encode() + b"\xff\x00\x1b\n" * 9)
    assert list_branches(folder)[1] == {"x/1700000000", "../../x"}


def test_a_huge_file_and_odd_names_go_through_a_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = "src/qu\x1b[31meue\n.py"
    tag = "v1\u202e.0"
    with (folder / "big.py").open("wb") as big:
        big.write(b"find_tide = 1\n")
        big.truncate(2 << 30)
    (folder / "src").mkdir()
    (folder / odd).write_text("TIDE_LIMIT = '\x1b[31m'\n", encoding="utf-8")
    git(folder, "-c", "core.compression=1", "add", "-A")
    git(folder, "commit", "-qm", "more")
    git(folder, "tag", tag)
    git(folder, "rm", "-q", odd)
    git(folder, "commit", "-qm", "less", at=LATER)
    taken: list[int] = []
    fill = GitOutput._fill

    def count(output: GitOutput) -> bool:
        before = output._taken
        going_on = fill(output)
        taken.append(output._taken - before)
        return going_on

    monkeypatch.setattr(GitOutput, "_fill", count)
    said = datetime(2026, 6, 1, tzinfo=UTC)
    names = ["find_tide", "TIDE_LIMIT", "big.py", odd]
    texts = [
        Text(str(at), None, "w", f"It is `{name}`.", (name,), said)
        for at, name in enumerate(names)
    ]
    with open_git(find_checkout(folder), 60) as opened:
        rows, unread = check_texts(opened, texts, said, "key")
        assert (opened.cuts, unread) == (0, frozenset())
    # of the big file its name alone
    assert sum(taken) < 1 << 20
    place = compute_tags_id("w")
    kept = find_tags({}, {"w": str(folder)}, [place], said, "key").build_table()
    found = [*rows.to_pylist(), *kept.to_pylist()]
    assert {row["result"] for row in found if row["name"] == "big.py"} == {"found"}
    assert {row["result"] for row in found if row["name"] == "TIDE_LIMIT"} == {"gone"}
    assert "find_tide" not in [row["name"] for row in found]
    told = "".join(str(row[name] or "") for row in found for name in SHOWN)
    assert "TIDE_LIMIT = " in told
    assert not [sign for sign in told if sign in "\x1b\n\u202e"]
