"""Whether claims that the code no longer bears out are found, and those that hold are left alone.

    python -m bench.nights.checks FOLDER

FOLDER has two versions each of seven public packages, as `pip download --no-deps --no-binary :all: httpx==0.23.0` and
`npm pack @trpc/server@9.27.4` write them; data/labelled/code_statements.tsv names them. Both versions become commits of
a repository, a statement is said between them or after the second, and must be marked if it is `gone` or `differs`.
The rules were made with sight of those whose use is `learn`; those of `test` were written later, and measured once.
"""

import csv
import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from bench.harness import LABELLED, SCRATCH, Figures, Row, average, run
from slowwave.tasks.checks.check import Text, check_texts
from slowwave.tasks.checks.checkout import find_checkout, open_git

DAYS = {
    "earlier": "2024-01-10T12:00:00Z",
    "between": "2024-06-01T12:00:00Z",
    "later": "2025-03-10T12:00:00Z",
    "after": "2025-06-01T12:00:00Z",
}
MADE = (".egg-info", "PKG-INFO", "/dist/", "/lib/", ".d.ts")
"""Parts of paths that no checkout has: who packs a release makes them."""
ENDS = ("tar.gz", "tgz")
SECONDS = 300.0


def measure(folder: Path, scratch: Path = SCRATCH) -> Figures:
    """Return by verdict the statements, and the share of them that is marked."""
    text = (LABELLED / "code_statements.tsv").read_text(encoding="utf-8")
    rows = list(
        csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    )
    figures, notes = list[Row](), list[str]()
    for package, some in groupby(rows, key=lambda row: row["package"]):
        statements = list(some)
        found = {
            name: find_archive(folder, package, statements[0][name])
            for name in ("earlier", "later")
        }
        archives = {name: path for name, path in found.items() if path}
        if len(archives) < len(found):
            notes.append(f"skipped: {package}")
            continue
        repository = scratch / package.replace("/", "-")
        for name, archive in archives.items():
            commit_archive(repository, archive, DAYS[name])
        marked = mark_statements(repository, statements)
        for row, hit in zip(statements, marked, strict=True):
            figures.append(
                {
                    "use": row["use"],
                    "verdict": row["verdict"],
                    "marked": float(hit),
                }
            )
            if (row["verdict"] in ("gone", "differs")) != hit:
                notes.append(f"{package}, {row['verdict']}: {row['statement']}")
    return Figures(average(figures, "use", "verdict", count="statements"), notes=notes)


def find_archive(folder: Path, package: str, version: str) -> Path | None:
    """Return the archive of a package's version, if it is there."""
    plain = package.strip("@").replace("/", "-")
    names = (plain, plain.replace("-", "_"))
    paths = [folder / f"{name}-{version}.{end}" for name in names for end in ENDS]
    return next((path for path in paths if path.exists()), None)


def commit_archive(repository: Path, archive: Path, day: str) -> None:
    """Commit an archive's files in place of the repository's."""
    repository.mkdir(parents=True, exist_ok=True)
    who = {
        f"GIT_{role}_{what}": "bench"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    when = {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> None:
        environment = {**os.environ, **who, **when, **plain}
        subprocess.run(
            ["git", *words],
            cwd=repository,
            env=environment,
            check=True,
            capture_output=True,
        )

    if not (repository / ".git").exists():
        git("init", "-q")
    git("rm", "-rqf", "--ignore-unmatch", ".")
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            path = member.name.partition("/")[2]
            if (
                member.isfile()
                and path
                and not any(part in f"/{path}" for part in MADE)
            ):
                to = repository / path
                to.parent.mkdir(parents=True, exist_ok=True)
                content = packed.extractfile(member)
                to.write_bytes(content.read() if content else b"")
    git("add", "-Af")
    git("commit", "-qm", archive.name)


def mark_statements(
    repository: Path, statements: Sequence[Mapping[str, str]]
) -> list[bool]:
    """Return for each statement whether it is marked."""
    texts = [
        Text(
            str(number),
            None,
            "bench",
            row["statement"],
            (),
            datetime.fromisoformat(DAYS[row["said"]]),
        )
        for number, row in enumerate(statements)
    ]
    with open_git(find_checkout(repository), SECONDS) as git:
        rows = check_texts(git, texts, datetime.now(UTC), "bench").rows.to_pylist()
    marked = {row["row_id"] for row in rows if row["result"] != "found"}
    return [str(number) in marked for number in range(len(statements))]


if __name__ == "__main__":
    run(measure)
