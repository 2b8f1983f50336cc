"""The examples in docs/examples run as they are written, and show what the program prints."""

import json
import re
import subprocess
import sys
from pathlib import Path

from rich.text import Text

from docs.examples import (
    BUDGET,
    INJECTED,
    PICTURES,
    render_examples,
    render_terminal,
    run_command,
    run_night_in_terminal,
)
from slowwave.flows.nightly import run_night
from slowwave.flows.run_page import describe_run
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from tests.bench_inputs import ROOT
from tests.talk_files import session

OLD = [
    "We use pnpm for the shop.",
    "Noted: pnpm.",
    "The API listens on port 8080.",
    "Noted: port 8080.",
]
NEW = [
    "The API listens on port 9090 from now on, no longer on port 8080.",
    "Noted: port 9090.",
    "Thanks for it.",
]
NOTES = "# Notes\n\n- We use pnpm for the shop.\n- The API listens on port 8080.\n- Mangoes ripen in Peru in winter.\n"


def test_notes_are_checked_against_the_memory(tmp_path: Path) -> None:
    talks = [
        session(
            tmp_path,
            name,
            day,
            [(("user", "assistant")[n % 2], text) for n, text in enumerate(said)],
            "/shop",
        )
        for name, day, said in (("a", 1, OLD), ("b", 30, NEW))
    ]
    run_night(talks, Settings(store=tmp_path / "store"))
    (tmp_path / "MEMORY.md").write_text(NOTES)
    script = ROOT / "docs" / "examples" / "check_notes.py"
    command = [
        sys.executable,
        script,
        tmp_path / "MEMORY.md",
        "--store",
        tmp_path / "store",
    ]
    printed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (
        "- The API listens on port 8080\n    changed: The API listens on port 9090"
        in printed
    )
    assert "- Mangoes ripen in Peru in winter\n    unsupported" in printed
    assert "pnpm" not in printed


def test_what_is_shown_is_what_the_program_prints(tmp_path: Path) -> None:
    store = tmp_path / "store"
    night = run_night_in_terminal(store)
    plain = Text.from_ansi(night).plain
    listed = json.loads(run_command(store, "inspect", "changes", "--json"))
    changed, surely = (
        {pair["from_id"] for pair in listed if pair["kind"] == kind}
        for kind in ("doubt", "supersession")
    )
    among = describe_run(Settings(store=store))["among_new"]
    assert among == (
        f"{len(changed)} new claims may be changed by another new one, {len(surely)} more surely is"
    )
    assert among in " ".join(plain.split())
    for path, printed in render_examples(store).items():
        assert path.read_text(encoding="utf-8") == printed, path
    picture = (PICTURES / "terminal.svg").read_text(encoding="utf-8")
    assert picture == render_terminal(store, night)
    # the README says the same of the picture
    (news,) = re.findall(r"New: (.+)\.", plain)
    (claims,) = re.findall(r"Released r1: .*, (\d+) claims", plain)
    figures = f"{news} gave {claims} claims"
    assert figures in (ROOT / "README.md").read_text(encoding="utf-8")
    # the picture of the page Injected begins with the answer: the best line stands first there
    block = Memory.open(store).context(INJECTED, BUDGET, automatic=True)
    best = max(block.parts[0].lines, key=lambda line: line.relevance)
    assert "PostgreSQL 17" in best.text


def test_a_skill_does_not_tell_what_was_replaced() -> None:
    skill = (ROOT / "docs" / "examples" / "tidepool" / "SKILL.md").read_text()
    assert "PostgreSQL 17" in skill
    assert "SQLite for the gauge" not in skill
