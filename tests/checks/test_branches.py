"""Branches that a text names: there, gone as the checkout shows, or never a branch for certain."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.tasks.checks.branches import Seen, read_state
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
    earlier: dict[str, Seen] | None = None,
) -> dict[str, str]:
    """Each branch that a text names, with its result."""
    one = Text("o1", None, str(folder), text, (), at)
    with open_git(find_checkout(folder), 60) as opened:
        rows = check_texts(opened, [one], SAID, "key", (), earlier).rows.to_pylist()
    return {row["name"]: row["result"] for row in rows if row["kind"] == "branch"}


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
    folder: Path, text: str, result: dict[str, str]
) -> None:
    assert ask(folder, text) == result


def test_a_row_says_when_a_branch_was_seen_last_and_its_new_name(
    folder: Path,
) -> None:
    one = Text("o1", None, "w", "Push to `old` only.", (), SAID)
    with open_git(find_checkout(folder), 60) as opened:
        rows = check_texts(opened, [one], SAID, "key").rows.to_pylist()
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
    seen = see("refs/heads/stable/2", "stable/2")
    assert ask(folder, text) == {}
    assert ask(folder, text, earlier=seen) == {"stable/2": "gone"}
    git(folder, "branch", "stable/2")
    assert ask(folder, text, earlier=seen) == {"stable/2": "found"}


def see(reference: str, *names: str) -> dict[str, Seen]:
    """What an earlier night saw by a reference."""
    return dict.fromkeys(names, Seen(Commit("1" * 40, DAY), reference))


def clone(folder: Path, to: Path, *words: str) -> Path:
    git(folder.parent, "clone", "-q", *words, f"file://{folder}", str(to), at=LATER)
    return to


def test_a_clone_knows_what_an_earlier_night_saw_of_its_remote(
    folder: Path, tmp_path: Path
) -> None:
    text = (
        "Logs are on `feature/log` and origin/feature/log, the queue on feature/queue."
    )
    there = {"feature/log": "found", "origin/feature/log": "found"}
    seen = see("refs/remotes/origin/feature/queue", "feature/queue")
    other = clone(folder, tmp_path / "whole")
    assert ask(other, text, earlier=seen) == {**there, "feature/queue": "gone"}
    # one branch alone was asked for: the others may be there
    one = clone(folder, tmp_path / "one", "--single-branch")
    assert ask(one, text, earlier=seen) == {}


@pytest.mark.parametrize(
    "subject",
    [
        "Merge branch 'stable/5'",
        "Merge branch 'stable/5' into main",
        "Merge branches 'a/b' and 'stable/5'",
        "Merge remote-tracking branch 'origin/stable/5'",
        "Merge pull request #7 from ann/stable/5",
    ],
)
def test_a_merge_does_not_tell_whose_branch_it_was(
    folder: Path, tmp_path: Path, subject: str
) -> None:
    # alive upstream, where the clone of the fork never looks
    git(folder, "checkout", "-qb", "stable/5")
    git(folder, "commit", "-qm", "work", "--allow-empty", at=LATER)
    git(folder, "checkout", "-q", "main", at=LATER)
    git(folder, "merge", "-q", "--no-ff", "-m", subject, "stable/5", at=LATER)
    fork = clone(folder, tmp_path / "ann", "--bare")
    git(fork, "branch", "-D", "stable/5")
    other = clone(fork, tmp_path / "other")
    assert subject in git(other, "log", "--format=%s")
    assert ask(other, "Fixes go to stable/5 and origin/stable/5.") == {}


def test_what_was_seen_on_a_remote_that_is_configured_no_more_is_unknown(
    folder: Path, tmp_path: Path
) -> None:
    other = clone(folder, tmp_path / "other")
    git(other, "checkout", "-qb", "stable/5", at=LATER)
    git(other, "checkout", "-q", "main", at=LATER)
    git(other, "branch", "-D", "stable/5")
    text = "Fixes go to stable/5."
    assert ask(other, text) == {"stable/5": "gone"}  # left here, by HEAD's log
    seen = see("refs/remotes/upstream/stable/5", "stable/5")
    assert ask(other, text, earlier=seen) == {}
    git(other, "remote", "add", "up", "https://example.org/demo.git")
    assert ask(other, text, earlier=seen) == {}
    git(other, "remote", "rename", "up", "upstream")
    assert ask(other, text, earlier=seen) == {"stable/5": "gone"}


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
    seen = see("refs/remotes/origin/feature/queue", "feature/queue")
    text = "The queue is on feature/queue."
    assert ask(other, text, earlier=seen) == {"feature/queue": "gone"}
    git(other, "config", "--add", "remote.origin.fetch", "^refs/heads/feature/*")
    assert ask(other, text, earlier=seen) == {}


def test_a_branch_that_goes_changes_the_state_of_a_checkout(folder: Path) -> None:
    before = read_state(folder)
    git(folder, "pack-refs", "--all")
    assert read_state(folder) == before
    git(folder, "branch", "-D", "feature/log")
    assert read_state(folder) != before
