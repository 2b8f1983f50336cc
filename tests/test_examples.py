"""The examples in docs/examples run as they are written."""

import json
import subprocess
import sys
from pathlib import Path

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from tests.bench_inputs import ROOT

OLD = ["We use pnpm for the shop.", "Noted: pnpm.", "The API listens on port 8080.", "Noted: port 8080."]
NEW = ["The API listens on port 9090 from now on, no longer on port 8080.", "Noted: port 9090.", "Thanks for it."]
NOTES = "# Notes\n\n- We use pnpm for the shop.\n- The API listens on port 8080.\n- Mangoes ripen in Peru in winter.\n"


def write_chat(path: Path, day: int, lines: list[str]) -> Path:
    rows = [
        {"session_id": path.stem, "role": ("user", "assistant")[number % 2], "content": text, "workspace": "/shop"}
        | {"ts": f"2026-03-{day:02}T09:0{number}:00Z"}
        for number, text in enumerate(lines)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_notes_are_checked_against_the_memory(tmp_path: Path) -> None:
    run_night(
        [write_chat(tmp_path / "a.jsonl", 1, OLD), write_chat(tmp_path / "b.jsonl", 30, NEW)],
        Settings(store=tmp_path / "store"),
    )
    (tmp_path / "MEMORY.md").write_text(NOTES)
    script = ROOT / "docs" / "examples" / "check_notes.py"
    command = [sys.executable, script, tmp_path / "MEMORY.md", "--store", tmp_path / "store"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "- The API listens on port 8080\n    changed: The API listens on port 9090" in printed
    assert "- Mangoes ripen in Peru in winter\n    unsupported" in printed
    assert "pnpm" not in printed
