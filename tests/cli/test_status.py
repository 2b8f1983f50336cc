"""`slowwave status` over the transcripts of a home folder, and the line of it that opens a briefing."""

import json
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.flows.nightly import run_night
from slowwave.mcp.server import Tools
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RUNS
from slowwave.store import Store
from slowwave.text.times.days import format_minute
from tests.command_line import typed

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "claude-code" / "projects"
WAITING = "Covers 6 of 7 transcripts (6 sessions), up to "
HOUR = 3_600


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home below in a copy: a night knows its files by their paths, so each test has it in the same place."""
    return tmp_path_factory.mktemp("status") / "kept"


@pytest.fixture
def home(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with transcripts of Claude Code, of which all were read by a night."""
    here = built.with_name("home")
    given = {
        "HOME": here,
        "SLOWWAVE_STORE": here / "store",
        "SLOWWAVE_ENCODER": "hash-384",
        "XDG_CONFIG_HOME": here,
    }
    for name, value in {
        **given,
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
        "COLUMNS": "200",
    }.items():
        monkeypatch.setenv(name, str(value))
    if not built.exists():
        shutil.copytree(SAMPLES, built / ".claude" / "projects")
        built.rename(here)
        run_night([], Settings())
        here.rename(built)
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(built, here)
    monkeypatch.chdir(here)
    return here


def add_transcript(home: Path, hours: int) -> None:
    """A session that ended so many hours ago."""
    project = next((home / ".claude" / "projects").iterdir())
    path = project / "00000000-0000-4000-8000-000000000000.jsonl"
    text = next(project.glob("*.jsonl")).read_text().replace("3f0c6a52", "00000000")
    path.write_text(text)
    os.utime(path, (time.time() - hours * HOUR,) * 2)


def test_it_says_what_waits_and_the_briefing_opens_with_it_after_a_day(
    home: Path,
) -> None:
    assert typed("install", "codex").exit_code == 0
    told = typed("status")
    assert (told.exit_code, told.output.count("\n")) == (0, 12)
    assert "Covers 6 of 6 transcripts (6 sessions), up to 2 Nov 2026, " in told.output
    assert (
        "unreadable  1 line or file: 1 torn line: the JSON object does not end"
        in told.output
    )
    assert "nightly" in told.output
    assert "hooks       codex\n" in told.output
    covered = typed("briefing").output

    add_transcript(home, hours=2)
    # It waits for the night.
    assert (typed("status").exit_code, typed("briefing").output) == (
        0,
        covered,
    )
    add_transcript(home, hours=50)
    told = typed("status", "--json")
    assert (told.exit_code, json.loads(told.output)["memory"]["waiting"]) == (3, 1)
    opened = typed("briefing", "--budget", "300").stdout
    assert opened.startswith(WAITING)
    assert opened.splitlines()[0] in typed("status").output
    assert WAITING in Tools(Settings()).briefing()

    run_night([], Settings())
    assert (typed("status").exit_code, WAITING in typed("briefing").output) == (
        0,
        False,
    )


def test_figures_count_answers_what_they_took_and_what_went_wrong(home: Path) -> None:
    def stats() -> Any:
        return json.loads(typed("status", "--stats", "--json").output)["stats"]

    assert stats()["answers_total"] == {}
    for words in (
        "recall readings",
        "recall readings --since 2090-01-01",
        "context tide",
    ):
        assert typed(*words.split()).exit_code == 0
    figures = stats()
    assert figures["answers_total"] == {"recall": 2, "context": 1}
    assert figures["answers_empty_total"] == {"recall": 1, "context": 0}
    assert (
        0
        < figures["encoding_median_seconds"]["recall"]
        < figures["answer_median_seconds"]["recall"]
    )
    assert 0 < figures["budget_used_ratio"].pop("context") <= 1
    assert figures["budget_used_ratio"] == {}
    assert figures["claims"]["recalled"] > 0
    assert (figures["runs_total"], figures["encoder_broken"]) == ({"done": 1}, {"": 0})
    told = typed("status", "--stats").output
    assert "Answers given: recall 2, context 1\n" in told
    assert (
        "Tables of the live release that can't be opened" in told.partition("None: ")[2]
    )
    logged = (Settings().store / "default" / "asked.jsonl").read_text()
    assert "readings" not in logged

    shutil.rmtree(Settings().store / "default" / "topics.lance" / "data")
    assert stats()["table_broken"]["topics"] == 1
    assert (
        "Tables of the live release that can't be opened: topics 1\n"
        in typed("status", "--stats").output
    )


def test_it_tells_of_a_store_without_runs_and_of_one_that_is_half_moved_into_an_encrypted_folder(
    home: Path,
) -> None:
    shutil.rmtree(home / "store" / "default" / "runs.lance")
    typed("check", "--repair")
    (home / "store.encrypted").mkdir()
    told = typed("status")
    refused = typed("remember", "The kettle is new.")
    assert (
        refused.exit_code,
        "store.encrypted is not mounted there" in refused.stderr,
    ) == (1, True), refused.output
    (home / "store.encrypted").rmdir()
    store, at = Store.open(home / "store"), datetime.now(UTC)
    row = {
        "run_id": "r",
        "kind": "nightly",
        "started_at": at,
        "status": "failed",
        "report": "{}",
    }
    store.merge(RUNS, pa.Table.from_pylist([row], schema=RUNS.schema))
    assert f"nightly {format_minute(at)}, failed\n" in typed("status", "--stats").output
    assert (told.exit_code, "last run    none yet\n" in told.output) == (3, True)
    line = "encryption  off: the store's encrypted folder is not mounted, see docs/install.md\n"
    assert line in told.output


def test_a_space_of_other_files_is_not_measured_by_the_tools_and_none_is_an_error(
    home: Path,
) -> None:
    shutil.copytree(home / ".claude" / "projects", home / "given")
    run_night([home / "given"], Settings(space="other"))
    assert (
        json.loads(typed("status", "--space", "other", "--json").output)["memory"][
            "covered"
        ]
        == 6
    )
    assert typed("status", "--space", "none").exit_code == 1
