#!/usr/bin/env bash
# prefect 3.7.7: an interval of a day fires at another hour in summer, and when depends on the day on which it is asked.
#
# One would guess: as its documentation says, a daily IntervalSchedule in a zone with summer time keeps the hour of the
# clock: anchored at 3:00 in January it fires at 3:00 in July, whenever the runs are worked out.
# What happens: the first run is found by whole days of 24 hours from the anchor, so in summer it is 4:00; from there on days
# are added by the clock. Asked before the clocks change, the runs after it are at 3:00, asked after it they are at 4:00.
# The scheduler asks again and again and looks days ahead, so the nights after the change are on its list at both
# hours. An anchor in July gives 2:00 in winter. Cron and RRULE keep 3:00.
# Output seen:
#   interval, asked on 28 March:  29 03:00, 30 03:00, 31 03:00
#   interval, asked on 29 March:  30 04:00, 31 04:00
#   cron, asked on 28 March:      29 03:00, 30 03:00, 31 03:00
#   interval with an anchor in July, in December: 02:00
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q prefect==3.7.7 fastapi==0.136.3 sqlalchemy==2.0.58
export HOME="$folder" PREFECT_HOME="$folder/prefect" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_LOGGING_LEVEL=CRITICAL
"$folder/v/bin/python" - <<'PYTHON'
import asyncio
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule

ZONE = ZoneInfo("Europe/Berlin")


def make_daily(month):
    anchor = datetime(2026, month, 5, 3, tzinfo=ZONE)
    return IntervalSchedule(interval=timedelta(days=1), anchor_date=anchor, timezone=ZONE.key)


def list_runs(schedule, month, day, count, form="%d %H:%M"):
    asked = datetime(2026, month, day, 12, tzinfo=ZONE)
    return [run.astimezone(ZONE).strftime(form) for run in asyncio.run(schedule.get_dates(count, asked))]


cron = CronSchedule(cron="0 3 * * *", timezone=ZONE.key)
seen = {
    "interval, asked on 28 March": (list_runs(make_daily(1), 3, 28, 3), ["29 03:00", "30 03:00", "31 03:00"]),
    "interval, asked on 29 March": (list_runs(make_daily(1), 3, 29, 2), ["30 04:00", "31 04:00"]),
    "cron, asked on 28 March": (list_runs(cron, 3, 28, 3), ["29 03:00", "30 03:00", "31 03:00"]),
    "interval with an anchor in July, in December": (list_runs(make_daily(7), 12, 1, 1, "%H:%M"), ["02:00"]),
}
for told, (runs, _) in seen.items():
    print(f"{told}: {', '.join(runs)}")
if any(runs != expected for runs, expected in seen.values()):
    sys.exit("the behaviour has changed")
PYTHON
