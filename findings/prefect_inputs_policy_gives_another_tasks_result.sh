#!/usr/bin/env bash
# prefect 3.7.7: with `cache_policy=INPUTS` a task returns what another task made of equal inputs.
#
# One would guess: INPUTS caches a task's results by its inputs, so the cache is the task's own, and inputs that Python
# tells apart have results of their own.
# What happens: the key is the hash of the inputs, and no part of it is the task's. Two tasks that take `x` share results:
# `triple(5)` returns `double`'s 10 and never runs. Besides, a tuple and a list are the same input, and so are the keys
# 1 and "1" of a dictionary. `INPUTS + TASK_SOURCE` keeps the tasks apart.
# Output seen:
#   INPUTS: double(5) is 10, triple(5) is 10
#   INPUTS, tell of (1, 2), [1, 2], {1: 2} and {"1": 2}: ['(1, 2)', '(1, 2)', '{1: 2}', '{1: 2}']
#   INPUTS + TASK_SOURCE, double(5) and triple(5): [10, 15]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q prefect==3.7.7 fastapi==0.136.3 sqlalchemy==2.0.58
export HOME="$folder" PREFECT_HOME="$folder/prefect" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_LOGGING_LEVEL=CRITICAL
cat >"$folder/steps.py" <<'PYTHON'
import sys

from prefect import flow, task
from prefect.cache_policies import INPUTS, TASK_SOURCE
from prefect.testing.utilities import prefect_test_harness


def double(x):
    return 2 * x


def triple(x):
    return 3 * x


def tell(x):
    return repr(x)


@flow
def try_all():
    by_inputs = [task(f, cache_policy=INPUTS, persist_result=True)(5) for f in (double, triple)]
    containers = [task(tell, cache_policy=INPUTS, persist_result=True)(x) for x in ((1, 2), [1, 2], {1: 2}, {"1": 2})]
    by_both = [task(f, cache_policy=INPUTS + TASK_SOURCE, persist_result=True)(5) for f in (double, triple)]
    return by_inputs, containers, by_both


with prefect_test_harness(server_startup_timeout=300):
    seen = try_all()
print("INPUTS: double(5) is {}, triple(5) is {}".format(*seen[0]))
print(f'INPUTS, tell of (1, 2), [1, 2], {{1: 2}} and {{"1": 2}}: {seen[1]}')
print(f"INPUTS + TASK_SOURCE, double(5) and triple(5): {seen[2]}")
if seen != ([10, 10], ["(1, 2)", "(1, 2)", "{1: 2}", "{1: 2}"], [10, 15]):
    sys.exit("the behaviour has changed")
PYTHON
"$folder/v/bin/python" "$folder/steps.py"
