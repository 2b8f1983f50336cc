"""`slowwave schedule install|remove`: run a night at a fixed hour of this machine's clock, without a server."""

import os
import shlex
import sys
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slowwave.cli.agents.install import find_command
from slowwave.cli.common import OUT, command
from slowwave.cli.opening import load_settings
from slowwave.flows.parts.schedule import (
    NAME,
    Scheduler,
    make_schedule_files,
    read_crontab,
    run_line,
)
from slowwave.schemas.errors import UsageError
from slowwave.text.marked import HASH_MARKS, remove_marked, replace_marked, write_whole

Action = StrEnum("Action", ["INSTALL", "REMOVE"])
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
    at: Annotated[
        str, typer.Option(help="Time of day, by this machine's clock.")
    ] = "03:00",
    by: Annotated[
        Scheduler | None,
        typer.Option("--with", help="The scheduler; by default the first that works."),
    ] = None,
) -> None:
    """Run a night every day, without a server.

    It uses systemd's user timer, launchd or cron. The first two catch up when the machine wakes from sleep. Settings
    of slowwave.toml apply; environment variables do not, but for those by which clients move their transcripts.
    """
    try:
        when = time.fromisoformat(at)
    except ValueError:
        raise UsageError(f"--at is {at!r}; it is an hour like 03:00") from None
    settings = load_settings(**given)
    words = [
        *_pass_variables(),
        *find_command(),
        "run",
        "--plain",
        "--store",
        str(settings.store.absolute()),
        "--space",
        settings.space,
    ]
    if action is Action.REMOVE:
        removed = [
            path for scheduler in Scheduler for path in _remove(scheduler, when, words)
        ]
        OUT.print(
            "\n".join(f"{path}: taken away." for path in removed)
            or "No schedule is there."
        )
    else:
        _install(by or _find_scheduler(), when, words)


def _pass_variables() -> list[str]:
    """Return words that give a command the clients' variables that are set here; none if none is set."""
    from slowwave.tasks.ingest.formats.registry import list_variables

    moved = []
    for name in list_variables():
        value = os.environ.get(name)
        if value:
            folder = Path(value).expanduser().absolute()
            moved.append(f"{name}={folder}")
    return ["/usr/bin/env", *moved] if moved else []


def _install(
    chosen: Scheduler,
    when: time,
    words: list[str],
) -> None:
    """Replace the schedule of a scheduler by a new one, and start it."""
    _remove(chosen, when, words)
    for path, text in make_schedule_files(chosen, when, words).items():
        write_whole(path, text)
        OUT.print(f"{path}: written.")
    if chosen is Scheduler.CRON:
        line = f"{when.minute} {when.hour} * * * nice {shlex.join(words)}".replace(
            "%", r"\%"
        )
        run_line("crontab -", replace_marked(read_crontab(), line, HASH_MARKS))
        OUT.print(f"crontab: {line}")
    run_line(START.get(chosen, ":"))
    OUT.say(
        f"A night is done every day at {when:%H:%M}, {LOOK[chosen]} `slowwave schedule remove` ends it."
    )


def _find_scheduler() -> Scheduler:
    if sys.platform == "darwin":
        return Scheduler.LAUNCHD
    if not run_line("systemctl --user show-environment", must=False).returncode:
        return Scheduler.SYSTEMD
    if not run_line("command -v crontab", must=False).returncode:
        return Scheduler.CRON
    raise UsageError(
        "neither systemd nor crontab works for this user: schedule `slowwave run --plain` otherwise"
    )


def _remove(
    by: Scheduler,
    at: time,
    words: list[str],
) -> list[Path]:
    """Remove a schedule; return the files it was in."""
    if by is Scheduler.CRON:
        lines = read_crontab()
        if (rest := remove_marked(lines, HASH_MARKS)) != lines:
            run_line("crontab -", rest)
        return [Path("crontab")] * (rest != lines)
    there = [path for path in make_schedule_files(by, at, words) if path.exists()]
    if there:
        run_line(STOP[by], must=False)
    for path in there:
        path.unlink()
    return there
