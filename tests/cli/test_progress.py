"""What somebody sees who waits: plain lines where there is no terminal, bars where there is one."""

import os
import re
import threading
from pathlib import Path

import pytest

from slowwave.tasks import progress
from tests.command_line import typed
from tests.talk_files import session
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.001)


def test_a_piped_night_says_in_plain_lines_what_it_is_at(tmp_path: Path) -> None:
    chat = session(tmp_path, "chat", 2, [("user", "The boiler in the cellar leaks.")])
    done = typed("run", chat, "--plain", "--no-embeddings", "--store", tmp_path / "s")
    assert "Released r1" in done.stdout
    assert all(
        line.startswith("slowwave: ") and line.isprintable()
        for line in done.stderr.splitlines()
    )
    told = {line.split()[1].rstrip(",") for line in done.stderr.splitlines()}
    assert told >= {"working", "publish"}
    assert re.search(r"publish [1-3] of 4, about \d+ s left, \d+ s\n", done.stderr)


def test_a_line_tells_how_far_the_innermost_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = list[str]()
    with (
        progress.report_progress_lines(),
        progress.show_progress("observe"),
        progress.show_progress("claims", 1_200) as advance,
    ):
        advance(1_000)

        def comes() -> bool:
            told.append(capsys.readouterr().err)
            return "slowwave: claims 1,000 of 1,200, about 0 s left, " in "".join(told)

        wait_until(comes, lambda: told)


def test_at_a_terminal_there_are_bars_and_no_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with (
            progress.report_progress_lines(),
            progress.show_progress("read", 10) as advance,
        ):
            advance(5)
            assert "told in lines" not in {one.name for one in threading.enumerate()}
    shown = os.read(master, 65_536).decode()
    os.close(master)
    assert "\x1b[" in shown
    assert "slowwave:" not in shown
