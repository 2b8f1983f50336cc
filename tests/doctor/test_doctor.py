"""A memory kept by hand, held against itself and a store: what is found, what is not, and the patch."""

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.doctor.entries import read_entries
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.text.marked import replace_marked
from tests.bench_inputs import ROOT

MEMORY = """---
title: Shop
updated: 2026-03-02
---
# Notes

- We use pnpm for the shop.
- The API listens on port 8080.
- We use **pnpm** for the shop.
  - even in CI on every branch
- We use pnpm for the shop.

Mangoes ripen in Peru during the winter months. They are sweet and very juicy.

```
The API listens on port 8080.
```"""
OLD = ["We use pnpm for the shop.", "Noted: pnpm.", "The API listens on port 8080.", "Noted: port 8080."]
NEW = ["The API listens on port 9090 from now on, no longer on port 8080.", "Noted: port 9090.", "Thanks for it."]


def chat(path: Path, day: int, said: list[str], workspace: Path) -> Path:
    rows = [
        {"session_id": path.stem, "role": ("user", "assistant")[i % 2], "content": text}
        | {"ts": f"2026-03-{day:02}T09:0{i}:00Z", "workspace": str(workspace)}
        for i, text in enumerate(said)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace `shop` and a store of two sessions, of which the later changes what the first said."""
    root = tmp_path_factory.mktemp("doctor")
    (root / "shop").mkdir()
    (root / "shop/MEMORY.md").write_text(MEMORY)
    run_night([chat(root / "a.jsonl", 1, OLD, root / "shop")], Settings(store=root / "s"))
    run_night([chat(root / "b.jsonl", 30, NEW, root / "shop")], Settings(store=root / "s"))
    return root


def call(*args: object) -> Any:
    return CliRunner().invoke(app, ["doctor", "memory", *map(str, args)])


def find(*args: object) -> list[tuple[str, str]]:
    told = json.loads(call(*args, "--json").stdout)
    return [(one["kind"], one["place"]) for one in told["findings"]]


def test_each_kind_is_found_and_nothing_else(place: Path) -> None:
    assert find(place / "shop/MEMORY.md", "--store", place / "s") == [
        ("changed", "MEMORY.md:8"),
        ("duplicate", "MEMORY.md:9"),
        ("unsupported", "MEMORY.md:10"),
        ("duplicate", "MEMORY.md:11"),
        ("unsupported", "MEMORY.md:13"),
        ("unsupported", "MEMORY.md:13"),
    ]


def test_the_patch_applies_and_the_memory_itself_is_not_touched(place: Path, tmp_path: Path) -> None:
    """What has something below it stays, though it is a repetition."""
    done = call(place / "shop", "--store", place / "s", "--patch", tmp_path / "p.diff")
    assert done.exit_code == 0, done.output
    assert (place / "shop/MEMORY.md").read_text() == MEMORY
    (tmp_path / "MEMORY.md").write_text(MEMORY)
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    fixed = MEMORY.replace("- We use pnpm for the shop.\n\nMangoes", "\nMangoes").replace(
        "- The API listens on port 8080.",
        "- The API listens on port 9090 from now on, no longer on port 8080 (since 2026-03-30)",
    )
    assert (tmp_path / "MEMORY.md").read_text() == fixed
    assert "is there already" in call(place / "shop", "--patch", tmp_path / "p.diff").output


def test_the_patch_of_a_page_with_spaces_in_its_name_is_one_that_patch_takes(tmp_path: Path) -> None:
    folder = tmp_path / "my notes"
    folder.mkdir()
    (folder / "on the shop.md").write_text("- We use pnpm for the shop.\n- We use pnpm for the shop.\n")
    done = call(folder, "--store", tmp_path / "none", "--patch", tmp_path / "p q.diff")
    assert f"patch -p1 -d '{folder}' < '{tmp_path / 'p q.diff'}'" in done.output
    lines = (tmp_path / "p q.diff").read_text().split("\n")
    assert lines[:2] == ["--- a/on the shop.md\t", "+++ b/on the shop.md\t"]
    subprocess.run(["git", "apply", str(tmp_path / "p q.diff")], cwd=folder, check=True)
    assert (folder / "on the shop.md").read_text() == "- We use pnpm for the shop.\n"


def test_what_is_said_three_times_repeats_its_first_place_and_one_patch_leaves_that(tmp_path: Path) -> None:
    page, line = tmp_path / "notes" / "a.md", "We use pnpm for the shop.\n"
    page.parent.mkdir()
    page.write_text(f"- {line}- {line}- 2020-01-01: {line}")
    done = call(page.parent, "--store", tmp_path / "none", "--patch", tmp_path / "p.diff", "--json")
    found = [(one["place"], one["other"]["place"]) for one in json.loads(done.stdout)["findings"]]
    assert found == [("a.md:2", "a.md:1"), ("a.md:3", "a.md:1")]
    subprocess.run(["git", "apply", str(tmp_path / "p.diff")], cwd=page.parent, check=True)
    assert page.read_text() == f"- {line}"


def test_entries_of_one_memory_contradict_where_one_likely_changes_the_other(tmp_path: Path) -> None:
    lines = ["- 2026-03-01: The API listens on port 8080.", f"- 2026-03-30: {NEW[0]}", "- We use pnpm for the shop."]
    (tmp_path / "notes.md").write_text("\n".join(lines))
    assert find(tmp_path, "--store", tmp_path / "none") == [("contradiction", "notes.md:1")]
    (tmp_path / "notes.md").write_text("\n".join("- " + line[14:] for line in lines[:2]))
    assert "which holds is not dated" in call(tmp_path, "--store", tmp_path / "none").output


def test_the_block_that_slowwave_keeps_in_a_file_is_nobodys_entry(tmp_path: Path) -> None:
    line = "- We use pnpm for the shop."
    (tmp_path / "CLAUDE.md").write_text(
        replace_marked(f"# Mine\n{line}\n", line) + "\n- Mangoes ripen in Peru in winter.\n"
    )
    assert [(entry.line, entry.text) for entry in read_entries(tmp_path / "CLAUDE.md")] == [
        (2, "We use pnpm for the shop"),
        (8, "Mangoes ripen in Peru in winter"),
    ]


def test_pages_without_faults_have_none(tmp_path: Path) -> None:
    for name in ("CONTRIBUTING.md", "docs/formats.md"):
        assert find(ROOT / name, "--store", tmp_path / "none") == []


def test_other_tools_memories_are_read(tmp_path: Path) -> None:
    rows = [{"id": "1", "memory": "Likes green tea a lot", "user_id": "u", "created_at": "2026-01-02T03:04:05Z"}]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": [*rows, {"id": 2}]}))
    (tmp_path / "package.json").write_text("{}")
    with sqlite3.connect(tmp_path / "claude-mem.db") as db:
        columns = "id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT, title TEXT, facts TEXT"
        db.execute(f"CREATE TABLE observations ({columns}, created_at TEXT)")
        db.execute(
            "INSERT INTO observations VALUES (7, 's', 'p', 't', 'T', '[\"a b c\", \"d\"]', '2026-01-01T00:00:00Z')"
        )
        db.execute("INSERT INTO observations VALUES (8, 's', 'p', 'told', NULL, 'no json', NULL)")
    db.close()
    found = [(e.path.name, e.line, e.text, e.dated) for e in read_entries(tmp_path)]
    assert found == [
        ("claude-mem.db", 7, "a b c", True),
        ("claude-mem.db", 7, "d", True),
        ("claude-mem.db", 8, "told", False),
        ("mem0.json", 1, "Likes green tea a lot", True),
    ]


def test_what_is_no_memory_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 9_000)
    with pytest.raises(UsageError, match="no memory that is known"):
        read_entries(tmp_path / "a.json")
    assert "no such file or folder" in call(tmp_path / "gone").output
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe- some words \x00 here now\r\n")
    assert call(tmp_path / "bad.md", "--store", tmp_path / "none").exit_code == 0
