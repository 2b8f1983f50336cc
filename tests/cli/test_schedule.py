"""The files of `slowwave schedule`, checked by the programs that read them, and that `remove` leaves none."""

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.flows.parts.schedule import find_schedule
from slowwave.tasks.ingest.formats.registry import list_variables

CRONTAB = '#!/bin/sh\nif [ "$1" = -l ]; then cat "$HOME/tab" 2>/dev/null || { echo "no crontab" >&2; exit 1; }; '
CRONTAB += 'else cat > "$HOME/tab"; fi\n'


def typed(*words: object) -> str:
    return CliRunner().invoke(app, ["schedule", *map(str, words)]).output


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a user's systemd or a crontab: those of whoever runs the tests stay as they are."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("DBUS_SESSION_BUS_ADDRESS", *list_variables()):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "crontab").write_text(CRONTAB)
    (tmp_path / "bin" / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="no systemd-analyze is here"
)
def test_units_are_valid_and_name_an_odd_folder_as_it_is(
    home: Path, tmp_path: Path
) -> None:
    store = tmp_path / 'a "st%nore" $HOME\''
    told = typed("install", "--with", "systemd", "--at", "02:30", "--store", store)
    service, timer = sorted((home / "systemd" / "user").iterdir())
    assert f"{timer}: written." in told
    # Nobody's systemd answers here.
    assert "`slowwave schedule remove` takes away what was written" in told
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", service, timer],
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "OnCalendar=*-*-* 02:30:00\nPersistent=true\n" in timer.read_text()
    assert (
        str(store).replace('"', r"\"").replace("%", "%%").replace("$", "$$")
        in service.read_text()
    )
    # As `status` says.
    assert (
        find_schedule() == "every day at 02:30, by systemd, whose timer is not active"
    )
    (tmp_path / "bin" / "systemctl").write_text(
        '#!/bin/sh\ntest "$*" = "--user is-active slowwave-night.timer"\n'
    )
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    assert find_schedule() == "every day at 02:30, by systemd"
    (tmp_path / "bin" / "systemctl").unlink()
    assert f"{service}: taken away." in typed("remove")
    assert not any((home / "systemd" / "user").iterdir())
    assert typed("remove") == "No schedule is there.\n"


def test_launchd_and_cron_are_told_the_hour_and_what_else_is_there_stays(
    home: Path,
) -> None:
    typed("install", "--with", "launchd", "--at", "22:05")
    (plist,) = (home / "Library" / "LaunchAgents").iterdir()
    job = plistlib.loads(plist.read_bytes())
    assert job["StartCalendarInterval"] == {"Hour": 22, "Minute": 5}
    assert job["ProgramArguments"][1:3] == ["run", "--plain"]
    assert find_schedule() == "every day at 22:05, by launchd"
    typed("remove")
    (home / "tab").write_text("0 1 * * * mine\n")
    for hour in (3, 4):  # the second takes the place of the first
        assert "but where the machine sleeps" in typed(
            "install", "--at", f"0{hour}:00", "--store", "/a%b c"
        )
    lines = (home / "tab").read_text().splitlines()
    assert lines[0] == "0 1 * * * mine"
    assert lines[3].startswith("0 4 * * * nice ")
    assert r"'/a\%b c'" in lines[3]
    assert find_schedule() == "every day at 04:00, by cron"
    assert "crontab: taken away." in typed("remove")
    assert find_schedule() is None
    assert ((home / "tab").read_text(), plist.exists()) == ("0 1 * * * mine\n", False)
    assert "--at is '25'" in typed("install", "--at", "25")


def test_a_scheduled_night_looks_where_a_client_was_told_to_write(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "~/claude")
    typed("install", "--with", "launchd")
    (plist,) = (home / "Library" / "LaunchAgents").iterdir()
    words = plistlib.loads(plist.read_bytes())["ProgramArguments"]
    assert words[:2] == ["/usr/bin/env", f"CLAUDE_CONFIG_DIR={home}/claude"]
    assert words[3:5] == ["run", "--plain"]
    typed("install", "--with", "cron")
    assert find_schedule() == "every day at 03:00, by launchd"
    assert (
        f"/usr/bin/env CLAUDE_CONFIG_DIR={home}/claude " in (home / "tab").read_text()
    )
