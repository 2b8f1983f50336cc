"""Whether statements about branches that are gone are marked, and those that hold are left alone.

    python -m bench.branches

data/labelled/branch_statements.tsv has 50 statements, written before the code of branches was looked at, but with
knowledge of its rules in words (`docs/decisions/022-checks.md`). Each becomes the life of a branch in one repository:
left and deleted here (`left`), found by an earlier night and pruned since (`pruned`), renamed, merged and deleted
elsewhere so that this clone never saw it (`unseen`); or still there (`local`, `remote`), deleted before the statement
(`told`), deleted and made again (`again`), called as what the code has (`code`), a plain word (`word`).
"""

import csv
import io
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.harness import LABELLED, SCRATCH, Figures, Row, average, run
from slowwave.tasks.checks.branches import Seen
from slowwave.tasks.checks.check import Text, check_texts
from slowwave.tasks.checks.checkout import Commit, find_checkout, open_git

BEGIN = datetime(2026, 1, 10, tzinfo=UTC)
SAID = BEGIN + timedelta(days=60)
LEFT = SAID + timedelta(days=30)
AFTER = LEFT + timedelta(days=10)
SECONDS = 300.0


def measure(scratch: Path = SCRATCH) -> Figures:
    """Return by label and life of the branch the statements, and the share of them that is marked."""
    text = (LABELLED / "branch_statements.tsv").read_text(encoding="utf-8")
    lines = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = list(lines)
    repository = scratch / "branches"
    git(repository, BEGIN, "init", "-q", "-b", "main")
    (repository / "limit.py").write_text("class RateLimiter: pass\n", encoding="utf-8")
    git(repository, BEGIN, "remote", "add", "origin", "https://example.org/x.git")
    git(repository, BEGIN, "add", "-A")
    git(repository, BEGIN, "commit", "-qm", "begin")
    for row in rows:
        live(repository, row["life"], row["branch"])
    marked = mark(repository, rows)
    figures = [
        {"label": row["label"], "life": row["life"], "marked": float(str(at) in marked)}
        for at, row in enumerate(rows)
    ]
    wrong = [
        f"{row['label']}, {row['life']}: {row['text']}"
        for at, row in enumerate(rows)
        if (row["label"] == "gone") != (str(at) in marked)
    ]
    return Figures(
        [
            *average(figures, "label", count="statements"),
            *average(figures, "label", "life", count="statements"),
        ],
        notes=wrong,
    )


def live(repository: Path, life: str, branch: str) -> None:
    """Let a branch have its life until now."""
    if life in ("local", "again"):
        git(repository, BEGIN, "branch", branch)
    if life in ("remote", "pruned"):
        name = branch.removeprefix("origin/")
        git(repository, BEGIN, "update-ref", f"refs/remotes/origin/{name}", "HEAD")
    if life in ("left", "again", "code", "word", "renamed"):
        work_on(repository, branch, LEFT, is_new=life != "again")
    if life == "told":
        work_on(repository, branch, SAID - timedelta(days=2), is_new=True)
    if life == "renamed":
        git(repository, LEFT, "checkout", "-q", branch)
        git(repository, LEFT, "branch", "-m", branch, f"{branch}-2")
        git(repository, LEFT, "checkout", "-q", "main")
    if life in ("left", "again", "code", "word", "told"):
        git(repository, LEFT, "branch", "-D", branch)
    if life == "again":
        git(repository, LEFT, "branch", branch)
    if life == "pruned":
        git(repository, LEFT, "update-ref", "-d", f"refs/remotes/origin/{branch}")
    if life == "unseen":
        subject = f"Merge pull request #7 from ann/{branch}"
        git(repository, LEFT, "commit", "-qm", subject, "--allow-empty")


def work_on(repository: Path, branch: str, at: datetime, *, is_new: bool) -> None:
    """Check a branch out at a time, commit something, and leave it."""
    new = ["-b"] if is_new else []
    git(repository, at, "checkout", "-q", *new, branch)
    git(repository, at, "commit", "-qm", "work", "--allow-empty")
    git(repository, at, "checkout", "-q", "main")


def mark(repository: Path, rows: list[Row]) -> set[str]:
    """Return the numbers of the statements that are marked.

    The pruned branches were found by a night after the statement.
    """
    texts = [
        Text(str(at), None, str(repository), row["text"], (), SAID)
        for at, row in enumerate(rows)
    ]
    last = Commit("1" * 40, int(LEFT.timestamp()))
    earlier = {
        name: Seen(last, f"refs/remotes/origin/{row['branch']}")
        for row in rows
        if row["life"] == "pruned"
        for name in (row["branch"], f"origin/{row['branch']}")
    }
    with open_git(find_checkout(repository), SECONDS) as opened:
        found = check_texts(opened, texts, AFTER, "bench", earlier=earlier)
    return {row["row_id"] for row in found.rows.to_pylist() if row["result"] != "found"}


def git(repository: Path, at: datetime, *words: str) -> None:
    """Run git in the repository, at a time, with no settings of the machine."""
    repository.mkdir(parents=True, exist_ok=True)
    day = at.isoformat()
    names = {
        f"GIT_{role}_{what}": "bench"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    days = {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(
        ["git", *words],
        cwd=repository,
        env={**os.environ, **names, **days, **plain},
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    run(measure)
