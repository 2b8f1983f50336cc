#!/usr/bin/env bash
# prefect 3.7.7: a flow that does not wait for what it submitted is Completed, and most of it never ran.
#
# One would guess: a flow ends when its submitted tasks have ended, as a `with ThreadPoolExecutor()` block does; or what
# did not run makes the run Failed or Cancelled, or is a task run with a state of its own.
# What happens: the task that is under way is waited for, those that wait for a free worker are dropped. The flow is
# Completed with what it returns, and of a dropped task the server has no task run at all: nothing can be counted
# afterwards. With as many workers as tasks all run, so it does not show on a few. A flow that returns the futures, or
# waits for them, has them all.
# Output seen:
#   submitted 4, one worker:    COMPLETED, ran [0], task runs on the server: 1
#   submitted 4, four workers:  COMPLETED, ran [0, 1, 2, 3], task runs on the server: 4
#   futures returned, one worker: COMPLETED, ran [0, 1, 2, 3], task runs on the server: 4
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q prefect==3.7.7 fastapi==0.136.3 sqlalchemy==2.0.58
export HOME="$folder" PREFECT_HOME="$folder/prefect" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_LOGGING_LEVEL=CRITICAL
cat >"$folder/steps.py" <<'PYTHON'
import sys
import time

from prefect import flow, get_client, task
from prefect.client.schemas.filters import FlowRunFilter
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.testing.utilities import prefect_test_harness

ran = []


@task
def store(number):
    time.sleep(5)
    ran.append(number)


@flow
def night(returns):
    futures = [store.submit(number) for number in range(4)]
    return futures if returns else "stored"


def run(told, workers, returns=False):
    ran.clear()
    state = night.with_options(task_runner=ThreadPoolTaskRunner(max_workers=workers))(returns, return_state=True)
    this = FlowRunFilter(id={"any_": [state.state_details.flow_run_id]})
    time.sleep(15)  # task runs reach the server by events
    with get_client(sync_client=True) as client:
        known = len(client.read_task_runs(flow_run_filter=this))
    print(f"{told}: {state.type.value}, ran {sorted(ran)}, task runs on the server: {known}")
    return state.type.value, sorted(ran), known


with prefect_test_harness(server_startup_timeout=300):
    seen = [run("submitted 4, one worker", 1), run("submitted 4, four workers", 4)]
    seen.append(run("futures returned, one worker", 1, returns=True))
whole = ("COMPLETED", [0, 1, 2, 3], 4)
(state, few, known), *others = seen
# how many begin before the flow has ended depends on how busy the machine is
if (state, len(few) in (1, 2), known, others) != ("COMPLETED", True, len(few), [whole, whole]):
    sys.exit("the behaviour has changed")
PYTHON
"$folder/v/bin/python" "$folder/steps.py"
