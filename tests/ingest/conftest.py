"""Nights for tests of what is read: they end after reading."""

from typing import Any

import pytest

from slowwave.flows import nightly
from slowwave.flows.parts.report import RunReport
from slowwave.tasks.job import Job


@pytest.fixture
def only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a night release what it read, and make nothing of it: that takes a fifth of a whole night."""
    run_steps = nightly.run_steps_after_read

    def release(job: Job, report: RunReport, _: object, **options: Any) -> None:
        run_steps(job, report, (), **options)

    monkeypatch.setattr(nightly, "run_steps_after_read", release)
