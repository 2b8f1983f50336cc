"""`slowwave schedule install|remove`: a night at a fixed hour of this machine's clock, without a server."""

import os
import plistlib
import shlex
import subprocess
import sys
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slowwave.cli.agents.install import find_command
from slowwave.cli.common import OUT, command, load_settings
from slowwave.schemas.errors import UsageError
from slowwave.text.marked import HASH_MARKS, remove_marked, replace_marked, write_whole

Action = StrEnum("Action", ["INSTALL", "REMOVE"])
Scheduler = StrEnum("Scheduler", ["SYSTEMD", "LAUNCHD", "CRON"])
NAME = "slowwave-night"
SERVICE = "[Unit]\nDescription=A night of slowwave\n\n[Service]\nType=oneshot\nNice=10\nExecStart={}\n"
TIMER = "[Timer]\nOnCalendar=*-*-* {:%H:%M}:00\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
START = {
    Scheduler.SYSTEMD: f"systemctl --user daemon-reload && systemctl --user enable --now {NAME}.timer",
    Scheduler.LAUNCHD: f"launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/{NAME}.plist",
}
STOP = {
    Scheduler.SYSTEMD: f"systemctl --user disable --now {NAME}.timer",
    Scheduler.LAUNCHD: f"launchctl bootout gui/$(id -u)/{NAME}",
}
LOOK = {
    Scheduler.SYSTEMD: f"while you are logged in. `journalctl --user -u {NAME}` shows the last.",
    Scheduler.LAUNCHD: f"while you are logged in. `launchctl print gui/$(id -u)/{NAME}` shows the last.",
    Scheduler.CRON: "but where the machine sleeps. `crontab -l` shows the line.",
}


@command
def schedule(
    given: dict[str, Any],
    action: Annotated[Action, typer.Argument(help="install or remove.")],
    at: Annotated[str, typer.Option(help="Time of day, by this machine's clock.")] = "03:00",
    by: Annotated[
        Scheduler | None, typer.Option("--with", help="The scheduler; by default the first that works.")
    ] = None,
) -> None:
    """Run a night every day, without a server.

    It uses systemd's user timer, launchd or cron. The first two catch up when the machine wakes from sleep. Settings
    of slowwave.toml apply; environment variables do not.
    """
    try:
        when = time.fromisoformat(at)
    except ValueError:
        raise UsageError(f"--at is {at!r}; it is an hour like 03:00") from None
    # The command, and its removal.
    settings = load_settings(**given)
    words = [*find_command(), "run", "--plain", "--store", str(settings.store.absolute()), "--space", settings.space]
    if action is Action.REMOVE:
        removed = [path for scheduler in Scheduler for path in _remove(scheduler, when, words)]
        OUT.print("\n".join(f"{path}: taken away." for path in removed) or "No schedule is there.")
        return
    chosen = by or _find_scheduler()
    _remove(chosen, when, words)
    for path, text in _make_files(chosen, when, words).items():
        write_whole(path, text)
        OUT.print(f"{path}: written.")
    if chosen is Scheduler.CRON:
        line = f"{when.minute} {when.hour} * * * nice {shlex.join(words)}".replace("%", r"\%")
        _run("crontab -", replace_marked(_read_crontab(), line, HASH_MARKS))
        OUT.print(f"crontab: {line}")
    _run(START.get(chosen, ":"))
    OUT.print(f"A night is done every day at {when:%H:%M}, {LOOK[chosen]} `slowwave schedule remove` ends it.")


def find_schedule() -> str | None:
    """Return the hour of the scheduled night, and what starts it; None where `install` has set none."""
    for by in (Scheduler.SYSTEMD, Scheduler.LAUNCHD):
        (*_, path) = _make_files(by, time(), [])
        if path.exists() and by is Scheduler.SYSTEMD:
            stopped = _run(f"systemctl --user is-active {NAME}.timer", must=False).returncode
            hour = path.read_text().partition("-* ")[2][:5]
            return f"every day at {hour}, by systemd{', whose timer is not active' if stopped else ''}"
        if path.exists():
            at = plistlib.loads(path.read_bytes())["StartCalendarInterval"]
            return f"every day at {at['Hour']:02}:{at['Minute']:02}, by launchd"
    lines = [line.split() for line in _read_crontab().splitlines() if "slowwave run --plain" in line]
    return f"every day at {lines[0][1]:0>2}:{lines[0][0]:0>2}, by cron" if lines else None


def _find_scheduler() -> Scheduler:
    if sys.platform == "darwin":
        return Scheduler.LAUNCHD
    if not _run("systemctl --user show-environment", must=False).returncode:
        return Scheduler.SYSTEMD
    if not _run("command -v crontab", must=False).returncode:
        return Scheduler.CRON
    raise UsageError("neither systemd nor crontab works for this user: schedule `slowwave run --plain` otherwise")


def _make_files(by: Scheduler, at: time, words: list[str]) -> dict[Path, str]:
    if by is Scheduler.LAUNCHD:
        hour = {"Hour": at.hour, "Minute": at.minute}
        job = {"Label": NAME, "ProgramArguments": words, "StartCalendarInterval": hour}
        return {Path.home() / "Library" / "LaunchAgents" / f"{NAME}.plist": plistlib.dumps(job).decode()}
    units = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    quoted = (word.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%").replace("$", "$$") for word in words)
    texts = {"service": SERVICE.format(" ".join(f'"{word}"' for word in quoted)), "timer": TIMER.format(at)}
    return {units / f"{NAME}.{kind}": text for kind, text in texts.items() if by is Scheduler.SYSTEMD}


def _remove(by: Scheduler, at: time, words: list[str]) -> list[Path]:
    """Take away what is there of a schedule; returns where it was."""
    if by is Scheduler.CRON:
        lines = _read_crontab()
        if (rest := remove_marked(lines, HASH_MARKS)) != lines:
            _run("crontab -", rest)
        return [Path("crontab")] * (rest != lines)
    there = [path for path in _make_files(by, at, words) if path.exists()]
    if there:
        _run(STOP[by], must=False)
    for path in there:
        path.unlink()
    return there


def _read_crontab() -> str:
    listed = _run("crontab -l", must=False)
    if (
        listed.returncode not in (0, 127) and "no crontab" not in listed.stderr
    ):  # there may be lines, which would be lost
        raise UsageError(f"the crontab is left as it is: {listed.stderr.strip()}")
    return listed.stdout


def _run(line: str, given: str = "", *, must: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(line, shell=True, input=given, capture_output=True, text=True, check=False)
    if must and done.returncode:
        why = done.stderr.strip() or done.returncode
        raise UsageError(f"`{line}` fails ({why}); `slowwave schedule remove` takes away what was written")
    return done
