#!/usr/bin/env bash
# prefect 3.7.7: an iterator that is passed to a task or a flow is read before the function sees it.
#
# One would guess: `load(map(parse, lines))` hands the task the iterator; the decorated function gets what the plain one
# gets, or an error that says an iterator can't be passed.
# What happens: no error. A task gets an iterator without items: by default its inputs are hashed for the cache key, and
# that reads them. Under `cache_policy=NO_CACHE` all items come. A flow called from a flow has lost the first item of a
# list's iterator, and all items of a generator. A night that streams its rows into a task writes nothing and is
# Completed. Lists, ranges and dictionary views come whole.
# Output seen:
#   default:  iter [], generator [], zip []
#   NO_CACHE: iter [1, 2, 3], generator [1, 2, 3], zip [(1, 'a')]
#   subflow:  iter [2, 3], generator [], zip []
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q prefect==3.7.7 fastapi==0.136.3 sqlalchemy==2.0.58
export HOME="$folder" PREFECT_HOME="$folder/prefect" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_LOGGING_LEVEL=CRITICAL
"$folder/v/bin/python" - <<'PYTHON'
import sys

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.testing.utilities import prefect_test_harness

default = task(list_items := lambda items: list(items), name="default")
no_cache = task(list_items, name="no_cache", cache_policy=NO_CACHE)


@flow
def subflow(items):
    return list(items)


@flow
def try_all():
    return [
        (step(iter([1, 2, 3])), step(n for n in (1, 2, 3)), step(zip([1], ["a"])))
        for step in (default, no_cache, subflow)
    ]


with prefect_test_harness(server_startup_timeout=300):
    seen = try_all()
for name, found in zip(("default", "NO_CACHE", "subflow"), seen, strict=True):
    print("{}: iter {}, generator {}, zip {}".format(name, *found))
if seen != [([], [], []), ([1, 2, 3], [1, 2, 3], [(1, "a")]), ([2, 3], [], [])]:
    sys.exit("the behaviour has changed")
PYTHON
