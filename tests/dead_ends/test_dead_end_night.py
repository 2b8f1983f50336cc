"""A night over sessions with dead ends: the table, what is shown of it, and what takes it away again."""

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from slowwave.cli.agents.hook_text import build_hook_text
from slowwave.cli.main import app
from slowwave.flows.exclude import run_exclude
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import DEAD_ENDS, MARKS, MESSAGES, RELEASED
from slowwave.store import publishing
from slowwave.store.store import Store
from slowwave.tasks.dead_ends.task import STEP, find_dead_ends
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.job import Job
from slowwave.ui.page import Explorer
from slowwave.ui.projects import show_project

SESSIONS = Path(__file__).parents[2] / "data" / "labelled" / "ends"
HERE = "/home/ada/harbor"
DEDUPE = {"command": "pnpm dedupe"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store of the first two sessions."""
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([SESSIONS / "1-lockfile.jsonl", SESSIONS / "2-cache.jsonl"], settings)
    return settings


def read_rows(settings: Settings) -> list[dict[str, Any]]:
    return Store.open(settings.store).read(DEAD_ENDS).sort_by("at").to_pylist()


def ask(settings: Settings, given: dict[str, Any], **more: Any) -> str:
    """What the hook tells before a tool call."""
    asked = {
        "event": "before-tool",
        "prompt": "",
        "folder": HERE,
        "own_sessions": ["running"],
        "budget": 800,
        "everywhere": False,
        "store": str(settings.store),
        "space": None,
        "tool": "Bash" if "command" in given else "Edit",
        "arguments": json.dumps(given),
    }
    return build_hook_text(**{**asked, **more})


def test_dead_ends_are_kept_and_shown(settings: Settings) -> None:
    rows = read_rows(settings)
    assert [(row["attempt"], row["instead"]) for row in rows] == [
        (
            "pnpm dedupe",
            'package.json: "pnpm": { "overrides": { "zod": "3.23.8" } }',
        ),
        ("@lru_cache(maxsize=512)", "psql harbor -f sql/index_tides.sql"),
    ]
    memory = Memory.open(settings.store)
    first = memory.dead_ends(HERE)[-1].describe()
    assert first == (
        "Tried on 4 May 2026: pnpm dedupe; failed: ERR_PNPM_OUTDATED_LOCKFILE Cannot install with frozen lockfile\n"
        f'  done instead: package.json: "pnpm": {{ "overrides": {{ "zod": "3.23.8" }} }} [{rows[0]["attempt_id"][:12]}]'
    )
    words = ["show", "dead-ends", "--all", "--store", str(settings.store)]
    assert first in CliRunner().invoke(app, words).output
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert [row["attempt"] for row in found][-1] == "pnpm dedupe"
    # the id is that of the message that tried it
    shown = CliRunner().invoke(app, ["show", found[-1]["id"], *words[-2:]])
    assert shown.exit_code == 0
    assert "[dead end] - Tried: pnpm dedupe; failed" in (
        memory.context("shall we run pnpm dedupe?", 800, workspace=HERE).text
    )
    assert "dead end" not in memory.context("who tags a release?", 800).text
    page = show_project(Explorer(settings), HERE)
    assert [one["attempt"] for one in page["tried"]][-1] == "pnpm dedupe"


def test_the_hook_tells_what_a_call_tries_again_and_nothing_else(
    settings: Settings, tmp_path: Path
) -> None:
    told = ask(settings, DEDUPE)
    assert "Tried on 4 May 2026: pnpm dedupe; failed" in told
    assert ask(settings, {"command": "pnpm install"}) == ""
    cached = {"old_string": "def tide():", "new_string": "@lru_cache(maxsize=9)"}
    assert "stale" not in ask(settings, {"file_path": f"{HERE}/a.py", **cached})
    assert "lru_cache" in ask(
        settings, {"file_path": f"{HERE}/harbor/tides.py", **cached}
    )
    # of another folder, and of what the running session tried itself
    assert ask(settings, DEDUPE, folder="/home/ada/other") == ""
    own = Memory.open(settings.store).dead_ends()[-1].session
    assert ask(settings, DEDUPE, own_sessions=[own]) == ""
    # once a session
    transcript = tmp_path / "running.jsonl"
    transcript.write_text(told, encoding="utf-8")
    assert ask(settings, DEDUPE, transcript=str(transcript)) == ""


def test_a_night_again_changes_nothing_and_order_does_not_count(
    settings: Settings, tmp_path: Path
) -> None:
    before = Store.open(settings.store).read_versions([DEAD_ENDS, MARKS])
    run_night([SESSIONS / "2-cache.jsonl"], settings)
    assert Store.open(settings.store).read_versions([DEAD_ENDS, MARKS]) == before
    run_night([SESSIONS / "3-again.jsonl"], settings)
    other = settings.model_copy(update={"store": tmp_path / "other"})
    for name in ("3-again.jsonl", "2-cache.jsonl", "1-lockfile.jsonl"):
        run_night([SESSIONS / name], other)
    assert read_rows(other) == read_rows(settings)
    assert len(read_rows(other)) == 3


def test_another_reader_of_what_persons_refuse_reads_all_sessions_again(
    settings: Settings,
) -> None:
    def read_keys() -> set[str]:
        store = Store.open(settings.store)
        marks = store.read(MARKS, where=pc.field("step") == STEP)
        return {row["input_key"] for row in marks.to_pylist()}

    before = read_keys()
    same = settings.model_copy(update={"keywords": Settings().keywords})
    assert find_dead_ends(Job(same, "again")).rows_in == 0
    other = settings.model_copy(update={"encoder": Settings().encoder})
    assert find_dead_ends(Job(other, "other")).rows_in == 2
    assert read_keys().isdisjoint(before)


def test_what_works_in_a_later_session_is_no_dead_end(
    settings: Settings, tmp_path: Path
) -> None:
    text = (SESSIONS / "1-lockfile.jsonl").read_text(encoding="utf-8").splitlines()
    later = [
        line.replace("2026-05-04", "2026-07-01")
        .replace('"sessionId": "', '"sessionId": "9')
        .replace('uuid": "', 'uuid": "9')
        .replace('Uuid": "', 'Uuid": "9')
        for line in text[:6]  # up to the command that went well
    ]
    path = tmp_path / "9-later.jsonl"
    path.write_text("\n".join(later), encoding="utf-8")
    run_night([path], settings)
    first = read_rows(settings)[0]
    assert first["worked_in"] is not None
    assert ask(settings, DEDUPE) == ""
    # without that session it is one again
    session = json.loads(later[0])["sessionId"]
    run_exclude([session], "a slip", settings)
    assert read_rows(settings)[0]["worked_in"] is None
    assert "pnpm dedupe" in ask(settings, DEDUPE)


def test_a_dead_end_goes_with_any_of_its_messages(settings: Settings) -> None:
    rows = read_rows(settings)
    run_exclude([rows[1]["attempt_id"]], "no longer of use", settings)
    assert [row["attempt"] for row in read_rows(settings)] == ["pnpm dedupe"]
    run_forget(Wanted(messages=(rows[0]["failure_id"],)), settings)
    assert read_rows(settings) == []
    assert ask(settings, DEDUPE) == ""


def test_a_release_of_before_has_none(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(settings.store)
    with monkeypatch.context() as patch:
        older = tuple(table for table in RELEASED if table != DEAD_ENDS)
        patch.setattr(publishing, "RELEASED", older)
        rows = store.read(MESSAGES).slice(0, 1).to_pylist()
        assert rows
        release = publishing.publish(store, "older", None, writer="another")
    assert release is not None
    assert DEAD_ENDS.name not in release.versions
    assert Memory.open(settings.store).dead_ends() == []
    assert ask(settings, DEDUPE) == ""


def test_a_refused_proposal_is_shown_warned_of_and_forgotten(tmp_path: Path) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    quill = SESSIONS.parent / "newcomers" / "quill"
    run_night([next(quill.glob("6eb18991*.jsonl"))], settings)
    [row] = read_rows(settings)
    assert (row["kind"], row["words"]) == ("words", ["bun"])
    [one] = Memory.open(settings.store).dead_ends()
    assert "Shall I move the project to Bun?; refused: no bun." in one.describe()
    assert one.describe().startswith("Proposed on ")
    here = row["workspace"]
    assert one.mark in ask(settings, {"command": "bun install"}, folder=here)
    assert ask(settings, {"command": "npm ci"}, folder=here) == ""
    words = ["show", "dead-ends", "--all", "--store", str(settings.store)]
    assert one.describe() in CliRunner().invoke(app, words).output
    run_forget(Wanted(messages=(row["failure_id"],)), settings)
    assert read_rows(settings) == []
    assert ask(settings, {"command": "bun install"}, folder=here) == ""
