"""The schedule of a night on this machine: systemd's user timer, a launchd agent or a line of the crontab."""

import os
import plistlib
import subprocess
from datetime import time
from enum import StrEnum
from pathlib import Path

from slowwave.schemas.errors import UsageError

Scheduler = StrEnum("Scheduler", ["SYSTEMD", "LAUNCHD", "CRON"])
NAME = "slowwave-night"
SERVICE = "[Unit]\nDescription=A night of slowwave\n\n[Service]\nType=oneshot\nNice=10\nExecStart={}\n"
TIMER = "[Timer]\nOnCalendar=*-*-* {:%H:%M}:00\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"


def find_schedule() -> str | None:
    """Return the hour of the scheduled night, and what starts it; None if there is none."""
    for by in (Scheduler.SYSTEMD, Scheduler.LAUNCHD):
        (*_, path) = make_schedule_files(by, time(), [])
        if path.exists() and by is Scheduler.SYSTEMD:
            stopped = run_line(
                f"systemctl --user is-active {NAME}.timer", must=False
            ).returncode
            hour = path.read_text().partition("-* ")[2][:5]
            return f"every day at {hour}, by systemd{', whose timer is not active' if stopped else ''}"
        if path.exists():
            at = plistlib.loads(path.read_bytes())["StartCalendarInterval"]
            return f"every day at {at['Hour']:02}:{at['Minute']:02}, by launchd"
    lines = [
        line.split()
        for line in read_crontab().splitlines()
        if "slowwave run --plain" in line
    ]
    return (
        f"every day at {lines[0][1]:0>2}:{lines[0][0]:0>2}, by cron" if lines else None
    )


def make_schedule_files(by: Scheduler, at: time, words: list[str]) -> dict[Path, str]:
    """Return the files that schedule a command, each with its text; none for cron."""
    if by is Scheduler.LAUNCHD:
        hour = {"Hour": at.hour, "Minute": at.minute}
        job = {"Label": NAME, "ProgramArguments": words, "StartCalendarInterval": hour}
        return {
            Path.home() / "Library" / "LaunchAgents" / f"{NAME}.plist": plistlib.dumps(
                job
            ).decode()
        }
    units = (
        Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        / "systemd"
        / "user"
    )
    quoted = (
        word.replace("\\", r"\\")
        .replace('"', r"\"")
        .replace("%", "%%")
        .replace("$", "$$")
        for word in words
    )
    texts = {
        "service": SERVICE.format(" ".join(f'"{word}"' for word in quoted)),
        "timer": TIMER.format(at),
    }
    return {
        units / f"{NAME}.{kind}": text
        for kind, text in texts.items()
        if by is Scheduler.SYSTEMD
    }


def read_crontab() -> str:
    """Return the user's crontab, empty if there is none.

    Raises:
        UsageError: it can't be read: there may be lines, which would be lost if it were written.
    """
    listed = run_line("crontab -l", must=False)
    if listed.returncode not in (0, 127) and "no crontab" not in listed.stderr:
        raise UsageError(f"the crontab is left as it is: {listed.stderr.strip()}")
    return listed.stdout


def run_line(
    line: str, given: str = "", *, must: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell with the given input.

    Raises:
        UsageError: the line fails, and `must` is True.
    """
    done = subprocess.run(
        line, shell=True, input=given, capture_output=True, text=True, check=False
    )
    if must and done.returncode:
        why = done.stderr.strip() or done.returncode
        raise UsageError(
            f"`{line}` fails ({why}); `slowwave schedule remove` takes away what was written"
        )
    return done
