"""Checkouts of git for tests: each commit a set of files, at a given day."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

FIRST, LATER = "2026-01-10T12:00:00Z", "2026-11-12T12:00:00Z"


def git(folder: Path, *words: str, at: str = FIRST) -> str:
    """Run git in a folder, at a day, with no settings of the machine."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    when = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *words],
        cwd=folder,
        env={**os.environ, **who, **when, **plain},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(folder: Path, files: Mapping[str, str], at: str = FIRST) -> str:
    """Make the files all that a checkout has, and commit them; return the commit."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
    else:
        git(folder, "rm", "-rqf", "--ignore-unmatch", ".")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "files", "--allow-empty", at=at)
    return git(folder, "rev-parse", "HEAD")
