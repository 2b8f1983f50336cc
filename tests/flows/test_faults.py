"""Each write, fsync, rename and unlink may fail, the disk fill up, the power go: `make faults` tries them all."""

import pytest

from bench.fault_disk import NoFaults
from bench.faults import measure_apart

RUN, STRIDE, START = "forgetting", 900, 450
"""It has a night's steps too; of its thousand calls a few, the same each time."""


def test_a_disk_that_fails_at_any_call_costs_no_row_and_no_release() -> None:
    try:
        outcomes = measure_apart([RUN], STRIDE, START)
    except NoFaults as why:
        pytest.skip(str(why))
    assert {one.fault: one.broken for one in outcomes if one.broken} == {}
    assert {(one.lost, one.wrong, one.seconds) for one in outcomes} == {(0, 0, 0.0)}
    assert {name for one in outcomes for name in one.told} <= {
        "done",
        "StoreUnwritable",
        "StoreUnreadable",
        "OSError",
    }
    assert sum(one.times for one in outcomes) > 2
