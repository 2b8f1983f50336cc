#!/usr/bin/env bash
# prefect 3.7.7: whether a flow changes its caller's list depends on the annotation of the parameter.
#
# One would guess: a decorated function gets the object that the caller passes, as the plain function does; annotations
# are checked and change nothing else, or everything is copied.
# What happens: a list or dictionary is copied if its parameter is annotated with its type, and passed as it is if there is
# no annotation. What a flow appends to the first is gone for the caller, without an error; to the second it stays.
# Adding a type to a working flow thus changes what it does. A task passes on the object either way. `validate_parameters=False`
# passes the object, too. A text for `int` is converted in a flow, and stays a text in a task.
# Output seen:
#   flow, rows: list -> caller has [], days: int got 5
#   flow, rows       -> caller has [1], days: int got 5
#   flow without validation, rows: list -> caller has [1], days: int got '5'
#   task, rows: list -> caller has [1], days: int got '5'
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q prefect==3.7.7 fastapi==0.136.3 sqlalchemy==2.0.58
export HOME="$folder" PREFECT_HOME="$folder/prefect" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_LOGGING_LEVEL=CRITICAL
cat >"$folder/steps.py" <<'PYTHON'
import sys

from prefect import flow, task
from prefect.testing.utilities import prefect_test_harness


def typed(rows: list, days: int):
    rows.append(1)
    return days


def untyped(rows, days: int):
    rows.append(1)
    return days


WAYS = {
    "flow, rows: list": flow(typed),
    "flow, rows": flow(untyped),
    "flow without validation, rows: list": flow(typed, name="unchecked", validate_parameters=False),
    "task, rows: list": task(typed),
}
seen = []
with prefect_test_harness(server_startup_timeout=300):
    for told, run in WAYS.items():
        rows = []
        days = run(rows, "5")
        seen.append((rows, days))
        print(f"{told} -> caller has {rows}, days: int got {days!r}")
if seen != [([], 5), ([1], 5), ([1], "5"), ([1], "5")]:
    sys.exit("the behaviour has changed")
PYTHON
"$folder/v/bin/python" "$folder/steps.py"
