"""Branches that a text names: there, gone as the checkout shows, or never a branch for certain."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.tasks.checks.branches import read_state
from slowwave.tasks.checks.check import Text, check_texts
from slowwave.tasks.checks.checkout import Commit, find_checkout, open_git
from tests.checkouts import LATER, commit, git

SAID = datetime(2026, 6, 1, tzinfo=UTC)
DAY = int(SAID.timestamp()) + 40 * 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`feature/queue`, `retry-queue` and `spike` were merged in November and deleted, `old` renamed; `feature/log` is
    there, `team/tags` a tag.
    """
    folder = tmp_path / "demo"
    commit(folder, {"src/retry_queue.py": "x = 1\n", "docs/spike2.md": "spike\n"})
    git(folder, "branch", "feature/log")
    git(folder, "tag", "team/tags")
    for name in ("feature/queue", "retry-queue", "spike"):
        git(folder, "checkout", "-qb", name, at=LATER)
        git(folder, "commit", "-qm", "work", "--allow-empty", at=LATER)
        git(folder, "checkout", "-q", "main", at=LATER)
        git(folder, "merge", "-q", "--no-ff", "--no-edit", name, at=LATER)
        git(folder, "branch", "-qD", name)
    git(folder, "checkout", "-q", "team/tags", at=LATER)
    git(folder, "checkout", "-q", "-b", "old", "main", at=LATER)
    git(folder, "branch", "-m", "old", "next/main", at=LATER)
    git(folder, "checkout", "-q", "main", at=LATER)
    return folder


def ask(
    folder: Path,
    text: str,
    at: datetime | None = SAID,
    earlier: dict[str, Commit] | None = None,
) -> dict[str, str]:
    """Each branch that a text names, with its result."""
    one = Text("o1", None, str(folder), text, (), at)
    with open_git(find_checkout(folder), 60) as opened:
        rows = check_texts(opened, [one], SAID, "key", (), earlier).to_pylist()
    return {row["name"]: row["result"] for row in rows if row["kind"] == "branch"}


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("The queue is made on feature/queue.", {"feature/queue": "gone"}),
        ("キューはfeature/queueで作る。", {"feature/queue": "gone"}),
        ("Try it on `spike` first.", {"spike": "gone"}),
        ("Logs are on `feature/log`.", {"feature/log": "found"}),
        # as the code calls something, a word in prose, a tag, a path, what never was
        ("The `retry-queue` has five jobs; the retry-queue is in Redis.", {}),
        ("We had a spike at noon.", {}),
        ("team/tags and `v1` are read/write, in src/retry_queue.py.", {}),
        ("It will be feature/next and origin/feature/queue.", {}),
    ],
)
def test_what_was_a_branch_for_certain_is_gone(
    folder: Path, has_log: bool, text: str, result: dict[str, str]
) -> None:
    if not has_log:  # the subjects of merges tell it too
        (folder / ".git" / "logs" / "HEAD").unlink()
    assert ask(folder, text) == result


def test_a_row_says_when_a_branch_was_seen_last_and_its_new_name(
    folder: Path,
) -> None:
    one = Text("o1", None, "w", "Push to `old` only.", (), SAID)
    with open_git(find_checkout(folder), 60) as opened:
        rows = check_texts(opened, [one], SAID, "key").to_pylist()
    (row,) = [row for row in rows if row["kind"] == "branch"]
    told = row["result"], row["path"], row["instead"], str(row["since_at"])[:10]
    assert told == ("gone", "refs/heads/old", "next/main", "2026-11-12")
    assert row["since_commit"] == git(folder, "rev-parse", "next/main")
    assert ask(folder, "`old` is called next/main now.") == {"next/main": "found"}


def test_what_is_said_after_a_branch_was_seen_last_is_left_alone(folder: Path) -> None:
    after = datetime(2026, 11, 13, tzinfo=UTC)
    assert ask(folder, "I deleted feature/queue.", after) == {}


def test_a_branch_that_an_earlier_night_found_is_known(folder: Path) -> None:
    text = "Releases are cut from `stable/2`."
    seen = {"stable/2": Commit("1" * 40, DAY)}
    assert ask(folder, text) == {}
    assert ask(folder, text, earlier=seen) == {"stable/2": "gone"}
    git(folder, "branch", "stable/2")
    assert ask(folder, text, earlier=seen) == {"stable/2": "found"}


def clone(folder: Path, to: Path, *words: str) -> Path:
    git(folder.parent, "clone", "-q", *words, f"file://{folder}", str(to), at=LATER)
    return to


def test_a_clone_knows_what_its_remote_had_when_it_was_asked(
    folder: Path, tmp_path: Path
) -> None:
    text = (
        "Logs are on `feature/log` and origin/feature/log, the queue on feature/queue."
    )
    there = {"feature/log": "found", "origin/feature/log": "found"}
    other = clone(folder, tmp_path / "whole")
    assert ask(other, text) == {**there, "feature/queue": "gone"}
    # one branch alone was asked for: the others may be there
    assert ask(clone(folder, tmp_path / "one", "--single-branch"), text) == {}
    # a merge that came by `git pull origin main`: its branch may be there, where it was not asked for
    git(folder, "checkout", "-qb", "late/one", at=LATER)
    git(folder, "commit", "-qm", "work", "--allow-empty", at="2026-11-14T12:00:00Z")
    git(folder, "checkout", "-q", "main", at=LATER)
    later = "2026-11-20T12:00:00Z"
    git(folder, "merge", "-q", "--no-ff", "--no-edit", "late/one", at=later)
    git(folder, "branch", "-qD", "late/one")
    git(other, "pull", "-q", "origin", "main")
    assert ask(other, "It is on late/one.") == {}
    git(other, "fetch", "-q")
    os.utime(other / ".git" / "FETCH_HEAD", (DAY + 20_000_000, DAY + 20_000_000))
    assert ask(other, "It is on late/one.") == {"late/one": "gone"}


def test_a_further_work_tree_knows_the_same_branches(
    folder: Path, tmp_path: Path
) -> None:
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side/tree")
    text = "The queue is on feature/queue, this on side/tree."
    told = {"feature/queue": "gone", "side/tree": "found"}
    assert ask(tmp_path / "tree", text) == ask(folder, text) == told


@pytest.mark.parametrize(
    ("name", "text", "gone"),
    [
        ("fix/tide", "Run `git checkout fix/tide` first.", ["fix/tide"]),
        # ordinary words, and a file without its ending, that a branch was called by
        ("type-hints", "All functions have type-hints.", []),
        ("us-east-1", "It is deployed to us-east-1.", []),
        ("docs/spike2", "See docs/spike2 for the steps.", []),
        ("src/retry_queue", "`src/retry_queue` has the jobs.", []),
        # the tag of that name can be checked out
        ("team/tags", "Hotfixes start from team/tags.", []),
    ],
)
def test_what_a_deleted_branch_was_called_may_mean_something_else(
    folder: Path, name: str, text: str, gone: list[str]
) -> None:
    git(folder, "checkout", "-q", "-b", name, at=LATER)
    git(folder, "checkout", "-q", "main", "--", at=LATER)
    git(folder, "branch", "-qD", name)
    assert ask(folder, text) == dict.fromkeys(gone, "gone")


def test_branches_that_are_not_fetched_are_not_gone(
    folder: Path, tmp_path: Path
) -> None:
    other = clone(folder, tmp_path / "whole")
    git(other, "config", "--add", "remote.origin.fetch", "^refs/heads/feature/*")
    assert ask(other, "The queue is on feature/queue.") == {}


def test_a_branch_that_goes_changes_the_state_of_a_checkout(folder: Path) -> None:
    before = read_state(folder)
    git(folder, "pack-refs", "--all")
    assert read_state(folder) == before
    git(folder, "branch", "-D", "feature/log")
    assert read_state(folder) != before


@pytest.mark.parametrize(
    ("subject", "gone"),
    [
        ("Merge pull request #7 from ann/fix/tide", {"fix/tide", "origin/fix/tide"}),
        ("Merge pull request #7 from bob/fix/tide", set()),
        ("Merge remote-tracking branch 'origin/fix/tide'", {"fix/tide", "origin/fix/tide"}),
        ("Merge branch 'fix/tide' into 'main'", {"fix/tide"}),
        ("Merge branches 'a/b' and 'fix/tide'", {"fix/tide"}),
        # of another repository, or in somebody's words
        ("Merge branch 'fix/tide' of https://example.org/bob/demo", set()),
        ("Merge the work of fix/tide", set()),
    ],
)  # fmt: skip
def test_subjects_of_merges_name_branches_of_this_repository(
    folder: Path, subject: str, gone: set[str]
) -> None:
    git(folder, "remote", "add", "origin", "git@example.org:ann/demo.git")
    (folder / ".git" / "FETCH_HEAD").write_text(
        f"{'1' * 40}\tnot-for-merge\tbranch 'main' of example.org:ann/demo\n",
        encoding="utf-8",
    )
    git(folder, "checkout", "-q", "--detach", at=LATER)
    git(folder, "commit", "-qm", "work", "--allow-empty", at=LATER)
    side = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "main", at=LATER)
    git(folder, "merge", "-q", "--no-ff", "-m", subject, side, at=LATER)
    text = "It is on fix/tide, and on origin/fix/tide."
    assert ask(folder, text) == dict.fromkeys(gone, "gone")
