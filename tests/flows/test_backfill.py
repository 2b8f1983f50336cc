"""A step done again over a range of days: a run and a release a day, oldest first."""

from datetime import date, datetime
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.reprocess import Selection, run_backfill
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from tests.command_line import typed
from tests.talk_files import SAID, chat


def test_each_day_of_the_range_is_a_run_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    settings = Settings(store=tmp_path / "s")
    files = [
        chat(tmp_path, f"c{n}", day, SAID[2 * n : 2 * n + 2])
        for n, day in enumerate((3, 5, 5, 9))
    ]
    run_night(files, settings)
    chosen = Selection(since=datetime(2026, 3, 3), until=datetime(2026, 3, 9))
    done = list(run_backfill("observe", chosen, settings))
    assert [day for day, _ in done] == [date(2026, 3, 3), date(2026, 3, 5)]
    assert done[0][1].notes[0] == "1 session chosen for observe"
    assert done[1][1].notes[0] == "2 sessions chosen for observe"
    assert len({report.run_id for _, report in done}) == 2
    told = typed(
        *("reprocess", "observe", "--since", "2026-03-09", "--by-day"),
        *("--store", settings.store),
    )
    assert told.exit_code == 0
    assert told.output.startswith("2026-03-09:\n")
    with pytest.raises(UsageError, match="all sessions at once"):
        list(run_backfill("topics", chosen, settings))
    with pytest.raises(UsageError, match="no session is chosen"):
        list(run_backfill("observe", Selection(since=datetime(2030, 1, 1)), settings))
